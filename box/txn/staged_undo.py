"""The undo of large transactions whose write has failed, made ready in slices.

```
the write fails    slices: what was there before, by key, goes to trees beside the indexes; the journal takes nothing
                   meanwhile, and readers see the transaction, as they do while a write is on its way
publish            one turn: the trees are laid over the indexes (`OrderedIndex.lay_over`); the failure is told
afterwards         slices merge them into the indexes' own trees
```

Where a transaction is not what it was when the undo is due, statements are taken back one by one in one turn.

Changes of the dictionary give spaces other indexes in the middle of a transaction. What counts are those that a space
had before the oldest of them, and of the changes those that came while it had them; the others go with their indexes.
The dictionary itself is taken back by the statements' hooks, when all indexes are as they were.

Several that fail together are undone together, with whatever was committed between them: of each key the oldest change
says what was there before. It is done when the newest of them is told.
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
"""Statements of a transaction from which on it is worth this; fewer are undone in a few milliseconds."""
_SLICE_STATEMENTS: Final = 128
"""Looked at in less than a millisecond."""
_SLICES_COMPARED: Final = 16
"""Slices of statements of which the order is looked at in one turn."""


class OneChange(Protocol):
    """A commit of one change, which finds nothing to be undone where both tuples are None."""

    space: Space
    old: bytes | None
    new: bytes | None


_Noted = tuple[bytes | None, list[Any] | None, bytes | None, list[Any] | None]
"""A change: the tuple before, its fields, the tuple after, its fields."""


class _OneByOne(Exception):
    """Statements have to be taken back one by one."""


class _IndexBefore:
    """The former entries of an index under the keys that the transaction has changed; GONE where there was none."""

    def __init__(self, index: OrderedIndex) -> None:
        self.index = index
        self.changes: Any = index.new_tree()
        self.growth = 0
        """Entries that it had more than now."""
        self.size = 0
        """Bytes in them."""

    def note(self, tuples: list[_Noted]) -> None:
        """Changes in their order. The first of a key counts."""
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
    """A space with the indexes that it had before the commits, and those that it has where they are being looked at."""

    def __init__(self, space: Space, former: list[dict[int, Index]]) -> None:
        """`former`: its indexes before each change of its layout, the oldest first."""
        self.indexes = list(map(_IndexBefore, _ordered(former[0] if former else space.indexes)))
        self.last = list(space.indexes.values())
        """Those of the space now."""
        self._layouts = [*(list(each.values()) for each in former), self.last]
        self._number = 0

    def note(self, statements: Sequence[Statement | OneChange]) -> None:
        """Take in changes that followed each other."""
        present = self._layouts[self._number]
        noted = [before for before in self.indexes if before.index in present]
        if noted:
            olds, news = [statement.old for statement in statements], [statement.new for statement in statements]
            changed = list(zip(olds, _fields(olds), news, _fields(news), strict=True))
            for before in noted:
                before.note(changed)

    def next_layout(self) -> None:
        """The changes that follow were made with the next indexes."""
        self._number += 1


class StagedUndo:
    """Of commits whose tuples have no versions, the oldest first. Nobody may commit before `publish`, and whoever
    committed behind them has been undone by then. `is_published`: they have no effect any more."""

    def __init__(self, commits: Sequence[Transaction | OneChange]) -> None:
        self._commits = commits
        self._counts = [(txn, len(txn.statements)) for txn in commits if isinstance(txn, Transaction)]
        self._former: dict[Space, list[dict[int, Index]]] = {}
        self._spaces: dict[Space, _SpaceBefore] = {}
        self._is_ready = False
        self.is_published = False

    def steps(self) -> Iterator[None]:
        """Make it ready; a step is a turn."""
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
        """Everything has been looked at, and the spaces have the same indexes."""
        return (
            self._is_ready
            and all(count == len(txn.statements) for txn, count in self._counts)
            and all(list(space.indexes.values()) == found.last for space, found in self._spaces.items())
            and not any(before.index.is_layered for before in self._indexes())
        )

    def publish(self, add_work: Callable[[Callable[[], bool]], None]) -> None:
        """Undo everything at once; `add_work` takes what is left to be done."""
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
    for index in indexes.values():
        if not isinstance(index, OrderedIndex):
            raise _OneByOne
        yield index


def _former_layouts(statements: Sequence[Statement]) -> Iterator[FormerLayout]:
    for statement in statements:
        for hook in statement.on_rollback:
            if isinstance(hook, FormerLayout):
                yield hook


def _as_applied(txn: Transaction) -> Generator[None, None, Sequence[Statement]]:
    """The statements in the order in which they have changed the indexes: one of a trigger may have come before that
    which the trigger belongs to. A step is a turn."""
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
    """Of each tuple; None where there is none."""
    there = [raw for raw in tuples if raw is not None]
    found = iter(unpack_many(there) or map(unpack, there))
    return [None if raw is None else next(found) for raw in tuples]
