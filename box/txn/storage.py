"""Changes of a space's indexes, and their undo.

`TupleStorage` keeps plain tuples: a change is visible to all at once, and its undo puts the former tuple back.
`box.txn.mvcc.MvccStorage` keeps versions instead; it overrides the methods that look into index entries.

A tuple is in all indexes of its space or in none, so every check comes before the first change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, ClassVar

from box.data.codec import unpack
from box.errors import BoxError, ErrorCode, client_error
from box.index.duplicate_key import duplicate_key
from box.index.frozen import FrozenIndex
from box.index.view import ListView, TupleView, open_view
from box.txn.exchange import Keys, check_old, exchange, keys_of, note_refused
from box.txn.open_definitions import OpenDefinitions
from box.txn.staged_undo import OneChange, StagedUndo
from box.txn.transaction import Transaction

if TYPE_CHECKING:
    from box.data.keydef import SortKey
    from box.index import Cursor, Index
    from box.index.ordered import OrderedIndex
    from box.schema.space import Space
    from box.txn.transaction import Statement
    from box.txn.versioned_plan import VersionedPlan
    from box.txn.write_plan import WritePlan


class Mode(Enum):
    """What `TupleStorage.store` expects of the present tuple with the same primary key."""

    INSERT = auto()
    """No tuple may be present."""
    REPLACE = auto()
    """The present tuple, if any, is replaced."""
    UPDATE = auto()
    """The present tuple must be the one that is being changed."""


def changed_key(primary: Index, space: Space) -> BoxError:
    """Return the error for a change of a tuple's primary key: CANT_UPDATE_PRIMARY_KEY."""
    return client_error(ErrorCode.CANT_UPDATE_PRIMARY_KEY, primary.name, space.name)


def unique_index(space: Space, iid: int) -> Index:
    """Return an index that finds a single tuple.

    Raises:
        ClientError: NO_SUCH_INDEX_ID or MORE_THAN_ONE_TUPLE.
    """
    index = space.index(iid)
    if not index.is_unique:
        raise client_error(ErrorCode.MORE_THAN_ONE_TUPLE)
    return index


