"""Transactions and savepoints of blocking nodes."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from box.embed.arguments import checked_function
from box.embed.callables import transaction_hook
from box.errors import BoxError, ErrorCode, client_error, fiber_is_cancelled

if TYPE_CHECKING:
    from box.embed.callables import PythonFunction
    from box.embed.embedding import Embedding
    from box.session import Context
    from box.sync.thread_contexts import ThreadContexts
    from box.txn.transaction import Savepoint, Transaction


class BlockingTransaction:
    """A transaction: `with node.transaction() as tx` executes all statements of the block or none.

    See `box.TransactionBlock`. The transaction belongs to the thread that opens it: all requests of that thread are
    part of it until its end, those of other threads are not.

    Raises:
        TransactionConflictError: at the end; try the transaction again.
        TransactionError: ACTIVE_TRANSACTION, the thread has one open already.
        FiberIsCancelled: the node was stopped.
    """

    def __init__(self, contexts: ThreadContexts, embedding: Embedding) -> None:
        self._contexts = contexts
        self._embedding = embedding
        self._core = embedding.core
        self._ctx: Context | None = None
        self._txn: Transaction | None = None
        self._is_over = False
        """True after a commit or rollback through this object. A node that stops also ends the transaction, at any
        moment and from another thread.
        """

    @property
    def is_open(self) -> bool:
        """True between the begin and the commit or rollback."""
        return self._ctx is not None and self._txn is not None and self._ctx.txn is self._txn

    def __enter__(self) -> Self:
        if self._txn is not None:
            raise RuntimeError("a transaction block is entered twice: ask for another one with transaction()")
        if self._contexts.own is not None:
            raise client_error(ErrorCode.ACTIVE_TRANSACTION)
        self._contexts.thread.run(self._begin)
        return self

    def _begin(self) -> None:
        self._ctx = ctx = self._contexts.new()
        self._txn = self._contexts.transactions.begin_now(ctx)
        self._contexts.enter(ctx)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ctx = self._ctx
        assert ctx is not None
        has_ended = self._contexts.own is not ctx
        try:
            if has_ended:
                return
            if error is None:
                self.commit()
            elif self.is_open:
                self.rollback()
        except BoxError:
            if error is None:
                raise  # otherwise the caller gets the error of the block
        finally:
            if not has_ended:
                self._contexts.leave(ctx)

    def _own(self) -> Context:
        """Return the context of the transaction.

        Raises:
            TransactionError: NO_TRANSACTION, the transaction is over.
            FiberIsCancelled: the node was stopped, which has rolled it back.
            RuntimeError: another thread opened the transaction.
        """
        if self._ctx is None or self._is_over:
            raise client_error(ErrorCode.NO_TRANSACTION)
        if not self.is_open:
            raise fiber_is_cancelled()
        if self._contexts.own is not self._ctx:
            raise RuntimeError("a transaction is used outside of the thread to which it belongs")
        return self._ctx

    def commit(self) -> None:
        """Commit before the end of the block; later requests are not part of the transaction.

        Raises:
            TransactionError: NO_TRANSACTION, the transaction is over. Other errors are those of `BlockingTransaction`.
        """
        self._finish(self._core.dml.commit)

    def rollback(self) -> None:
        """Roll back before the end of the block; later requests are not part of the transaction."""
        self._finish(self._core.txns.rollback)

    def _finish(self, how: Any) -> None:
        ctx = self._own()
        self._contexts.leave(ctx)
        self._is_over = True
        if not self._contexts.transactions.end(ctx, how):
            self._contexts.call(lambda: self._finish_there(ctx, how))

    async def _finish_there(self, ctx: Context, how: Any) -> None:
        pending = how(ctx)
        if pending is not None:
            await pending.wait()

    def on_commit(self, function: PythonFunction) -> None:
        """Have `function(changes)` called once the transaction is committed, before the commit returns; see
        `box.TransactionBlock.on_commit`. The function runs in the node's thread.
        """
        hook = transaction_hook(self._embedding, checked_function(function), "on_commit")
        self._contexts.thread.run(self._changed().on_commit.append, hook)

    def on_rollback(self, function: PythonFunction) -> None:
        """Have `function(changes)` called once the transaction is rolled back; see `box.TransactionBlock.on_rollback`.
        The function runs in the node's thread.
        """
        hook = transaction_hook(self._embedding, checked_function(function), "on_rollback")
        self._contexts.thread.run(self._changed().on_rollback.append, hook)

    def _changed(self) -> Transaction:
        txn = self._own().txn
        assert txn is not None
        return txn

    def savepoint(self) -> BlockingSavepoint:
        """Set a savepoint at this place in the transaction."""
        ctx = self._own()
        return BlockingSavepoint(self, self._contexts.thread.run(self._core.txns.savepoint, ctx))

    def _rollback_to(self, savepoint: Savepoint) -> None:
        ctx = self._own()
        run = self._contexts.commits.run
        self._contexts.thread.run(run, self._core.txns.rollback_to_savepoint, ctx, savepoint)


class BlockingSavepoint:
    """A savepoint; as a context manager it rolls back to itself when the block raises."""

    def __init__(self, transaction: BlockingTransaction, savepoint: Savepoint) -> None:
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

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None and self._transaction.is_open:
            self.rollback()
