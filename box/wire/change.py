"""Requests that change data, and their journal form.

```
INSERT, REPLACE   { 0x10 space id, 0x21 tuple }
UPDATE            { 0x10 space id, [0x11 index id], [0x15 index base], 0x20 key, 0x21 operations }
DELETE            { 0x10 space id, [0x11 index id], 0x20 key }
UPSERT            { 0x10 space id, [0x15 index base], 0x28 operations, 0x21 tuple }
NOP               no body
```

A zero is left out. The log holds the request as it was given, with two exceptions: a before_replace trigger that
changed the outcome makes it a REPLACE, a DELETE or a NOP, and a key of a secondary index is turned into the primary
key of the tuple it found. Source: `xrow.c`, `request.c` of the 2.8 line, checked on the peer's log files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from box.data.codec import pack, read_container, skip, unpack
from box.data.show import tuple_str, value_str
from box.errors import BoxError, ErrorCode, client_error
from box.wire.constants import KEY_NAMES, Key, RequestType

if TYPE_CHECKING:
    from box.wire.row import Row

_MANDATORY: Final[dict[int, tuple[Key, ...]]] = {
    RequestType.INSERT: (Key.SPACE_ID, Key.TUPLE),
    RequestType.REPLACE: (Key.SPACE_ID, Key.TUPLE),
    RequestType.UPDATE: (Key.SPACE_ID, Key.KEY, Key.TUPLE),
    RequestType.DELETE: (Key.SPACE_ID, Key.KEY),
    RequestType.UPSERT: (Key.SPACE_ID, Key.TUPLE, Key.OPS),
    RequestType.NOP: (),
}
_ARRAYS: Final = frozenset({Key.KEY, Key.TUPLE, Key.OPS})
_NUMBERS: Final = frozenset({Key.SPACE_ID, Key.INDEX_ID, Key.INDEX_BASE})


class Request:
    """One change as asked for. `row` is the header it came with from a log or another instance, else None.

    `tuple`, `key` and `ops` are empty where the type has none. Triggers may turn a request into another one while it
    runs; `row` and the journal follow.
    """

    __slots__ = ("index_base", "index_id", "key", "ops", "row", "space_id", "tuple", "type")

    def __init__(
        self,
        request_type: int,
        space_id: int,
        *,
        tuple: bytes = b"",
        index_id: int = 0,
        key: list[Any] | None = None,
        ops: list[Any] | None = None,
        index_base: int = 0,
        row: Row | None = None,
    ) -> None:
        self.type = request_type
        self.space_id = space_id
        self.tuple = tuple
        self.index_id = index_id
        self.key: list[Any] = [] if key is None else key
        self.ops: list[Any] = [] if ops is None else ops
        self.index_base = index_base
        self.row = row

    def become(self, request_type: int, *, tuple: bytes = b"", key: list[Any] | None = None) -> None:
        """Turn into the REPLACE, DELETE or NOP that a trigger asked for."""
        self.type, self.tuple, self.key = request_type, tuple, key or []
        self.ops, self.index_id, self.index_base = [], 0, 0
        self.refresh_row()

    def refresh_row(self) -> None:
        """Make a row that came with the request say what it has become."""
        if self.row is not None:
            self.row.type, self.row.body = self.type, self.body()

    def body(self) -> bytes:
        """The journal form."""
        kind = self.type
        if kind == RequestType.NOP:
            return b""
        parts = [b"\x10" + pack(self.space_id)]
        if self.index_id:
            parts.append(b"\x11" + pack(self.index_id))
        if self.index_base:
            parts.append(b"\x15" + pack(self.index_base))
        if kind in (RequestType.UPDATE, RequestType.DELETE):
            parts.append(b"\x20" + pack(self.key))
        if kind == RequestType.UPSERT:
            parts.append(b"\x28" + pack(self.ops))
        if kind != RequestType.DELETE:
            parts.append(b"\x21" + (pack(self.ops) if kind == RequestType.UPDATE else self.tuple))
        return bytes((0x80 | len(parts),)) + b"".join(parts)

    def __repr__(self) -> str:
        return f"<request type {self.type} space {self.space_id} key {self.key} tuple {self.tuple!r} ops {self.ops}>"


def decode_request(row: Row) -> Request:
    """Read a row's body. INVALID_MSGPACK (`packet body`), MISSING_REQUEST_FIELD."""
    values = _body_values(row.body) if row.body else {}
    for key in _MANDATORY.get(row.type, ()):
        if key not in values:
            raise client_error(ErrorCode.MISSING_REQUEST_FIELD, KEY_NAMES[key])
    request = Request(row.type, values.get(Key.SPACE_ID, 0), row=row)
    request.index_id = values.get(Key.INDEX_ID, 0)
    request.index_base = values.get(Key.INDEX_BASE, 0)
    if Key.KEY in values:
        request.key = unpack(values[Key.KEY])
    if row.type == RequestType.UPDATE:
        request.ops = unpack(values[Key.TUPLE])
    else:
        request.tuple = values.get(Key.TUPLE, b"")
        if Key.OPS in values:
            request.ops = unpack(values[Key.OPS])
    return request


def request_text(row: Row) -> str:
    """A row as the log names it: `{type: 'REPLACE', replica_id: 1, lsn: 7, space_id: 512, index_id: 0, tuple: [1]}`;
    `n/a` for a row that is no change."""
    try:
        request = decode_request(row)
        parts = [
            f"type: '{RequestType(row.type).name}'",
            f"replica_id: {row.replica_id}",
            f"lsn: {row.lsn}",
            f"space_id: {request.space_id}",
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


def _body_values(body: bytes) -> dict[int, Any]:
    """The values of a request map by key: numbers decoded, arrays raw. Unknown keys are skipped."""
    kind, count, pos = read_container(body)
    if kind != "map":
        raise client_error(ErrorCode.INVALID_MSGPACK, "packet body")
    values: dict[int, Any] = {}
    for left in range(count - 1, -1, -1):
        start = skip(body, pos)
        key = body[pos] if start == pos + 1 else unpack(body[pos:start])
        # The last value is usually a tuple, whose own check finds what is wrong with it.
        pos = len(body) if not left and key == Key.TUPLE else skip(body, start)
        if key in _NUMBERS:
            values[key] = _number(body[start:pos])
        elif key in _ARRAYS:
            values[key] = _array(body, start, pos)
    if pos != len(body):
        raise client_error(ErrorCode.INVALID_MSGPACK, "packet end")
    return values


def _number(raw: bytes) -> int:
    value = unpack(raw)
    if type(value) is not int or value < 0:
        raise client_error(ErrorCode.INVALID_MSGPACK, "packet body")
    return value


def _array(body: bytes, start: int, end: int) -> bytes:
    if start >= end or read_container(body, start)[0] != "array":
        raise client_error(ErrorCode.INVALID_MSGPACK, "packet body")
    return body[start:end]
