"""Begins and ends transactions in the calling thread, which takes the node's turn for it."""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final

from box.errors import fiber_is_cancelled
from box.sync.thread_commits import WaitingOutcome

if TYPE_CHECKING:
    from box.embed.commits import Commits
    from box.instance.node import Instance
    from box.session import Context
    from box.sync.loop_thread import LoopThread
    from box.txn.transaction import Transaction

BY_LOOP: Final = object()
"""Stands for the outcome of a request that only the loop's thread can run."""


class ThreadTransactions:
    """Transactions of the calling threads. They are lone ones until another thread, or the loop, has its turn."""

    def __init__(self, core: Instance, thread: LoopThread, commits: Commits) -> None:
        self._core = core
        self._thread = thread
        self._commits = commits

    def begin_now(self, ctx: Context, who: object = None) -> Transaction:
        """Open a transaction while the caller holds the node's turn; `who` as for `LoopThread.run`.

        Raises:
            TransactionError: ACTIVE_TRANSACTION.
        """
        txn = self._core.txns.begin_lone(ctx)
        if txn.is_lone:
            turn = self._thread.turn
            turn.lone, turn.share = who or get_ident(), lambda: self._share(txn)
        return txn

    def _share(self, txn: Transaction) -> None:
        self._thread.turn.lone = None
        self._core.txns.share(txn)

    def end(self, ctx: Context, how: Callable[[Context], Any], who: object = None) -> bool:
        """Commit or roll back a transaction and wait for the outcome. `how` is the method of the node that does it;
        `who` as for `LoopThread.run`.

        Returns False, with nothing done, if only the loop's thread may do it, because it runs triggers or changes the
        dictionary.

        Raises:
            BoxError: the error of the commit; FiberIsCancelled, the stop of the node has ended the transaction.
        """
        if not self._thread.is_direct:
            return False
        outcome = self._thread.run(self._end_now, ctx, how, who=who)
        if isinstance(outcome, WaitingOutcome):
            self._thread.wait(outcome.pending, outcome.done)
        return outcome is not BY_LOOP

    def _end_now(self, ctx: Context, how: Callable[[Context], Any]) -> Any:
        txn = ctx.txn
        if txn is None:
            raise fiber_is_cancelled()
        if txn.on_commit or txn.on_rollback or txn.on_wal_write or txn.hooked:
            return BY_LOOP
        if txn.is_lone:
            self._thread.turn.lone = None
        return self._commits.run(how, ctx)
