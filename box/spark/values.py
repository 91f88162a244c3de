"""Decodes MessagePack values to Python objects for columns, and the rows of a block to Python lists.

It is the decoder for columns of mixed values, for environments without numba, and the reference for the tests of the
compiled decoder.
"""

from __future__ import annotations

import base64
import datetime
import json
from collections.abc import Collection, Iterator
from typing import Any, Final

import msgpack

from box.data.codec import Ext, FrozenMap, decode_ext, read_container, skip, split_array, unpack
from box.data.error_body import error_tree
from box.errors import BoxError
from box.journal.xlog_errors import XlogError
from box.wire.constants import Key

_INTEGER_SIZE_MAX: Final = 9
"""The bytes of the longest integer: a code and 64 bits."""
_DATETIME_EXT: Final = 4
"""The MessagePack extension type of datetimes, which Tarantool has since 2.10."""
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class UnreadValue:
    """A field that cannot be decoded in a tuple whose other fields can; only a column that reads the field raises an
    error."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def decode_extension(code: int, data: bytes) -> Any:
    """Return an extension as a decimal, UUID, datetime or interval, an error as a map, anything else as bytes.

    Raises:
        ValueError: the content is malformed.
    """
    if code == _DATETIME_EXT:
        return _datetime(data)
    value = decode_ext(code, data)
    if isinstance(value, BoxError):
        return error_tree(value)
    return data if isinstance(value, Ext) else value


def _datetime(data: bytes) -> datetime.datetime:
    """Decode seconds since 1970 (i64) and, optionally, nanoseconds (i32), offset in minutes and zone (i16 each).

    All of them are little-endian.

    Raises:
        ValueError: the size is wrong, or the time is out of Python's range.
    """
    # Seconds, and for some also nanoseconds, offset and zone, which Spark's timestamps do not have.
    if len(data) not in (8, 16):
        raise ValueError("malformed datetime")
    seconds = int.from_bytes(data[:8], "little", signed=True)
    nanoseconds = int.from_bytes(data[8:12], "little", signed=True)
    try:
        return _EPOCH + datetime.timedelta(seconds=seconds, microseconds=nanoseconds // 1000)
    except OverflowError:
        raise ValueError("datetime out of range") from None


_OPTIONS: Final[dict[str, Any]] = {
    "raw": False,
    "strict_map_key": False,
    "unicode_errors": "surrogateescape",
    "ext_hook": decode_extension,
}


def decode_value(raw: bytes) -> Any:
    """Return the value of a field; an `UnreadValue` if its content is invalid, such as a malformed decimal."""
    try:
        return msgpack.unpackb(raw, **_OPTIONS)
    except (ValueError, TypeError):
        pass
    try:
        return _plain(unpack(raw))
    except BoxError as error:
        return UnreadValue(error.message)


def decode_fields(raw: bytes) -> list[Any]:
    """Return the values of a tuple, which has to be an array; those that cannot be decoded are `UnreadValue`."""
    try:
        fields: list[Any] = msgpack.unpackb(raw, **_OPTIONS)
    except (ValueError, TypeError):
        fields = [decode_value(field) for field in split_array(raw)]
    return fields


def decode_mixed(raw: bytes, raw_fields: Collection[int]) -> list[Any]:
    """Return the values of a tuple as `decode_fields` does, but the fields `raw_fields` as bytes if they are not
    nil."""
    fields = decode_fields(raw)
    if raw_fields:
        parts = split_array(raw)
        for number in raw_fields:
            # 0xC0 is nil.
            if number < len(parts) and parts[number] != b"\xc0":
                fields[number] = parts[number]
    return fields


def _plain(value: Any) -> Any:
    """Return a value with bytes in place of extensions of unknown types, and maps in place of errors."""
    if isinstance(value, BoxError):
        return error_tree(value)
    if isinstance(value, Ext):
        return value.data
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {FrozenMap(key) if isinstance(key, dict) else key: _plain(item) for key, item in value.items()}
    return value


def _json_default(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value.isoformat() if isinstance(value, datetime.datetime) else str(value)


def _json_ready(value: Any) -> Any:
    """Return a value whose maps have text as keys, at all levels."""
    if isinstance(value, dict):
        return {_json_key(key): _json_ready(item) for key, item in value.items()}
    return [_json_ready(item) for item in value] if isinstance(value, list | tuple) else value


def _json_key(key: Any) -> str:
    if isinstance(key, bytes):
        return base64.b64encode(key).decode()
    return key if isinstance(key, str) else to_json(key)


def to_json(value: Any) -> str:
    """Return JSON text as a column of mixed values has it, with binary data as base64."""
    return json.dumps(_json_ready(value), ensure_ascii=False, default=_json_default, separators=(", ", ": "))


# --- rows of a block --------------------------------------------------------------------------------------------------


def decode_tuples(rows: bytes, space_id: int) -> list[list[Any]]:
    """Return the tuples of one space in a block as lists of values.

    Raises:
        XlogError: the block has something else than rows.
    """
    try:
        return _fast_tuples(rows, space_id)
    except (ValueError, TypeError, OverflowError, msgpack.exceptions.UnpackException):
        pass
    return [decode_fields(raw) for raw in raw_tuples(rows, space_id)]


def _fast_tuples(rows: bytes, space_id: int) -> list[list[Any]]:
    """Decode a block whose rows have the usual order of keys with msgpack's C code.

    Raises:
        Exception: the block has any other form.
    """
    unpacker = msgpack.Unpacker(max_buffer_size=0, **_OPTIONS)
    unpacker.feed(rows)
    skip_one, unpack_one, read_map_header, tell = (
        unpacker.skip,
        unpacker.unpack,
        unpacker.read_map_header,
        unpacker.tell,
    )
    end = len(rows)
    found: list[list[Any]] = []
    while tell() < end:
        skip_one()
        is_wanted = False
        for number in range(read_map_header()):
            key = unpack_one()
            if number == 0 and key == Key.SPACE_ID and type(key) is int:
                value = unpack_one()
                if type(value) is not int or value < 0:
                    raise ValueError("not a space id")
                is_wanted = value == space_id
            elif number == 1 and key == Key.TUPLE and is_wanted:
                fields = unpack_one()
                if type(fields) is not list or type(key) is not int:
                    raise ValueError("not an array")
                found.append(fields)
            elif key == Key.SPACE_ID or (key == Key.TUPLE and number != 1):
                raise ValueError("not the usual order")
            else:
                skip_one()
    return found


def raw_tuples(rows: bytes, space_id: int) -> list[bytes]:
    """Return the tuples of one space in a block as bytes.

    Raises:
        XlogError: the block has something else than rows.
    """
    tuples = [raw for found, raw in raw_rows(rows) if found == space_id]
    if any(read_container(raw)[0] != "array" for raw in tuples):
        raise XlogError("can't parse row: a tuple is no array")
    return tuples


def raw_rows(rows: bytes) -> Iterator[tuple[int, bytes]]:
    """Return space id and tuple of every row of a block that has both; rows without them (raft, limbo) are skipped.

    Raises:
        XlogError: a row is not a header value and a body map.
    """
    position, end = 0, len(rows)
    while position < end:
        try:
            body = skip(rows, position)
            kind, count, start = read_container(rows, body)
            if kind != "map" or start > end:
                raise XlogError("can't parse row")
            space_id, raw, position = _body(rows, start, count)
        except (BoxError, IndexError, ValueError):
            raise XlogError(f"can't parse row at byte {position} of the block's rows") from None
        if space_id >= 0 and raw:
            yield space_id, raw


def _body(rows: bytes, position: int, count: int) -> tuple[int, bytes, int]:
    """Return space id (-1 if there is none), tuple and end of a body map.

    Raises:
        ValueError: the map has one of the keys twice.
    """
    space_id, raw = -1, b""
    for _ in range(count):
        start = skip(rows, position)
        key = _key(rows[position:start])
        position = skip(rows, start)
        if key == Key.SPACE_ID:
            if space_id >= 0:
                raise ValueError("twice")
            space_id = _uint(rows[start:position])
        elif key == Key.TUPLE:
            if raw:
                raise ValueError("twice")
            raw = rows[start:position]
    return space_id, raw, position


def _key(raw: bytes) -> int:
    """Return the key of a pair; -1 if it is not an unsigned integer."""
    try:
        return _uint(raw)
    except ValueError:
        return -1


def _uint(raw: bytes) -> int:
    """Return a non-negative integer.

    Raises:
        ValueError: the value is anything else.
    """
    value: Any = msgpack.unpackb(raw) if len(raw) <= _INTEGER_SIZE_MAX else None
    if type(value) is not int or value < 0:
        raise ValueError("not an unsigned integer")
    return int(value)
