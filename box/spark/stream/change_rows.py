"""Converts rows of the log to the columns of a stream of changes.

| column | type | content |
|---|---|---|
| operation | string | insert, replace, update, upsert, delete, truncate |
| space, space_id | string, bigint | the space; its name is null if the definitions of that time are unknown |
| key | string | the primary key as a JSON array; null for a truncate, and if the definitions of that time are unknown |
| before, after | string | the tuple as JSON, if the log has it |
| tuple | string | the tuple of an insert, replace or upsert request, as JSON |
| operations | string | the operations of an update or upsert, as JSON |
| lsn, replica_id | bigint, int | the number of the row among those of its instance, and the id of this instance |
| transaction_id | bigint | equal in all rows of a transaction of one replica |
| timestamp | timestamp | the time when the row was written |

The log has the new tuple of an insert and of a replace (`after`). Of an update, an upsert and a delete it has only the
request. `before` is always null: an insert has no tuple before it, and of the others the log does not have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from box.data.keydef import KeyDef
from box.errors import BoxError
from box.spark.definitions import INDEX_ID, SPACE_ID, TRUNCATE_ID, USER_SPACES, Definitions, primary_key
from box.spark.values import UnreadValue, decode_fields, to_json
from box.wire.change import Request, decode_row
from box.wire.constants import DML_TYPES, RequestType
from box.wire.row import Row

CHANGE_TYPES: Final = {
    "operation": pa.string(),
    "space": pa.string(),
    "space_id": pa.int64(),
    "key": pa.string(),
    "before": pa.string(),
    "after": pa.string(),
    "tuple": pa.string(),
    "operations": pa.string(),
    "lsn": pa.int64(),
    "replica_id": pa.int32(),
    "transaction_id": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}
"""The names of the columns and their Arrow types."""

CHANGE_SCHEMA: Final = (
    "operation string, space string, space_id bigint, key string, before string, after string, tuple string, "
    "operations string, lsn bigint, replica_id int, transaction_id bigint, timestamp timestamp"
)
"""The columns and their types in Spark's SQL."""

_NAMES: Final = {
    int(RequestType.INSERT): "insert",
    int(RequestType.REPLACE): "replace",
    int(RequestType.UPDATE): "update",
    int(RequestType.UPSERT): "upsert",
    int(RequestType.DELETE): "delete",
}
"""The operations by request type."""
_PUTS: Final = frozenset({int(RequestType.INSERT), int(RequestType.REPLACE)})
"""The requests whose tuple is the new tuple."""


@dataclass(frozen=True, slots=True)
class _KnownSpace:
    """A space at some moment; `name` and `key` are None if they are unknown."""

    name: str | None
    key: KeyDef | None
    is_wanted: bool


class ChangeRows:
    """A converter of rows to columns, which applies the changes of definitions as they come.

    `spaces` has the names and ids of the wanted spaces, empty for all. Without `shows_system` rows of system spaces are
    left out.
    """

    def __init__(self, definitions: Definitions, spaces: frozenset[str], shows_system: bool) -> None:
        self._definitions = definitions.copy()
        self._spaces = spaces
        self._shows_system = shows_system
        self._known: dict[int, _KnownSpace] = {}

    def batch(self, rows: Iterable[Row], names: Sequence[str]) -> pa.RecordBatch:
        """Return the wanted changes of some rows as a batch with the columns `names`.

        Raises:
            BoxError: a row cannot be decoded.
        """
        lines = [line for row in rows for line in self._lines(row)]
        columns = dict(zip(CHANGE_TYPES, zip(*lines, strict=True) if lines else [()] * len(CHANGE_TYPES), strict=True))
        arrays = [pa.array(columns[name], CHANGE_TYPES[name]) for name in names]
        return pa.RecordBatch.from_arrays(arrays, names=list(names))

    def pass_over(self, row: Row) -> None:
        """Apply a row before the batch, of which only changes of definitions matter."""
        if row.type in DML_TYPES and row.body:
            space_id, request = decode_row(row)
            self._learn(space_id, request)

    def _learn(self, space_id: int, request: Request) -> None:
        if space_id in (SPACE_ID, INDEX_ID):
            self._definitions.change(space_id, request)
            self._known.clear()

    def _lines(self, row: Row) -> list[tuple[Any, ...]]:
        """Return the columns of the change that a row makes: a list of one tuple or none."""
        if row.type not in DML_TYPES or not row.body:
            return []
        space_id, request = decode_row(row)
        if space_id == TRUNCATE_ID and not self._shows_system:
            return self._truncation(row, request)
        # The definitions before the row are used, so that the drop of a space is shown as a change of `_space`.
        space = self._space(space_id)
        self._learn(space_id, request)
        if not space.is_wanted or row.type not in _NAMES:
            return []
        raw = request.tuple
        fields = decode_fields(raw) if raw else None
        text = None if fields is None else _json(fields)
        operations = _json(request.ops) if row.type in (RequestType.UPDATE, RequestType.UPSERT) else None
        after = text if row.type in _PUTS else None
        key = self._key(space, request, fields)
        return [(_NAMES[row.type], space.name, space_id, key, None, after, text, operations, *_place(row))]

    def _truncation(self, row: Row, request: Request) -> list[tuple[Any, ...]]:
        values = decode_fields(request.tuple) if request.tuple else request.key
        space = self._space(values[0])
        if not space.is_wanted or row.type == RequestType.DELETE:
            return []
        return [("truncate", space.name, values[0], None, None, None, None, None, *_place(row))]

    @staticmethod
    def _key(space: _KnownSpace, request: Request, fields: list[Any] | None) -> str | None:
        if fields is None:
            # Rows of old versions may have the key of another index.
            return None if request.index_id else _json(request.key)
        return None if space.key is None else _json(space.key.extract_values(fields))

    def _space(self, space_id: int) -> _KnownSpace:
        found = self._known.get(space_id)
        if found is None:
            found = self._known[space_id] = self._look_up(space_id)
        return found

    def _look_up(self, space_id: int) -> _KnownSpace:
        info = self._definitions.by_id(space_id)
        name = None if info is None else info.name
        is_shown = self._shows_system or space_id >= USER_SPACES
        is_wanted = is_shown and (not self._spaces or str(space_id) in self._spaces or name in self._spaces)
        try:
            key = None if info is None else primary_key(info)
        except BoxError:
            key = None  # There is no primary key, or its collation is unknown: the other columns are shown all the same
        return _KnownSpace(name, key, is_wanted)


def _json(value: Any) -> str:
    """Return JSON text; a value that cannot be decoded is shown as its error, and bytes that are not UTF-8 as `?`."""
    if isinstance(value, list):
        value = [item.text if type(item) is UnreadValue else item for item in value]
    return to_json(value).encode("utf-8", "replace").decode()


def _place(row: Row) -> tuple[int, int, int, int]:
    """Return lsn, replica id, transaction id and the time in microseconds."""
    return row.lsn, row.replica_id, row.txn_id, round(row.tm * 1e6)
