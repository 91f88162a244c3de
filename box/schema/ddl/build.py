"""Work on all tuples of a space while the space changes: index builds, and checks of a stricter format.

```
            visited                     not visited yet
primary     |---------------------------|----------------------|
a change    goes to the work as well    stays where it is: the walk comes there
```

The walk takes a slice in every turn of the loop. A change of a visited tuple, or its rollback, reaches the work through
the primary index's listeners. A change that the work cannot accept (a wrong type, a duplicate) succeeds, and ends the
work with its error. Where tuples have versions, those of a transaction that is prepared, or rolled back later, are
processed in slices as well, and the walk waits for them. Nothing of the work is visible until its end, so that
cancelling it needs no undo. Meanwhile the space cannot be altered, truncated or dropped. Source: Tarantool's behaviour,
observed, and `memtx_space.c` of the 2.8 line.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, Final, Protocol

from box.data.codec import unpack
from box.data.format import TupleFormat
from box.data.keydef import SortKey
from box.errors import BoxError, ErrorCode, client_error, out_of_memory
from box.index import Index
from box.index.base import Entry
from box.index.bulk import PREPARED
from box.index.duplicate_key import duplicate_key
from box.index.ordered import EVERYTHING, ForwardCursor, OrderedIndex, is_within
from box.index.untracked import untrack_nodes
from box.long_work import LongWork
from box.schema.schema import Schema
from box.schema.space import Space

SLICE_TUPLES: Final = 256
SLICE_BYTES: Final = 1 << 17
SLICE_EFFORT: Final = 256
"""A turn visits at most this many tuples and bytes, and makes this effort (see `Index.effort`), which takes one or two
milliseconds.
"""
_EXTENT_SIZE: Final = 16384
"""The step in bytes in which Tarantool's indexes grow; its error for an index without memory names this number."""
SLICE_CHANGES: Final = 128
"""The number of concurrent changes that are first processed in one turn; it may be doubled."""
_TURNS_A_SIZE: Final = 256
"""The number of turns that end with waiting changes, after which the number processed in a turn is doubled. Otherwise a
program that makes more changes in each turn could keep the walk from ever ending.
"""
_GREATEST_SHIFT: Final = 20
"""The number of doublings after which the number of changes in a turn grows no further."""
_SLICES_UNTRACKED: Final = 16
"""The number of slices after which the new nodes of trees are hidden from the garbage collector, before it visits them
all."""

Finish = Callable[[], None]
"""The last step of a change of the dictionary that had to wait. It must be called at once."""
Deferred = Coroutine[Any, Any, Finish]
"""A change of the dictionary that has to wait for work on tuples, and raises what the work raises."""


Changes = Iterator[tuple[bytes | None, bytes | None]]
"""Pairs of a tuple before and after a change; None stands for no tuple."""


class Work(Protocol):
    """Work that has to be done with every tuple of a space."""

    title: str
    """The name that a console shows for the work in progress."""

    effort: int
    """What all visits so far have cost, in the unit of `Index.effort`; 0 if each is cheap."""

    def prepare(self, tuples: list[bytes], /) -> None:
        """Prepare for visits of these tuples. Raises nothing."""

    def visit(self, raw: bytes, /) -> object:
        """Process a tuple. Raises an error if the tuple is wrong."""

    def change(self, old: bytes | None, new: bytes | None) -> None:
        """Process a change of a visited tuple; None stands for an absent one."""

    def give_up(self) -> None:
        """Cancel the work."""


class FormatCheck:
    """Work that checks tuples against a format, with a function that raises an error."""

    title = "check of the format"
    effort = 0

    def __init__(self, validate: Callable[[bytes], object]) -> None:
        self.visit = validate

    def prepare(self, tuples: list[bytes]) -> None:
        """Do nothing: each tuple is checked by itself."""

    def change(self, old: bytes | None, new: bytes | None) -> None:
        if new is not None:
            self.visit(new)

    def give_up(self) -> None:
        """Do nothing: a check leaves nothing behind."""


