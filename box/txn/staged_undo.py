"""The undo of large transactions whose write has failed, made ready in slices.

```
the write fails    slices: what was there before, by key, goes to trees beside the indexes; the journal takes nothing
                   meanwhile, and readers see the transaction, as they do while a write is on its way
publish            one turn: the trees are laid over the indexes (`OrderedIndex.lay_over`); the failure is told
afterwards         slices merge them into the indexes' own trees
```

Only where statements have changed indexes and nothing else. Otherwise, and where a transaction is not what it was when
the undo is due, statements are taken back one by one in one turn.

Several that fail together are undone together, with whatever was committed between them: of each key the oldest change
says what was there before. It is done when the newest of them is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Protocol

from box.data.codec import unpack, unpack_many
from box.index.layered import GONE
from box.index.ordered import OrderedIndex
from box.txn.laying_over import MERGED_KEYS, lay_over
from box.txn.transaction import Transaction

if TYPE_CHECKING:
    from box.schema.space import Space
    from box.txn.transaction import Statement

UNDONE_STATEMENTS: Final = 1024
"""Statements of a transaction from which on it is worth this; fewer are undone in a few milliseconds."""
_SLICE_STATEMENTS: Final = 128
"""Looked at in less than a millisecond."""


class OneChange(Protocol):
    """A commit of one change, which finds nothing to be undone where both tuples are None."""

    space: Space
    old: bytes | None
    new: bytes | None


class _OneByOne(Exception):
    """Statements have to be taken back one by one."""


class _IndexBefore:
    """The former entries of an index under the keys that the transaction has changed; GONE where there was none."""

    def __init__(self, index: OrderedIndex) -> None:
        self.index = index
        self.changes: Any = index.new_tree()
        self.growth = 0
        """Entries that it had more than now."""

    def note(self, tuples: list[tuple[bytes | None, list[Any] | None, list[Any] | None]]) -> None:
        """Changes in their order: the tuple before, its fields, those of the tuple after. The first of a key counts."""
        insert, key_of = self.changes.insert, self.index.key_of
        for old, old_fields, new_fields in tuples:
            if old_fields is not None and (key := key_of(old_fields)) is not None:
                insert(key, old)
                self.growth += 1
            if new_fields is not None and (key := key_of(new_fields)) is not None:
                insert(key, GONE)
                self.growth -= 1


class StagedUndo:
    """Of commits whose tuples have no versions, the oldest first. Nobody may commit before `publish`, and whoever
    committed behind them has been undone by then. `is_published`: they have no effect any more."""

    def __init__(self, commits: Sequence[Transaction | OneChange]) -> None:
        self._commits = commits
        self._counts = [(txn, len(txn.statements)) for txn in commits if isinstance(txn, Transaction)]
        self._spaces: dict[Space, list[_IndexBefore]] = {}
        self._is_ready = False
        self.is_published = False

    def steps(self) -> Iterator[None]:
        """Make it ready; a step is a turn."""
        try:
            for number, commit in enumerate(self._commits):
                if isinstance(commit, Transaction):
                    yield from self._look_at(commit)
                else:
                    self._note(commit.space, [commit])
                    if number % _SLICE_STATEMENTS == 0:
                        yield
            for before in self._indexes():
                while before.index.merge(MERGED_KEYS):
                    yield
        except _OneByOne:
            return
        self._is_ready = True

    def _look_at(self, txn: Transaction) -> Iterator[None]:
        applied = 0
        for start in range(0, len(txn.statements), _SLICE_STATEMENTS):
            part = [statement for statement in txn.statements[start : start + _SLICE_STATEMENTS] if statement.applied]
            if any(getattr(statement, "on_rollback", ()) for statement in part):
                raise _OneByOne
            for statement in part:
                if statement.applied <= applied:
                    raise _OneByOne  # a trigger's statement came before its own
                applied = statement.applied
            for space, run in groupby(part, attrgetter("space")):
                self._note(space, list(run))
            yield

    def _note(self, space: Space, statements: Sequence[Statement | OneChange]) -> None:
        found = self._spaces.get(space)
        if found is None:
            found = self._spaces[space] = _indexes_of(space)
        olds = [statement.old for statement in statements]
        changed = list(zip(olds, _fields(olds), _fields([statement.new for statement in statements]), strict=True))
        for before in found:
            before.note(changed)

    def _indexes(self) -> Iterator[_IndexBefore]:
        for found in self._spaces.values():
            yield from found

    @property
    def is_valid(self) -> bool:
        """Everything has been looked at, and the spaces have the same indexes."""
        return (
            self._is_ready
            and all(count == len(txn.statements) for txn, count in self._counts)
            and all(
                list(space.indexes.values()) == [before.index for before in found]
                for space, found in self._spaces.items()
            )
            and not any(before.index.is_layered for before in self._indexes())
        )

    def publish(self, add_work: Callable[[Callable[[], bool]], None]) -> None:
        """Undo everything at once; `add_work` takes what is left to be done."""
        self.is_published = True
        for commit in self._commits:
            if not isinstance(commit, Transaction):
                commit.old = commit.new = None
        for space, found in self._spaces.items():
            lay_over(space, [(before.index, before.changes, before.growth) for before in found], add_work)


def _indexes_of(space: Space | None) -> list[_IndexBefore]:
    if space is None or space.system_trigger is not None:
        raise _OneByOne
    found = []
    for index in space.indexes.values():
        if not isinstance(index, OrderedIndex):
            raise _OneByOne
        found.append(_IndexBefore(index))
    return found


def _fields(tuples: list[bytes | None]) -> list[Any]:
    """Of each tuple; None where there is none."""
    there = [raw for raw in tuples if raw is not None]
    found = iter(unpack_many(there) or map(unpack, there))
    return [None if raw is None else next(found) for raw in tuples]
