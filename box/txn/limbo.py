"""The limbo: synchronous transactions that are written to the WAL and not confirmed yet.

```
state          event                                        what happens                              next
EMPTY          append                                       the origin becomes the owner              WAITING
WAITING        quorum of acks, the owner may decide         decide: write CONFIRM(lsn)                CONFIRMING
WAITING        the first entry's deadline, the owner may    decide: write ROLLBACK(lsn), with         ROLLING_BACK
               decide and has heard a quorum meanwhile      elections a proposal first
PROPOSED       a quorum has the proposal, and the owner     decide: write ROLLBACK(lsn)               ROLLING_BACK
               may decide
PROPOSED       promote()                                    decide: write PROMOTE, which confirms     ROLLING_BACK
                                                            nothing
WAITING,       an entry's deadline otherwise                its callers learn that nobody knows       same
PROPOSED
WAITING        promote()                                    decide: write PROMOTE(lsn)                ROLLING_BACK
any            a row of another instance goes to the WAL    nothing yet                               CONFIRMING or
                                                                                                      ROLLING_BACK
CONFIRMING     the row is in the WAL                        entries up to lsn are committed           WAITING or EMPTY
ROLLING_BACK   the row is in the WAL                        entries from lsn on are rolled back,      WAITING or EMPTY,
                                                            newest first                              or PROPOSED
ROLLING_BACK,  append, on the owner                         refused: SYNC_ROLLBACK                    same
PROPOSED
CONFIRMING,    the row could not be written                 entries stay as they are                  WAITING or EMPTY
ROLLING_BACK
WAITING        append from another origin                   refused: UNCOMMITTED_FOREIGN_SYNC_TXNS    same
```

A pure state machine: no clock, no files, no waiting. `decide` says which row to write, `begin` and `end` frame the
write, `process` returns what became of the entries; box.txn.synchro acts on it.

An acknowledgement is the lsn of the owner's rows that an instance has in its WAL. The quorum counts instances, the
owner itself among them: with the acknowledged lsns in descending order, the one at place `quorum` is confirmed.

The owner may always decide without elections. With elections only the leader of the latest known term may, once it
has written its PROMOTE. An owner that may not decide leaves its entries to the next leader, whose PROMOTE commits them
or rolls them back. A timer alone decides nothing.

A proposal is a NOP with the flag PROPOSED. It says: all that waits before this row is to be rolled back. It is binding
for whoever has it and leads next, so that a ROLLBACK that follows it is certain as soon as a quorum has the proposal:
box.replication.raft has the argument.

Transactions that are not synchronous but follow one that is wait in the same queue and share its fate.
ARCHITECTURE.md follows a CONFIRM through all parts. Source: Tarantool's behaviour as of 2.8.1, and the public patch
"applier: process synchro rows after WAL write" (April 2021) for the order of log and decision.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from enum import Enum, auto
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, Protocol

from box.errors import ErrorCode, client_error
from box.txn.transaction import NO_LSN, LimboEntry
from box.wire.constants import RequestType

if TYPE_CHECKING:
    from box.wire.messages import SynchroRequest


class LimboState(Enum):
    """See the table above."""

    EMPTY = auto()
    WAITING = auto()
    PROPOSED = auto()
    CONFIRMING = auto()
    ROLLING_BACK = auto()


class Voters(Protocol):
    """Knowledge of the instances that may elect the next leader."""

    def were_heard_since(self, moment: float) -> bool:
        """Whether a quorum of them was heard of since then, and nobody of a newer term."""

    def have(self, lsn: int) -> bool:
        """Whether a quorum of them has the owner's rows up to `lsn`."""


class Decision(NamedTuple):
    """A row to write: its type (NOP: a proposal to roll back) and the lsn it is about."""

    type: int
    lsn: int


class LimboOutcome(NamedTuple):
    """Entries that left the limbo: committed oldest first, rolled back newest first."""

    committed: list[LimboEntry]
    rolled_back: list[LimboEntry]