class IndexBuild:
    """Work that fills new indexes of a space.

    Raises:
        OutOfMemory: the memory limit is reached.
        DuplicateKeyError: TUPLE_FOUND, a key is repeated.
        BoxError: the format refuses a tuple.
    """

    title = "index build"

    def __init__(self, schema: Schema, space: Space, indexes: Iterable[Index], new_format: TupleFormat) -> None:
        self._schema = schema
        self._space = space
        self._indexes = [index for index in indexes if isinstance(index, OrderedIndex)]
        self._validate = new_format.validate
        self.effort = 0
        count = 0 if space.primary is None else len(space.primary)
        if not schema.memory.extend(count * sum(index.place_cost for index in self._indexes)):
            raise out_of_memory(_EXTENT_SIZE, "mempool", "new slab")

    def prepare(self, tuples: list[bytes]) -> None:
        for index in self._indexes:
            index.prepare(tuples)

    def visit(self, raw: bytes) -> None:
        fields = self._validate(raw)
        for index in self._indexes:
            keys = index.keys_of(raw, fields)
            for key in keys:
                if not index.add(key, raw):
                    raise self._duplicate(index, key, raw)
            self.effort += index.effort * (len(keys) or 1)

    def change(self, old: bytes | None, new: bytes | None) -> None:
        old_fields = None if old is None else unpack(old)
        new_fields = None if new is None else self._validate(new)
        for index in self._indexes:
            old_keys = () if old is None or old_fields is None else index.stored_keys(old, old_fields)
            new_keys = () if new is None or new_fields is None else index.keys_of(new, new_fields)
            for key in new_keys:
                if key not in old_keys and index.find(key) is not None:
                    assert new is not None
                    raise self._duplicate(index, key, new)
            index.exchange(old_keys, new_keys, new)

    def _duplicate(self, index: Index, key: SortKey, new: bytes) -> BoxError:
        old = index.find(key)
        assert old is not None
        return duplicate_key(index, self._space.name, old, new)

    def give_up(self) -> None:
        for index in self._indexes:
            self._schema.release(index)


async def walk(schema: Schema, space: Space, work: Work, delay: str) -> None:
    """Visit all tuples of a space that is not empty; the error injection `delay` holds the walk up.

    Raises the errors of the work.

    Raises:
        SchemaError: ALTER_SPACE, the space is being altered already.
    """
    primary = space.primary
    assert isinstance(primary, OrderedIndex)
    if primary.has_slots:
        _visit_all(primary, space.engine.value_of, work)
        return
    cursor, value_of = ForwardCursor(primary, EVERYTHING), space.engine.value_of
    cursor.reads_base = True  # changes that lie over the base reach `_TakenAlong` when they are merged into it
    along = _TakenAlong(work, primary, cursor, value_of)
    try:
        title = f"{work.title}, space {space.name}"
        with altering(schema, space), schema.progress.work(title, len(primary)) as long_work:
            has_more, slices = True, 0
            if len(primary) > SLICE_TUPLES:
                # The request has taken a turn already, with the modules that the first index of a kind imports.
                await asyncio.sleep(0)
            while has_more:
                has_more = along.take_slice() or _visit_slice(cursor, value_of, work, long_work)
                slices += 1
                if slices % _SLICES_UNTRACKED == 0:
                    untrack_nodes(0)
                if schema.errinj.values[delay]:
                    await schema.errinj.wait_until_off(delay)
                    has_more = True
                elif has_more:
                    await asyncio.sleep(0)
                else:
                    primary.settle()
                along.check()
    except BaseException:
        work.give_up()
        raise
    finally:
        along.close()


def _visit_all(primary: OrderedIndex, value_of: Callable[[Entry | None], bytes | None], work: Work) -> None:
    """Visit all tuples in one turn. Changes between turns would move tuples that are not visited yet to other slots."""
    try:
        for entry in primary.values_list():
            raw = value_of(entry)
            if raw is not None:
                work.prepare([raw])
                work.visit(raw)
    except BaseException:
        work.give_up()
        raise


