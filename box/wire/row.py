"""The row: a request with its header, as log files and replication carry it.

```
header  MP_MAP { 0x00 type, 0x01 sync, 0x02 replica id, 0x07 group id, 0x03 lsn, 0x04 timestamp (MP_DOUBLE),
                 0x08 lsn - tsn, 0x09 flags }        a key whose value is 0 is left out, the type never is
body    MP_MAP                                       absent for NOP and for plain acknowledgements
```

A transaction of one row has neither TSN nor the COMMIT flag. In a longer one every row carries the distance to the
transaction's first lsn, and the last row the COMMIT flag. Source: `xrow.c` of the 2.8 line, checked on its files.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgpack

from box.data.deep import skip, skip_one
from box.data.marks import FIXMAP, FLOAT64, UINT8, UINT16, UINT32, UINT64
from box.errors import BoxError, ErrorCode, client_error
from box.wire.body import is_array, is_bool, is_float64, is_map, is_str, is_uint
from box.wire.constants import KEY_MAX, Flag, Key, RequestType

_U8: Final = [bytes((n,)) for n in range(FIXMAP)]
"""The encoded forms of the integers that take one byte: all keys and most types and replica ids."""
_pack_uint = msgpack.Packer().pack
_HEADER_WITH_U32_LSN = struct.Struct(">BBBBBBBIBBd").pack
_HEADER_WITH_U64_LSN = struct.Struct(">BBBBBBBQBBd").pack
"""The usual header in a log: a map of four pairs with type, replica id, lsn and time."""
_TIMESTAMP = struct.Struct(">BBd").pack
_HEARTBEAT = struct.Struct(">BBBBBBBd")
"""A header without an lsn: a map of three pairs with type, replica id and time."""
_THREE_PAIRS: Final = FIXMAP | 3
_FOUR_PAIRS: Final = FIXMAP | 4
_HEARTBEAT_HEAD: Final = bytes((_THREE_PAIRS, Key.REQUEST_TYPE, RequestType.OK, Key.REPLICA_ID))
"""The beginning of a heartbeat, up to the key of the origin."""
_HEARTBEAT_TIME: Final = bytes((Key.TIMESTAMP, FLOAT64))
"""The key of the time in a heartbeat, and the type of a double."""
_TIME_AT: Final = 5
"""The offset of the time's key in a heartbeat: the key follows the origin, which takes one byte."""
_FRAME = struct.Struct(">BI").pack
_SMALL: Final = 512
"""The size in bytes up to which decoding a value is faster than creating a decoder that could skip it."""
_TYPE_ALONE: Final = b"\x81\x00"
"""The beginning of a header that has only a type."""
_BODY_AT: Final = 3
"""The offset of the body after a header that has only a type."""
_DOUBLE_AT = struct.Struct(">d").unpack_from
_UINT_AT: Final = {
    UINT8: (1, struct.Struct(">B").unpack_from),
    UINT16: (2, struct.Struct(">H").unpack_from),
    UINT32: (4, struct.Struct(">I").unpack_from),
    UINT64: (8, struct.Struct(">Q").unpack_from),
}
"""The size and the reader of an unsigned integer by its mark."""
_WRAP: Final = 2**64
"""Lsns are unsigned in a header: what exceeds 64 bits wraps around."""


@dataclass(slots=True, eq=True)
class Row:
    """One row: `body` is one MessagePack map, or empty.

    `tsn` is the lsn of the first row of the transaction; 0 stands for the row's own lsn. `flags` never holds
    `Flag.COMMIT`: that is `is_commit`, which is always true for a transaction of one row. `tm` is in seconds.
    """

    type: int
    replica_id: int = 0
    lsn: int = 0
    tm: float = 0.0
    group_id: int = 0
    tsn: int = 0
    is_commit: bool = True
    flags: int = 0
    sync: int = 0
    schema_version: int = 0
    body: bytes = b""

    @property
    def wait_sync(self) -> bool:
        """True if the transaction enters the limbo."""
        return bool(self.flags & Flag.WAIT_SYNC)

    @property
    def wait_ack(self) -> bool:
        """True if the transaction is synchronous."""
        return bool(self.flags & Flag.WAIT_ACK)

    @property
    def txn_id(self) -> int:
        """The lsn of the transaction's first row, which identifies the transaction."""
        return self.tsn or self.lsn


