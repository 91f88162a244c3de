"""Statements of SQL that the calling thread runs itself while it has the node's turn.

```
one row by its whole primary key     in this thread
a query of a few milliseconds        in this thread; one that takes longer starts anew in the thread of the loop
anything else                        in the thread of the loop: it may wait, or run functions of the program or in Lua
```
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from box.embed.sql_statements import SqlResult, result_at_once, values_of
from box.errors import BoxError
from box.sql.point_changes import PointInsert
from box.sync.thread_commits import WaitingOutcome
from box.wire.change import INSERT

if TYPE_CHECKING:
    from box.embed.commits import Commits
    from box.embed.sql_statements import Parameters
    from box.instance.node import Instance
    from box.session import Context
    from box.sync.loop_thread import LoopThread
    from box.txn.pending import Outcome


class WaitingStatement:
    """A statement whose change is made but not yet written; the thread waits for it without holding the turn."""

    __slots__ = ("ctx", "outcome", "row_count")

    def __init__(self, ctx: Context, row_count: int, outcome: WaitingOutcome) -> None:
        self.ctx = ctx
        self.row_count = row_count
        self.outcome = outcome


class ThreadStatements:
    """Runs statements in the calling thread; `commits` writes their changes to the log."""

    def __init__(self, core: Instance, thread: LoopThread, commits: Commits) -> None:
        self._core = core
        self._thread = thread
        self._commits = commits

    def run_now(
        self, ctx: Context, text: str, params: Parameters, names: Sequence[str | None] | None = None
    ) -> SqlResult | WaitingStatement | None:
        """Run a statement while the caller holds the node's turn; `names` are those of its parameters, if known.

        Returns None, having done nothing, if the statement belongs in the thread of the loop.

        Raises:
            BoxError: see `Node.execute`.
        """
        sql = self._core.sql
        if names is None and type(params) is not tuple and isinstance(params, Mapping):
            names = sql.parameters(text)
        values = values_of(params, names or ())
        point, given = found = sql.point(ctx, text, values)
        if point is None or point.is_query:
            rows = sql.query_at_once(ctx, text, values, found)
            return None if rows is None else result_at_once(rows)
        if point.space.runs_code:
            return None
        counts: list[int] = []

        def change() -> Outcome:
            written = point.run(ctx, given)
            if written is None:
                return None
            counts.append(written[0])
            return written[1]

        try:
            outcome: Any = self._commits.run(change)
        except BoxError:
            sql.count_failed()
            raise
        if not counts:
            return None
        if isinstance(outcome, WaitingOutcome):
            return WaitingStatement(ctx, counts[0], outcome)
        sql.counted(ctx, counts[0])
        return SqlResult((), (), counts[0])

    def insert_together(self, ctx: Context, text: str, given: Sequence[Parameters]) -> int:
        """Insert rows in the open transaction while the caller holds the node's turn, as `run_now` does for each.

        Returns how many of the first statements that has done: up to the first that `run_now` has to look at.

        Raises:
            BoxError: see `Node.execute`; the rows before the wrong one are inserted.
        """
        core = self._core
        point = core.sql.point(ctx, text)[0] if ctx.txn is not None else None
        if not isinstance(point, PointInsert) or not point.takes_many or point.space.runs_code:
            return 0
        raws: list[bytes] = []
        try:
            for params in given:
                raw = None if isinstance(params, Mapping) else point.packed(params)
                if raw is None:
                    break
                raws.append(raw)
        except (BoxError, TypeError):
            pass  # `run_now` raises it
        if raws:
            self._commits.run(core.dml.store_all, ctx, point.space, INSERT, raws)
            core.sql.counted(ctx, 1, len(raws))
        return len(raws)

    def ended(self, started: SqlResult | WaitingStatement | None, who: object = None) -> SqlResult | None:
        """Return the result of a statement, without the turn, once its change is written; `who` as for
        `LoopThread.run`.

        Raises:
            BoxError: the error of the write.
        """
        if not isinstance(started, WaitingStatement):
            return started
        self._thread.wait(started.outcome.pending, started.outcome.done)
        self._thread.run(self._core.sql.counted, started.ctx, started.row_count, who=who)
        return SqlResult((), (), started.row_count)
