"""Numbers of the binary protocol: keys, request types, flags, limits.

Source: the protocol's reference document and `iproto_constants.h` of the 2.8 line, which the log files share. Streams,
watchers, pages and the request of features are those of the 2.11 line.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Final

GREETING_SIZE: Final = 128
"""The size of the greeting: two lines of 64 bytes, one with version and instance UUID, one with the salt in base64."""

BODY_LEN_MAX: Final = 2**31
"""A packet that announces more bytes than this is refused."""

SNAPSHOT_ENGINES: Final = frozenset(("memtx",))
"""The engines whose tuples are rows of snapshots."""
EMPTY_ENGINES: Final = frozenset(("blackhole", "sysview", "service"))
"""The engines that keep no tuples. Other engines, such as `vinyl`, keep their tuples in their own files."""


class Key(IntEnum):
    """Keys of the header map, the request body and the response body."""

    REQUEST_TYPE = 0x00
    SYNC = 0x01
    REPLICA_ID = 0x02
    LSN = 0x03
    TIMESTAMP = 0x04
    SCHEMA_VERSION = 0x05
    SERVER_VERSION = 0x06
    GROUP_ID = 0x07
    TSN = 0x08
    FLAGS = 0x09
    STREAM_ID = 0x0A
    SPACE_ID = 0x10
    INDEX_ID = 0x11
    LIMIT = 0x12
    OFFSET = 0x13
    ITERATOR = 0x14
    INDEX_BASE = 0x15
    FETCH_POSITION = 0x1F
    KEY = 0x20
    TUPLE = 0x21
    FUNCTION_NAME = 0x22
    USER_NAME = 0x23
    INSTANCE_UUID = 0x24
    CLUSTER_UUID = 0x25
    VCLOCK = 0x26
    EXPR = 0x27
    OPS = 0x28
    BALLOT = 0x29
    TUPLE_META = 0x2A
    OPTIONS = 0x2B
    AFTER_POSITION = 0x2E
    AFTER_TUPLE = 0x2F
    DATA = 0x30
    ERROR_24 = 0x31
    METADATA = 0x32
    BIND_METADATA = 0x33
    BIND_COUNT = 0x34
    POSITION = 0x35
    SQL_TEXT = 0x40
    SQL_BIND = 0x41
    SQL_INFO = 0x42
    STMT_ID = 0x43
    REPLICA_ANON = 0x50
    ID_FILTER = 0x51
    ERROR = 0x52
    TERM = 0x53
    VERSION = 0x54
    FEATURES = 0x55
    TIMEOUT = 0x56
    EVENT_KEY = 0x57
    EVENT_DATA = 0x58
    TXN_ISOLATION = 0x59
    AUTH_TYPE = 0x5B


class OwnKey(IntEnum):
    """Keys of bodies that only Lunabox knows; other servers skip them."""

    CLAIM = 0x79
    """In the RAFT row of a snapshot: the claim that binds the next leader, see `box.wire.messages.Claim`."""
    LOG_TERM = 0x7A
    """In a RAFT message and in that of a snapshot: the term of the newest claim or promotion in the log."""
    VOID_PROMOTIONS = 0x7B
    """In a RAFT message: the promotions that had no effect at the sender, as [[origin, lsn], ...]."""
    TERM = 0x7C
    """In an acknowledgement: the latest term that the replica knows, from an election or a promotion."""
    PROMOTIONS = 0x7D
    """In the RAFT row of a snapshot: what the instance knows about promotions."""
    AFTER = 0x7E
    """In a heartbeat: the vclock of the rows that precede those that follow the heartbeat."""
    FETCH = 0x7F
    """In SUBSCRIBE: the UUIDs of the instances whose rows the replica wants."""


KEY_MAX: Final = 0x54
"""One more than the largest key of Tarantool 2.8.1. A larger key in a header makes the packet invalid."""


class BallotKey(IntEnum):
    """Keys of the map under `Key.BALLOT`."""

    IS_RO = 0x01
    VCLOCK = 0x02
    GC_VCLOCK = 0x03
    IS_LOADING = 0x04
    IS_ANON = 0x05


class RaftKey(IntEnum):
    """Keys of the body of a RAFT row."""

    TERM = 0
    VOTE = 1
    STATE = 2
    VCLOCK = 3


class RequestType(IntEnum):
    """Values of `Key.REQUEST_TYPE`; an error reply is `TYPE_ERROR | error code`."""

    OK = 0
    SELECT = 1
    INSERT = 2
    REPLACE = 3
    UPDATE = 4
    DELETE = 5
    CALL_16 = 6
    AUTH = 7
    EVAL = 8
    UPSERT = 9
    CALL = 10
    EXECUTE = 11
    NOP = 12
    PREPARE = 13
    BEGIN = 14
    COMMIT = 15
    TXN_ROLLBACK = 16
    RAFT = 30
    PROMOTE = 31
    DEMOTE = 32
    """DEMOTE exists since 2.10: this node never writes it, but reads and keeps it."""
    CONFIRM = 40
    ROLLBACK = 41
    PING = 64
    JOIN = 65
    SUBSCRIBE = 66
    VOTE_DEPRECATED = 67
    VOTE = 68
    FETCH_SNAPSHOT = 69
    REGISTER = 70
    JOIN_META = 71
    JOIN_SNAPSHOT = 72
    ID = 73
    WATCH = 74
    UNWATCH = 75
    EVENT = 76
    CHUNK = 128


TYPE_ERROR: Final = 0x8000
"""The bit in the type of a reply that makes it an error; the lower 15 bits are the error's code."""
TYPE_STAT_MAX: Final = 14
"""Requests with a lower number than this have a counter in `box.stat()`."""