@dataclass(slots=True, eq=True)
class StreamRow(Row):
    """A client's request that belongs to a stream of its connection; `stream_id` is never 0."""

    stream_id: int = 0


def nop_of(row: Row) -> Row:
    """Make a row without effect in the place of another one."""
    return Row(RequestType.NOP, row.replica_id, row.lsn, row.tm, tsn=row.tsn, is_commit=row.is_commit)


def encode_uint(value: int) -> bytes:
    """Encode an unsigned integer in its shortest MessagePack form."""
    return _U8[value] if 0 <= value < 128 else _pack_uint(value)  # 128 is the length of the table


def encode_row_header(row: Row) -> bytes:
    """Encode the header map of a row, key for key as Tarantool writes it."""
    # Numbers below 128 take one byte, which the fixed layouts have room for, beside the keys 0 type, 2 replica id,
    # 3 lsn and 4 time.
    tsn, lsn = row.tsn, row.lsn
    if not (lsn or tsn or row.sync or row.group_id or row.flags) and row.is_commit and row.type < 128:
        if not (row.replica_id or row.tm):
            return _TYPE_ALONE + _U8[row.type]
        if 0 < row.replica_id < 128 and row.tm:
            return _HEARTBEAT.pack(_THREE_PAIRS, 0, row.type, 2, row.replica_id, 4, FLOAT64, row.tm)
    if (
        lsn >= 65536  # a smaller lsn takes one to three bytes
        and (tsn == lsn or not tsn)
        and not (row.sync or row.group_id or row.flags)
        and row.is_commit
        and row.tm
        and 0 < row.replica_id < 128
        and row.type < 128
    ):  # The usual row of a log: one call makes its header.
        pack, mark = (_HEADER_WITH_U32_LSN, UINT32) if lsn < 2**32 else (_HEADER_WITH_U64_LSN, UINT64)
        return pack(_FOUR_PAIRS, 0, row.type, 2, row.replica_id, 3, mark, lsn, 4, FLOAT64, row.tm)
    return _encode_any_header(row)


def _encode_any_header(row: Row) -> bytes:
    lsn, tsn, flags = row.lsn, row.tsn or row.lsn, row.flags
    pairs = [_U8[Key.REQUEST_TYPE] + encode_uint(row.type)]
    for key, value in ((Key.SYNC, row.sync), (Key.REPLICA_ID, row.replica_id), (Key.GROUP_ID, row.group_id)):
        if value:
            pairs.append(_U8[key] + encode_uint(value))
    if type(row) is StreamRow:
        pairs.append(_U8[Key.STREAM_ID] + encode_uint(row.stream_id))
    if lsn:
        pairs.append(_U8[Key.LSN] + encode_uint(lsn))
    if row.tm:
        pairs.append(_TIMESTAMP(Key.TIMESTAMP, FLOAT64, row.tm))
    if tsn and (tsn != lsn or not row.is_commit):
        # The difference wraps, because the first row may be local, with an lsn of another and greater counter.
        pairs.append(_U8[Key.TSN] + encode_uint((lsn - tsn) % _WRAP))
    if tsn != lsn and row.is_commit:
        flags |= Flag.COMMIT
    if flags:
        pairs.append(_U8[Key.FLAGS] + encode_uint(flags))
    return bytes((FIXMAP | len(pairs),)) + b"".join(pairs)


def encode_row(row: Row) -> bytes:
    """Encode header and body: a row in a log block."""
    return encode_row_header(row) + row.body


def encode_packet(row: Row) -> bytes:
    """Encode length (MP_UINT32), header and body: a row on a connection."""
    header = encode_row_header(row)
    # Four bytes even for a small length, as Tarantool writes it: readers may count on five bytes before the header.
    return _FRAME(UINT32, len(header) + len(row.body)) + header + row.body


def _invalid(what: str) -> BoxError:
    return client_error(ErrorCode.INVALID_MSGPACK, what)


