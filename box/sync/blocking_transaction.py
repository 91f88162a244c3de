"""Transactions and savepoints."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from box.embed import TransactionBlock
from box.embed.loop_thread import LoopThread
from box.errors import BoxError, ErrorCode, client_error


class BlockingTransaction:
    """`with node.transaction() as tx`: see `box.TransactionBlock`.

    It belongs to the thread that opens it, whose requests are part of it until its end; those of other threads are not.
    """

    def __init__(self, thread: LoopThread, asynchronous: TransactionBlock) -> None:
        self._thread = thread
        self.asynchronous = asynchronous

    @property
    def is_open(self) -> bool:
        """True between the begin and the commit or rollback."""
        return self.asynchronous.is_open

    def __enter__(self) -> Self:
        if self._thread.has_line:
            raise client_error(ErrorCode.ACTIVE_TRANSACTION)
        self._thread.open_line()
        try:
            self._thread.call(self.asynchronous.__aenter__)
        except BaseException:
            self._thread.close_line()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._thread.call(lambda: self.asynchronous.__aexit__(kind, error, trace))
        except BoxError:
            if error is None:
                raise  # else the block's own error is what the caller gets
        finally:
            self._thread.close_line()

    def commit(self) -> None:
        """Commit before the end of the block; later requests are not part of the transaction."""
        self._thread.call(self.asynchronous.commit)

    def rollback(self) -> None:
        """Roll back before the end of the block; later requests are not part of the transaction."""
        self._thread.call(self.asynchronous.rollback)

    def savepoint(self) -> BlockingSavepoint:
        """Mark this place in the transaction."""
        return BlockingSavepoint(self._thread, self.asynchronous)


class BlockingSavepoint:
    """A place in a transaction; as a context manager it rolls back to itself when the block raises."""

    def __init__(self, thread: LoopThread, transaction: TransactionBlock) -> None:
        self._thread = thread
        self._transaction = transaction

        async def mark() -> Any:
            return transaction.savepoint()

        self._savepoint = thread.call(mark)

    def rollback(self) -> None:
        """Undo the statements after this place. NO_TRANSACTION, NO_SUCH_SAVEPOINT."""

        async def undo() -> None:
            self._savepoint.rollback()

        self._thread.call(undo)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None and self._transaction.is_open:
            self.rollback()
