"""The undo of large transactions whose write has failed, prepared in slices.

```
the write fails    slices: the former entries, by key, go to trees beside the indexes; the journal accepts nothing
                   meanwhile, and readers see the transaction, as they do while a write is in progress
publish            one turn: the trees are laid over the indexes (`OrderedIndex.lay_over`); the failure is reported
afterwards         slices merge them into the indexes' own trees
```

If a transaction has changed when the undo is due, its statements are undone one by one in one turn.

Changes of the dictionary replace indexes of spaces in the middle of a transaction. The undo concerns the indexes that a
space had before the oldest such change, and the changes made while it had them; the others vanish with their indexes.
The hooks of the statements undo the dictionary itself, after all indexes are as they were.

Transactions that fail together are undone together, with whatever was committed between them: the oldest change of each
key tells its former entry. The undo is published when the failure of the newest of them is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from operator import lt
from typing import TYPE_CHECKING, Any, Final, Protocol

from box.data.codec import unpack, unpack_many
from box.index.layered import GONE
from box.index.ordered import OrderedIndex
from box.schema.ddl.alter import FormerLayout
from box.txn.laying_over import MERGED_KEYS, lay_over
from box.txn.transaction import Transaction, applied_as

if TYPE_CHECKING:
    from box.index import Index
    from box.schema.space import Space
    from box.txn.transaction import Statement

UNDONE_STATEMENTS: Final = 1024
"""The number of statements from which on an undo is staged; fewer are undone in a few milliseconds."""
_SLICE_STATEMENTS: Final = 128
"""The number of statements looked at in one turn, which takes less than a millisecond."""
_SLICES_COMPARED: Final = 16
"""The number of slices whose order is checked in one turn."""


class OneChange(Protocol):
    """A commit of one change. Setting both tuples to None leaves nothing to undo."""

    space: Space
    old: bytes | None
    new: bytes | None


_Noted = tuple[bytes | None, list[Any] | None, bytes | None, list[Any] | None]
"""A change: the tuple before, its fields, the tuple after, its fields."""


class _OneByOne(Exception):
    """Raised if statements have to be undone one by one."""


class _IndexBefore:
    """The former entries of an index under the keys that were changed; GONE under keys that had none."""

    def __init__(self, index: OrderedIndex) -> None:
        self.index = index
        self.changes: Any = index.new_tree()
        self.growth = 0
        """The number of entries that the undo adds, less those that it removes."""
        self.size = 0
        """The bytes of tuples that the undo adds, less those that it removes."""

    def note(self, tuples: list[_Noted]) -> None:
        """Take in changes in their order; only the first change of each key counts."""
        if self.index.has_many_keys:
            self._note_many(tuples)
            return
        insert, key_of = self.changes.insert, self.index.key_of
        for old, old_fields, new, new_fields in tuples:
            if old_fields is not None and (key := key_of(old_fields)) is not None:
                assert old is not None
                insert(key, old)
                self.growth += 1
                self.size += len(old)
            if new_fields is not None and (key := key_of(new_fields)) is not None:
                insert(key, GONE)
                assert new is not None
                self.growth -= 1
                self.size -= len(new)

    def _note_many(self, tuples: list[_Noted]) -> None:
        """Take in changes of an index with several keys for a tuple."""
        insert, keys_of = self.changes.insert, self.index.stored_keys
        for old, old_fields, new, new_fields in tuples:
            if old is not None and old_fields is not None:
                for key in keys_of(old, old_fields):
                    insert(key, old)
                    self.growth += 1
            if new is not None and new_fields is not None:
                for key in keys_of(new, new_fields):
                    insert(key, GONE)
                    self.growth -= 1


class _SpaceBefore:
    """A space with its indexes before the commits, and its indexes at the changes being looked at."""

    def __init__(self, space: Space, former: list[dict[int, Index]]) -> None:
        """Begin before the first change. `former` has the indexes before each change of layout, oldest first."""
        self.indexes = list(map(_IndexBefore, _ordered(former[0] if former else space.indexes)))
        self.last = list(space.indexes.values())
        """The present indexes of the space."""
        self._layouts = [*(list(each.values()) for each in former), self.last]
        self._number = 0

    def note(self, statements: Sequence[Statement | OneChange]) -> None:
        """Record the tuples before consecutive changes."""
        present = self._layouts[self._number]
        noted = [before for before in self.indexes if before.index in present]
        if noted:
            olds, news = [statement.old for statement in statements], [statement.new for statement in statements]
            changed = list(zip(olds, _fields(olds), news, _fields(news), strict=True))
            for before in noted:
                before.note(changed)

    def next_layout(self) -> None:
        """Go on to the next layout: the changes that follow were made with its indexes."""
        self._number += 1


class StagedUndo:
    """The prepared undo of commits without versions of tuples, given oldest first.

    No transaction may commit before `publish`, and those that committed later must be undone by then. `is_published`:
    the commits have no effect any more.
    """

    def __init__(self, commits: Sequence[Transaction | OneChange]) -> None:
        self._commits = commits
        self._counts = [(txn, txn.count) for txn in commits if isinstance(txn, Transaction)]
        self._former: dict[Space, list[dict[int, Index]]] = {}
        self._spaces: dict[Space, _SpaceBefore] = {}
        self._is_ready = False
        self.is_published = False

    def steps(self) -> Iterator[None]:
        """Prepare the undo; each step of the iterator is a turn of the loop."""
        for txn, _ in self._counts:
            for hook in _former_layouts(sorted(txn.hooked, key=applied_as)):
                self._former.setdefault(hook.space, []).append(hook.indexes)
        try:
            for number, commit in enumerate(self._commits):
                if isinstance(commit, Transaction):
                    yield from self._look_at(commit)
                else:
                    self._before(commit.space).note([commit])
                    if number % _SLICE_STATEMENTS == 0:
                        yield
            for before in self._indexes():
                while before.index.merge(MERGED_KEYS):
                    yield
        except _OneByOne:
            return
        self._is_ready = True

    def _look_at(self, txn: Transaction) -> Iterator[None]:
        """Take in the changes of a transaction, in runs of one space and one layout."""
        statements = yield from _as_applied(txn)
        hooked = set(txn.hooked)
        for start in range(0, len(statements), _SLICE_STATEMENTS):
            part = [statement for statement in statements[start : start + _SLICE_STATEMENTS] if statement.applied]
            run: list[Statement] = []
            for statement in part:
                if run and run[0].space is not statement.space:
                    self._before(run[0].space).note(run)
                    run = []
                run.append(statement)
                if statement in hooked:
                    self._before(statement.space).note(run)
                    run = []
                    for hook in _former_layouts([statement]):
                        self._before(hook.space).next_layout()
            if run:
                self._before(run[0].space).note(run)
            yield

    def _before(self, space: Space | None) -> _SpaceBefore:
        """Return the former state of a space, made at the first call."""
        assert space is not None
        found = self._spaces.get(space)
        if found is None:
            found = self._spaces[space] = _SpaceBefore(space, self._former.get(space, []))
        return found

    def _indexes(self) -> Iterator[_IndexBefore]:
        for found in self._spaces.values():
            yield from found.indexes

    @property
    def is_valid(self) -> bool:
        """True if everything has been looked at, and transactions and indexes have not changed since."""
        return (
            self._is_ready
            and all(count == txn.count for txn, count in self._counts)
            and all(list(space.indexes.values()) == found.last for space, found in self._spaces.items())
            and not any(before.index.is_layered for before in self._indexes())
        )

    def publish(self, add_work: Callable[[Callable[[], bool]], None]) -> None:
        """Undo everything at once; `add_work` receives the merges that remain."""
        self.is_published = True
        for commit in self._commits:
            if not isinstance(commit, Transaction):
                commit.old = commit.new = None
        for space, found in self._spaces.items():
            changed = [before for before in found.indexes if before.changes]
            laid = [(before.index, before.changes, before.growth, before.size) for before in changed]
            lay_over(space, laid, add_work)
        for txn, _ in reversed(self._counts):
            txn.run_rollback_hooks()


def _ordered(indexes: dict[int, Index]) -> Iterator[OrderedIndex]:
    """Yield the indexes of a layout, all of which must be ordered by their keys."""
    for index in indexes.values():
        if not isinstance(index, OrderedIndex) or index.has_slots:
            raise _OneByOne
        yield index


def _former_layouts(statements: Sequence[Statement]) -> Iterator[FormerLayout]:
    """Yield the former layouts that changes of the dictionary have left in rollback hooks."""
    for statement in statements:
        for hook in statement.on_rollback:
            if isinstance(hook, FormerLayout):
                yield hook


def _as_applied(txn: Transaction) -> Generator[None, None, Sequence[Statement]]:
    """Return the statements in the order in which they changed the indexes; each step is a turn of the loop.

    A statement of a trigger may have changed them before the statement that the trigger belongs to.
    """
    statements, last, width = txn.statements, 0, _SLICE_STATEMENTS * _SLICES_COMPARED
    for start in range(0, len(statements), width):
        numbers = [statement.applied for statement in statements[start : start + width] if statement.applied]
        if not all(map(lt, [last, *numbers], numbers)):
            break
        last = numbers[-1] if numbers else last
        if start + width < len(statements):
            yield
    else:
        return statements
    placed: list[Statement | None] = [None] * (txn.changes + 1)
    for start in range(0, len(statements), width):
        for statement in statements[start : start + width]:
            placed[statement.applied] = statement
        yield
    found: list[Statement] = []
    for start in range(1, len(placed), width):
        found += [statement for statement in placed[start : start + width] if statement is not None]
        yield
    return found


def _fields(tuples: list[bytes | None]) -> list[Any]:
    """Return the decoded fields of each tuple, None for None."""
    there = [raw for raw in tuples if raw is not None]
    found = iter(unpack_many(there) or map(unpack, there))
    return [None if raw is None else next(found) for raw in tuples]