DML_TYPES: Final = frozenset(
    {
        RequestType.SELECT,
        RequestType.INSERT,
        RequestType.REPLACE,
        RequestType.UPDATE,
        RequestType.DELETE,
        RequestType.UPSERT,
        RequestType.NOP,
    }
)
PROMOTION_TYPES: Final = frozenset({RequestType.PROMOTE, RequestType.DEMOTE})
SYNCHRO_TYPES: Final = frozenset({RequestType.CONFIRM, RequestType.ROLLBACK}) | PROMOTION_TYPES

GROUP_DEFAULT: Final = 0
"""The group of rows that are replicated."""
GROUP_LOCAL: Final = 1
"""The group of rows that stay on their instance: those of `is_local` spaces and of the raft state."""


class Flag(IntFlag):
    """Bits of `Key.FLAGS`."""

    COMMIT = 0x01
    """Marks the last row of a transaction that has several rows."""
    WAIT_SYNC = 0x02
    """Marks the last row of a transaction that has to wait in the limbo."""
    WAIT_ACK = 0x04
    """Marks the last row of a synchronous transaction."""
    PROPOSED = 0x40
    """Our own: marks a NOP row that proposes to roll back what waits in its author's limbo (see `box.txn.limbo`)."""
    VOID = 0x80
    """Our own: marks a PROMOTE row that has no effect at the sender. Receivers that do not know the bit keep it."""


KEY_NAMES: Final[dict[int, str]] = {
    Key.REQUEST_TYPE: "type",
    Key.SYNC: "sync",
    Key.REPLICA_ID: "replica id",
    Key.LSN: "lsn",
    Key.TIMESTAMP: "timestamp",
    Key.SCHEMA_VERSION: "schema version",
    Key.SERVER_VERSION: "server version",
    Key.GROUP_ID: "group id",
    Key.TSN: "tsn",
    Key.FLAGS: "flags",
    Key.SPACE_ID: "space id",
    Key.INDEX_ID: "index id",
    Key.LIMIT: "limit",
    Key.OFFSET: "offset",
    Key.ITERATOR: "iterator",
    Key.INDEX_BASE: "index base",
    Key.KEY: "key",
    Key.TUPLE: "tuple",
    Key.FUNCTION_NAME: "function name",
    Key.USER_NAME: "user name",
    Key.INSTANCE_UUID: "instance uuid",
    Key.CLUSTER_UUID: "cluster uuid",
    Key.VCLOCK: "vector clock",
    Key.EXPR: "expression",
    Key.OPS: "operations",
    Key.BALLOT: "ballot",
    Key.TUPLE_META: "tuple meta",
    Key.OPTIONS: "options",
    Key.DATA: "data",
    Key.ERROR_24: "error",
    Key.METADATA: "metadata",
    Key.BIND_METADATA: "bind meta",
    Key.BIND_COUNT: "bind count",
    Key.SQL_TEXT: "SQL text",
    Key.SQL_BIND: "SQL bind",
    Key.SQL_INFO: "SQL info",
    Key.STMT_ID: "stmt id",
    Key.EVENT_KEY: "EVENT_KEY",
}
"""The names of keys in error texts, as in `Missing mandatory field 'space id' in request`."""

_HIDDEN_NAMES: Final = {RequestType.NOP: "NOP", RequestType.CONFIRM: "CONFIRM", RequestType.ROLLBACK: "ROLLBACK"}


def type_name(request_type: int) -> str | None:
    """Return the name of a request type in logs and log readers, or None for one without a name.

    CALL_16, PROMOTE, DEMOTE and RAFT have no name in Tarantool's table.
    """
    if request_type in _HIDDEN_NAMES:
        return _HIDDEN_NAMES[RequestType(request_type)]
    if 0 < request_type < TYPE_STAT_MAX and request_type != RequestType.CALL_16:
        return RequestType(request_type).name
    return None


_STREAM_NAMES: Final = {
    RequestType.TXN_ROLLBACK: "ROLLBACK",
    RequestType.PROMOTE: "RAFT_PROMOTE",
    RequestType.CONFIRM: "RAFT_CONFIRM",
    RequestType.ROLLBACK: "RAFT_ROLLBACK",
}
_VALUES: Final = frozenset(RequestType)


def stream_type_name(request_type: int) -> str:
    """Return the name of a request type as 2.11's errors about streams show it."""
    if request_type not in _VALUES:
        return "(null)"
    return _STREAM_NAMES.get(RequestType(request_type)) or RequestType(request_type).name
