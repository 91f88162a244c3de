"""Definitions of spaces and indexes from rows of `_space` and `_index`, updated by the changes in a log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from box.data.codec import unpack
from box.data.format import FieldDef, TupleFormat
from box.data.keydef import KeyDef, PartDef
from box.data.types import FieldType
from box.data.update import apply_update, apply_upsert
from box.errors import BoxError, ErrorCode, client_error, unsupported
from box.wire.change import Request
from box.wire.constants import RequestType

SPACE_ID: Final = 280
"""The id of `_space`: `[id, owner, name, engine, field_count, options, format]`."""
INDEX_ID: Final = 288
"""The id of `_index`: `[space id, id, name, type, options, parts]`."""
TRUNCATE_ID: Final = 330
"""The id of `_truncate`: `[space id, count]`; every change of a row there empties its space."""
USER_SPACES: Final = 512
"""The least id of a user's space; system spaces have smaller ids."""
_KEY_SIZES: Final = {SPACE_ID: 1, INDEX_ID: 2}
"""The number of fields in the primary key of `_space` and `_index`."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of an index key.

    `field` counts from 0. `path` is the place inside the field, "" for the whole field. `collation` is an id, 0 for
    none.
    """

    field: int
    type: str
    is_nullable: bool = False
    collation: int = 0
    path: str = ""


@dataclass(frozen=True, slots=True)
class IndexInfo:
    """An index as defined by its row of `_index`.

    `type` is `tree`, `hash`, `rtree` or `bitset`. The index with id 0 is the primary key.
    """

    id: int
    name: str
    type: str
    parts: tuple[Part, ...]

    def key_def(self) -> KeyDef:
        """Return the definition of its key, which compares keys.

        Raises:
            BoxError: UNSUPPORTED, a collation or a kind of part is unknown.
        """
        return KeyDef([_part_def(part) for part in self.parts])


@dataclass(frozen=True, slots=True)
class SpaceInfo:
    """A space as defined by its rows of `_space` and `_index`; `format` has the decoded map of each field."""

    id: int
    name: str
    engine: str
    format: tuple[dict[str, Any], ...]
    indexes: tuple[IndexInfo, ...]
    is_sync: bool = False

    @property
    def primary(self) -> IndexInfo | None:
        """The primary key, None if the space has none."""
        return self.indexes[0] if self.indexes and self.indexes[0].id == 0 else None

    def tuple_format(self) -> TupleFormat:
        """Return the tuple format with the names and types of fields, which updates by field name need."""
        return TupleFormat(
            [
                FieldDef(str(field["name"]) if "name" in field else None, _field_type(field.get("type", "any")), True)
                for field in self.format
            ]
        )


def _field_type(name: object) -> FieldType:
    """Return the type with this name; ANY for a type that only later versions of Tarantool have."""
    return FieldType.by_name(str(name)) or FieldType.ANY


def _part_def(part: Part) -> PartDef:
    return PartDef(
        part.field, _field_type(part.type), part.is_nullable, part.collation or None, part.path or None
    )  # fmt: skip


def index_of(row: list[Any]) -> IndexInfo:
    """Return the index that a row of `_index` defines."""
    return IndexInfo(row[1], row[2], str(row[3]).lower(), tuple(_part(part) for part in _parts(row)))


def _parts(row: list[Any]) -> list[Any]:
    """Return the parts. Before Tarantool 1.6.5, the row had their number and a pair of fields for each part."""
    if isinstance(row[5], list):
        return row[5]
    return [row[start : start + 2] for start in range(6, 6 + 2 * row[5], 2)]


def _part(part: Any) -> Part:
    """Return a part, which is `[0, "unsigned"]` or a map with `field`, `type`, `is_nullable`, `collation` and
    `path`."""
    if not isinstance(part, dict):
        return Part(int(part[0]), str(_field_type(part[1])))
    return Part(
        int(part["field"]),
        str(_field_type(part.get("type", "scalar"))),
        bool(part.get("is_nullable", False)),
        int(part.get("collation") or 0),
        str(part.get("path", "")),
    )


