"""The write plan of a space as one transaction sees it, where tuples have versions.

The changes of `box.txn.fast_path` run with it unchanged. It checks tuples as the plan of the space does. Its indexes
look up what the transaction sees, record that as read, and write versions instead of tuples. So a statement in a
transaction needs the general path only for triggers, sequences, and constraints.

While a transaction is lone (`TransactionManager.begin_lone`) it changes tuples in place, and only records its reads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from box.txn.transaction import Statement
from box.txn.write_plan import WritePlan
from box.wire.change import REPLACE

if TYPE_CHECKING:
    from box.data.keydef import SortKey
    from box.index import Index
    from box.schema.space import Space
    from box.txn.exchange import Changed, Keys
    from box.txn.transaction import Transaction
    from box.txn.versions import Write

_OF_INDEXES: Final = frozenset({"add", "find", "put", "remove", "replace", "secondary"})
_COPIED: Final = tuple(name for name in WritePlan.__slots__ if name not in _OF_INDEXES)
"""The attributes that a transaction's plan copies from the plan of the space; the others use `VersionedIndex`."""


class Versions(Protocol):
    """The part of the storage that plans use; see `box.txn.mvcc`."""

    def find(self, txn: Transaction, index: Index, key: SortKey) -> bytes | None:
        """Return the tuple with a full key, or None, and record the read."""

    def peek(self, txn: Transaction, index: Index, key: SortKey) -> bytes | None:
        """Return the tuple with a full key, or None, without recording the read."""

    def put(self, txn: Transaction, statement: Statement, index: Index, key: SortKey, value: bytes | None) -> Write:
        """Write a value under a key."""

    def add_point(self, txn: Transaction, index: Index, key: SortKey) -> None:
        """Record that the transaction depends on no other tuple under a key."""

    def add_writes(self, txn: Transaction, statement: Statement, writes: list[Write]) -> None:
        """Note the writes of a statement that has ended without an error."""


class VersionedIndex:
    """One index as a transaction reads and changes it, with the part of the index's interface that plans use."""

    __slots__ = (
        "_index",
        "_records_puts",
        "_storage",
        "_txn",
        "has_many_keys",
        "is_unique",
        "key_of",
        "keys_of",
        "name",
        "statement",
        "stored_keys",
        "writes",
    )

    def __init__(self, storage: Versions, txn: Transaction, index: Index) -> None:
        self._storage = storage
        self._txn = txn
        self._index = index
        self._records_puts = index.is_unique and index.iid > 0
        self.is_unique = index.is_unique
        self.has_many_keys = index.has_many_keys
        self.key_of = index.key_of
        self.keys_of = index.keys_of
        self.stored_keys = index.stored_keys
        self.name = index.name
        self.statement: Statement
        """The statement that is being executed, and its writes so far."""
        self.writes: list[Write]

    def find(self, key: SortKey) -> bytes | None:
        """Return the tuple with a full key, or None, and record the read."""
        return self._storage.find(self._txn, self._index, key)

    def peek(self, key: SortKey) -> bytes | None:
        """Return the tuple with a full key, or None, without recording the read."""
        return self._storage.peek(self._txn, self._index, key)

    def put(self, key: SortKey, value: bytes) -> None:
        """Write a tuple under a key."""
        self.writes.append(self._storage.put(self._txn, self.statement, self._index, key, value))
        if self._records_puts:
            self._storage.add_point(self._txn, self._index, key)

    def add(self, key: SortKey, value: bytes) -> bool:
        """Write a tuple under a key that has none. Returns False if it has one. The look-up is recorded as a read."""
        if self._storage.find(self._txn, self._index, key) is not None:
            return False
        self.put(key, value)
        return True

    def replace(self, key: SortKey, value: bytes) -> bytes | None:
        """Write a tuple under a key, and return the one that it hides, or None."""
        old = self._storage.peek(self._txn, self._index, key)
        self.put(key, value)
        return old

    def remove(self, key: SortKey) -> None:
        """Write the absence of a tuple under a key."""
        self.writes.append(self._storage.put(self._txn, self.statement, self._index, key, None))

    def move(self, old_key: SortKey, new_key: SortKey, value: bytes) -> None:
        """Write the absence of a tuple under `old_key`, and a tuple under `new_key`."""
        self.remove(old_key)
        self.put(new_key, value)

    def exchange(self, old_keys: Keys, new_keys: Keys, value: bytes) -> None:
        """Write a tuple under `new_keys`, and the absence of a tuple under the other keys in `old_keys`."""
        for key in old_keys:
            if key not in new_keys:
                self.remove(key)
        for key in new_keys:
            self.put(key, value)


class LoneIndex(VersionedIndex):
    """One index as a lone transaction reads and changes it: reads are recorded, changes are made in place."""

    __slots__ = ()

    def put(self, key: SortKey, value: bytes) -> None:
        self._index.put(key, value)
        if self._records_puts:
            self._storage.add_point(self._txn, self._index, key)

    def replace(self, key: SortKey, value: bytes) -> bytes | None:
        old: bytes | None = self._index.replace(key, value)
        return old

    def remove(self, key: SortKey) -> None:
        self._index.remove(key)


class VersionedPlan(WritePlan):
    """The plan of a space for one transaction. It is valid as long as `plan` is that of the space, and `is_lone` that
    of the transaction.
    """

    __slots__ = ("_indexes", "_primary", "_storage", "is_lone", "plan", "txn")

    def __init__(self, storage: Versions, txn: Transaction, space: Space, plan: WritePlan) -> None:
        for name in _COPIED:
            setattr(self, name, getattr(plan, name))
        self.plan = plan
        self.txn = txn
        self._storage = storage
        self.is_lone = txn.is_lone
        made = LoneIndex if txn.is_lone else VersionedIndex
        self._indexes = [made(storage, txn, index) for index in space.indexes.values()]
        primary: Any = self._indexes[0]
        self._primary = primary
        self.add, self.put, self.remove, self.replace = primary.add, primary.put, primary.remove, primary.replace
        self.secondary: list[Any] = self._indexes[1:]

    def run(self, space: Space, kind: int, change: Callable[..., Changed], *args: Any) -> Statement:
        """Execute `change(plan, space, *args)`, a change by the primary key, such as those of
        `box.txn.fast_path.CHANGES`.

        Returns the statement, whose row is made at the commit.

        Raises:
            BoxError: the error of the change; nothing is changed.
        """
        # The outcome of a REPLACE does not depend on the tuple that it replaces, so it does not count as read.
        requires_old = kind != REPLACE
        self.find = self._primary.find if requires_old else self._primary.peek
        if self.is_lone:
            old, new = change(self, space, *args)
            return Statement(space, kind, old, new, None, None)
        statement = Statement(space, kind, None, None, None, None)
        statement.requires_old = requires_old
        writes: list[Write] = []
        for index in self._indexes:
            index.statement, index.writes = statement, writes
        statement.old, statement.new = change(self, space, *args)
        if writes:
            self._storage.add_writes(self.txn, statement, writes)
        return statement
