"""The limbo: synchronous transactions that are written to the WAL but not confirmed yet.

```
state          event                                        what happens                              next
EMPTY          append                                       the origin becomes the owner              WAITING
WAITING        quorum of acks, the owner may decide         decide: write CONFIRM(lsn)                CONFIRMING
WAITING        the first entry's deadline, the owner may    decide: write ROLLBACK(lsn), with         ROLLING_BACK
               decide and has heard a quorum meanwhile      elections a proposal first
PROPOSED       a quorum has the proposal, and the owner     decide: write ROLLBACK(lsn)               ROLLING_BACK
               may decide
WAITING,       promote(), with elections                    decide: write a claim, then wait until    CONFIRMING, then
PROPOSED                                                    those who elect a leader have it          as before
PROPOSED       promote(), and there is a claim              decide: write PROMOTE, which confirms     ROLLING_BACK
                                                            what the claim says
WAITING,       an entry's deadline otherwise                its callers get the error that the        same
PROPOSED                                                    outcome is unknown
WAITING        promote(), with elections: there is a claim  decide: write PROMOTE(lsn)                ROLLING_BACK
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

A pure state machine: no clock, no files, no waiting. `decide` returns the row to write, `begin` and `end` frame its
write, `process` returns the outcome of the entries; box.txn.synchro acts on it.

An acknowledgement is the lsn up to which an instance has the owner's rows in its WAL. The quorum counts instances,
including the owner: with the acknowledged lsns in descending order, the one at place `quorum` is confirmed.

Without elections the owner may always decide. With elections only the leader of the latest known term may, once it has
written its PROMOTE. An owner that may not decide leaves its entries to the next leader, whose PROMOTE commits them or
rolls them back. A timeout alone decides nothing.

A proposal is a NOP with the flag PROPOSED. It says that everything that waits before this row is to be rolled back. It
binds every instance that has it and leads next, so a ROLLBACK that follows it is certain as soon as a quorum has the
proposal: box.replication.raft has the argument.

Asynchronous transactions that follow a synchronous one wait in the same queue and share its fate. ARCHITECTURE.md
follows a CONFIRM through all parts.

Source: the behaviour of Tarantool 2.8.1, and the public patch "applier: process synchro rows after WAL write" (April
2021) for the order of log and decision.
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
    """The states of the limbo, as in the table of the module."""

    EMPTY = auto()
    WAITING = auto()
    PROPOSED = auto()
    CONFIRMING = auto()
    ROLLING_BACK = auto()


class Voters(Protocol):
    """What is known about the instances that may elect the next leader."""

    def were_heard_since(self, moment: float) -> bool:
        """Return True if a quorum of them was heard of since `moment`, and none in a newer term."""

    def have(self, lsn: int) -> bool:
        """Return True if a quorum of them has the owner's rows up to `lsn`."""


class Decision(NamedTuple):
    """A row to write: its type (NOP for a proposal to roll back) and the lsn it is about."""

    type: int
    lsn: int


class LimboOutcome(NamedTuple):
    """Entries that have left the limbo: the committed ones oldest first, the rolled back ones newest first."""

    committed: list[LimboEntry]
    rolled_back: list[LimboEntry]
    has_effect: bool = True
    """False if the row was about no transactions of the present owner."""