class TupleStorage:
    """Indexes without versions of tuples."""

    allows_yield: ClassVar[bool] = False
    """True if an open transaction may wait, because others do not see its changes."""

    def __init__(self) -> None:
        self.waiting: dict[Statement, None] = {}
        """Statements of open transactions that may wait although others see their changes: changes of the dictionary,
        during an index build.
        """
        self.definitions = OpenDefinitions()
        """What an open transaction has changed in the dictionary; only where transactions may wait."""
        self._undos: dict[Transaction, StagedUndo] = {}
        """The prepared undos of transactions whose write has failed, until the failure is reported to their callers."""
        self.add_work: Callable[[Callable[[], bool]], None] = _do_at_once
        """Accepts a deferred step: each call does some of the work and returns True while there is more."""

    @property
    def has_versions(self) -> bool:
        """True if some open transaction must not see exactly the tuples of the indexes."""
        return False

    @property
    def open_transactions(self) -> Collection[Transaction]:
        """Transactions that have read or written and are not prepared; without versions none stays open."""
        return ()

    def abandon(self) -> Iterator[None]:
        """Drop what is open after the instance has ended or crashed, without commit or rollback.

        Each step of the iterator is a turn of the loop.
        """
        yield from ()

    def may_go_to_view(self, txn: Transaction) -> None:
        """Note that a transaction reads confirmed data only, which may take it to a read view."""

    # -- reading

    def holds_versions(self, index: Index) -> bool:
        """Return True if entries of the index may be slots with versions instead of tuples."""
        return False

    def find_by(self, txn: Transaction | None, space: Space, iid: int, key: list[Any]) -> bytes | None:
        """Return the tuple that an update or a delete is about, found by a full key of a unique index, or None.

        Raises:
            ClientError: NO_SUCH_INDEX_ID, MORE_THAN_ONE_TUPLE, EXACT_MATCH or KEY_PART_TYPE.
        """
        index = unique_index(space, iid)
        return self.find(txn, index, index.key_def.parse(key, True))

    def find(self, txn: Transaction | None, index: Index, key: SortKey) -> bytes | None:
        """Return the tuple with a full key, as the transaction sees it, or None. Records the read."""
        found: bytes | None = index.find(key)
        return found

    def peek(self, txn: Transaction | None, index: Index, key: SortKey) -> bytes | None:
        """Return the tuple with a full key, or None, without recording the read.

        The outcome of the statement must not depend on it.
        """
        found: bytes | None = index.find(key)
        return found

    def scan(self, txn: Transaction | None, index: Index, iterator: int, key: list[Any]) -> Iterator[bytes]:
        """Return an iterator over the visible tuples. `key` is the user's, possibly partial, and is checked at once."""
        return index.scan(iterator, key)

    def places(
        self, txn: Transaction | None, index: Index, iterator: int, key: list[Any], after: SortKey | None
    ) -> Iterator[tuple[SortKey, bytes]]:
        """Yield the visible tuples of a page with their keys in the container; `after` is the key after which the page
        begins.
        """
        return index.places(iterator, key, after)

    def select(
        self, txn: Transaction | None, index: Index, iterator: int, key: list[Any], offset: int, limit: int
    ) -> list[bytes]:
        """Return at most `limit` tuples of an iteration, from number `offset` on."""
        return index.select(iterator, key, offset, limit)

    def count(self, txn: Transaction | None, index: Index, iterator: int, key: list[Any]) -> int:
        """Return the number of tuples of an iteration."""
        return index.count(iterator, key)

    def least(self, txn: Transaction | None, index: Index, key: list[Any]) -> bytes | None:
        """Return the least tuple whose key begins with `key`, or None."""
        found: bytes | None = index.min(key)
        return found

    def greatest(self, txn: Transaction | None, index: Index, key: list[Any]) -> bytes | None:
        """Return the greatest tuple whose key begins with `key`, or None."""
        found: bytes | None = index.max(key)
        return found

    def size(self, txn: Transaction | None, index: Index) -> int:
        """Return the number of visible tuples."""
        return len(index)

    def random(self, txn: Transaction | None, index: Index, seed: int) -> bytes | None:
        """Return a tuple chosen by `seed`, or None."""
        found: bytes | None = index.random(seed)
        return found

    def read_view(self, space: Space) -> list[bytes]:
        """Return all present tuples in the order of the primary index, including changes on their way to the log."""
        return [] if space.primary is None else space.primary.values_list()

    def value_of(self, entry: Any) -> bytes | None:
        """Return the tuple that an index entry stands for, including a change on its way to the log."""
        value: bytes | None = entry
        return value

    def open_view(self, space: Space) -> TupleView:
        """Open a view of the tuples of `read_view`, to be read in slices.

        It does not show what a waiting change of the dictionary has written.
        """
        primary = space.primary
        if primary is None:
            return ListView(())
        return open_view(primary, [(key, entry) for key, entry in self._hidden(space, primary)])

    def view_of(self, index: Index, cursor: Cursor) -> TupleView:
        """Open a view of the tuples that a fresh cursor selects, as readers outside of transactions see them now."""
        return open_view(index, (), cursor)

    def freeze(self, index: OrderedIndex) -> FrozenIndex:
        """Return the index as readers outside of transactions see it now; it stays so until it is closed."""
        return FrozenIndex(index)

    def _hidden(self, space: Space, primary: Index) -> Iterator[tuple[SortKey, bytes | None]]:
        """Yield the keys, with their tuples, under which a view differs from the index."""
        for statement in self.waiting:
            if statement.space is space:
                yield primary.key_of(unpack(statement.first)), statement.old

    # -- changing

    def plan_of(self, txn: Transaction, space: Space, plan: WritePlan) -> VersionedPlan:
        """Return the plan by which the next change of a transaction concerns only the indexes; only where tuples have
        versions. `plan` is that of the space.
        """
        raise NotImplementedError("tuples have no versions")

    def store(
        self,
        txn: Transaction,
        space: Space,
        statement: Statement,
        new: bytes,
        fields: list[Any],
        mode: Mode,
        old: bytes | None = None,
    ) -> None:
        """Put `new` into all indexes in place of `old`, which UPDATE passes and the other modes look up.

        Sets `old` and `new` of the statement.

        Raises:
            BoxError: as `check`; nothing is changed.
        """
        old, keys = self.check(txn, space, new, fields, mode, old, matters=statement.requires_old)
        statement.old, statement.new = old, new
        self._write(txn, space, statement, keys)
        txn.changes = statement.applied = txn.changes + 1

    def check(
        self,
        txn: Transaction | None,
        space: Space,
        new: bytes,
        fields: list[Any],
        mode: Mode,
        old: bytes | None = None,
        *,
        matters: bool = True,
    ) -> tuple[bytes | None, list[Keys]]:
        """Check that `new` may be stored. Returns the tuple that it replaces, and its keys by index.

        `matters`: the outcome of the statement depends on the replaced tuple.

        Raises:
            ClientError: NO_SUCH_INDEX_ID (no primary index), TUPLE_FOUND or CANT_UPDATE_PRIMARY_KEY.
            BoxError: an error of `Index.keys_of`.
        """
        primary = space.index(0)
        key = primary.key_of(fields)
        present = self.find(txn, primary, key) if matters else self.peek(txn, primary, key)
        if mode is Mode.REPLACE:
            old = present
        elif present is not None:
            if present != old:
                note_refused(space, primary, old, fields, has_versions=self.allows_yield)
                raise duplicate_key(primary, space.name, present, new)
        elif mode is Mode.UPDATE:
            note_refused(space, primary, old, fields, has_versions=self.allows_yield)
            raise changed_key(primary, space)
        all_keys: list[Keys] = [(key,)]
        indexes = iter(space.indexes.values())
        next(indexes)
        for index in indexes:
            keys = index.keys_of(new, fields)
            if index.definition.unique:
                for key in keys:
                    present = self.find(txn, index, key)
                    if present is not None and present != old:
                        note_refused(space, index, old, fields, has_versions=self.allows_yield)
                        raise duplicate_key(index, space.name, present, new)
            all_keys.append(keys)
        if old is not None:
            check_old(space, old)
        return old, all_keys

    def make_versions(self, txn: Transaction) -> None:
        """Give the changes of a lone transaction versions: it is not lone any more. Only where tuples have versions."""
        raise NotImplementedError("tuples have no versions")

    def drop(self, txn: Transaction, space: Space, statement: Statement, old: bytes) -> None:
        """Remove a tuple from all indexes.

        Raises:
            BoxError: an error of `Index.keys_of`; nothing is changed.
        """
        check_old(space, old)
        statement.old = old
        self._write(txn, space, statement, [])
        txn.changes = statement.applied = txn.changes + 1

    def _write(self, txn: Transaction, space: Space, statement: Statement, keys: list[Keys]) -> None:
        """Change the indexes from `statement.old` to `statement.new`, whose keys are given."""
        exchange(space, statement.old, statement.new, keys)

    def undo(self, txn: Transaction, statement: Statement) -> None:
        """Undo an applied statement. No later change of the same tuple may remain."""
        space, old = statement.space, statement.old
        assert space is not None
        exchange(space, statement.new, old, [] if old is None else keys_of(space, old))

    def prepare_undo(self, commits: Sequence[Transaction | OneChange]) -> Iterator[None]:
        """Prepare the undo of commits whose write has failed, oldest first; they are large or between large ones.

        Each step of the iterator is a turn of the loop.
        """
        undo = StagedUndo(commits)
        for txn in commits:
            if isinstance(txn, Transaction):
                self._undos[txn] = undo
        yield from undo.steps()

    def undo_whole(self, txn: Transaction) -> bool:
        """Undo a whole transaction at once, if that is possible.

        Returns False if the caller has to call `undo` for each statement, newest first.
        """
        undo = self._undos.pop(txn, None)
        if undo is None:
            return False
        if not undo.is_published:
            if not undo.is_valid:
                self._undos.clear()  # the other transactions are undone one by one as well
                return False
            undo.publish(self.add_work)
        return True

    def forget_undos(self) -> None:
        """Drop prepared undos that were not used."""
        self._undos.clear()

    # -- the life of a transaction

    def grows(self, txn: Transaction) -> None:
        """Process the new statements of a growing transaction, none of which is open."""

    def make_ready(self, txn: Transaction) -> Iterator[None] | None:
        """Return steps to do before a transaction is prepared, each a turn of the loop; None if there are none."""
        return None

    def prepare(self, txn: Transaction) -> None:
        """Give a transaction its place in the order of commits."""

    def commit(self, txn: Transaction) -> None:
        """Commit the changes of a transaction."""

    def forget(self, txn: Transaction) -> None:
        """Drop what is known of a transaction that was rolled back."""

    def forget_writes(self, txn: Transaction) -> None:
        """Drop what is known of the changes of an open transaction that `undo_whole` has taken back."""

    def space_altered(self, space: Space) -> None:
        """Note that a space has other indexes now."""

    def alteration(self, txn: Transaction) -> AbstractContextManager[None]:
        """Return a context for the system trigger of a statement, which may replace indexes of spaces."""
        return nullcontext()


def _do_at_once(step: Callable[[], bool]) -> None:
    """Do all the work of a deferred step now."""
    while step():
        pass
