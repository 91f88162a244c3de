"""Transactions, statements and savepoints: the state that one transaction carries.

```
state         event                                          next
INPROGRESS    a writer prepared a change of what it read     IN_READ_VIEW (nothing written yet) or CONFLICTED
INPROGRESS    prepared: conflicts checked, order fixed       PREPARED
IN_READ_VIEW  prepared without statements                    PREPARED (with statements: TRANSACTION_CONFLICT)
CONFLICTED    any statement, commit                          TRANSACTION_CONFLICT
TIMED_OUT     any statement, commit                          TRANSACTION_TIMEOUT
PREPARED      WAL write and, in the limbo, CONFIRM           COMMITTED
INPROGRESS    its time is over                               TIMED_OUT, its changes are undone
any           rollback, failed WAL write, ROLLBACK row       ABORTED
```

A transaction is its own journal entry: `rows`, `error` and `on_complete` come from `JournalEntry`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from enum import Enum, auto
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from box.errors import BoxError, ErrorCode, client_error
from box.txn.isolation import Isolation
from box.txn.pending import Pending
from box.wire.constants import GROUP_LOCAL, Flag
from box.wire.entry import JournalEntry

if TYPE_CHECKING:
    from asyncio import TimerHandle

    from box.schema.space import Space
    from box.session import Context
    from box.wire.row import Row

SUB_STMT_MAX: Final = 3
"""Statements may nest this deep below the first one: triggers that write from triggers."""

NO_LSN: Final = -1
"""The lsn of an entry whose WAL write is in progress, and of one that is not synchronous."""

WAIT_SYNC: Final = int(Flag.WAIT_SYNC)
WAIT_SYNC_AND_ACK: Final = int(Flag.WAIT_SYNC | Flag.WAIT_ACK)
"""Flags of the last row of a transaction that the limbo has a say in."""

StatementHook = Callable[[], None]
"""Undo or finish of a DDL statement. Must not fail."""
TransactionHook = Callable[[list["Statement"]], Awaitable[None] | None]
"""An on_commit or on_rollback trigger; it may return an awaitable, which is finished before the commit returns."""


class TxnState(Enum):
    """See the table above."""

    INPROGRESS = auto()
    IN_READ_VIEW = auto()
    CONFLICTED = auto()
    TIMED_OUT = auto()
    PREPARED = auto()
    COMMITTED = auto()
    ABORTED = auto()


_OUTCOMES: Final = frozenset({TxnState.COMMITTED, TxnState.ABORTED})


class LimboEntry(Pending):
    """A commit that may have to wait in the limbo (`box.txn.limbo`), with its place there.

    `wait_sync`: it is in the limbo. `wait_ack`: it is, or was, there as a synchronous one; others only wait for those
    before them. `lsn`: NO_LSN while a synchronous one is not written, and for others. `waits`: somebody on this
    instance waits for the outcome, so that the timeout counts, from `since` on: seconds of the loop's clock, None
    before the WAL write and when nobody waits. `written`: the WAL write has succeeded.
    """

    if not TYPE_CHECKING:
        __slots__ = ()

    lsn: int
    since: float | None
    wait_ack: bool
    wait_sync: bool
    waits: bool
    written: bool

    @property
    def origin_id(self) -> int:
        """The instance that has made it, 0 for an own commit that has not been written, or has no row."""
        raise NotImplementedError

    @property
    def place(self) -> tuple[int, int]:
        """The lsns of its first and its last replicated row once it is written, 0 before."""
        raise NotImplementedError

    @property
    def outcome(self) -> TxnState | None:
        """COMMITTED or ABORTED, None as long as that is not decided."""
        raise NotImplementedError

    def fail(self, error: BoxError) -> None:
        """Remember why the commit was rolled back; the first reason stays."""
        if self.error is None:
            self.error = error


class Commit(JournalEntry, Pending):
    """A commit that may be in progress. Without an error it is in the log, and confirmed if it had to be."""

    __slots__ = ("_callbacks", "done", "result")


class Statement:
    """One change of one space. `old` and `new` are the tuples before and after; None where there was or is none.

    `row` is the journal row, None for temporary spaces and before the statement ends. `applied` is the number of the
    change within the transaction, 0 while the indexes are untouched. `requires_old` says whether the outcome depends on
    the tuple that was there before.
    """

    __slots__ = ("applied", "new", "old", "requires_old", "row", "space", "type")

    on_commit: Sequence[StatementHook] = ()
    """Run when the transaction is committed, in the order of the statements."""
    on_rollback: Sequence[StatementHook] = ()
    """Run newest first right after the statement itself is undone, also by a rollback to a savepoint."""

    def __init__(
        self,
        space: Space | None,
        request_type: int,
        old: bytes | None = None,
        new: bytes | None = None,
        row: Row | None = None,
    ) -> None:
        self.space = space
        self.type = request_type
        self.old = old
        self.new = new
        self.row = row
        self.applied = 0
        self.requires_old = False

    @property
    def first(self) -> bytes:
        """The tuple before, or the one of an insertion: for statements that have changed something."""
        first = self.old or self.new
        assert first is not None
        return first

    @property
    def last(self) -> bytes:
        """The tuple after, or the one of a deletion."""
        last = self.new or self.old
        assert last is not None
        return last

    def __repr__(self) -> str:
        where = self.space.name if self.space is not None else "nowhere"
        return f"<statement type {self.type} in {where!r}: {self.old!r} -> {self.new!r}>"


applied_as: Final[Callable[[Statement], int]] = attrgetter("applied")
"""The order of statements in which they have changed the indexes."""

_NO_HOOKS: Final[list[StatementHook]] = []


class OpenStatement(Statement):
    """A statement that takes the general way, where a change of the dictionary may add hooks."""

    __slots__ = ("on_commit", "on_rollback")

    on_commit: list[StatementHook]
    on_rollback: list[StatementHook]

    def __init__(self, space: Space | None, request_type: int) -> None:
        super().__init__(space, request_type)
        self.on_commit = []
        self.on_rollback = []

    def run_rollback_hooks(self) -> None:
        """Newest first; each runs once."""
        while self.on_rollback:
            self.on_rollback.pop()()

    def spare(self) -> None:
        """The statement has ended; without hooks it gets none any more, and needs no lists for them."""
        if not (self.on_commit or self.on_rollback):
            self.on_commit = self.on_rollback = _NO_HOOKS


class Savepoint:
    """A place between two statements of one transaction."""

    __slots__ = ("last", "length", "sub_statement", "txn_id")

    def __init__(self, txn: Transaction) -> None:
        self.txn_id = txn.id
        self.length = len(txn.statements)
        self.last = txn.statements[-1] if txn.statements else None
        self.sub_statement = len(txn.nesting)

    def is_valid_in(self, txn: Transaction) -> bool:
        """False if it belongs to another transaction, to another nesting level or was itself rolled back."""
        if txn.id != self.txn_id or len(txn.nesting) != self.sub_statement or len(txn.statements) < self.length:
            return False
        return self.length == 0 or txn.statements[self.length - 1] is self.last


class Transaction(Commit, LimboEntry):
    """An open, committing or finished transaction."""

    __slots__ = (
        "aborted_by_yield",
        "before_commit",
        "changes",
        "ctx",
        "engine",
        "force_async",
        "gathered",
        "has_own_rows",
        "hooked",
        "id",
        "isolation",
        "lsn",
        "may_yield",
        "nesting",
        "on_commit",
        "on_rollback",
        "on_wal_write",
        "psn",
        "read_view",
        "since",
        "spaces",
        "state",
        "statements",
        "timeout",
        "timer",
        "wait_ack",
        "wait_sync",
        "waits",
        "written",
    )

    def __init__(self, txn_id: int, ctx: Context, on_complete: Callable[[JournalEntry], None]) -> None:
        self.rows = []
        self.error = None
        self.size = 0
        self.on_complete = on_complete
        self.done = False
        self.result = None
        self._callbacks = None
        self.id = txn_id
        self.ctx: Context | None = ctx
        """The context that has the transaction open; None once the commit started."""
        self.statements: list[Statement] = []
        self.nesting: list[int] = []
        """For every open statement, outermost first, the number of statements before it."""
        self.changes = 0
        """The number of statements that have changed the indexes so far."""
        self.state = TxnState.INPROGRESS
        self.engine: str | None = None
        """The engine that the first statement or read chose."""
        self.may_yield = True
        self.aborted_by_yield = False
        self.isolation = Isolation.BEST_EFFORT
        self.timeout: float | None = None
        """Seconds from the first yield after which it is undone; None for one that may take any time."""
        self.timer: TimerHandle | None = None
        """Runs from the first yield on, if there is a timeout."""
        self.gathered = 0
        """The number of the first statements of which `rows`, `size`, `spaces` and `has_own_rows` are known."""
        self.spaces: dict[Space, None] = {}
        """The spaces of all rows but NOPs."""
        self.has_own_rows = True
        """All rows are of this instance and of replicated spaces, or they are in the order of the log already."""
        self.hooked: list[OpenStatement] = []
        """Statements that may have hooks, in the order in which they got them; set by whoever adds one."""
        self.psn = 0
        """Place in the order of prepared transactions, 0 before that."""
        self.read_view = 0
        """With IN_READ_VIEW: changes with this psn and later ones are invisible."""
        self.force_async = False
        """Never wait in the limbo: rows of a snapshot are confirmed already."""
        self.wait_sync = False
        self.wait_ack = False
        self.waits = False
        self.lsn = NO_LSN
        self.since = None
        self.written = False
        self.before_commit: Callable[[], None] | None = None
        """A last check of the open transaction; its error rolls back."""
        self.on_commit: list[TransactionHook] = []
        self.on_rollback: list[TransactionHook] = []
        self.on_wal_write: list[Callable[[Transaction], None]] = []

    @property
    def current(self) -> Statement:
        """The innermost open statement. Statements nested in it may stand behind it in `statements`."""
        return self.statements[self.nesting[-1]]

    @property
    def is_distributed(self) -> bool:
        """True if rows of another instance made triggers write rows here which other instances would get."""
        foreign = any(s.row is not None and s.row.replica_id for s in self.statements)
        own = any(s.row is not None and not s.row.replica_id and not s.row.group_id for s in self.statements)
        return foreign and own

    def run_rollback_hooks(self) -> None:
        """Those of all statements, for whoever takes the statements' changes back in another way."""
        for statement in sorted(self.hooked, key=applied_as, reverse=True):
            statement.run_rollback_hooks()

    def check_single_statement(self, what: str) -> None:
        """Refuse an operation that must be alone in its transaction. ER_MULTISTATEMENT_TRANSACTION."""
        if len(self.statements) > 1:
            raise client_error(ErrorCode.MULTISTATEMENT_TRANSACTION, what)

    def check_alive(self) -> None:
        """Refuse a statement after a conflict or a timeout. ER_TRANSACTION_CONFLICT, ER_TRANSACTION_TIMEOUT."""
        if self.state is TxnState.CONFLICTED:
            raise client_error(ErrorCode.TRANSACTION_CONFLICT)
        if self.state is TxnState.TIMED_OUT:
            raise client_error(ErrorCode.TRANSACTION_TIMEOUT)

    def pass_over(self, psn: int) -> None:
        """The transaction has read what was there before a prepared change: it may not see the change later either."""
        if self.statements:
            self.state = TxnState.CONFLICTED
        else:
            self.state = TxnState.IN_READ_VIEW
            self.read_view = psn

    @property
    def origin_id(self) -> int:
        return self.rows[-1].replica_id

    @property
    def place(self) -> tuple[int, int]:
        lsns = [row.lsn for row in self.rows if row.group_id != GROUP_LOCAL]
        return lsns[0], lsns[-1]

    @property
    def outcome(self) -> TxnState | None:
        return self.state if self.state in _OUTCOMES else None

    def __repr__(self) -> str:
        return f"<transaction {self.id} {self.state.name} {len(self.statements)} statements>"
