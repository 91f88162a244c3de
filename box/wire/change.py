"""Requests that change data, in the one form that they have in the log, between instances and from clients.

```
INSERT, REPLACE   { 0x10 space id, 0x21 tuple }
UPDATE            { 0x10 space id, [0x11 index id], [0x15 index base], 0x20 key, 0x21 operations }
DELETE            { 0x10 space id, [0x11 index id], 0x20 key }
UPSERT            { 0x10 space id, [0x15 index base], 0x28 operations, 0x21 tuple }
NOP               no body
```

A zero is omitted. The log holds the request as it was given, with two exceptions: a before_replace trigger that changed
the outcome makes it a REPLACE, a DELETE or a NOP, and a key of a secondary index is replaced by the primary key of the
tuple found. Source: `xrow.c`, `request.c` of the 2.8 line, checked on Tarantool's log files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgpack

from box.data.codec import pack, unpack
from box.data.marks import FIXMAP
from box.data.show import tuple_str, value_str
from box.errors import BoxError
from box.wire.body import invalid, is_array, is_map, is_uint, missing, walk
from box.wire.constants import Key, RequestType

if TYPE_CHECKING:
    from box.wire.row import Row

# Plain integers, because members of an IntEnum are slow to look up and to compare.
INSERT: Final = int(RequestType.INSERT)
REPLACE: Final = int(RequestType.REPLACE)
UPDATE: Final = int(RequestType.UPDATE)
DELETE: Final = int(RequestType.DELETE)
UPSERT: Final = int(RequestType.UPSERT)
NOP: Final = int(RequestType.NOP)

_MANDATORY: Final[dict[int, frozenset[Key]]] = {
    INSERT: frozenset((Key.SPACE_ID, Key.TUPLE)),
    REPLACE: frozenset((Key.SPACE_ID, Key.TUPLE)),
    UPDATE: frozenset((Key.SPACE_ID, Key.KEY, Key.TUPLE)),
    DELETE: frozenset((Key.SPACE_ID, Key.KEY)),
    UPSERT: frozenset((Key.SPACE_ID, Key.TUPLE, Key.OPS)),
}
_NUMBERS: Final = frozenset((Key.SPACE_ID, Key.INDEX_ID, Key.INDEX_BASE, Key.LIMIT, Key.OFFSET, Key.ITERATOR))
_ARRAYS: Final = frozenset((Key.KEY, Key.TUPLE, Key.OPS))
_NONE: Final[Mapping[int, Callable[[int], bool]]] = {}
U32: Final = 0xFFFFFFFF
"""A mask: Tarantool keeps only the lower 32 bits of each number of a body."""
# The keys with one byte each, which is also their encoded form because they are below 0x80.
_SPACE_ID: Final = bytes((Key.SPACE_ID,))
_INDEX_ID: Final = bytes((Key.INDEX_ID,))
_INDEX_BASE: Final = bytes((Key.INDEX_BASE,))
_KEY: Final = bytes((Key.KEY,))
_TUPLE: Final = bytes((Key.TUPLE,))
_OPS: Final = bytes((Key.OPS,))
_EMPTY: Final[list[Any]] = []
"""The list that all requests without a key or without operations share. It must not be changed."""


class Request:
    """A request to change one space: type, tuple or key, operations.

    `tuple`, `key` and `ops` are empty where the type has none. `row` is the header of a request that came from the log
    or from another instance, and None for a request of a user here. Execution may turn the request into another one
    (`become`); its row follows.
    """

    __slots__ = ("index_base", "index_id", "key", "ops", "row", "tuple", "type")

    def __init__(
        self,
        request_type: int,
        tuple: bytes = b"",
        key: list[Any] = _EMPTY,
        ops: list[Any] = _EMPTY,
        index_id: int = 0,
        index_base: int = 0,
        row: Row | None = None,
    ) -> None:
        self.type = request_type
        self.tuple = tuple
        self.key = key
        self.ops = ops
        self.index_id = index_id
        self.index_base = index_base
        self.row = row

    @classmethod
    def insert(cls, raw: bytes) -> Request:
        """Make a request that adds a tuple."""
        return cls(INSERT, raw)

    @classmethod
    def replace(cls, raw: bytes) -> Request:
        """Make a request that adds a tuple or replaces the one with the same primary key."""
        return cls(REPLACE, raw)

    @classmethod
    def update(cls, key: list[Any], ops: list[Any], index_id: int = 0, index_base: int = 1) -> Request:
        """Make a request that updates the tuple with a full key of a unique index.

        `index_base` is the number that `ops` uses for the first field.
        """
        return cls(UPDATE, b"", key, ops, index_id, index_base)

    @classmethod
    def upsert(cls, raw: bytes, ops: list[Any], index_base: int = 1) -> Request:
        """Make a request that inserts a tuple or updates the one with the same primary key."""
        return cls(UPSERT, raw, _EMPTY, ops, 0, index_base)

    @classmethod
    def delete(cls, key: list[Any], index_id: int = 0) -> Request:
        """Make a request that deletes the tuple with a full key of a unique index."""
        return cls(DELETE, b"", key, _EMPTY, index_id)

    def become(self, space_id: int, request_type: int, tuple: bytes = b"", key: list[Any] = _EMPTY) -> None:
        """Turn into the REPLACE, DELETE or NOP that a trigger requested."""
        self.type, self.tuple, self.key, self.ops = request_type, tuple, key, _EMPTY
        self.index_id = self.index_base = 0
        self.refresh_row(space_id)

    def refresh_row(self, space_id: int) -> None:
        """Update the row that came with the request to what the request has become."""
        if self.row is not None:
            self.row.type, self.row.body = self.type, self.body(space_id)

    def body(self, space_id: int) -> bytes:
        """Encode the body: the form in the module's table."""
        kind = self.type
        if kind == NOP:
            return b""
        numbers = _encode_numbers(kind, space_id, self.index_id, self.index_base)
        # The protocol gives the operations of an UPDATE the key of tuples; only UPSERT, which has both, uses OPS.
        if kind == UPDATE:
            return numbers + _KEY + pack(self.key) + _TUPLE + pack(self.ops)
        if kind == UPSERT:
            return numbers + _OPS + pack(self.ops) + _TUPLE + self.tuple
        return numbers + _KEY + pack(self.key) if kind == DELETE else numbers + _TUPLE + self.tuple

    def __repr__(self) -> str:
        return f"<request type {self.type} key {self.key} tuple {self.tuple!r} ops {self.ops}>"


