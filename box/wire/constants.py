"""Numbers of the binary protocol: keys, request types, flags, limits.

Source: the protocol's reference document and `iproto_constants.h` of the 2.8 line, which the log files share.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Final

GREETING_SIZE: Final = 128
"""Two lines of 64 bytes: version and instance UUID, then the salt in base64."""

BODY_LEN_MAX: Final = 2**31
"""A packet that announces more bytes than this is refused."""


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
    SPACE_ID = 0x10
    INDEX_ID = 0x11
    LIMIT = 0x12
    OFFSET = 0x13
    ITERATOR = 0x14
    INDEX_BASE = 0x15
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
    DATA = 0x30
    ERROR_24 = 0x31
    METADATA = 0x32
    BIND_METADATA = 0x33
    BIND_COUNT = 0x34
    SQL_TEXT = 0x40
    SQL_BIND = 0x41
    SQL_INFO = 0x42
    STMT_ID = 0x43
    REPLICA_ANON = 0x50
    ID_FILTER = 0x51
    ERROR = 0x52
    TERM = 0x53


class OwnKey(IntEnum):
    """Keys of bodies that only Lunabox knows; other servers skip them."""

    VOID_PROMOTIONS = 0x7B
    """In a RAFT message: promotions that had no effect where it comes from, [[origin, lsn], ...]."""
    TERM = 0x7C
    """In an acknowledgement: the latest term that the replica has heard of, in an election or by a promotion."""
    PROMOTIONS = 0x7D
    """In the RAFT row of a snapshot: what the instance knows of promotions."""
    AFTER = 0x7E
    """In a heartbeat: the vclock of rows that come before what follows."""
    FETCH = 0x7F
    """In SUBSCRIBE: UUIDs of the instances whose rows are wanted."""


KEY_MAX: Final = 0x54
"""One more than the largest key; a larger one in a header makes the packet invalid."""


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
    RAFT = 30
    PROMOTE = 31
    DEMOTE = 32
    """Of 2.10 and later: never written here, but read and kept."""
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
    CHUNK = 128


TYPE_ERROR: Final = 0x8000
TYPE_STAT_MAX: Final = 14
"""Requests below this number have a counter in `box.stat()`."""

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
"""Rows of this group are replicated."""
GROUP_LOCAL: Final = 1
"""Rows of this group stay on their instance (`is_local` spaces, raft state)."""


class Flag(IntFlag):
    """Bits of `Key.FLAGS`."""

    COMMIT = 0x01
    """The last row of a transaction of several rows."""
    WAIT_SYNC = 0x02
    """The last row of a transaction that enters the limbo."""
    WAIT_ACK = 0x04
    """The last row of a synchronous transaction."""
    PROPOSED = 0x40
    """Our own: a NOP row that proposes to roll back what waits in the limbo of its author (`box.txn.limbo`)."""
    VOID = 0x80
    """Our own: a PROMOTE row that has no effect where it comes from. Others keep a bit that they do not know."""


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
}
"""Names as error texts show them: `Missing mandatory field 'space id' in request`."""

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


def version_id(major: int, minor: int, patch: int) -> int:
    """Return a version as the number that SUBSCRIBE carries: one byte for each part."""
    return major << 16 | minor << 8 | patch


VERSION: Final = "2.8.1"
VERSION_ID: Final = version_id(2, 8, 1)
PACKAGE_VERSION: Final = f"{VERSION}-0-g0000000"
"""The version in `box.info.version`, in the log and in the heads of files."""