def decode_header(raw: bytes, pos: int = 0) -> tuple[Row, int]:
    """Decode the header map at `pos`. Returns a row without a body, and the position after the header.

    Keys within the protocol's range that a header does not use are skipped.

    Raises:
        ClientError: INVALID_MSGPACK (`packet header`), it is not a map of known unsigned keys with values of their
            types.
    """
    # Runs for every packet of a connection that has no faster way, so keys and marks are literals.
    fields: dict[int, Any] = {}
    try:
        count = raw[pos]
        if 0x80 <= count <= 0x8F:  # a map with up to 15 pairs, whose number is the low half byte
            count &= 0x0F
            pos += 1
        else:
            return _decode_long_header(raw, pos)
        while count:
            count -= 1
            key = raw[pos]
            mark = raw[pos + 1]
            pos += 2
            if key == 4:  # Key.TIMESTAMP: Tarantool takes no other type than a double (cb)
                if mark != 0xCB:
                    raise _invalid("packet header")
                fields[4] = _DOUBLE_AT(raw, pos)[0]
                pos += 8
            elif key > 10:  # past Key.STREAM_ID: unknown, or of several bytes; usual writers send neither
                return _decode_long_header(raw, pos - 2, fields, count + 1)
            elif mark < 0x80:  # a small integer is its own mark
                fields[key] = mark
            else:
                size, unpack = _UINT_AT[mark]
                fields[key] = unpack(raw, pos)[0]
                pos += size
    except (IndexError, KeyError, struct.error):
        raise _invalid("packet header") from None
    return row_of_fields(fields), pos


def _decode_long_header(
    raw: bytes, pos: int, fields: dict[int, Any] | None = None, count: int | None = None
) -> tuple[Row, int]:
    """Decode a header of any form: any map header, keys of any width, and keys that a header does not use."""
    data = raw[pos:] if pos else raw
    unpacker: Any = msgpack.Unpacker(raw=True, strict_map_key=False, max_buffer_size=0)
    unpacker.feed(data)
    fields = {} if fields is None else fields
    try:
        if count is None:
            count = unpacker.read_map_header()
        if not _read_fields(unpacker, data, count, fields):
            raise _invalid("packet header")
    except _NOT_MSGPACK:
        raise _invalid("packet header") from None
    return row_of_fields(fields), pos + unpacker.tell()


_NOT_MSGPACK: Final = (ValueError, TypeError, IndexError, OverflowError, msgpack.exceptions.UnpackException)
"""What the decoder raises for bytes that are not MessagePack, and (TypeError) for a map with a container as a key."""


def _read_fields(unpacker: Any, data: bytes, count: int, fields: dict[int, Any]) -> bool:
    """Add `count` pairs of a header to `fields`, up to the first with a wrong key or a wrong type of its value.

    Returns False if there is a wrong one. The unpacker reads `data`. Raises what `_NOT_MSGPACK` lists.
    """
    for _ in range(count):
        is_key = is_uint(data[unpacker.tell()])
        key = unpacker.unpack()
        if not is_key or key >= KEY_MAX or not _mark_test(key)(data[unpacker.tell()]):
            return False
        fields[key] = unpacker.unpack()
    return True


def sync_of_broken_header(packet: bytes) -> int:
    """Return the sync that precedes the first wrong field of a header which `decode_header` refuses.

    Returns 0 if there is none or the header is not MessagePack; then the client cannot be told which request failed.
    """
    unpacker: Any = msgpack.Unpacker(raw=True, strict_map_key=False, max_buffer_size=0)
    fields: dict[int, Any] = {}
    try:
        unpacker.feed(packet[: skip(packet, 0)])  # all of the header is checked first
        _read_fields(unpacker, packet, unpacker.read_map_header(), fields)
    except (BoxError, *_NOT_MSGPACK):
        return 0
    sync: int = fields.get(Key.SYNC, 0)
    return sync


