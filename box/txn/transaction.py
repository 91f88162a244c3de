"""Transactions, statements and savepoints: the state of one transaction.

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

from box.errors import BoxError, ErrorCode, client_error, fiber_is_cancelled
from box.txn.isolation import Isolation
from box.txn.pending import Pending
from box.wire.constants import GROUP_LOCAL, Flag
from box.wire.entry import JournalEntry

if TYPE_CHECKING:
    from asyncio import TimerHandle

    from box.schema.space import Space
    from box.schema.storage_engine import Engine
    from box.session import Context
    from box.wire.change import Request
    from box.wire.row import Row

SUB_STMT_MAX: Final = 3
"""The number of levels that statements may nest below the first one, as triggers that write in triggers do."""

NO_LSN: Final = -1
"""The lsn of an entry whose WAL write is in progress, and of one that is not synchronous."""

WAIT_SYNC: Final = int(Flag.WAIT_SYNC)
WAIT_SYNC_AND_ACK: Final = int(Flag.WAIT_SYNC | Flag.WAIT_ACK)
"""Flags of the last row of a transaction that has to wait in the limbo."""

StatementHook = Callable[[], None]
"""The undo or the completion of a DDL statement. It must not fail."""
TransactionHook = Callable[[list["Statement"]], Awaitable[None] | None]
"""An on_commit or on_rollback trigger; if it returns an awaitable, that is finished before the commit returns."""


class TxnState(Enum):
    """The state of a transaction; the docstring of the module lists the changes between states."""

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

    `wait_sync`: it is in the limbo. `wait_ack`: it is, or was, there as a synchronous one; asynchronous ones only wait
    for earlier entries. `lsn`: that of a synchronous entry that is written, otherwise NO_LSN. `waits`: a caller on this
    instance waits for the outcome, so the timeout counts. `since`: the loop's time in seconds from which it counts,
    None before the WAL write and if no caller waits. `written`: the WAL write has succeeded.
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
        """The instance that made the commit; 0 for one of this instance that is not written or has no row object."""
        raise NotImplementedError

    @property
    def place(self) -> tuple[int, int]:
        """The lsns of the first and the last replicated row, 0 before the commit is written."""
        raise NotImplementedError

    @property
    def outcome(self) -> TxnState | None:
        """COMMITTED or ABORTED, or None while that is not decided."""
        raise NotImplementedError

    def fail(self, error: BoxError) -> None:
        """Record why the commit was rolled back; the first reason stays."""
        if self.error is None:
            self.error = error


class Commit(JournalEntry, Pending):
    """A commit that may be in progress. If it ends without an error, it is in the log and confirmed if needed."""

    __slots__ = ("_callbacks", "done", "result")


class Statement:
    """One change of one space. `old` and `new` are the tuples before and after, or None.

    `row` is the journal row, None for temporary spaces and before the statement ends. `body` is that of a row that is
    made later, when the transaction gathers what its commit needs (`box.txn.gathered`), or the request that has it, or
    None if it is that of an INSERT or REPLACE of `new`; otherwise it is empty. `applied` is the number of the change
    within the transaction, 0 while the indexes are untouched. `requires_old`: the outcome depends on the tuple before.
    """

    __slots__ = ("applied", "body", "new", "old", "requires_old", "row", "space", "type")

    on_commit: Sequence[StatementHook] = ()
    """Hooks to run when the transaction is committed, in the order of the statements."""
    on_rollback: Sequence[StatementHook] = ()
    """Hooks to run newest first right after the statement itself is undone, also by a rollback to a savepoint."""

    def __init__(
        self,
        space: Space | None,
        request_type: int,
        old: bytes | None = None,
        new: bytes | None = None,
        row: Row | None = None,
        body: bytes | Request | None = b"",
    ) -> None:
        self.space = space
        self.type = request_type
        self.body: bytes | Request | None = body
        self.old = old
        self.new = new
        self.row = row
        self.applied = 0
        self.requires_old = False

    @property
    def first(self) -> bytes:
        """The tuple before the change, or the inserted one. The statement must have changed something."""
        first = self.old or self.new
        assert first is not None
        return first

    @property
    def last(self) -> bytes:
        """The tuple after the change, or the deleted one. The statement must have changed something."""
        last = self.new or self.old
        assert last is not None
        return last

    def __repr__(self) -> str:
        where = self.space.name if self.space is not None else "nowhere"
        return f"<statement type {self.type} in {where!r}: {self.old!r} -> {self.new!r}>"


applied_as: Final[Callable[[Statement], int]] = attrgetter("applied")
"""The sort key that puts statements into the order in which they changed the indexes."""

_NO_HOOKS: Final[list[StatementHook]] = []
"""The shared empty list of statements that get no more hooks."""


class OpenStatement(Statement):
    """A statement of the general path, to which a change of the dictionary may add hooks."""

    __slots__ = ("on_commit", "on_rollback")

    on_commit: list[StatementHook]
    on_rollback: list[StatementHook]

    def __init__(self, space: Space | None, request_type: int) -> None:
        super().__init__(space, request_type)
        self.on_commit = []
        self.on_rollback = []

    def run_rollback_hooks(self) -> None:
        """Run the rollback hooks, newest first; each runs once."""
        while self.on_rollback:
            self.on_rollback.pop()()

    def spare(self) -> None:
        """Drop the empty lists of hooks of an ended statement, to which no hooks are added any more."""
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
        """Return False if it belongs to another transaction or nesting level, or was itself rolled back."""
        if txn.id != self.txn_id or len(txn.nesting) != self.sub_statement or len(txn.statements) < self.length:
            return False
        return self.length == 0 or txn.statements[self.length - 1] is self.last


class Transaction(Commit, LimboEntry):
    """An open, committing or finished transaction."""

    __slots__ = (
        "aborted_by_yield",
        "before_commit",
        "bound",
        "changes",
        "ctx",
        "engine",
        "force_async",
        "gathered",
        "has_own_rows",
        "hooked",
        "id",
        "is_fast",
        "is_lone",
        "is_taken_back",
        "isolation",
        "leaves_rows_out",
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
        "yields",
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
        """The context that has the transaction open; None once the commit has started."""
        self.statements: list[Statement] = []
        self.nesting: list[int] = []
        """The number of statements before each open statement, outermost first."""
        self.changes = 0
        """The number of statements that have changed the indexes so far."""
        self.state = TxnState.INPROGRESS
        self.engine: Engine | None = None
        """The engine of the first statement or read."""
        self.bound: Engine | None = None
        """The engine of the transaction, which stays set after a timeout; it is told how the transaction ends."""
        self.may_yield = True
        """True if the fiber may wait without losing the changes."""
        self.aborted_by_yield = False
        self.yields = 0
        """How often the fiber has waited although it may not."""
        self.isolation = Isolation.BEST_EFFORT
        self.timeout: float | None = None
        """The time limit in seconds, counted from the first yield; None for no limit."""
        self.timer: TimerHandle | None = None
        """The timer of the limit, which runs from the first yield on."""
        self.is_fast = True
        """True while all statements are of the fast path, of this instance, and asynchronous."""
        self.is_taken_back = False
        """True if nobody sees its changes any more, not even itself, although it is still open."""
        self.is_lone = False
        """True while its changes need no versions, because no other line of execution has run since it began."""
        self.leaves_rows_out = False
        """True if `gathered` counts statements whose rows were not made; see `box.txn.gathered`."""
        self.gathered = 0
        """The number of statements that `rows`, `size`, `spaces` and `has_own_rows` cover, from the first one."""
        self.spaces: dict[Space, None] = {}
        """The spaces of all rows but NOPs."""
        self.has_own_rows = True
        """True if all rows are of this instance and of replicated spaces, or are in the order of the log already."""
        self.hooked: list[OpenStatement] = []
        """Statements that may have hooks, in the order in which they got them; code that adds a hook appends its
        statement.
        """
        self.psn = 0
        """The place in the order of prepared transactions, 0 before it is prepared."""
        self.read_view = 0
        """In IN_READ_VIEW: changes with this psn and later ones are invisible."""
        self.force_async = False
        """True if it must not wait in the limbo: rows of a snapshot are confirmed already."""
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
        """The innermost open statement; statements nested in it may follow it in `statements`."""
        return self.statements[self.nesting[-1]]

    @property
    def is_distributed(self) -> bool:
        """True if rows of another instance made triggers write replicated rows here."""
        rows = [statement.row for statement in self.statements if statement.row is not None]
        foreign = any(row.replica_id for row in rows)
        own = any(not row.replica_id and not row.group_id for row in rows) or any(
            s.body is None or s.body for s in self.statements
        )
        return foreign and own

    def run_rollback_hooks(self) -> None:
        """Run the rollback hooks of all statements, newest first, if their changes are undone in another way."""
        for statement in sorted(self.hooked, key=applied_as, reverse=True):
            statement.run_rollback_hooks()

    def check_single_statement(self, what: str) -> None:
        """Check that the statement of an operation is alone in its transaction.

        Raises:
            TransactionError: MULTISTATEMENT_TRANSACTION.
        """
        if len(self.statements) > 1:
            raise client_error(ErrorCode.MULTISTATEMENT_TRANSACTION, what)

    def check_alive(self) -> None:
        """Check that the transaction may execute a statement.

        Raises:
            TransactionError: TRANSACTION_CONFLICT or TRANSACTION_TIMEOUT.
            FiberIsCancelled: it was rolled back meanwhile, because its fiber or task has ended.
        """
        if self.state is TxnState.ABORTED:
            raise fiber_is_cancelled()
        if self.state is TxnState.CONFLICTED:
            raise client_error(ErrorCode.TRANSACTION_CONFLICT)
        if self.state is TxnState.TIMED_OUT:
            raise client_error(ErrorCode.TRANSACTION_TIMEOUT)

    def pass_over(self, psn: int) -> None:
        """Note that the transaction has read the state before a prepared change, so that it must not see that change
        later.
        """
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
