"""Reads of an index for `lua/modules/box/direct.lua`, which asks before whether the running fiber may use them.

They ignore access rights, transactions and versions. One tuple is left in a window, memory that Lua reads, in the form
of `struct tuple` of `internal/tuple.lua` (its size, its format's id, its bytes), so that Lua copies it without making a
string of it. The window lives as long as the functions.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from box.data.codec import unpack
from box.data.types import FieldType
from box.errors import BoxError
from box.index.placed import PlacedIndex
from lua.bindings.binding import Outcome
from lua.bindings.cursor import ReadAhead
from lua.bindings.tuple_images import TupleImages

if TYPE_CHECKING:
    from box.index import Index
    from box.schema.space import Space

_Resume = Callable[[ReadAhead, int, int, bytes, int], bool]
"""Moves a new cursor behind the tuples that a loop has passed: see `go_on`. Returns False if the loop is at its end."""
_WINDOW_SIZE = 4096
"""The bytes of the memory in which a read leaves its tuple for Lua."""
_WINDOW_HEADER = 8
"""The bytes before the tuple in this memory: its size and the id of its format, which Lua writes."""
_WITHOUT_TEXT = frozenset((FieldType.UNSIGNED, FieldType.INTEGER, FieldType.NUMBER, FieldType.ARRAY))
"""The types of key parts that refuse a string, whether it is text or bytes."""


class Searches(NamedTuple):
    """Reads of an index by a key of any parts that Lua passes as they are: numbers and strings.

    Each returns False where the general read raises an error. `get` and `select` return the number of tuples if none or
    one is found, which is left in the window at `address`. If there are more, or the tuple does not fit, `select`
    returns what `TupleImages.blob` does. `get` returns False if the tuple does not fit.
    """

    get: Callable[..., int]
    select: Callable[..., int | tuple[bytes, bytes]]
    count: Callable[..., int]
    address: int
    begin: Callable[..., Outcome] | None
    """Begins a loop: returns what `select` does for its first `size` tuples, with the version of the index as the
    second value. None if the index has loops that cannot continue after a tuple. The fourth value, if there is one, has
    the numbers of the tuples, as `go_on` needs them.
    """
    go_on: Callable[..., Outcome] | None
    """Continues a loop that `begin` began. Returns True if the rest of the first tuples is still valid, None at the
    end, otherwise the number of a cursor and its next tuples.
    """
    has_many_keys: bool
    """True if a loop can meet a tuple more than once. `go_on` then has to know how often it has met the last one."""


def _window() -> tuple[int, memoryview, memoryview]:
    """Return the address of a new window, its header and the bytes for a tuple."""
    memory = (ctypes.c_uint8 * _WINDOW_SIZE)()
    window = memoryview(memory).cast("B")
    return ctypes.addressof(memory), window[:_WINDOW_HEADER].cast("I"), window[_WINDOW_HEADER:]


def look_up_in(
    index: Index, salt: Callable[[], bytes]
) -> tuple[Callable[[Any], int | bytes | None], Callable[[Any], bool], int]:
    """Return a look-up by key, a function that tells whether a key has a tuple, and the address of a window.

    The look-up leaves the tuple in the window and returns the size. A tuple that does not fit is returned as bytes with
    salt.
    """
    address, header, data = _window()
    limit = len(data)

    def look_up(key: Any) -> int | bytes | None:
        raw: bytes | None = index.find(key)
        if raw is None:
            return None
        size = len(raw)
        if size > limit:
            return raw + salt()
        data[:size] = raw
        header[0] = size
        return size

    def has(key: Any) -> bool:
        return index.find(key) is not None

    return look_up, has, address


def searches_in(space: Space, index: Index, images: TupleImages, keep: Callable[[ReadAhead], int]) -> Searches:
    """Return the searches in an index of a space. Their tuples get `images`; `keep` gives a number to a cursor."""
    address, header, data = _window()
    room, format_id = len(data), index.definition.space_id
    is_unique = index.is_unique
    may_have_text = any(part.type not in _WITHOUT_TEXT for part in index.definition.parts)

    def get(*parts: Any) -> int:
        if not is_unique:
            return False
        try:
            raw = index.get(_decoded(parts) if may_have_text else list(parts))
        except BoxError:
            return False
        if raw is None:
            return 0
        size = len(raw)
        if size > room:
            return False
        data[:size] = raw
        header[0] = size
        return 1

    def select(iterator: int, offset: int, limit: int, *parts: Any) -> int | tuple[bytes, bytes]:
        try:
            rows = index.select(iterator, _decoded(parts) if may_have_text else list(parts), offset, limit)
        except BoxError:
            return False
        if not rows:
            return 0
        if len(rows) == 1 and (size := len(raw := rows[0])) <= room:
            data[:size] = raw
            header[0] = size
            return 1
        return images.blob(rows, format_id)

    def count(iterator: int, *parts: Any) -> int:
        try:
            return index.count(iterator, _decoded(parts) if may_have_text else list(parts))
        except BoxError:
            return False

    def begin(iterator: int, size: int, *parts: Any) -> Outcome:
        # The code of `select` once more, since another call would take a quarter longer.
        try:
            rows = index.select(iterator, _decoded(parts) if may_have_text else list(parts), 0, size)
        except BoxError:
            return False
        if not rows:
            return 0, index.version
        if len(rows) == 1 and (size := len(raw := rows[0])) <= room:
            data[:size] = raw
            header[0] = size
            return 1, index.version
        blob, sizes = images.blob(rows, format_id)
        return blob, index.version, sizes

    has_many_keys = index.has_many_keys

    def resume(cursor: ReadAhead, version: int, used: int, last: bytes, nth: int) -> bool:
        if not has_many_keys:
            cursor.go_after(last)
        elif index.version == version:
            cursor.skip(used)
        else:
            return cursor.go_after_nth(last, nth)
        return True

    if isinstance(index, PlacedIndex):
        begin_placed = _begin_placed(index, images)
        return Searches(
            get, select, count, address, begin_placed, _going_on(space, index, images, keep, _resume_placed), False
        )
    if index.has_slots:
        return Searches(get, select, count, address, None, None, has_many_keys)
    return Searches(get, select, count, address, begin, _going_on(space, index, images, keep, resume), has_many_keys)


def _going_on(
    space: Space, index: Index, images: TupleImages, keep: Callable[[ReadAhead], int], resume: _Resume
) -> Callable[..., Outcome]:
    """Return the function `go_on` of an index."""
    format_id = index.definition.space_id

    def go_on(
        iterator: int, key: bytes, count: int, version: int, used: int, last: bytes, nth: int, size: int
    ) -> Outcome:
        """Continue after the number `used` of the first `count` tuples. `last` is that tuple, which occurs `nth` times
        so far, or the numbers of the tuples.
        """
        if space.indexes.get(index.iid) is not index:
            return None
        if used < count and index.version == version:
            return True
        cursor = ReadAhead(space, index, iterator, unpack(key))
        if used and not resume(cursor, version, used, last, nth):
            return None
        rows = cursor.fetch(size, 0)
        return (keep(cursor), *images.blob(rows, format_id)) if rows else None

    return go_on


def _begin_placed(index: PlacedIndex, images: TupleImages) -> Callable[..., Outcome]:
    """Return the function `begin` of an index that numbers its tuples."""
    format_id = index.definition.space_id

    def begin(iterator: int, size: int, *parts: Any) -> Outcome:
        try:
            numbers = index.first_numbers(iterator, _decoded(parts), size)
        except BoxError:
            return False
        if not numbers:
            return 0, index.version
        blob, sizes = images.blob(index.entries_of(numbers), format_id)
        return blob, index.version, sizes, array("Q", numbers).tobytes()

    return begin


def _resume_placed(cursor: ReadAhead, version: int, used: int, numbers: bytes, nth: int) -> bool:
    cursor.go_after_number(array("Q", numbers)[used - 1])
    return True


def _decoded(parts: tuple[Any, ...]) -> list[Any]:
    """Return the parts of a key, of which texts have arrived as bytes."""
    return [part.decode("utf-8", "surrogateescape") if type(part) is bytes else part for part in parts]
