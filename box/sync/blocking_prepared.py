"""Prepared statements of blocking nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from box.embed import PreparedStatement
from box.embed.sql_statements import text_of
from box.sync.facade import Facade

if TYPE_CHECKING:
    from box.embed.sql_statements import Parameters, SqlColumn, SqlResult
    from box.session import Context
    from box.sync.thread_statements import WaitingStatement


class BlockingPrepared(Facade[PreparedStatement]):
    """A statement that is analysed once and run many times; see `box.PreparedStatement`."""

    @property
    def text(self) -> str:
        """The statement."""
        return self.asynchronous.text

    @property
    def parameters(self) -> list[str | None]:
        """The names of the parameters with their marks, None for `?`."""
        return self.asynchronous.parameters

    @property
    def columns(self) -> list[SqlColumn]:
        """The columns of a query; empty for other statements."""
        return self.asynchronous.columns

    def execute(self, params: Parameters = ()) -> SqlResult:
        """Run the statement; see `box.PreparedStatement.execute`."""
        prepared, contexts = self.asynchronous, self._contexts

        def statement(ctx: Context) -> SqlResult | WaitingStatement | None:
            return contexts.statements.run_now(ctx, text_of(prepared, ctx), params, prepared.parameters)

        result = contexts.execute(statement)
        return self._run(lambda: prepared.execute(params)) if result is None else result

    def close(self) -> None:
        """Forget the statement; safe to call again."""
        if self._contexts.thread.is_running:
            self._run(self.asynchronous.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