@lru_cache(maxsize=1024)
def _encode_numbers(request_type: int, space_id: int, index_id: int, index_base: int) -> bytes:
    """Encode a body up to its last number: the mark of the map, and the space, the index and the index base."""
    numbers = [_SPACE_ID + pack(space_id)]
    if index_id:
        numbers.append(_INDEX_ID + pack(index_id))
    if index_base:
        numbers.append(_INDEX_BASE + pack(index_base))
    others = 2 if request_type in (UPDATE, UPSERT) else 1
    return bytes((FIXMAP | (len(numbers) + others),)) + b"".join(numbers)


def decode_change(request_type: int, body: bytes, row: Row | None = None) -> tuple[int, Request]:
    """Decode a change from its body. Returns the id of the space and the request.

    If the tuple of an INSERT or REPLACE is the last value, its content is not checked here; the storing code does that.

    Raises:
        ClientError: INVALID_MSGPACK (`packet body`), or MISSING_REQUEST_FIELD with the name of the first missing key.
    """
    usual = _decode_usual(request_type, body, row)
    return _decode_any(request_type, body, row) if usual is None else usual


def decode_row(row: Row) -> tuple[int, Request]:
    """Decode a row of the log or of another instance, and keep the row with the request.

    Returns the id of the space and the request. Raises the errors of `decode_change`.
    """
    return decode_change(row.type, row.body, row)


def _decode_usual(request_type: int, body: bytes, row: Row | None) -> tuple[int, Request] | None:
    """Decode a body in the order that clients and logs write: numbers, then the tuple, the key, or key and operations.
    Those of an UPSERT are operations and tuple, in either order.

    Returns None for any other body, even a wrong one.
    """
    # Every change of a client passes here, so the keys and marks are literals, not names that have to be looked up.
    space_id = index_id = index_base = 0
    seen = 0
    pos = 1
    try:
        count = body[0] - 0x80
        if count > 15:
            return None  # only the mark of a map of at most 15 pairs has their number
        # The keys of all numbers are below 0x20, those of key, tuple and operations are not.
        while (key := body[pos]) < 0x20:
            value = body[pos + 1]
            if value < 0x80:
                pos += 2
            elif 0xCC <= value <= 0xCF:
                # The low two bits of the four unsigned types are the logarithm of their size.
                start, pos = pos + 2, pos + 2 + (1 << (value & 3))
                value = int.from_bytes(body[start:pos], "big") & U32
            else:
                return None
            if key == 0x10:  # Key.SPACE_ID
                space_id = value
                seen |= 1
            elif key == 0x11:  # Key.INDEX_ID
                index_id = value
            elif key == 0x15:  # Key.INDEX_BASE
                index_base = value
            else:
                return None
            count -= 1
        if not seen:
            return None
        # From here on 0x20 is Key.KEY and 0x21 is Key.TUPLE.
        if request_type in (INSERT, REPLACE):
            if count != 1 or key != 0x21 or not is_array(body[pos + 1]):
                return None
            return space_id, Request(request_type, body[pos + 1 :], _EMPTY, _EMPTY, index_id, index_base, row)
        if request_type == UPSERT:
            parts = _upsert_parts(body, pos) if count == 2 else None
            if parts is None:
                return None
            return space_id, Request(UPSERT, parts[0], _EMPTY, parts[1], index_id, index_base, row)
        if key != 0x20 or count != (2 if request_type == UPDATE else 1) or request_type not in (UPDATE, DELETE):
            return None
        # The pairs that are left, as a map of their own, which one call of the C extension decodes.
        values = unpack(bytes((0x80 | count,)) + body[pos:])
    except (IndexError, ValueError, BoxError, msgpack.exceptions.UnpackException):
        return None
    key_values, ops = values.get(0x20), values.get(0x21) if request_type == UPDATE else _EMPTY
    if type(key_values) is not list or type(ops) is not list or len(values) != count:
        return None
    return space_id, Request(request_type, b"", key_values, ops, index_id, index_base, row)


