"""Statements of SQL that the calling thread runs itself while it has the node's turn.

```
one row by its whole primary key     in this thread
a query of a few milliseconds        in this thread; one that takes longer starts anew in the thread of the loop
anything else                        in the thread of the loop: it may wait, or run functions of the program or in Lua
```
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

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

_SEQUENCES: Final = (tuple, list)


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
        # Tuples and lists are looked at first, because `isinstance` with an abstract class takes a microsecond.
        if names is None and type(params) not in _SEQUENCES and isinstance(params, Mapping):
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

    def run_together(self, ctx: Context, text: str, given: Sequence[Parameters]) -> list[int]:
        """Run a changing statement once for each set of parameters in the open transaction, while the caller holds the
        node's turn.

        Returns the numbers of rows that the first statements have changed: up to the first that `run_now` has to look
        at.

        Raises:
            BoxError: see `Node.execute`; the statements before the wrong one have run.
        """
        core = self._core
        point = core.sql.point(ctx, text)[0] if ctx.txn is not None else None
        if point is None or point.is_query or point.space.runs_code:
            return []
        if isinstance(point, PointInsert) and point.takes_many:
            counts = self._insert(ctx, point, given)
        else:
            counts = self._commits.run(point.run_all, ctx, _values_of_all(given))
        if counts:
            core.sql.counted(ctx, counts[-1], len(counts))
        return counts

    def _insert(self, ctx: Context, point: PointInsert, given: Sequence[Parameters]) -> list[int]:
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
            self._commits.run(self._core.dml.store_all, ctx, point.space, INSERT, raws)
        return [1] * len(raws)

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


def _values_of_all(given: Sequence[Parameters]) -> list[list[Any]]:
    """Return the values of the first sets of parameters: up to one with names, or with an error, which `run_now`
    raises.
    """
    found: list[list[Any]] = []
    for params in given:
        if isinstance(params, Mapping):
            break
        try:
            found.append(values_of(params, ()))
        except (BoxError, TypeError):
            break
    return found