class Limbo:
    """See the module's text. `instance_id` is 0 until the instance is registered."""

    def __init__(self, quorum: int = 1, timeout: float = 5.0) -> None:
        self.instance_id = 0
        self.owner_id = 0
        """The instance whose transactions are in the queue, or were last; 0: nobody's yet."""
        self._quorum = quorum
        self.timeout = timeout
        """Seconds from the WAL write of the first entry to its rollback."""
        self.confirmed_lsn = 0
        """The lsn that the owner confirmed, from the moment the CONFIRM row is on its way."""
        self.rollback_count = 0
        """Grows by one for every entry that is rolled back: a checkpoint compares it before and after."""
        self.greatest_term = 0
        self.entries: deque[LimboEntry] = deque()
        """Oldest first. For reading; only this class changes it."""
        self.is_foreign = False
        """The owner is another instance; see `is_read_only`. For reading."""
        self._acks: dict[int, int] = {}
        self.reached = 0
        """The lsn that a quorum has acknowledged. For reading."""
        self._terms: dict[int, int] = {}
        self.writing: Decision | None = None
        """The row that is on its way to the log. For reading."""
        self._confirmed_before = 0
        self._told = 0
        """The number of the oldest entries whose callers wait no longer, because the outcome was not known in time."""
        self.proposal = 0
        """The lsn of the row that proposes to roll back all that is in the queue; 0: there is none."""
        self._put_off_at = 0.0
        """The time when the first entry was overdue and could not be rolled back: its timeout begins anew then."""

    # -- questions

    @property
    def state(self) -> LimboState:
        """The state by the table above."""
        if self.writing is not None:
            confirming = self.writing.type == RequestType.CONFIRM
            return LimboState.CONFIRMING if confirming else LimboState.ROLLING_BACK
        if self.proposal:
            return LimboState.PROPOSED
        return LimboState.WAITING if self.entries else LimboState.EMPTY

    @property
    def is_empty(self) -> bool:
        """True if no transaction waits."""
        return not self.entries

    @property
    def is_rolling_back(self) -> bool:
        """True while the whole queue is lost already: a ROLLBACK, a PROMOTE or a proposal is being written, or our own
        proposal is in the log."""
        if self.writing is not None:
            return self.writing.type != RequestType.CONFIRM
        return self.proposal != 0 and self.owner_id == self.instance_id

    @property
    def is_read_only(self) -> bool:
        """True while transactions of another instance wait here: writing would collide with them.

        As in Tarantool, an owner who fills the queue again after it was empty makes nobody read-only, until
        `refresh_mode`; a local transaction meets UNCOMMITTED_FOREIGN_SYNC_TXNS then.
        """
        return self.is_foreign and bool(self.entries)

    def refresh_mode(self) -> None:
        """See whether the owner is another instance: the modes of this instance are looked at anew."""
        self.is_foreign = self.owner_id != self.instance_id

    @property
    def last_synchro_lsn(self) -> int:
        """The lsn of the newest synchronous entry, NO_LSN if there is none or it is not written yet."""
        return next((entry.lsn for entry in reversed(self.entries) if entry.wait_ack), NO_LSN)

    @property
    def last(self) -> LimboEntry | None:
        """The newest entry."""
        return self.entries[-1] if self.entries else None

    def replica_term(self, replica_id: int) -> int:
        """The greatest term in which the instance wrote a PROMOTE row."""
        return self._terms.get(replica_id, 0)

    @property
    def terms(self) -> Mapping[int, int]:
        """The greatest term in which each instance wrote a PROMOTE row, of those that did."""
        return self._terms

    def restore(self, owner_id: int, terms: Mapping[int, int]) -> None:
        """Take over what an earlier run knew of promotions, before anything is queued."""
        self.owner_id = owner_id
        self._terms = dict(terms)
        self.greatest_term = max(self._terms.values(), default=0)

    def is_outdated(self, replica_id: int) -> bool:
        """True if another instance was promoted in a later term: with elections on, its rows become NOPs."""
        return self.replica_term(replica_id) < self.greatest_term

    def withdraw(self, origin_id: int, term: int) -> None:
        """A promotion of this instance turns out to be none; its latest one before was in `term`, 0: there was none."""
        self._terms.pop(origin_id, None)
        if term:
            self._terms[origin_id] = term
        self.greatest_term = max(self._terms.values(), default=0)

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[LimboEntry]:
        return iter(self.entries)

    # -- transactions

    def takes(self, origin_id: int) -> bool:
        """Whether `append` of a transaction of this instance (0: our own) would be allowed."""
        return not self.is_rolling_back and (not self.entries or self.owner_id == (origin_id or self.instance_id))

    def check_append(self, origin_id: int) -> None:
        """Raise what `append` of a transaction of this instance would raise (0: our own)."""
        if self.is_rolling_back:
            raise client_error(ErrorCode.SYNC_ROLLBACK)
        if self.entries and self.owner_id != (origin_id or self.instance_id):
            raise client_error(ErrorCode.UNCOMMITTED_FOREIGN_SYNC_TXNS, self.owner_id)

    def push(self, origin_id: int, entry: LimboEntry) -> bool:
        """Enter the queue behind others of the same owner while no decision is being written; False: use `append`."""
        if not self.entries or self.writing is not None or self.owner_id != (origin_id or self.instance_id):
            return False
        if self.proposal:
            return False
        self.entries.append(entry)
        return True

    def append(self, origin_id: int, *entries: LimboEntry) -> None:
        """Enter the queue before the WAL write. SYNC_ROLLBACK, UNCOMMITTED_FOREIGN_SYNC_TXNS."""
        owner_id = origin_id or self.instance_id
        if self.writing is not None or self.proposal or (self.entries and self.owner_id != owner_id):
            self.check_append(origin_id)
        if self.owner_id != owner_id:
            self.owner_id = owner_id
            self.confirmed_lsn = 0
            self.is_foreign = owner_id != self.instance_id
        elif not self.entries:
            self.is_foreign = False
        self.entries.extend(entries)

    def abort(self, entry: LimboEntry) -> None:
        """Take out an entry whose WAL write failed: always the newest one, because rollbacks go backwards."""
        if self.entries[-1] is not entry:
            raise AssertionError(f"{entry!r} is not the last of {self!r}")
        self.entries.pop()
        self._has_shrunk()
        self.rollback_count += 1

    def _has_shrunk(self) -> None:
        self._told = min(self._told, len(self.entries))
        if not self.entries:
            self.proposal = 0

    def note_proposal(self, origin_id: int, lsn: int) -> None:
        """A proposal to roll back is in the log: it is about what its author, the owner, has in the queue."""
        if self.entries and self.owner_id == origin_id:
            self.proposal = lsn

    # -- acknowledgements

    @property
    def quorum(self) -> int:
        """So many instances must have a synchronous transaction, the owner among them."""
        return self._quorum

    @quorum.setter
    def quorum(self, quorum: int) -> None:
        self._quorum = quorum
        self.reached = self._quorum_ack()

    def acknowledge(self, replica_id: int, lsn: int) -> None:
        """An instance has the owner's rows up to `lsn` in its WAL."""
        before = self._acks.get(replica_id, 0)
        if lsn > before:
            self._acks[replica_id] = lsn
            if before <= self.reached:  # or it was ahead of a quorum already
                self.reached = self._quorum_ack()

    def _quorum_ack(self) -> int:
        """The lsn that a quorum has acknowledged, 0 if none."""
        acknowledged = sorted(self._acks.values(), reverse=True)
        if len(acknowledged) < self._quorum:
            return 0
        return acknowledged[self._quorum - 1]

    def decide(self, now: float, voters: Voters | None = None) -> Decision | None:
        """The row that this instance, which may decide, must write now. None: nothing, or a row is on its way already.

        `voters` are those who may elect another leader meanwhile, None without elections.
        """
        if not self.entries or self.writing is not None or self.owner_id != self.instance_id:
            return None
        first_lsn = self.entries[0].lsn
        if self.proposal:
            is_certain = voters is None or voters.have(self.proposal)
            return Decision(RequestType.ROLLBACK, first_lsn) if is_certain else None
        if self.reached > self.confirmed_lsn:
            lsn = self._quorum_lsn()
            if lsn > self.confirmed_lsn:
                return Decision(RequestType.CONFIRM, lsn)
        since = self._first_since
        if since is None or now < since + self.timeout or (voters is not None and not voters.were_heard_since(since)):
            return None
        return Decision(RequestType.ROLLBACK if voters is None else RequestType.NOP, first_lsn)

    @property
    def _first_since(self) -> float | None:
        """The time from which on the first entry's timeout counts; None if it does not."""
        first = self.entries[0]
        return None if first.since is None or not first.wait_ack else max(first.since, self._put_off_at)

    @property
    def deadline(self) -> float | None:
        """The time when the next entry times out; None if none can now."""
        if not self.entries or self.writing is not None or self.owner_id != self.instance_id:
            return None
        since = self._first_since
        if 0 < self._told < len(self.entries):
            waits_since = self.entries[self._told].since
            if waits_since is not None and (since is None or waits_since < since):
                since = waits_since
        return None if since is None else since + self.timeout

    def put_off(self, now: float) -> list[LimboEntry]:
        """Overdue entries cannot be decided here: the callers of the returned ones are to learn that, once."""
        if not self.entries or self.owner_id != self.instance_id:
            return []
        first_since = self._first_since
        if first_since is not None and now >= first_since + self.timeout:
            self._put_off_at = now
        overdue = []
        for entry in islice(self.entries, self._told, None):
            if entry.waits:
                if entry.since is None or now < entry.since + self.timeout:
                    break
                overdue.append(entry)
            self._told += 1
        return overdue

    def _quorum_lsn(self) -> int:
        """The newest synchronous entry that a quorum has, 0 if none."""
        limit = self.reached
        found = 0
        for entry in self.entries:
            if entry.wait_ack:
                if entry.lsn == NO_LSN or entry.lsn > limit:
                    break
                found = entry.lsn
        return found

    def begin(self, decision: Decision, replica_id: int = 0) -> None:
        """A row, our own or another instance's, is handed to the WAL; `replica_id` has made its transactions (0: the
        owner). The last CONFIRM of a former owner may come late: its lsns mean nothing for the new one."""
        self.writing = decision
        self._confirmed_before = self.confirmed_lsn
        is_ours = self.owner_id == self.instance_id and replica_id in (0, self.owner_id)
        if decision.type == RequestType.CONFIRM and is_ours:
            self.confirmed_lsn = max(self.confirmed_lsn, decision.lsn)

    def end(self, *, written: bool) -> None:
        """The row is in the WAL (its outcome comes from `process`), or it could not be written."""
        self.writing = None
        if not written:
            self.confirmed_lsn = self._confirmed_before

    # -- outcomes

    def confirm(self, lsn: int) -> LimboOutcome:
        """Commit the synchronous entries up to `lsn` and the others between and right after them."""
        committed = []
        while self.entries:
            entry = self.entries[0]
            if entry.wait_ack and (entry.lsn == NO_LSN or entry.lsn > lsn):
                break
            committed.append(self.entries.popleft())
        self._told = max(0, self._told - len(committed))
        self._has_shrunk()
        return LimboOutcome(committed, [])

    def roll_back(self, lsn: int) -> LimboOutcome:
        """Roll back the synchronous entries from `lsn` on, and everything behind the first of them."""
        rolled_back = [self.entries.pop() for _ in range(self._count_from(lsn))]
        self._has_shrunk()
        self.rollback_count += len(rolled_back)
        return LimboOutcome([], rolled_back)

    def _count_from(self, lsn: int) -> int:
        """The number of the newest entries that begin with the first synchronous one from `lsn` on."""
        count = 0
        for number, entry in enumerate(reversed(self.entries), 1):
            if entry.wait_ack:
                if entry.lsn < lsn:
                    break
                count = number
        return count

    def rolled_back_by(self, request: SynchroRequest) -> list[LimboEntry]:
        """The entries that `process` will roll back, oldest first."""
        _, lsn = self._decided_by(request)
        return [] if lsn is None else list(islice(self.entries, len(self.entries) - self._count_from(lsn), None))

    def _decided_by(self, request: SynchroRequest) -> tuple[int | None, int | None]:
        """The lsn up to which a row confirms, and that from which on it rolls back; None: nothing."""
        is_promotion, lsn = request.type == RequestType.PROMOTE, request.lsn
        if self.is_outdated_promotion(request):
            return None, None
        if request.replica_id not in (0, self.owner_id):
            if not is_promotion:
                return None, None  # about transactions that are no longer here
            lsn = 0  # the new owner did not have what is queued here
        if is_promotion:
            return lsn, lsn + 1
        return (lsn, None) if request.type == RequestType.CONFIRM else (None, lsn)

    def is_outdated_promotion(self, request: SynchroRequest) -> bool:
        """Whether somebody else was promoted in a later term than this PROMOTE's."""
        is_promotion = request.type == RequestType.PROMOTE
        return is_promotion and self.replica_term(request.origin_id) < request.term <= self.greatest_term

    def has_effect(self, request: SynchroRequest) -> bool:
        """Whether a row decides about transactions that are, or were last, in the queue."""
        return self._decided_by(request) != (None, None)

    def process(self, request: SynchroRequest) -> LimboOutcome:
        """A CONFIRM, ROLLBACK or PROMOTE row is in the WAL (or was read from it)."""
        confirmed, undone = self._decided_by(request)
        if request.term > self.replica_term(request.origin_id):
            self._terms[request.origin_id] = request.term
            self.greatest_term = max(self.greatest_term, request.term)
        committed = [] if confirmed is None else self.confirm(confirmed).committed
        rolled_back = [] if undone is None else self.roll_back(undone).rolled_back
        if request.type == RequestType.PROMOTE and undone is not None:
            self.owner_id = 0 if request.is_demotion else request.origin_id
            self.confirmed_lsn = 0
        return LimboOutcome(committed, rolled_back)

    def __repr__(self) -> str:
        return (
            f"<limbo {self.state.name} of {self.owner_id}, {len(self.entries)} entries, confirmed {self.confirmed_lsn}>"
        )
