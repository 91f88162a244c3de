"""Versions of tuples, so that open transactions may yield and do not see each other (`memtx_use_mvcc_engine`).

An index entry is the bytes of a tuple while all readers see the same, and a `Slot` while they see different values (see
`box.txn.versions`). A statement writes the new value of a key, a tuple or None, to the slot of each key that it
changes, in every index.

The outcome of a REPLACE does not depend on the tuple it replaces. So while it is in progress, another tuple under the
same primary key may be prepared, or be rolled back after that. The REPLACE comes later in any case and has to hide
whatever tuple is there now, so its writes under secondary keys are adapted. If many have to be, that is done in slices.
Meanwhile their transaction is behind: it reads secondary indexes with care (`box.txn.versioned_reads`), and its commit
waits.

The reads of transactions are recorded (`box.txn.versioned_reads`). When a writer is prepared, it affects every other
open transaction that has read a value that the writer replaced, or an empty place that it filled. If that transaction
has written nothing, it continues in a read view just before the writer; otherwise it is aborted. Slots in which all
readers see the same again are removed (`box.txn.slots`).

Source: Tarantool's visibility rules (prepared data is visible in transactions, not outside). The version chain for each
key, instead of each tuple, is a choice of Lunabox.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from box.index.untracked import untrack
from box.txn import slots
from box.txn.exchange import Keys, keys_of
from box.txn.following import tell_followers
from box.txn.transaction import Transaction, TxnState, applied_as
from box.txn.versioned_plan import VersionedPlan
from box.txn.versioned_reads import VersionedReads
from box.txn.versions import Slot, Write
from box.txn.write_set import Places, WriteSet
from box.wire.change import REPLACE

if TYPE_CHECKING:
    from box.data.keydef import SortKey
    from box.index import Index
    from box.schema.space import Space
    from box.txn.staged_undo import OneChange
    from box.txn.transaction import Statement
    from box.txn.write_plan import WritePlan

_MANY_COMPARED: Final = 64
"""The number of statements from which on writes are compared with the reads of others as sets, not one by one."""
_LONE_KEYS: Final = 768
"""The number of keys from which on a lone transaction gets versions: to add more later would take a long turn."""
_ATTEMPTS: Final = 4
"""The number of times that a commit gathers what is below its writes, if others change that meanwhile."""


class MvccStorage(VersionedReads):
    """Indexes with versions."""

    allows_yield: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self._writes: dict[Statement, list[Write]] = {}
        """The writes of statements whose outcome is undecided, or whose writes are not folded yet."""
        self._undone: dict[Transaction, Places] = {}
        """The changes that vanish with large transactions whose write has failed; their callers are about to be
        notified.
        """
        self._refreshes: deque[tuple[list[Slot], list[Transaction]]] = deque()
        """Slots in which another value is prepared now, with the transactions whose replaces have to be adapted."""
        self._altering: Transaction | None = None
        """The transaction whose system trigger is running."""
        self._plan: VersionedPlan | None = None
        """The plan of the last statement on the fast path, because the next one is mostly of the same transaction."""

    @property
    def has_versions(self) -> bool:
        return bool(self._readers.by_txn or self._writes or self._slots.by_index)

    @property
    def open_transactions(self) -> Collection[Transaction]:
        return self._readers.by_txn.keys()

    def abandon(self) -> Iterator[None]:
        return self._slots.abandon()

    # -- changing

    def plan_of(self, txn: Transaction, space: Space, plan: WritePlan) -> VersionedPlan:
        own = self._plan
        is_lone = txn.is_lone
        if own is None or own.txn is not txn or own.plan is not plan or own.is_lone is not is_lone:
            if is_lone and (plan.is_sync or space.is_followed):
                self.make_versions(txn)
            own = self._plan = VersionedPlan(self, txn, space, plan)
        elif is_lone and len(txn.statements) * len(space.indexes) >= _LONE_KEYS:
            self.make_versions(txn)
            own = self._plan = VersionedPlan(self, txn, space, plan)
        return own

    def make_versions(self, txn: Transaction) -> None:
        txn.is_lone = False
        self._written[txn] = WriteSet()
        for statement in sorted([statement for statement in txn.statements if statement.applied], key=applied_as):
            space, old, new = statement.space, statement.old, statement.new
            assert space is not None
            statement.requires_old = statement.type != REPLACE
            old_keys = [] if old is None else keys_of(space, old)
            new_keys = [] if new is None else keys_of(space, new)
            writes: list[Write] = []
            for number, index in enumerate(space.indexes.values()):
                before, after = old_keys[number] if old_keys else (), new_keys[number] if new_keys else ()
                for key in after:
                    writes.append(self._lay(txn, statement, index, key, old if key in before else None, new))
                    if index.is_unique and index.iid:
                        self.add_point(txn, index, key)
                writes += [self._lay(txn, statement, index, key, old, None) for key in before if key not in after]
            self.add_writes(txn, statement, writes)

    def _lay(
        self,
        txn: Transaction,
        statement: Statement,
        index: Index,
        key: SortKey,
        base: bytes | None,
        value: bytes | None,
    ) -> Write:
        """Put a slot in the place of what a lone transaction has left under a key; `base` was there before."""
        slot = index.find(key)
        if type(slot) is not Slot:
            slot = self._slots.make(index, key, base)
            self._written[txn].indexes[index] = None
        write = Write(slot, txn, statement, value)
        slot.add(write)
        return write

    def add_writes(self, txn: Transaction, statement: Statement, writes: list[Write]) -> None:
        """Note the writes of a statement that has ended without an error."""
        self._writes[statement] = writes
        self._readers.of(txn)
        if writes and not statement.requires_old:
            self._written[txn].is_blind = True

    def add_point(self, txn: Transaction, index: Index, key: SortKey) -> None:
        """Record that a transaction depends on no other tuple under a key of a unique index."""
        self._readers.of(txn).add_point(index, key)

    def _write(self, txn: Transaction, space: Space, statement: Statement, keys: list[Keys]) -> None:
        new = statement.new
        writes: list[Write] = []
        if new is not None:
            for index, new_keys in zip(space.indexes.values(), keys, strict=True):
                for key in new_keys:
                    writes.append(self.put(txn, statement, index, key, new))
                    if index.is_unique and index.iid:
                        self.add_point(txn, index, key)
        self.add_writes(txn, statement, writes)
        self._hide_old(txn, statement, space, keys)

    def _hide_old(self, txn: Transaction, statement: Statement, space: Space, keys: list[Keys]) -> None:
        """Write None under those keys of the replaced tuple that the new tuple does not have."""
        if statement.old is None:
            return
        writes = self._writes[statement]
        for number, (index, old_keys) in enumerate(
            zip(space.indexes.values(), keys_of(space, statement.old), strict=True)
        ):
            for key in old_keys:
                if statement.new is None or key not in keys[number]:
                    writes.append(self.put(txn, statement, index, key, None))

    def put(self, txn: Transaction, statement: Statement, index: Index, key: SortKey, value: bytes | None) -> Write:
        """Write a value under a key, in its slot or in a new one."""
        written = self._written.get(txn)
        if written is None:
            written = self._written[txn] = WriteSet()
        slot = index.find(key)
        if type(slot) is Slot:
            self._share(slot, txn)
        else:
            slot = self._slots.make(index, key, slot)
        written.indexes[index] = None
        write = Write(slot, txn, statement, value)
        slot.add(write)
        return write

    def _share(self, slot: Slot, txn: Transaction) -> None:
        """Record that a transaction is about to write to a slot that others may have written to."""
        for write in slot.writes:
            if write.txn is not txn:
                self._written[txn].share(slot, write.txn)
                if (other := self._written.get(write.txn)) is not None:
                    other.share(slot, txn)

    def undo(self, txn: Transaction, statement: Statement) -> None:
        if statement not in self._writes:  # a change of a lone transaction
            super().undo(txn, statement)
            return
        writes = self._writes.pop(statement)
        written = self._written[txn]
        if len(txn.statements) < written.gathered:
            written.forget()
        for write in reversed(writes):
            write.slot.remove(write)
            self._slots.fold(write.slot)
        if txn.psn:
            self._refresh_replaces(written, [write.slot for write in writes])

    def prepare_undo(self, commits: Sequence[Transaction | OneChange]) -> Iterator[None]:
        for txn in commits:
            if not isinstance(txn, Transaction) or len(txn.statements) < _MANY_COMPARED:
                continue
            places, statements = Places(), txn.statements
            for start in range(0, len(statements), slots.SLICE):
                places.add_undone(self._writes_of(statements[start : start + slots.SLICE]))
                yield
            self._undone[txn] = places

    def forget_undos(self) -> None:
        self._undone.clear()

    def undo_whole(self, txn: Transaction) -> bool:
        written, places = self._written.get(txn), self._undone.pop(txn, None)
        if written is None:
            return False
        if txn.psn:
            self._overtake_rivals(written)
            self._take_back(txn, written, places)
        if len(txn.statements) < slots.MANY:
            return False
        # A transaction that is aborted or taken back is invisible, so its writes may be taken out later.
        if txn.psn:
            self._refresh_replaces(written, written.shared)
        txn.run_rollback_hooks()
        self._slots.fold_later(txn.statements, self._take_out)
        return True

    def _take_back(self, txn: Transaction, written: WriteSet, places: Places | None) -> None:
        """Abort or invalidate the readers that have seen a prepared transaction that is being rolled back."""
        self._readers.break_views(txn.psn)
        tell_followers(txn, written.indexes, is_undo=True)
        if not self._readers.has_other(txn):
            if places is not None:
                self._slots.let_go(places)
            return
        if len(txn.statements) < _MANY_COMPARED:
            for slot in self._slots_of(txn):
                self._readers.compare(txn, slot, slot.last_of(txn), slot.below(txn))
            return
        if places is None:
            places = Places()
            places.add_undone(self._writes_of(txn.statements))
        self._readers.compare_places(txn, places, partial(_is_back, txn))
        self._slots.let_go(places)

    def _take_out(self, statement: Statement) -> None:
        """Remove the writes of a statement whose transaction was rolled back."""
        for write in self._writes.pop(statement, ()):
            slot = write.slot
            if write in slot.writes:
                slot.remove(write)
            self._slots.fold(slot)

    def _overtake_rivals(self, written: WriteSet) -> None:
        """Tell transactions that share slots with these writes that another value is below their own writes."""
        for rival in written.rivals:
            if (other := self._written.get(rival)) is not None:
                other.overtaken += 1

    def _refresh_replaces(self, written: WriteSet, changed: Collection[Slot]) -> None:
        """Adapt replaces in progress that have to hide another tuple.

        The tuple that is prepared under their primary key has changed.
        """
        blind = [rival for rival in written.rivals if self._is_blind(rival)]
        if not blind:
            return
        followed = list(changed)  # a copy: hiding a tuple may add slots to the original
        if len(followed) < slots.MANY:
            self._refresh(followed)
            return
        for rival in blind:
            self._behind[rival] = self._behind.get(rival, 0) + 1
        self._refreshes.append((followed, blind))
        self.add_work(self._refresh_some)

    def _refresh_some(self) -> bool:
        """Adapt a slice of the replaces; returns True if there is more."""
        if not self._refreshes:
            return False
        changed, blind = self._refreshes[0]
        self._refresh(changed[-slots.SLICE :])
        del changed[-slots.SLICE :]
        if not changed:
            self._refreshes.popleft()
            for txn in blind:
                self._catch_up(txn)
        return bool(self._refreshes)

    def _catch_up(self, txn: Transaction) -> None:
        """Record that one of the lists of slots that a transaction waits for is done."""
        left = self._behind.pop(txn, 1) - 1
        if left:
            self._behind[txn] = left

    def _refresh(self, changed: Iterable[Slot]) -> None:
        """Adapt the replaces in progress that have written to these slots of primary indexes."""
        for slot in changed:
            for write in [] if slot.index.iid else slot.first_in_progress():
                statement = write.statement
                if write.txn.read_view:  # it never commits, and still hides the tuple that its view shows
                    continue
                if not statement.requires_old and statement.old != slot.prepared:
                    self._refresh_old(write.txn, statement, slot.prepared)

    def _is_blind(self, txn: Transaction) -> bool:
        """Return True if a transaction is in progress and has replaced tuples without reading them."""
        written = self._written.get(txn)
        return written is not None and written.is_blind and not txn.psn and txn.state is not TxnState.ABORTED

    def _refresh_old(self, txn: Transaction, statement: Statement, old: bytes | None) -> None:
        """Let a REPLACE hide another old tuple than before."""
        space, writes = statement.space, self._writes[statement]
        assert space is not None
        assert statement.new is not None
        for write in [write for write in writes if write.value is None]:
            writes.remove(write)
            write.slot.remove(write)
            self._slots.fold(write.slot)
        statement.old = old
        self._hide_old(txn, statement, space, keys_of(space, statement.new))

    # -- the life of a transaction

    def grows(self, txn: Transaction) -> None:
        written = self._written.get(txn)
        if written is None:
            return
        statements = txn.statements[written.gathered :]
        writes = list(self._writes_of(statements))
        written.gather(writes, len(txn.statements))
        # The garbage collector would scan all of these repeatedly and find nothing: folding breaks the cycles.
        untrack(writes)
        untrack(write.slot for write in writes)
        untrack(write.slot.writes for write in writes)
        untrack(self._writes[statement] for statement in statements if statement in self._writes)

    def _writes_of(self, statements: list[Statement]) -> Iterator[Write]:
        for statement in statements:
            yield from self._writes.get(statement, ())

    def make_ready(self, txn: Transaction) -> Iterator[None] | None:
        written = self._written.get(txn)
        if written is None or (txn not in self._behind and not self._has_to_gather(txn, written)):
            return None
        return self._become_ready(txn, written)

    def _has_to_gather(self, txn: Transaction, written: WriteSet) -> bool:
        """Return True if many shared slots have to be looked at again before the commit."""
        return written.is_overtaken and len(written.shared) >= slots.MANY and self._readers.has_other(txn)

    def _become_ready(self, txn: Transaction, written: WriteSet) -> Iterator[None]:
        """Adapt replaces and gather what is below shared slots, a slice in each step."""
        for _ in range(_ATTEMPTS):
            while txn in self._behind:
                self._refresh_some()
                yield
            if not self._has_to_gather(txn, written):
                return
            overtaken, shared = written.overtaken, list(written.shared)
            for start in range(0, len(shared), slots.SLICE):
                written.places.add_below(txn, shared[start : start + slots.SLICE])
                yield
            written.known = overtaken

    def prepare(self, txn: Transaction) -> None:
        if self.definitions.owner is txn:
            self.definitions.release()
        while txn in self._behind:  # some commits do not wait for the steps of `make_ready`
            self._refresh_some()
        self._leave(txn)
        written = self._written.get(txn)
        if written is None:
            return
        tell_followers(txn, written.indexes, is_undo=False)
        self._overtake_rivals(written)
        if self._readers.has_other(txn):
            self._break_readers(txn, written)
        self._refresh_replaces(written, written.shared)

    def _break_readers(self, txn: Transaction, written: WriteSet) -> None:
        """Put transactions that have read what a prepared one changes into a read view or into conflict."""
        if len(txn.statements) < _MANY_COMPARED:
            compared: Iterable[Slot] = self._slots_of(txn)
        else:
            written.gather(self._writes_of(txn.statements[written.gathered :]), len(txn.statements))
            self._readers.compare_places(txn, written.places, partial(_is_put, txn))
            compared = [slot for slot in written.shared if slot.has_writes_of(txn)] if written.is_overtaken else ()
        for slot in compared:
            if not self._readers.has_other(txn):
                break
            self._readers.compare(txn, slot, slot.below(txn), slot.last_of(txn))

    def _slots_of(self, txn: Transaction) -> Iterable[Slot]:
        return {write.slot: None for write in self._writes_of(txn.statements)}

    def commit(self, txn: Transaction) -> None:
        written = self._written.pop(txn, None)
        if written is None:
            return
        self._slots.let_go(written.places)
        if len(txn.statements) < slots.MANY:
            for statement in txn.statements:
                self._fold_writes(statement)
        else:
            self._slots.fold_later(txn.statements, self._fold_writes)

    def _fold_writes(self, statement: Statement) -> None:
        for write in self._writes.pop(statement, ()):
            self._slots.fold(write.slot)

    def forget(self, txn: Transaction) -> None:
        if self.definitions.owner is txn:
            self.definitions.release()
        self._leave(txn)
        self.forget_writes(txn)

    def forget_writes(self, txn: Transaction) -> None:
        self._behind.pop(txn, None)
        written = self._written.pop(txn, None)
        if written is not None:
            self._slots.let_go(written.places)

    @contextmanager
    def alteration(self, txn: Transaction) -> Iterator[None]:
        before, self._altering = self._altering, txn
        try:
            yield
        finally:
            self._altering = before

    def space_altered(self, space: Space) -> None:
        """Put transactions with uncommitted changes in a space into conflict, because it has other indexes now."""
        if self._altering is not None:
            self.definitions.own(self._altering, space)
        for txn in self._readers.by_txn:
            if txn is not self._altering and any(statement.space is space for statement in txn.statements):
                txn.state = TxnState.CONFLICTED

    def _leave(self, txn: Transaction) -> None:
        """Forget the reads of a transaction, and fold slots that only its read view needed."""
        self._plan = None
        reads = self._readers.leave(txn)
        if reads is not None:
            self._slots.let_go(reads)
        if txn.read_view and self._slots.stale:
            self._slots.fold_stale()


def _is_put(txn: Transaction, index: Index, key: SortKey) -> bool:
    """Return True if a transaction has left a tuple under a key that had none.

    A later statement may have removed it again.
    """
    slot = index.find(key)
    return type(slot) is Slot and slot.last_of(txn) is not None and slot.below(txn) is None


def _is_back(txn: Transaction, index: Index, key: SortKey) -> bool:
    """Return True if the rollback of a transaction brings back a tuple under a key where it has left none."""
    slot = index.find(key)
    return type(slot) is Slot and slot.has_writes_of(txn) and slot.last_of(txn) is None and slot.below(txn) is not None