_MAP_KEYS: Final = frozenset({Key.VCLOCK, Key.BALLOT, Key.TUPLE_META, Key.OPTIONS, Key.SQL_INFO, Key.ERROR})
_ARRAY_KEYS: Final = frozenset(
    {Key.KEY, Key.TUPLE, Key.OPS, Key.DATA, Key.METADATA, Key.BIND_METADATA, Key.SQL_BIND, Key.ID_FILTER}
)
_STRING_KEYS: Final = frozenset(
    {Key.FUNCTION_NAME, Key.USER_NAME, Key.INSTANCE_UUID, Key.CLUSTER_UUID, Key.EXPR, Key.ERROR_24, Key.SQL_TEXT}
)


def _mark_test(key: int) -> Callable[[int], bool]:
    """Return the test of the first byte of the value that a protocol key must have, also for unused keys."""
    if key == Key.TIMESTAMP:
        return is_float64
    if key == Key.REPLICA_ANON:
        return is_bool
    if key in _MAP_KEYS:
        return is_map
    if key in _ARRAY_KEYS:
        return is_array
    return is_str if key in _STRING_KEYS else is_uint


def row_of_fields(fields: dict[int, Any]) -> Row:
    """Make a row of a decoded header map; its relative tsn becomes absolute."""
    # The keys as literals, because looking up a member of an enum takes longer than the whole get: 0 type, 1 sync,
    # 2 replica id, 3 lsn, 4 time, 5 schema version, 7 group id, 8 lsn - tsn, 9 flags, 10 stream id.
    get = fields.get
    if get(10):
        return StreamRow(get(0, 0), sync=get(1, 0), schema_version=get(5, 0), stream_id=fields[10])
    lsn = get(3, 0)
    flags = get(9, 0)
    if 8 in fields:
        tsn, is_commit = lsn - fields[8], bool(flags & 1)  # 1 is Flag.COMMIT
        if tsn <= -(2**63):
            tsn += _WRAP  # the sender's difference was negative and wrapped, see `_encode_any_header`
    else:
        tsn, is_commit = lsn, True
    return Row(
        get(0, 0), get(2, 0), lsn, get(4, 0.0), get(7, 0), tsn, is_commit, flags & ~1, get(1, 0), get(5, 0)
    )  # fmt: skip


def decode_row(packet: bytes) -> Row:
    """Decode a whole packet without its length to a row.

    Raises:
        ClientError: INVALID_MSGPACK (`packet header`, `packet body`).
    """
    # Below 0x80 type and origin take one byte each, so that all offsets are known.
    if packet.startswith(_TYPE_ALONE) and len(packet) > _BODY_AT and packet[2] < 0x80:
        row, pos = Row(packet[2]), _BODY_AT  # a row of a snapshot, or an acknowledgement
    elif (
        len(packet) == _HEARTBEAT.size
        and packet.startswith(_HEARTBEAT_HEAD)
        and packet.startswith(_HEARTBEAT_TIME, _TIME_AT)
        and packet[4] < 0x80
    ):
        return Row(RequestType.OK, packet[4], tm=_DOUBLE_AT(packet, _TIME_AT + 2)[0])
    else:
        row, pos = decode_header(packet)
    if pos < len(packet):
        if row.type == RequestType.NOP or not is_msgpack(packet[pos:]):
            raise _invalid("packet body")
        row.body = packet[pos:]
    return row


def is_msgpack(raw: bytes) -> bool:
    """True if the bytes are exactly one MessagePack value.

    Raises:
        UnsupportedError: the value is nested too deep.
    """
    if len(raw) <= _SMALL:
        try:
            msgpack.unpackb(raw, raw=True, strict_map_key=False)
        except (ValueError, TypeError, OverflowError, msgpack.exceptions.UnpackException):
            pass  # the slower check below decides
        else:
            return True
    return _is_msgpack(raw)


def _is_msgpack(raw: bytes) -> bool:
    unpacker: Any = msgpack.Unpacker(raw=True, strict_map_key=False, max_buffer_size=0)
    unpacker.feed(raw)
    try:
        unpacker = skip_one(unpacker, raw)
    except (ValueError, IndexError, msgpack.exceptions.UnpackException):
        return False
    return bool(unpacker.tell() == len(raw))
