"""Changes of a space's indexes, and how to take them back.

`TupleStorage` keeps plain tuples: a change is visible to everybody at once, undoing it puts the previous tuple back.
`box.txn.mvcc.MvccStorage` keeps versions instead; it replaces the few methods that look into index entries.

One tuple is in all indexes of its space or in none: every check comes before the first change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, ClassVar

from box.data.codec import unpack
from box.data.show import tuple_str
from box.errors import BoxError, ErrorCode, client_error
from box.index.view import ListView, TupleView, open_view
from box.txn.staged_undo import OneChange, StagedUndo
from box.txn.transaction import Transaction

if TYPE_CHECKING:
    from box.data.keydef import SortKey
    from box.index import Cursor, Index
    from box.schema.space import Space
    from box.txn.transaction import Statement


Keys = Sequence[Any]
"""The keys of a tuple in one index: one in most, any number where `Index.has_many_keys`."""


class Mode(Enum):
    """The meaning of a tuple with the same primary key to `TupleStorage.store`."""

    INSERT = auto()
    """It must not exist."""
    REPLACE = auto()
    """It is replaced if it exists."""
    UPDATE = auto()
    """It must be the tuple that is being changed."""


def duplicate(index: Index, space: Space, old: bytes, new: bytes) -> BoxError:
    """The error of two tuples with the same unique key."""
    return client_error(ErrorCode.TUPLE_FOUND, index.name, space.name, tuple_str(old), tuple_str(new))


def changed_key(primary: Index, space: Space) -> BoxError:
    """The error of a change that gives a tuple another primary key."""
    return client_error(ErrorCode.CANT_UPDATE_PRIMARY_KEY, primary.name, space.name)


def unique_index(space: Space, iid: int) -> Index:
    """The index by which one tuple is found. NO_SUCH_INDEX_ID, MORE_THAN_ONE_TUPLE."""
    index = space.index(iid)
    if not index.is_unique:
        raise client_error(ErrorCode.MORE_THAN_ONE_TUPLE)
    return index


class TupleStorage:
    """Indexes without versions."""

    allows_yield: ClassVar[bool] = False
    """Whether an open transaction may wait for something: others would see its changes."""

    def __init__(self) -> None:
        self.waiting: dict[Statement, None] = {}
        """Statements of open transactions that wait nevertheless: changes of the dictionary, for an index build."""
        self._undos: dict[Transaction, StagedUndo] = {}
        """Of transactions whose write has failed, and who are about to be told."""
        self.add_work: Callable[[Callable[[], bool]], None] = _do_at_once
        """Takes steps that can wait: each call does some of the work, and tells whether there is more."""

    @property
    def has_versions(self) -> bool:
        """Whether somebody has an open transaction that has to see other tuples than the indexes have."""
        return False

    @property
    def open_transactions(self) -> Collection[Transaction]:
        """Transactions that have read or written and are not prepared. Without versions none stays open."""
        return ()

    def abandon(self) -> Iterator[None]:
        """Let go of what is open when the instance has ended or died: it is neither committed nor rolled back. Each
        step is a turn."""
        yield from ()

    def may_go_to_view(self, txn: Transaction) -> None:
        """The transaction reads confirmed data only, which may take it to a read view."""

    # -- reading

    def find_by(self, txn: Transaction | None, space: Space, iid: int, key: list[Any]) -> bytes | None:
        """The tuple that an update or a delete is about, by a full key of a unique index. As `unique_index`,
        EXACT_MATCH, KEY_PART_TYPE."""
        index = unique_index(space, iid)
        return self.find(txn, index, index.key_def.parse(key, True))

    def find(self, txn: Transaction | None, index: Index, key: SortKey) -> bytes | None:
        """The tuple with this full key, as the transaction sees it."""
        found: bytes | None = index.find(key)
        return found

    def peek(self, txn: Transaction | None, index: Index, key: SortKey) -> bytes | None:
        """The same, where the outcome of the statement does not depend on the answer."""
        found: bytes | None = index.find(key)
        return found

    def scan(self, txn: Transaction | None, index: Index, iterator: int, key: list[Any]) -> Iterator[bytes]:
        """The visible tuples of an iteration; `key` is the user's, maybe partial. Checks the key at once."""
        return index.scan(iterator, key)

    def places(
        self, txn: Transaction | None, index: Index, iterator: int, key: list[Any], after: SortKey | None
    ) -> Iterator[tuple[SortKey, bytes]]:
        """The visible tuples of a page with their keys in the container; `after` is the key behind which it begins."""
        return index.places(iterator, key, after)

    def select(
        self, txn: Transaction | None, index: Index, iterator: int, key: list[Any], offset: int, limit: int
    ) -> list[bytes]:
        """The tuples of an iteration from number `offset` on, at most `limit`."""
        return index.select(iterator, key, offset, limit)

    def count(self, txn: Transaction | None, index: Index, iterator: int, key: list[Any]) -> int:
        """The number of tuples of an iteration."""
        return index.count(iterator, key)

    def least(self, txn: Transaction | None, index: Index, key: list[Any]) -> bytes | None:
        """The least tuple whose key begins with `key`."""
        found: bytes | None = index.min(key)
        return found

    def greatest(self, txn: Transaction | None, index: Index, key: list[Any]) -> bytes | None:
        """The greatest tuple whose key begins with `key`."""
        found: bytes | None = index.max(key)
        return found

    def size(self, txn: Transaction | None, index: Index) -> int:
        """The number of visible tuples."""
        return len(index)

    def random(self, txn: Transaction | None, index: Index, seed: int) -> bytes | None:
        """Some tuple."""
        found: bytes | None = index.random(seed)
        return found

    def read_view(self, space: Space) -> list[bytes]:
        """All tuples in the order of the primary index, as of now; changes on their way to the log are in it."""
        return [] if space.primary is None else space.primary.values_list()

    def value_of(self, entry: Any) -> bytes | None:
        """The tuple that an entry of an index stands for, changes on their way to the log included."""
        value: bytes | None = entry
        return value

    def open_view(self, space: Space) -> TupleView:
        """The same tuples, to be read in slices, without what a change of the dictionary that waits has written."""
        primary = space.primary
        if primary is None:
            return ListView(())
        return open_view(primary, [(key, entry) for key, entry in self._hidden(space, primary)])

    def view_of(self, index: Index, cursor: Cursor) -> TupleView:
        """The tuples that a fresh cursor selects, as they are now for readers outside of transactions, in slices."""
        return open_view(index, (), cursor)

    def _hidden(self, space: Space, primary: Index) -> Iterator[tuple[SortKey, bytes | None]]:
        """The keys under which a view shows something else than the index has."""
        for statement in self.waiting:
            if statement.space is space:
                yield primary.key_of(unpack(statement.first)), statement.old

    # -- changing

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
        """Put `new` into all indexes in place of `old`, which UPDATE has and the other modes look up.

        Sets the statement's tuples. Errors as `check`.
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
        """The tuple that `new` replaces and its own keys by index. `matters`: the outcome depends on the former.

        ER_NO_SUCH_INDEX_ID (no primary index), ER_TUPLE_FOUND, ER_CANT_UPDATE_PRIMARY_KEY, and errors of
        `Index.keys_of`.
        """
        primary = space.index(0)
        key = primary.key_of(fields)
        present = self.find(txn, primary, key) if matters else self.peek(txn, primary, key)
        if mode is Mode.REPLACE:
            old = present
        elif present is not None:
            if present != old:
                raise duplicate(primary, space, present, new)
        elif mode is Mode.UPDATE:
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
                        raise duplicate(index, space, present, new)
            all_keys.append(keys)
        if old is not None:
            check_old(space, old)
        return old, all_keys

    def drop(self, txn: Transaction, space: Space, statement: Statement, old: bytes) -> None:
        """Take a tuple out of all indexes. Errors of `Index.keys_of`."""
        check_old(space, old)
        statement.old = old
        self._write(txn, space, statement, [])
        txn.changes = statement.applied = txn.changes + 1

    def _write(self, txn: Transaction, space: Space, statement: Statement, keys: list[Keys]) -> None:
        """Change the indexes from `statement.old` to `statement.new`, whose keys are given."""
        exchange(space, statement.old, statement.new, keys)

    def undo(self, txn: Transaction, statement: Statement) -> None:
        """Take an applied statement back. Nothing newer may have changed the same tuple."""
        space, old = statement.space, statement.old
        assert space is not None
        exchange(space, statement.new, old, [] if old is None else keys_of(space, old))

    def prepare_undo(self, commits: Sequence[Transaction | OneChange]) -> Iterator[None]:
        """The write of these, which are large or between large ones, has failed: make their undo short. The oldest
        comes first; a step of the iterator is a turn."""
        undo = StagedUndo(commits)
        for txn in commits:
            if isinstance(txn, Transaction):
                self._undos[txn] = undo
        yield from undo.steps()

    def undo_whole(self, txn: Transaction) -> bool:
        """Take all of a transaction back at once, if that can be done in another way than by `undo` of its statements,
        newest first; False: it cannot."""
        undo = self._undos.pop(txn, None)
        if undo is None:
            return False
        if not undo.is_published:
            if not undo.is_valid:
                self._undos.clear()  # the others are taken back one by one as well
                return False
            undo.publish(self.add_work)
        return True

    def forget_undos(self) -> None:
        """Drop undos that were made ready and did not come to pass."""
        self._undos.clear()

    # -- the life of a transaction

    def grows(self, txn: Transaction) -> None:
        """The transaction has become large, or larger. None of its statements is open."""

    def make_ready(self, txn: Transaction) -> Iterator[None] | None:
        """Steps to be done before a transaction is prepared, each a turn; None if the commit need not wait."""
        return None

    def prepare(self, txn: Transaction) -> None:
        """The transaction takes its place in the order of commits."""

    def commit(self, txn: Transaction) -> None:
        """The transaction is committed."""

    def forget(self, txn: Transaction) -> None:
        """The transaction was rolled back."""

    def space_altered(self, space: Space) -> None:
        """The space has other indexes now."""

    def alteration(self, txn: Transaction) -> AbstractContextManager[None]:
        """Surrounds the system trigger of a statement, which may give spaces other indexes."""
        return nullcontext()


def _do_at_once(step: Callable[[], bool]) -> None:
    while step():
        pass


def keys_of(space: Space, raw: bytes) -> list[Keys]:
    """The keys of a stored tuple by index."""
    fields = unpack(raw)
    return [index.stored_keys(raw, fields) for index in space.indexes.values()]


def check_old(space: Space, old: bytes) -> None:
    """Raise what an index raises that cannot tell the keys of a tuple that is about to go. Those of the others follow
    from the tuple's format."""
    for index in space.indexes.values():
        if index.has_many_keys:
            index.keys_of(old, unpack(old))


def exchange(space: Space, old: bytes | None, new: bytes | None, keys: list[Keys]) -> None:
    """Replace `old` by `new`, which has these `keys` by index (none if it is None), in all indexes."""
    indexes = space.indexes.values()
    if new is None:
        assert old is not None
        for index, old_keys in zip(indexes, keys_of(space, old), strict=True):
            for key in old_keys:
                index.remove(key)
    elif old is not None and len(keys) > 1:
        for index, old_keys, new_keys in zip(indexes, keys_of(space, old), keys, strict=True):
            index.exchange(old_keys, new_keys, new)
    else:
        for index, new_keys in zip(indexes, keys, strict=True):
            for key in new_keys:
                index.put(key, new)
