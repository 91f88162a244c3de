"""PRAGMA: facts about tables, indexes, foreign keys and collations as rows.

The name of a missing object gives no rows; the name of a missing pragma is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from box.data.collation import name_of
from box.errors import ErrorCode, client_error
from box.sql.result import ResultField, ResultFields, Rows

if TYPE_CHECKING:
    from box.schema.schema import Schema
    from box.schema.space import Space
    from box.sql.sql_nodes import Pragma
    from box.txn.reads import Reader

_INTEGER: Final = "integer"
_TEXT: Final = "text"
_GUESSED: Final = 200
"""10*log2 of the number of tuples that Tarantool assumes for an index without statistics; no index has statistics."""
_UNCOUNTED: Final = 639
"""10*log2 of 2^64 - 1, the number of tuples that Tarantool assumes for a space whose tuples are computed."""

_COLUMNS: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "collation_list": (("seq", _INTEGER), ("name", _TEXT)),
    "foreign_key_list": (
        ("id", _INTEGER),
        ("seq", _INTEGER),
        ("table", _TEXT),
        ("from", _TEXT),
        ("to", _TEXT),
        ("on_update", _TEXT),
        ("on_delete", _TEXT),
        ("match", _TEXT),
    ),
    "index_info": (
        ("seqno", _INTEGER),
        ("cid", _INTEGER),
        ("name", _TEXT),
        ("desc", _INTEGER),
        ("coll", _TEXT),
        ("type", _TEXT),
    ),
    "index_list": (("seq", _INTEGER), ("name", _TEXT), ("unique", _INTEGER)),
    "stats": (("table", _TEXT), ("index", _TEXT), ("width", _INTEGER), ("height", _INTEGER)),
    "table_info": (
        ("cid", _INTEGER),
        ("name", _TEXT),
        ("type", _TEXT),
        ("notnull", _INTEGER),
        ("dflt_value", _TEXT),
        ("pk", _INTEGER),
    ),
}
"""The pragmas of Tarantool 2.8.1 with their result columns."""

PRAGMAS: Final = tuple(_COLUMNS)


def pragma_columns(pragma: Pragma) -> list[ResultField]:
    """Return the result columns of a pragma.

    Raises:
        ClientError: SQL_NO_SUCH_PRAGMA.
    """
    columns = _COLUMNS.get(pragma.name.lower())
    if columns is None:
        raise client_error(ErrorCode.SQL_NO_SUCH_PRAGMA, pragma.name)
    return [ResultField(name, type_name) for name, type_name in columns]


class PragmaRunner:
    """Runs the pragmas of one node."""

    def __init__(self, schema: Schema, reads: Reader) -> None:
        self._schema = schema
        self._reads = reads
        self._runners: dict[str, Callable[[list[str]], list[list[Any]]]] = {
            "collation_list": self._collation_list,
            "foreign_key_list": self._foreign_key_list,
            "index_info": self._index_info,
            "index_list": self._index_list,
            "stats": self._stats,
            "table_info": self._table_info,
        }

    def run(self, pragma: Pragma, *, is_full: bool) -> Rows:
        """Return the rows of a pragma.

        Raises:
            ClientError: SQL_NO_SUCH_PRAGMA.
        """
        return Rows(ResultFields(pragma_columns(pragma)), self._runners[pragma.name.lower()](pragma.args), is_full)

    def _space(self, args: list[str]) -> Space | None:
        """Return the table that the arguments name. Like Tarantool, takes the second of two names."""
        return self._named(args[-1]) if args else None

    def _named(self, name: str) -> Space | None:
        return next((space for space in self._schema.spaces.values() if space.name == name), None)

    def _table_info(self, args: list[str]) -> list[list[Any]]:
        space = self._space(args)
        if space is None:
            return []
        primary = space.primary
        parts = None if primary is None else [part.fieldno for part in primary.definition.parts]
        rows: list[list[Any]] = []
        for number, field in enumerate(space.definition.fields):
            place = 1 if parts is None else parts.index(number) + 1 if number in parts else 0
            rows.append([number, field.name, field.type.value, int(not field.is_nullable), field.default, place])
        return rows

    def _index_list(self, args: list[str]) -> list[list[Any]]:
        space = self._space(args)
        if space is None:
            return []
        indexes = [space.indexes[iid] for iid in sorted(space.indexes)]
        return [[number, index.name, int(index.is_unique)] for number, index in enumerate(indexes)]

    def _index_info(self, args: list[str]) -> list[list[Any]]:
        space = self._named(args[0]) if len(args) > 1 else None
        index = next((one for one in space.indexes.values() if one.name == args[1]), None) if space else None
        if space is None or index is None:
            return []
        rows: list[list[Any]] = []
        for number, part in enumerate(index.definition.parts):
            collation = name_of(part.collation_id) if part.collation_id else "BINARY"
            field = space.definition.fields[part.fieldno]
            rows.append([number, part.fieldno, field.name, 0, collation, field.type.value])
        return rows

    def _collation_list(self, _: list[str]) -> list[list[Any]]:
        collations = self._schema.collations
        return [[number, collations[key].name] for number, key in enumerate(sorted(collations))]

    def _foreign_key_list(self, args: list[str]) -> list[list[Any]]:
        """Return the foreign keys of a table. Like Tarantool, shows the two actions exchanged: that of deletes as that
        of updates.
        """
        space = self._space(args)
        if space is None:
            return []
        rows: list[list[Any]] = []
        keys = [key for key in self._schema.foreign_keys.values() if key.child_id == space.id]
        for number, key in enumerate(reversed(keys)):
            parent = self._schema.space(key.parent_id)
            for seq, (own, other) in enumerate(key.links):
                names = parent.name, space.definition.fields[own].name, parent.definition.fields[other].name
                rows.append([number, seq, *names, key.on_delete, key.on_update, "NONE"])
        return rows

    def _stats(self, _: list[str]) -> list[list[Any]]:
        rows: list[list[Any]] = []
        for space_id in sorted(self._schema.spaces):
            space = self._schema.spaces[space_id]
            if space.definition.opts.view or space.primary is None:
                continue
            is_counted = space.is_plain
            size = self._reads.bsize(space) if is_counted else 0
            height = log_estimate(len(space.primary)) if is_counted else _UNCOUNTED
            rows.append([space.name, None, _average(size, len(space.primary)) if is_counted else 0, height])
            for iid in sorted(space.indexes):
                index = space.indexes[iid]
                rows.append([space.name, index.name, _average(size, len(index)) if is_counted else 0, _GUESSED])
        return rows


def _average(size: int, count: int) -> int:
    return size // count if count else 0


def log_estimate(count: int) -> int:
    """Return 10*log2(count) with Tarantool's rounding; 0 for a count below 2."""
    if count < 2:
        return 0
    # A factor of 16 is 40 and one of 2 is 10. That leaves 8 to 15, for which the table has 10*log2(count) - 30.
    estimate = 40
    while count < 8:
        estimate -= 10
        count *= 2
    while count > 255:
        estimate += 40
        count >>= 4
    while count > 15:
        estimate += 10
        count >>= 1
    return (0, 2, 3, 5, 6, 7, 8, 9)[count & 7] + estimate - 10