class Limbo:
    """The queue of one node, as described in the module. `instance_id` is 0 until the instance is registered."""

    def __init__(self, quorum: int = 1, timeout: float = 5.0) -> None:
        self.instance_id = 0
        self.owner_id = 0
        """The instance whose transactions are in the queue, or were last; 0 if there has been none."""
        self._quorum = quorum
        self.timeout = timeout
        """Seconds from the WAL write of the first entry to its rollback (`replication_synchro_timeout`)."""
        self.confirmed_lsn = 0
        """The lsn up to which the owner has confirmed, set as soon as the CONFIRM row goes to the WAL."""
        self.rollback_count = 0
        """The number of entries rolled back so far; a checkpoint compares it before and after."""
        self.greatest_term = 0
        """The greatest term of a PROMOTE row that was processed, 0 if there was none."""
        self.entries: deque[LimboEntry] = deque()
        """The queue, oldest entry first. Only this class changes it."""
        self.is_foreign = False
        """True if the owner is another instance, as of the last `refresh_mode` or change; see `is_read_only`. Others
        only read it.
        """
        self._acks: dict[int, int] = {}
        """The lsn that each instance has acknowledged."""
        self.reached = 0
        """The lsn that a quorum has acknowledged. Others only read it."""
        self._terms: dict[int, int] = {}
        """The greatest term in which each instance wrote a PROMOTE row."""
        self.writing: Decision | None = None
        """The decision that is being written to the log. Others only read it."""
        self._confirmed_before = 0
        """The value of `confirmed_lsn` to restore if the row cannot be written."""
        self._told = 0
        """How many entries, from the oldest on, have callers that already got the error "outcome unknown"."""
        self.proposal = 0
        """The lsn of the row that proposes to roll back the whole queue; 0 if there is none."""
        self._put_off_at = 0.0
        """The time when the first entry was overdue but could not be rolled back; its timeout restarts then."""

    # -- questions

    @property
    def state(self) -> LimboState:
        """The state by the table of the module."""
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
        """True if the whole queue will be rolled back.

        That is so while a ROLLBACK, a PROMOTE or a proposal is being written, and while our own proposal is in the log.
        """
        if self.writing is not None:
            return self.writing.type != RequestType.CONFIRM
        return self.proposal != 0 and self.owner_id == self.instance_id

    @property
    def is_read_only(self) -> bool:
        """True while transactions of another instance wait here: changes would collide with them.

        As in Tarantool, a foreign owner that fills an empty queue again makes no instance read-only before
        `refresh_mode`; until then a local transaction gets UNCOMMITTED_FOREIGN_SYNC_TXNS.
        """
        return self.is_foreign and bool(self.entries)

    def refresh_mode(self) -> None:
        """Update `is_foreign`, because the modes of this instance are computed again."""
        self.is_foreign = self.owner_id != self.instance_id

    @property
    def last_synchro_lsn(self) -> int:
        """The lsn of the newest synchronous entry; NO_LSN if there is none or it is not written yet."""
        return next((entry.lsn for entry in reversed(self.entries) if entry.wait_ack), NO_LSN)

    @property
    def last(self) -> LimboEntry | None:
        """The newest entry, or None."""
        return self.entries[-1] if self.entries else None

    def replica_term(self, replica_id: int) -> int:
        """Return the greatest term in which an instance wrote a PROMOTE row, 0 if it wrote none."""
        return self._terms.get(replica_id, 0)

    @property
    def terms(self) -> Mapping[int, int]:
        """The greatest term in which each instance wrote a PROMOTE row, for those that wrote one."""
        return self._terms

    def restore(self, owner_id: int, terms: Mapping[int, int]) -> None:
        """Restore what an earlier run knew of promotions, before anything is queued."""
        self.owner_id = owner_id
        self._terms = dict(terms)
        self.greatest_term = max(self._terms.values(), default=0)

    def is_outdated(self, replica_id: int) -> bool:
        """Return True if another instance was promoted in a later term; with elections, rows of this one are NOPs."""
        return self.replica_term(replica_id) < self.greatest_term

    def withdraw(self, origin_id: int, term: int) -> None:
        """Withdraw an instance's latest promotion, which had no effect; its previous one was in `term` (0: none)."""
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
        """Return True if `append` of a transaction of an instance (0: this one) would be allowed."""
        return not self.is_rolling_back and (not self.entries or self.owner_id == (origin_id or self.instance_id))

    def check_append(self, origin_id: int) -> None:
        """Check that `append` of a transaction of an instance (0: this one) is allowed.

        Raises:
            TransactionError: SYNC_ROLLBACK or UNCOMMITTED_FOREIGN_SYNC_TXNS.
        """
        if self.is_rolling_back:
            raise client_error(ErrorCode.SYNC_ROLLBACK)
        if self.entries and self.owner_id != (origin_id or self.instance_id):
            raise client_error(ErrorCode.UNCOMMITTED_FOREIGN_SYNC_TXNS, self.owner_id)

    def push(self, origin_id: int, entry: LimboEntry) -> bool:
        """Append an entry in the usual case: others of the same owner wait, and no decision is being written.

        Returns False, with nothing changed, in any other case; then use `append`.
        """
        if not self.entries or self.writing is not None or self.owner_id != (origin_id or self.instance_id):
            return False
        if self.proposal:
            return False
        self.entries.append(entry)
        return True

    def append(self, origin_id: int, *entries: LimboEntry) -> None:
        """Queue entries of an origin before their WAL write; 0 stands for this instance.

        Raises:
            TransactionError: SYNC_ROLLBACK or UNCOMMITTED_FOREIGN_SYNC_TXNS.
        """
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
        """Remove the newest entry, whose WAL write failed. Rollbacks go backwards, so it is always the newest one.

        Raises:
            AssertionError: the entry is not the newest one.
        """
        if self.entries[-1] is not entry:
            raise AssertionError(f"{entry!r} is not the last of {self!r}")
        self.entries.pop()
        self._has_shrunk()
        self.rollback_count += 1

    def _has_shrunk(self) -> None:
        """Adjust counters after entries have left the queue."""
        self._told = min(self._told, len(self.entries))
        if not self.entries:
            self.proposal = 0

    def note_proposal(self, origin_id: int, lsn: int) -> None:
        """Record a proposal to roll back that is in the log, if its author owns the queue."""
        if self.entries and self.owner_id == origin_id:
            self.proposal = lsn

    # -- acknowledgements

    @property
    def quorum(self) -> int:
        """The number of instances, including the owner, that must have a transaction before it is confirmed."""
        return self._quorum

    @quorum.setter
    def quorum(self, quorum: int) -> None:
        self._quorum = quorum
        self.reached = self._quorum_ack()

    def acknowledge(self, replica_id: int, lsn: int) -> None:
        """Record that an instance has the owner's rows up to `lsn` in its WAL."""
        before = self._acks.get(replica_id, 0)
        if lsn > before:
            self._acks[replica_id] = lsn
            if before <= self.reached:  # an instance ahead of the quorum does not change what the quorum has
                self.reached = self._quorum_ack()

    def _quorum_ack(self) -> int:
        """Return the lsn that a quorum has acknowledged, 0 if there is none."""
        acknowledged = sorted(self._acks.values(), reverse=True)
        if len(acknowledged) < self._quorum:
            return 0
        return acknowledged[self._quorum - 1]  # that many instances have at least this lsn

    def decide(self, now: float, voters: Voters | None = None) -> Decision | None:
        """Return the row that this instance must write now, or None if there is none or one is being written.

        The caller has checked that this instance may decide. `voters` is None without elections.
        """
        if not self.entries or self.writing is not None or self.owner_id != self.instance_id:
            return None
        first_lsn = self.entries[0].lsn
        if self.proposal:
            is_certain = voters is None or voters.have(self.proposal)
            return Decision(RequestType.ROLLBACK, first_lsn) if is_certain else None
        # Before the timeout is looked at: a quorum that comes late still confirms.
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
        """The time from which on the first entry's timeout counts, or None if it does not count."""
        first = self.entries[0]
        return None if first.since is None or not first.wait_ack else max(first.since, self._put_off_at)

    @property
    def deadline(self) -> float | None:
        """The time when the next entry times out, or None if none can now."""
        if not self.entries or self.writing is not None or self.owner_id != self.instance_id:
            return None
        since = self._first_since
        if 0 < self._told < len(self.entries):
            waits_since = self.entries[self._told].since
            if waits_since is not None and (since is None or waits_since < since):
                since = waits_since
        return None if since is None else since + self.timeout

    def put_off(self, now: float) -> list[LimboEntry]:
        """Return entries that are overdue but cannot be decided here; each entry is returned only once.

        Their callers are to get the error that the outcome is unknown.
        """
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
        """Return the lsn of the newest synchronous entry that a quorum has, 0 if there is none."""
        limit = self.reached
        found = 0
        for entry in self.entries:
            if entry.wait_ack:
                if entry.lsn == NO_LSN or entry.lsn > limit:
                    break
                found = entry.lsn
        return found

    def begin(self, decision: Decision, replica_id: int = 0) -> None:
        """Record that a decision, ours or another instance's, is being written to the WAL.

        `replica_id` is the instance whose transactions it is about (0: the owner). A former owner's last CONFIRM may
        arrive late: its lsns mean nothing for the new owner.
        """
        self.writing = decision
        self._confirmed_before = self.confirmed_lsn
        is_ours = self.owner_id == self.instance_id and replica_id in (0, self.owner_id)
        if decision.type == RequestType.CONFIRM and is_ours:
            self.confirmed_lsn = max(self.confirmed_lsn, decision.lsn)

    def end(self, *, written: bool) -> None:
        """Record that the WAL write of a decision has ended; `process` yields its outcome if it was written."""
        self.writing = None
        if not written:
            self.confirmed_lsn = self._confirmed_before

    # -- outcomes

    def confirm(self, lsn: int) -> LimboOutcome:
        """Commit the synchronous entries up to `lsn`, with the asynchronous ones between and right after them."""
        committed = []
        while self.entries:
            entry = self.entries[0]
            if entry.wait_ack and (entry.lsn == NO_LSN or entry.lsn > lsn):
                break
            committed.append(self.entries.popleft())
        if self._told:
            self._told = max(0, self._told - len(committed))
        if not self.entries:
            self.proposal = 0
        return LimboOutcome(committed, [])

    def roll_back(self, lsn: int) -> LimboOutcome:
        """Roll back the synchronous entries from `lsn` on, with everything after the first of them."""
        rolled_back = [self.entries.pop() for _ in range(self._count_from(lsn))]
        self._has_shrunk()
        self.rollback_count += len(rolled_back)
        return LimboOutcome([], rolled_back)

    def _count_from(self, lsn: int) -> int:
        """Return the number of entries from the first synchronous one with at least `lsn` to the newest."""
        count = 0
        for number, entry in enumerate(reversed(self.entries), 1):
            if entry.wait_ack:
                if entry.lsn < lsn:
                    break
                count = number
        return count

    def rolled_back_by(self, request: SynchroRequest) -> list[LimboEntry]:
        """Return the entries that `process` will roll back, oldest first."""
        _, lsn = self._decided_by(request)
        return [] if lsn is None else list(islice(self.entries, len(self.entries) - self._count_from(lsn), None))

    def _decided_by(self, request: SynchroRequest) -> tuple[int | None, int | None]:
        """Return the lsn up to which a row confirms, and the lsn from which on it rolls back; None is no effect."""
        is_promotion, lsn = request.type == RequestType.PROMOTE, request.lsn
        if is_promotion and self.is_outdated_promotion(request):
            return None, None
        if request.replica_id not in (0, self.owner_id):
            if not is_promotion:
                return None, None  # it is about transactions of a former owner, which have left the queue
            lsn = 0  # the author did not know this owner's transactions, so it confirms none of them
        if is_promotion:
            return lsn, lsn + 1
        return (lsn, None) if request.type == RequestType.CONFIRM else (None, lsn)

    def is_outdated_promotion(self, request: SynchroRequest) -> bool:
        """Return True if another instance was promoted in a later term than that of this PROMOTE."""
        is_promotion = request.type == RequestType.PROMOTE
        return is_promotion and self.replica_term(request.origin_id) < request.term <= self.greatest_term

    def process(self, request: SynchroRequest) -> LimboOutcome:
        """Return the outcome of a CONFIRM, ROLLBACK or PROMOTE row that is in the WAL or was read from it."""
        confirmed, undone = self._decided_by(request)
        if request.term and request.term > self.replica_term(request.origin_id):
            self._terms[request.origin_id] = request.term
            self.greatest_term = max(self.greatest_term, request.term)
        if undone is None:
            return LimboOutcome([], [], has_effect=False) if confirmed is None else self.confirm(confirmed)
        committed = [] if confirmed is None else self.confirm(confirmed).committed
        rolled_back = self.roll_back(undone).rolled_back
        if request.type == RequestType.PROMOTE:
            self.owner_id = 0 if request.is_demotion else request.origin_id
            self.confirmed_lsn = 0
        return LimboOutcome(committed, rolled_back)

    def __repr__(self) -> str:
        return (
            f"<limbo {self.state.name} of {self.owner_id}, {len(self.entries)} entries, confirmed {self.confirmed_lsn}>"
        )
