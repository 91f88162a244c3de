"""Transactions of the embedding program: `async with node.transaction() as tx`."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Self

from box.embed.arguments import checked_function
from box.embed.callables import transaction_hook
from box.embed.handles import Spaces
from box.errors import BoxError, ErrorCode, TransactionYieldError, client_error

if TYPE_CHECKING:
    from box.embed.callables import PythonFunction
    from box.embed.commits import Commits
    from box.embed.embedding import Embedding
    from box.embed.task_contexts import TaskTransaction
    from box.session import Context
    from box.txn.transaction import Savepoint


class SavepointBlock:
    """A savepoint: a place in a transaction to which it can be rolled back.

    As a context manager (`with tx.savepoint():`) it rolls back to itself when the block raises, and passes the
    exception on.
    """

    def __init__(self, transaction: TransactionBlock, savepoint: Savepoint) -> None:
        self._transaction = transaction
        self._savepoint = savepoint

    def rollback(self) -> None:
        """Undo the statements after this savepoint.

        Raises:
            TransactionError: NO_TRANSACTION, the transaction is over; NO_SUCH_SAVEPOINT, the savepoint itself was
                undone.
        """
        self._transaction._rollback_to(self._savepoint)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self._transaction.is_open:
            self.rollback()


class TransactionBlock:
    """A transaction: `async with node.transaction() as tx` executes all statements of the block or none.

    The transaction belongs to the task that opens it: every request of that task, through `node.space`, `tx.space`,
    `node.eval` or `node.call`, is part of it. Requests of other tasks are not, and using `tx` in them is an error.

    The end of the block commits, and waits until the transaction is in the log (and a quorum has it, for synchronous
    spaces). An exception rolls back and is passed on.

    Isolation: no other task ever sees uncommitted changes. With `memtx_use_mvcc_engine` a transaction sees one state of
    the data, may await anything, and fails if another one has changed what it read. Without that option it may await
    nothing but its own requests: awaiting anything else rolls it back at that moment. The commit then fails, and its
    error names the place. This detection needs an asyncio loop; on another loop (uvloop) transactions without the
    option are not supported.

    Raises:
        TransactionConflictError: at the commit; try the transaction again.
        TransactionYieldError: at the commit, without `memtx_use_mvcc_engine`: the task awaited something else.
        TransactionError: ACTIVE_TRANSACTION, the task has a transaction open; SYNC_ROLLBACK, it was rolled back.
        QuorumTimeoutError: no quorum confirmed it in time.
        DiskWriteError: the log could not be written.
        RuntimeError: another task uses `tx`.
    """

    def __init__(self, embedding: Embedding) -> None:
        self._embedding = embedding
        self._opened: TaskTransaction | None = None
        self.space = Spaces(embedding, _OwnContexts(self))
        """The spaces by name, like `node.space`, but only for the task of the transaction."""

    @property
    def is_open(self) -> bool:
        """True between the begin and the commit or rollback."""
        return self._opened is not None and self._opened.is_open

    async def __aenter__(self) -> Self:
        if self._opened is not None:
            raise RuntimeError("a transaction block is entered twice: ask for another one with transaction()")
        self._opened = self._embedding.contexts.begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        opened = self._opened
        assert opened is not None
        if not opened.is_open:
            self._end(opened)
            if error is None and opened.error is not None:
                raise opened.error
        elif error is None:
            await self.commit()
        else:
            self._end(opened)
            self._embedding.core.txns.fiber_stopped(opened.ctx)

    def _end(self, opened: TaskTransaction) -> None:
        if self._embedding.is_running:
            self._embedding.contexts.end(opened)

    def _own(self, caller: str) -> TaskTransaction:
        """Return the transaction, after a check that the calling task owns it."""
        opened = self._opened
        if opened is None:
            raise client_error(ErrorCode.NO_TRANSACTION)
        if asyncio.current_task() is not opened.task:
            owner = opened.task.get_name()
            raise RuntimeError(f"{caller} is used outside of the task {owner!r}, to which its transaction belongs")
        if opened.error is not None:
            raise opened.error
        if not opened.is_open:
            raise client_error(ErrorCode.NO_TRANSACTION)
        return opened

    async def commit(self) -> None:
        """Commit before the end of the block; later statements of the block are not part of the transaction.

        Raises:
            TransactionError: NO_TRANSACTION, the transaction is over. Other errors are those of `TransactionBlock`.
        """
        opened = self._own("commit()")
        self._end(opened)
        try:
            contexts = self._embedding.contexts
            pending = contexts.commits.run(self._embedding.core.dml.commit, opened.ctx)
        except TransactionYieldError as error:
            raise _explained(error, opened) from None
        if pending is not None:
            await pending.wait()

    async def rollback(self) -> None:
        """Roll back before the end of the block; later statements of the block are not part of the transaction."""
        opened = self._own("rollback()")
        self._end(opened)
        self._embedding.core.txns.rollback(opened.ctx)

    def on_commit(self, function: PythonFunction) -> None:
        """Have `function(changes)` called once the transaction is committed, before the commit returns.

        `changes` is a list of `Change`s in the order of the statements. Errors are logged: they come too late.
        """
        opened = self._own("on_commit()")
        opened.txn.on_commit.append(transaction_hook(self._embedding, checked_function(function), "on_commit"))

    def on_rollback(self, function: PythonFunction) -> None:
        """Have `function(changes)` called once the transaction is rolled back.

        `changes` is a list of `Change`s in the order of the statements. Errors are logged: they come too late.
        """
        opened = self._own("on_rollback()")
        opened.txn.on_rollback.append(transaction_hook(self._embedding, checked_function(function), "on_rollback"))

    def savepoint(self) -> SavepointBlock:
        """Set a savepoint at this place in the transaction."""
        return SavepointBlock(self, self._embedding.core.txns.savepoint(self._own("savepoint()").ctx))

    def _rollback_to(self, savepoint: Savepoint) -> None:
        self._embedding.core.txns.rollback_to_savepoint(self._own("rollback() to a savepoint").ctx, savepoint)


class _OwnContexts:
    """Supplies the transaction's context to requests of `tx.space`, for its own task only."""

    def __init__(self, transaction: TransactionBlock) -> None:
        self._transaction = transaction

    def at_hand(self) -> None:
        """Return None, because each call has to be checked."""

    @property
    def commits(self) -> Commits:
        return self._transaction._embedding.contexts.commits

    def current(self, caller: str) -> Context:
        """Return the transaction's context.

        Raises:
            RuntimeError: another task calls.
            TransactionError: NO_TRANSACTION, the transaction is over.
        """
        self._transaction._own(caller)
        return self._transaction._embedding.new_context(caller)

    def new(self) -> Context:
        """Return a context outside of the transaction."""
        return self._transaction._embedding.contexts.new()


def _explained(error: TransactionYieldError, opened: TaskTransaction) -> BoxError:
    """Return the error of a transaction that has yielded, with the place and advice."""
    where = f" {opened.interruption}" if opened.interruption else ""
    remedy = "with memtx_use_mvcc_engine=True a transaction may wait"
    return BoxError(error.code, f"{error.message}: its task awaited something else{where}; {remedy}")
