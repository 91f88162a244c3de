"""Definitions of spaces and indexes, decoded from rows of `_space` and `_index`, and from nothing else of the node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from box.errors import ErrorCode, client_error

SPACE_ID: Final = 280
"""The id of `_space`: `[id, owner, name, engine, field_count, options, format]`."""
INDEX_ID: Final = 288
"""The id of `_index`: `[space id, id, name, type, options, parts]`."""
USER_SPACES: Final = 512
"""System spaces have smaller ids."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of an index key. `field` counts from 0; `path` is the place inside the field, empty for the field
    itself."""

    field: int
    type: str
    is_nullable: bool = False
    has_collation: bool = False
    path: str = ""


@dataclass(frozen=True, slots=True)
class IndexInfo:
    """An index as `_index` defines it; `type` is `tree`, `hash`, `rtree` or `bitset`. Index 0 is the primary key."""

    id: int
    name: str
    type: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class SpaceInfo:
    """A space as `_space` and `_index` define it. `format` holds the decoded field maps."""

    id: int
    name: str
    engine: str
    format: tuple[dict[str, Any], ...]
    indexes: tuple[IndexInfo, ...]

    @property
    def primary(self) -> IndexInfo | None:
        """The primary key, if the space has one."""
        return self.indexes[0] if self.indexes and self.indexes[0].id == 0 else None


def index_of(row: list[Any]) -> IndexInfo:
    """The index that a row of `_index` defines."""
    return IndexInfo(row[1], row[2], str(row[3]).lower(), tuple(_part(part) for part in _parts(row)))


def _parts(row: list[Any]) -> list[Any]:
    """The parts in either notation; before 1.6.5 they were a count and pairs at the end of the row."""
    if isinstance(row[5], list):
        return row[5]
    return [row[start : start + 2] for start in range(6, 6 + 2 * row[5], 2)]


def _part(part: Any) -> Part:
    """`[0, "unsigned"]`, or a map with `field`, `type`, `is_nullable`, `collation` and `path`."""
    if not isinstance(part, dict):
        return Part(int(part[0]), str(part[1]).lower())
    return Part(
        int(part["field"]),
        str(part.get("type", "scalar")).lower(),
        bool(part.get("is_nullable", False)),
        part.get("collation") is not None,
        str(part.get("path", "")),
    )


class Definitions:
    """Rows of `_space` and `_index` by their keys; `spaces` puts them together."""

    def __init__(self) -> None:
        self._spaces: dict[int, list[Any]] = {}
        self._indexes: dict[tuple[int, int], list[Any]] = {}

    def put(self, space_id: int, row: list[Any]) -> None:
        """Take over a decoded tuple of `_space` or `_index`; those of other spaces are passed over."""
        if space_id == SPACE_ID:
            self._spaces[row[0]] = row
        elif space_id == INDEX_ID:
            self._indexes[row[0], row[1]] = row

    def remove(self, space_id: int, key: list[Any]) -> None:
        """Forget the row with this primary key."""
        if space_id == SPACE_ID:
            self._spaces.pop(key[0], None)
        elif space_id == INDEX_ID:
            self._indexes.pop((key[0], key[1]), None)

    def space(self, name: str) -> SpaceInfo:
        """The space by its name, or by its id where `name` is a number. Raises NO_SUCH_SPACE."""
        found = next((info for info in self.spaces() if name in (info.name, str(info.id))), None)
        if found is None:
            raise client_error(ErrorCode.NO_SUCH_SPACE, name)
        return found

    def spaces(self) -> list[SpaceInfo]:
        """All spaces by id."""
        indexes: dict[int, list[IndexInfo]] = {}
        for (space_id, _), row in sorted(self._indexes.items()):
            indexes.setdefault(space_id, []).append(index_of(row))
        return [
            SpaceInfo(space_id, row[2], row[3], tuple(row[6]) if len(row) > 6 else (), tuple(indexes.get(space_id, ())))
            for space_id, row in sorted(self._spaces.items())
        ]