class _TakenAlong:
    """The changes of tuples that a walk has already visited."""

    def __init__(
        self,
        work: Work,
        primary: OrderedIndex,
        cursor: ForwardCursor,
        value_of: Callable[[Entry | None], bytes | None],
    ) -> None:
        self._work = work
        self._primary = primary
        self._cursor = cursor
        self._value_of = value_of
        self._waiting: deque[Changes] = deque()
        self._turns = 0
        """A counter: one more for each turn that leaves changes waiting, one less for each turn that leaves none."""
        self._error: BoxError | None = None
        primary.listeners.append(self._changed)
        primary.followers.append(self._follow)

    def _changed(self, key: SortKey, old: Entry | None, new: Entry | None) -> None:
        if is_within(key, self._cursor.bounds):
            return
        before, after = self._value_of(old), self._value_of(new)
        if before == after:
            return
        if self._waiting:
            self._follow(iter([(before, after)]))
        else:
            self._take(before, after)

    def _follow(self, changes: Changes) -> None:
        self._waiting.append(changes)

    def take_slice(self) -> bool:
        """Process one slice of waiting changes. Returns True if more wait, so that nothing new may be visited."""
        left = SLICE_CHANGES << min(self._turns // _TURNS_A_SIZE, _GREATEST_SHIFT)
        key_of, bounds = self._primary.key_of, self._cursor.bounds
        while left and self._waiting:
            changes = list(islice(self._waiting[0], left))
            for before, after in changes:
                raw = before if after is None else after
                if raw is not None and not is_within(key_of(unpack(raw)), bounds):
                    self._take(before, after)
            if len(changes) < left:
                self._waiting.popleft()
            left -= len(changes)
        self._turns = self._turns + 1 if self._waiting else max(0, self._turns - 1)
        return bool(self._waiting)

    def _take(self, before: bytes | None, after: bytes | None) -> None:
        if self._error is None:
            try:
                self._work.change(before, after)
            except BoxError as error:
                self._error = error

    def check(self) -> None:
        """Raise the error of the work, if it has failed."""
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Stop listening to changes."""
        self._primary.listeners.remove(self._changed)
        self._primary.followers.remove(self._follow)


def _visit_slice(
    cursor: ForwardCursor, value_of: Callable[[Entry | None], bytes | None], work: Work, long_work: LongWork
) -> bool:
    """Visit the next slice. Returns False if it was the last one."""
    entries = cursor.fetch(SLICE_TUPLES)
    long_work.rows += len(entries)
    size, most_effort = 0, work.effort + SLICE_EFFORT
    for used, entry in enumerate(entries, 1):
        if used % PREPARED == 1:
            prepared = map(value_of, entries[used - 1 : used - 1 + PREPARED])
            work.prepare([raw for raw in prepared if raw is not None])
        raw = value_of(entry)
        if raw is not None:
            work.visit(raw)
            size += len(raw)
            if size >= SLICE_BYTES or work.effort >= most_effort:
                cursor.rewind(used)
                return True
    return len(entries) == SLICE_TUPLES


async def deferred(schema: Schema, space: Space, work: Work, delay: str, finish: Finish) -> Finish:
    """Walk, then return the function that makes the change, without a task switch in between."""
    await walk(schema, space, work, delay)
    return finish


@contextmanager
def altering(schema: Schema, space: Space) -> Iterator[None]:
    """Mark a space as being altered for the duration of the block; other requests must not alter it then. Raises
    ALTER_SPACE if it is marked already.
    """
    check_not_altered(schema, space)
    schema.altered.add(space.id)
    try:
        yield
    finally:
        schema.altered.discard(space.id)


def check_not_altered(schema: Schema, space: Space) -> None:
    """Raise ALTER_SPACE if the space is being altered."""
    if space.id in schema.altered:
        raise client_error(ErrorCode.ALTER_SPACE, space.name, "the space is already being modified")