def _upsert_parts(body: bytes, pos: int) -> tuple[bytes, list[Any]] | None:
    """Return the tuple and the operations of an UPSERT, whose pairs begin at `pos` in either order; None for others.

    Raises:
        BoxError, IndexError, ValueError or UnpackException: the body is wrong.
    """
    start = pos + 1
    unpacker: Any = msgpack.Unpacker(raw=True, strict_map_key=False, max_buffer_size=0)
    unpacker.feed(body[start:])
    unpacker.skip()
    middle = start + unpacker.tell()
    unpacker.skip()
    unpacker.skip()
    if start + unpacker.tell() != len(body):
        return None
    first, second = body[start:middle], body[middle + 1 :]
    keys = body[pos], body[middle]
    if keys == (0x28, 0x21):  # Key.OPS, Key.TUPLE
        ops, raw = first, second
    elif keys == (0x21, 0x28):
        raw, ops = first, second
    else:
        return None
    if not (is_array(raw[0]) and is_array(ops[0])):
        return None
    return raw, unpack(ops)


def _decode_any(request_type: int, body: bytes, row: Row | None) -> tuple[int, Request]:
    """Decode a body of any form, checked pair by pair in Tarantool's order."""
    values = checked_values(body)
    absent = _MANDATORY.get(request_type, frozenset()) - values.keys()
    if absent:
        raise missing(min(absent))
    request = Request(request_type, row=row)
    request.index_id = values.get(Key.INDEX_ID, 0)
    request.index_base = values.get(Key.INDEX_BASE, 0)
    if Key.KEY in values:
        request.key = unpack(values[Key.KEY])
    if request_type == UPDATE:
        request.ops = unpack(values[Key.TUPLE])
    else:
        request.tuple = values.get(Key.TUPLE, b"")
        if Key.OPS in values:
            request.ops = unpack(values[Key.OPS])
    return values.get(Key.SPACE_ID, 0), request


def checked_values(body: bytes, extra: Mapping[int, Callable[[int], bool]] = _NONE) -> dict[int, Any]:
    """Return the values of a data request's body by key: numbers decoded, others raw. Unknown keys are ignored, also
    known numbers that do not take one byte.

    `extra` are further known keys, with the tests of the first bytes of their values.

    Raises:
        ClientError: INVALID_MSGPACK (`packet body`).
    """
    values: dict[int, Any] = {}
    for key, raw in walk(body, short=True) if body else ():
        if key in _NUMBERS:
            if not is_uint(raw[0]):
                raise invalid()
            values[key] = unpack(raw) & U32
        elif key in _ARRAYS:
            if not is_array(raw[0]):
                raise invalid()
            values[key] = raw
        elif key == Key.TUPLE_META and not is_map(raw[0]):
            raise invalid()
        elif key is not None and key in extra:
            if not extra[key](raw[0]):
                raise invalid()
            values[key] = raw
    return values


def request_text(row: Row) -> str:
    """Return the text of a row in the log: `{type: 'REPLACE', replica_id: 1, lsn: 7, space_id: 512, index_id: 0, tuple:
    [1]}`.

    A row that is not a change has the text `n/a`.
    """
    try:
        space_id, request = decode_row(row)
        parts = [
            f"type: '{RequestType(row.type).name}'",
            f"replica_id: {row.replica_id}",
            f"lsn: {row.lsn}",
            f"space_id: {space_id}",
            f"index_id: {request.index_id}",
        ]
    except (BoxError, ValueError):
        return "n/a"
    if request.key:
        parts.append(f"key: {value_str(request.key)}")
    if row.type == RequestType.UPDATE:
        parts.append(f"tuple: {value_str(request.ops)}")
    elif request.tuple:
        parts.append(f"tuple: {tuple_str(request.tuple)}")
    if row.type == RequestType.UPSERT:
        parts.append(f"ops: {value_str(request.ops)}")
    return "{" + ", ".join(parts) + "}"
