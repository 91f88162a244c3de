"""A large transaction of another instance, executed invisibly in slices and then published as a whole.

```
go_on, go_on, ...    each a turn of the loop: changes go to trees beside the indexes (`StagedIndex`), which later
                     changes look at first; a listener of each index notices when others change what was looked at
publish              one turn: the trees are laid over the indexes (`OrderedIndex.lay_over`)
afterwards           slices merge them into the indexes' own trees, while readers look at both
```

The transaction takes its place in the order of commits when it is published, so nothing that it has read may have
changed until then (`is_valid`). Anything unusual ends the attempt: the caller then executes the rows in one go, with
the usual outcome and errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from box.index.layered import GONE
from box.index.memory import MemoryQuota
from box.index.ordered import OrderedIndex
from box.index.untracked import untrack
from box.txn.fast_run import add_statements, change_rows
from box.txn.laying_over import lay_over
from box.txn.transaction import Statement
from box.wire.change import UPSERT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from box.data.keydef import SortKey
    from box.index.base import Entry
    from box.schema.schema import Schema
    from box.schema.space import Space
    from box.slices import SlicedWork
    from box.txn.transaction import Transaction
    from box.txn.write_plan import Planner, WritePlan
    from box.wire.row import Row

STAGED_ROWS: Final = 1024
"""The number of rows from which on a transaction is staged; fewer are executed in a few milliseconds."""
_SLICE_ROWS: Final = 64
"""The number of rows executed in one turn, which takes a few tenths of a millisecond."""


class StagedIndex:
    """An index with the changes of the staged transaction, in the interface of an index.

    `changes` is a tree of the entries that differ. It has GONE under removed keys, and under keys that were looked for
    but not found, so that the listener notices when others insert them.
    """

    __slots__ = (
        "changes",
        "definition",
        "growth",
        "has_many_keys",
        "index",
        "is_stale",
        "is_unique",
        "key_of",
        "keys_of",
        "memory",
        "name",
        "size",
        "stored_keys",
    )

    def __init__(self, index: OrderedIndex, memory: MemoryQuota) -> None:
        self.index = index
        self.definition = index.definition
        self.name = index.name
        self.is_unique = index.is_unique
        self.has_many_keys = index.has_many_keys
        if not index.has_many_keys:
            self.key_of = index.key_of
        self.keys_of = index.keys_of
        self.stored_keys = index.stored_keys
        self.changes: Any = index.new_tree()
        self.growth = 0
        """The number of entries added to the index, less those removed."""
        self.size = 0
        """The bytes of tuples added to a primary index, less those removed."""
        self.memory = None if index.memory is None else memory
        self.is_stale = False
        """True if others have changed an entry that was looked at."""
        index.listeners.append(self._changed)

    def _changed(self, key: SortKey, old: Entry | None, new: Entry | None) -> None:
        """Mark the staged changes as stale if others have changed an entry that was looked at."""
        if self.changes.get(key) is not None:
            self.is_stale = True

    def find(self, key: SortKey) -> Entry | None:
        """Return the entry of a full key, as `Index.find` does."""
        found = self.changes.get(key)
        if found is None:
            found = self.index.find(key)
            if found is None and key is not None:
                self.changes[key] = GONE
            return found
        return None if found is GONE else found

    def add_new(self, keys: list[SortKey], entries: list[Entry]) -> int:
        """Add nothing: many entries at once are no faster here."""
        return 0

    def replace_present(self, keys: list[SortKey], entries: list[Entry]) -> None:
        """Replace nothing, for the same reason."""

    def replace(self, key: SortKey, entry: Entry) -> Entry | None:
        """Put an entry under a key and return the former one, as `Index.replace` does."""
        if key is None:
            return None
        old = self.changes.get(key)
        if old is None:
            old = self.index.find(key)
        elif old is GONE:
            old = None
        if old is None:
            self.growth += 1
        self.changes[key] = entry
        if self.memory is not None:
            self._grow(self.memory, None if old is None else old, entry)
        return old

    def _grow(self, memory: MemoryQuota, old: bytes | None, new: bytes | None) -> None:
        """Count the bytes of a changed tuple, also against the memory limit."""
        growth = (0 if new is None else len(new)) - (0 if old is None else len(old))
        self.size += growth
        memory.room -= growth + self.index.weight * ((old is None) - (new is None))

    def add(self, key: SortKey, entry: Entry) -> bool:
        """Put an entry under a key that has none, as `Index.add` does."""
        if self.find(key) is not None:
            return False
        self.replace(key, entry)
        return True

    def put(self, key: SortKey, entry: Entry) -> None:
        """Put an entry under a key, as `Index.put` does."""
        self.replace(key, entry)

    def move(self, old_key: SortKey, new_key: SortKey, entry: Entry) -> None:
        """Remove one key and put an entry under another, as `Index.move` does."""
        self.remove(old_key)
        self.put(new_key, entry)

    def exchange(self, old_keys: Sequence[SortKey], new_keys: Sequence[SortKey], entry: Entry) -> None:
        """Move an entry from old keys to new ones, as `Index.exchange` does."""
        for key in old_keys:
            if key not in new_keys:
                self.remove(key)
        for key in new_keys:
            self.replace(key, entry)

    def remove(self, key: SortKey) -> None:
        """Remove a key, as `Index.remove` does."""
        if key is not None and (old := self.find(key)) is not None:
            self.growth -= 1
            self.changes[key] = GONE
            if self.memory is not None:
                self._grow(self.memory, old, None)

    def close(self) -> None:
        """Stop listening to the index."""
        self.index.listeners.remove(self._changed)


class _StagedSpace:
    """A space with the changes of the staged transaction; it has the attributes that the fast path needs."""

    def __init__(self, space: Space, plan: WritePlan, memory: MemoryQuota) -> None:
        self.space = space
        self.name = space.name
        self.has_triggers = False
        self.indexes: dict[int, StagedIndex] = {}
        for iid, index in space.indexes.items():
            assert isinstance(index, OrderedIndex)
            self.indexes[iid] = StagedIndex(index, memory)
        self.write_plan = plan.on(list(self.indexes.values()), memory)
        self._plan_of_space = plan

    def index(self, iid: int) -> StagedIndex:
        return self.indexes[iid]

    @property
    def is_valid(self) -> bool:
        """True if the space has kept its layout, and the entries that were looked at are unchanged."""
        space = self.space
        return (
            space.write_plan is self._plan_of_space
            and not space.has_triggers
            and not any(index.is_stale for index in self.indexes.values())
        )


class _NotUsual(Exception):
    """Raised if the fast path does not serve a space."""


class StagedTransaction:
    """The rows of one transaction of another instance. The object owns them; call `close` at the end."""

    def __init__(self, schema: Schema, planner: Planner, rows: list[Row], counters: list[int]) -> None:
        self.rows = rows
        self.statements: list[Statement] = []
        self._size = 0
        self._memory = MemoryQuota(0)
        """The memory limit of the instance as it will be: its indexes do not count the changes yet."""
        self._schema = schema
        self._planner = planner
        self._counters = counters
        self._kinds: dict[int, int] = {}
        self._spaces: dict[int, _StagedSpace] = {}
        self._applied = 0
        self._is_usual = True

    def space(self, space_id: int) -> Any:
        """Return a space with the staged changes.

        Raises:
            NoSuchSpaceError: NO_SUCH_SPACE.
        """
        staged = self._spaces.get(space_id)
        if staged is None:
            staged = self._spaces[space_id] = self._stage(self._schema.space(space_id))
        return staged

    def _stage(self, space: Space) -> _StagedSpace:
        """Make the staged form of a space, or raise `_NotUsual`."""
        plan = self._planner.plan(space)
        if not plan.is_usual or space.has_triggers:
            raise _NotUsual
        if any(not isinstance(index, OrderedIndex) or index.is_layered for index in space.indexes.values()):
            raise _NotUsual
        return _StagedSpace(space, plan, self._memory)

    # -- steps

    def go_on(self) -> bool:
        """Execute a slice of rows; returns False when all are done or the transaction turns out to be unusual."""
        done = len(self.statements)
        rows = self.rows[done : done + _SLICE_ROWS]
        self._memory.set_limit(self._schema.memory.available)  # others may have used memory since the last slice
        try:
            changes = change_rows(self, self._planner, [row.type for row in rows], [row.body for row in rows])
        except _NotUsual:
            self._is_usual = False
            return False
        changes = [(staged.space, old, new) for staged, old, new in changes]  # type: ignore[attr-defined]
        self._applied = add_statements(self.statements, changes, rows, self._applied)
        for statement, row in zip(self.statements[done:], rows, strict=False):
            row.is_commit = False
            self._size += len(row.body)
            self._kinds[row.type] = self._kinds.get(row.type, 0) + 1
            if not statement.applied and row.type == UPSERT:
                self._is_usual = False  # the change depends on a tuple that no listener watches
        untrack(self.statements[done:])
        if len(changes) < len(rows) or not self.is_valid:
            self._is_usual = False
        return self._is_usual and len(self.statements) < len(self.rows)

    @property
    def is_valid(self) -> bool:
        """True if all that was executed would still have the same outcome."""
        return self._is_usual and all(staged.is_valid for staged in self._spaces.values())

    def publish(self, txn: Transaction, work: SlicedWork) -> None:
        """Make all changes visible at once, as those of `txn`; `work` merges them afterwards."""
        txn.is_fast = False
        txn.statements, txn.changes = self.statements, self._applied
        txn.gathered, txn.rows, txn.size = len(self.statements), self.rows, self._size
        txn.spaces = {staged.space: None for staged in self._spaces.values()}
        self.rows[-1].is_commit = True
        for kind, count in self._kinds.items():
            self._counters[kind] += count
        spaces = list(self._spaces.values())
        self.close()
        for staged in spaces:
            changes = [(each.index, each.changes, each.growth, each.size) for each in staged.indexes.values()]
            lay_over(staged.space, changes, work.add)

    def close(self) -> None:
        """Stop listening to the indexes. May be called more than once."""
        spaces, self._spaces = self._spaces, {}
        for staged in spaces.values():
            for index in staged.indexes.values():
                index.close()
