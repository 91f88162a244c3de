"""Finds the definitions of spaces in a snapshot file, and the blocks that have the rows of one space.

Two facts make it possible to skip most of a file: the rows of a space are consecutive, and a space whose primary key is
a tree is sorted by it. So the first rows of two blocks limit what can be between them. The driver cuts the file into a
few pieces, drops those that cannot have a wanted row, and cuts the rest again until the pieces are small.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from box.data.codec import read_container, split_array
from box.data.marks import NIL
from box.errors import BoxError
from box.spark.blocks import BlockFile, BlockRange
from box.spark.definitions import INDEX_ID, SPACE_ID, Definitions, IndexInfo, SpaceInfo
from box.spark.key_ranges import KeyRange, sort_key
from box.spark.values import decode_value, raw_rows

_PIECES: Final = 16
"""The number of pieces into which a range is cut at a time."""
_PIECE_MIN: Final = 1 << 18
"""The bytes of a piece that is not cut again."""
_SORTED_TYPES: Final = frozenset({"unsigned", "integer", "string"})
"""Types of fields whose order in an index is that of their values in Python."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The wanted rows: those of one space, and with `keys` only those whose field number `key_field` is in this
    range."""

    space_id: int
    key_field: int = 0
    keys: KeyRange | None = None


def sorted_field(primary: IndexInfo | None) -> int | None:
    """Return the number of the field by which a snapshot of the space is sorted; None if the order is not known
    here."""
    if primary is None or primary.type != "tree":
        return None
    part = primary.parts[0]
    return None if part.path or part.collation or part.type not in _SORTED_TYPES else part.field


def read_definitions(file: BlockFile) -> Definitions:
    """Return all definitions of spaces.

    A snapshot has the system spaces first, so only its beginning is decoded.

    Raises:
        XlogError: a block is broken and the file has no `on_skip`.
    """
    definitions = Definitions()
    has_spaces = False
    for block in file.blocks(file.data):
        largest = 0
        for space_id, raw in raw_rows(block.rows):
            largest = max(largest, space_id)
            if space_id in (SPACE_ID, INDEX_ID):
                definitions.put(space_id, raw)
                has_spaces = True
        if largest > INDEX_ID and has_spaces:
            break
    return definitions


def find_space(path: str, name: str) -> SpaceInfo:
    """Return the definition of a space in a snapshot by name or, if the name is a number, by id.

    Raises:
        BoxError: NO_SUCH_SPACE, there is none.
    """
    with BlockFile(path) as file:
        return read_definitions(file).space(name)


@dataclass(frozen=True, slots=True)
class _Head:
    """The first row of a block that has a tuple: its space, and the wanted field of the tuple."""

    space_id: int
    key: Any


def _head(file: BlockFile, position: int, field: int) -> _Head | None:
    """Return the first row with a tuple of a block; None if there is none or the block cannot be read."""
    space_id, raw = first_tuple(file, position)
    if space_id < 0:
        return None
    fields = split_array(raw)
    key = decode_value(fields[field]) if len(fields) > field else None
    return _Head(space_id, sort_key(key))


def first_tuple(file: BlockFile, position: int) -> tuple[int, bytes]:
    """Return space id and tuple of the first row of a block that has both; (-1, b"") if there is none or the block is
    broken."""
    try:
        block = next(iter(file.blocks(BlockRange(position, file.data.end))), None)
        if block is None or block.position != position:
            return -1, b""
        space_id, raw = next(raw_rows(block.rows), (-1, b""))
        # A row without a tuple counts as one whose tuple is nil: neither is an array.
        return (space_id, raw) if read_container(raw or bytes((NIL,)))[0] == "array" else (-1, b"")
    except BoxError:
        return -1, b""


class _Share(Enum):
    """The share of wanted rows among the blocks between two first rows."""

    NONE = "no wanted row"
    SOME = "maybe a wanted row"
    ALL = "wanted rows only, as far as the space goes"


def narrow(file: BlockFile, scope: Scope) -> list[BlockRange]:
    """Return ranges that have every wanted row, in the order of the file, and few others."""
    return list(_joined(_narrowed(file, scope, file.data)))


def _narrowed(file: BlockFile, scope: Scope, wanted: BlockRange) -> Iterator[BlockRange]:
    size = wanted.end - wanted.start
    pieces = file.shares(min(_PIECES, size // _PIECE_MIN + 1), wanted)
    heads = [_head(file, piece.start, scope.key_field) for piece in pieces]
    following = _head(file, wanted.end, scope.key_field) if wanted.end < file.data.end else None
    for piece, first, after in zip(pieces, heads, [*heads[1:], following], strict=True):
        share = _held(scope, first, after)
        if share is _Share.ALL or (share is _Share.SOME and (len(pieces) == 1 or _is_small(piece))):
            yield piece
        elif share is _Share.SOME:
            yield from _narrowed(file, scope, piece)


def _is_small(piece: BlockRange) -> bool:
    return piece.end - piece.start <= _PIECE_MIN


def _held(scope: Scope, first: _Head | None, after: _Head | None) -> _Share:
    """Return the share of wanted rows in the blocks between two first rows."""
    if first is None:
        return _Share.SOME
    if after is None or after.space_id != first.space_id:
        is_over = first.space_id == scope.space_id and scope.keys is not None and scope.keys.is_before(first.key)
        return _Share.NONE if is_over else _Share.SOME
    if first.space_id != scope.space_id:
        return _Share.NONE
    if scope.keys is None:
        return _Share.ALL
    if scope.keys.is_before(first.key) or scope.keys.is_after(after.key):
        return _Share.NONE
    return _Share.ALL if scope.keys.holds(first.key) and scope.keys.holds(after.key) else _Share.SOME


def _joined(ranges: Iterable[BlockRange]) -> Iterator[BlockRange]:
    """Return the ranges with adjacent ones joined."""
    last: BlockRange | None = None
    for item in ranges:
        if last is not None and last.end == item.start:
            last = BlockRange(last.start, item.end)
            continue
        if last is not None:
            yield last
        last = item
    if last is not None:
        yield last


def is_past(scope: Scope, rows: bytes) -> bool:
    """Return whether neither this block nor any later one has a wanted row, because its first key is above the
    range."""
    if scope.keys is None:
        return False
    space_id, raw = next(raw_rows(rows), (-1, b""))
    if space_id != scope.space_id:
        return False
    fields = split_array(raw)
    return len(fields) > scope.key_field and scope.keys.is_before(sort_key(decode_value(fields[scope.key_field])))