class Definitions:
    """The rows of `_space` and `_index`; a small object that can be pickled and that the changes of a log update."""

    def __init__(self, rows: dict[tuple[int, ...], bytes] | None = None) -> None:
        self._rows = {} if rows is None else rows
        """The tuples, by the id of the system space and the fields of the primary key."""

    def copy(self) -> Definitions:
        """Return an independent copy."""
        return Definitions(dict(self._rows))

    def put(self, space_id: int, raw: bytes) -> None:
        """Add or replace a tuple of `_space` or `_index`; does nothing for other spaces."""
        if space_id in _KEY_SIZES:
            self._rows[space_id, *unpack(raw)[: _KEY_SIZES[space_id]]] = raw

    def change(self, space_id: int, request: Request) -> None:
        """Apply a change of `_space` or `_index`; does nothing for other spaces."""
        if space_id not in _KEY_SIZES or request.type == RequestType.NOP:
            return
        if request.type in (RequestType.INSERT, RequestType.REPLACE):
            self.put(space_id, request.tuple)
            return
        values = unpack(request.tuple) if request.type == RequestType.UPSERT else request.key
        key = (space_id, *values[: _KEY_SIZES[space_id]])
        old = self._rows.get(key)
        if request.type == RequestType.DELETE:
            self._rows.pop(key, None)
        elif old is None:
            if request.type == RequestType.UPSERT:
                self._rows[key] = request.tuple
        else:
            apply = apply_update if request.type == RequestType.UPDATE else apply_upsert
            self._rows[key] = apply(old, request.ops, fmt=self._format(space_id), index_base=request.index_base)

    def _format(self, space_id: int) -> TupleFormat:
        """Return the format of a system space, which has its own row in `_space`."""
        row = self._rows.get((SPACE_ID, space_id))
        fields = unpack(row)[6:7] if row is not None else []  # the format, which old rows lack
        names = [str(field["name"]) for field in (fields[0] if fields else [])]
        return TupleFormat([FieldDef(name, FieldType.ANY, True) for name in names])

    def find(self, name: str) -> SpaceInfo | None:
        """Return the space with this name or, if `name` is a number, with this id; None if there is none."""
        return next((info for info in self.spaces() if name in (info.name, str(info.id))), None)

    def space(self, name: str) -> SpaceInfo:
        """Return the space with this name or id.

        Raises:
            BoxError: NO_SUCH_SPACE, there is none.
        """
        found = self.find(name)
        if found is None:
            raise client_error(ErrorCode.NO_SUCH_SPACE, name)
        return found

    def by_id(self, space_id: int) -> SpaceInfo | None:
        """Return the space with this id, None if there is none."""
        row = self._rows.get((SPACE_ID, space_id))
        return None if row is None else self._info(unpack(row))

    def spaces(self) -> Iterator[SpaceInfo]:
        """Return all spaces in the order of their ids."""
        for key, raw in sorted(self._rows.items()):
            if key[0] == SPACE_ID:
                yield self._info(unpack(raw))

    def _info(self, row: list[Any]) -> SpaceInfo:
        indexes = [index_of(unpack(raw)) for key, raw in sorted(self._rows.items()) if key[:2] == (INDEX_ID, row[0])]
        # A row of `_space`: 0 id, 2 name, 3 engine, 5 flags, 6 format; old versions wrote the flags as a text.
        options = row[5] if len(row) > 5 and isinstance(row[5], dict) else {}
        return SpaceInfo(
            row[0],
            row[2],
            row[3],
            tuple(row[6]) if len(row) > 6 else (),
            tuple(indexes),
            bool(options.get("is_sync", False)),
        )

    def synchronous(self) -> frozenset[int]:
        """Return the ids of the synchronous spaces."""
        # This is called for every piece of a log, so it only decodes rows that contain the name of the option.
        found = (unpack(raw) for key, raw in self._rows.items() if key[0] == SPACE_ID and b"is_sync" in raw)
        return frozenset(row[0] for row in found if len(row) > 5 and isinstance(row[5], dict) and row[5].get("is_sync"))

    def only(self, space_id: int) -> Definitions:
        """Return a copy with only the rows of one space, and with the rows of `_space` and `_index` about
        themselves."""
        wanted = (SPACE_ID, INDEX_ID, space_id)
        return Definitions({key: raw for key, raw in self._rows.items() if key[1] in wanted})


def primary_key(info: SpaceInfo) -> KeyDef:
    """Return the definition of the primary key of a space.

    Raises:
        BoxError: UNSUPPORTED, the space has no primary key, or one with an unknown collation or part.
    """
    if info.primary is None:
        raise unsupported(f"space '{info.name}'", "rows of a log: it has no primary key")
    try:
        return info.primary.key_def()
    except BoxError as error:
        raise unsupported(f"space '{info.name}'", f"rows of a log: {error.message}") from None
