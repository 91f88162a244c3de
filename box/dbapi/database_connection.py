"""Connections to a node in this process, and their transactions.

```
statement                                   outside of a transaction         inside one
INSERT, REPLACE, UPDATE, DELETE             opens one, unless `autocommit`   part of it
SELECT, VALUES, PRAGMA, EXPLAIN             sees what is committed           sees its own changes
CREATE, DROP, ALTER, TRUNCATE               at once                          part of it
START TRANSACTION, COMMIT, SAVEPOINT, ...   as in SQL                        as in SQL
```
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeVar, Unpack

from box.dbapi import exceptions
from box.dbapi.database_cursor import DatabaseCursor
from box.dbapi.exceptions import InterfaceError, NotSupportedError, ProgrammingError, translated, translation
from box.dbapi.shared_nodes import SharedNode
from box.embed.arguments import checked_flag, checked_path, checked_text
from box.embed.node_options import check_names
from box.embed.shown_values import shown_with_type
from box.embed.sql_statements import SqlResult, result_of, values_of
from box.errors import BoxError
from box.sync import Node

if TYPE_CHECKING:
    from box.embed import NodeOptions
    from box.embed.sql_statements import Parameters
    from box.instance.node import Instance
    from box.session import Context
    from box.sync.thread_statements import WaitingStatement

T = TypeVar("T")

_STEPS: Final = 64
"""The number of statements of `executemany` that run before other work gets a turn, which takes some milliseconds."""


class Executed(NamedTuple):
    """The result of the last of one or more statements, and the number of rows that all of them found or changed."""

    result: SqlResult
    row_count: int


class _Repeated:
    """A statement that runs once for each set of parameters. `done` counts those that have run."""

    def __init__(self, text: str, given: Sequence[Parameters], changes_rows: bool) -> None:
        self.text = text
        self.given = given
        self.changes_rows = changes_rows
        self.count = len(given)
        self.done = 0
        self._result = SqlResult()
        self._rows = 0

    @property
    def is_done(self) -> bool:
        """True once it has run for each set."""
        return self.done == self.count

    def note(self, result: SqlResult) -> None:
        """Note the result of the next run."""
        self.done += 1
        self._result = result
        self._rows += result.row_count

    def note_counts(self, counts: Sequence[int]) -> None:
        """Note the numbers of rows that the next runs have changed."""
        if counts:
            self.done += len(counts)
            self._result = SqlResult((), (), counts[-1])
            self._rows += sum(counts)

    @property
    def executed(self) -> Executed:
        """The outcome of all runs."""
        return Executed(self._result, self._rows if self.changes_rows or self._result.columns else -1)


def connect(
    database: str | PathLike[str] | Node | None = None, *, autocommit: bool = False, **options: Unpack[NodeOptions]
) -> DatabaseConnection:
    """Open a connection: to the node of a directory, to a running `box.sync.Node`, or (None) to a new node in memory.

    The first connection to a directory starts the node with these options of `box.cfg`; the node stops when the last
    connection is closed. Each connection has a session of the user admin, and transactions of its own.

    Raises:
        OperationalError: the node cannot start, because an option has a wrong value or another process has the
            directory; or the `box.sync.Node` does not run.
        ProgrammingError: an option does not exist, `database` or `autocommit` has another type, or the node of the
            directory runs with other options.
        NotSupportedError: both `memtx_use_mvcc_engine` and `autocommit` are off.
    """
    with translated():
        checked_flag("autocommit", autocommit)
        if isinstance(database, Node):
            if options:
                raise ProgrammingError("a node that runs takes no options: use its configure()")
            return DatabaseConnection(database, None, autocommit=autocommit)
        check_names("connect()", options)
        _check_path(database)
        shared = SharedNode.of(database, {**options})
        try:
            return DatabaseConnection(shared.node, shared, autocommit=autocommit)
        except BaseException:
            shared.release()
            raise


def _check_path(database: Any) -> None:
    if not isinstance(database, str | PathLike | None):
        raise ProgrammingError(f"a database is a path, a box.sync.Node or None, not {shown_with_type(database)}")
    try:
        checked_path("a database", database)
    except ValueError as error:
        raise ProgrammingError(str(error)) from None


def _check_text(text: object) -> None:
    try:
        checked_text("a statement", text)
    except TypeError as error:
        raise ProgrammingError(str(error)) from None


class DatabaseConnection:
    """A connection of `connect()`. As a context manager it commits at the end, rolls back if the block raises, and
    closes.

    Several threads may use it, one at a time: they share its transaction.
    """

    Warning = exceptions.Warning
    Error = exceptions.Error
    InterfaceError = exceptions.InterfaceError
    DatabaseError = exceptions.DatabaseError
    DataError = exceptions.DataError
    OperationalError = exceptions.OperationalError
    IntegrityError = exceptions.IntegrityError
    InternalError = exceptions.InternalError
    ProgrammingError = exceptions.ProgrammingError
    NotSupportedError = exceptions.NotSupportedError

    def __init__(self, node: Node, shared: SharedNode | None, *, autocommit: bool) -> None:
        self._thread = node._running.thread
        self._core: Instance = node.asynchronous._embedding.core
        if not (autocommit or self._core.tuples.allows_yield):
            raise NotSupportedError("transactions need memtx_use_mvcc_engine; connect with autocommit=True without it")
        self._shared = shared
        self._lock = threading.Lock()
        self._ctx: Context = self._thread.run(self._core.new_context)
        self._transactions = node._running.transactions
        self._statements = node._running.statements
        self._autocommit = autocommit
        self._is_open = True

    def __repr__(self) -> str:
        return f"<connection of session {self._ctx.session.id}, {'open' if self._is_open else 'closed'}>"

    def _check_open(self) -> None:
        if not self._is_open:
            raise InterfaceError("the connection is closed")

    @property
    def autocommit(self) -> bool:
        """True if each change is a transaction of its own. Setting it to True commits an open transaction.

        Raises:
            ProgrammingError: it is set to something else than True or False.
            NotSupportedError: it is set to False, and `memtx_use_mvcc_engine` is off.
            InterfaceError: it is set, and the connection is closed.
            OperationalError: it is set to True, and the commit has failed; see `commit`.
        """
        return self._autocommit

    @autocommit.setter
    def autocommit(self, value: bool) -> None:
        self._check_open()
        with translated():
            checked_flag("autocommit", value)
        if value:
            self.commit()
        elif not self._core.tuples.allows_yield:
            raise NotSupportedError("transactions need memtx_use_mvcc_engine")
        self._autocommit = value

    @property
    def in_transaction(self) -> bool:
        """True if a transaction is open."""
        return self._ctx.txn is not None

    def cursor(self) -> DatabaseCursor:
        """Return a new cursor.

        Raises:
            InterfaceError: the connection is closed.
        """
        self._check_open()
        return DatabaseCursor(self)

    def commit(self) -> None:
        """Commit the transaction, if one is open, and wait until it is in the log.

        Raises:
            OperationalError: another transaction has changed what this one has read, or the log cannot be written; the
                transaction is rolled back.
            InterfaceError: the connection is closed.
        """
        self._end_transaction(self._core.dml.commit, self._commit)

    def rollback(self) -> None:
        """Undo the transaction, if one is open.

        Raises:
            InterfaceError: the connection is closed.
        """
        self._end_transaction(self._core.txns.rollback, self._rollback)

    def close(self) -> None:
        """Close the connection and roll back its open transaction; safe to call again.

        Raises:
            OperationalError: the log could not be written at the stop of the node.
        """
        with self._lock:
            if not self._is_open:
                return
            self._is_open = False
        try:
            if self._thread.is_running:
                with translated():
                    self._thread.call(self._end)
        finally:
            if self._shared is not None:
                with translated():
                    self._shared.release()

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            if self._is_open and error is None:
                self.commit()
        finally:
            self.close()

    # -- in the calling thread

    def _end_transaction(self, how: Callable[[Context], Any], there: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """End the open transaction, if there is one; `there` does it in the thread of the node."""
        with self._lock, translated():
            self._check_open()
            if self._ctx.txn is not None and not self._transactions.end(self._ctx, how, self._ctx):
                self._thread.call(there)

    def _execute(self, text: str, parameters: Parameters) -> Executed:
        """Run a statement."""
        ctx, thread = self._ctx, self._thread
        with self._lock:
            try:
                self._check_open()
                changes_rows = self._core.sql.changes_rows(text)
                result = None
                if thread.is_direct:
                    started = thread.run(self._run_now, text, parameters, changes_rows, who=ctx)
                    result = self._statements.ended(started, ctx)
                if result is None:
                    return thread.call(lambda: self._run_rest(_Repeated(text, [parameters], changes_rows)))
            except (BoxError, TypeError, RuntimeError, UnicodeEncodeError, AttributeError) as error:
                # As `translated`, which takes two microseconds.
                with translated():
                    _check_text(text)
                if isinstance(error, UnicodeEncodeError | AttributeError):
                    raise
                raise translation(error) from error
        return Executed(result, result.row_count if changes_rows or result.columns else -1)

    def _execute_many(self, text: str, given: Sequence[Parameters]) -> Executed:
        """Run a changing statement once for each set of parameters in `given`.

        Raises:
            ProgrammingError: the statement is not INSERT, REPLACE, UPDATE or DELETE.
        """
        with self._lock, translated():
            self._check_open()
            _check_text(text)
            work = _Repeated(text, given, self._core.sql.changes_rows(text))
            if not work.changes_rows:
                raise ProgrammingError("executemany() takes INSERT, REPLACE, UPDATE or DELETE")
            while self._thread.is_direct and not work.is_done:
                started = self._thread.run(self._run_some, work, who=self._ctx)
                result = self._statements.ended(started, self._ctx)
                if result is None:
                    break
                work.note(result)
            return work.executed if work.is_done else self._thread.call(lambda: self._run_rest(work))

    def _run_now(self, text: str, parameters: Parameters, changes_rows: bool) -> SqlResult | WaitingStatement | None:
        """Run a statement while this thread holds the node's turn. Returns None if it belongs in the thread of the
        node.
        """
        if changes_rows and not self._autocommit and self._ctx.txn is None:
            self._transactions.begin_now(self._ctx, self._ctx)
        return self._statements.run_now(self._ctx, text, parameters)

    def _run_some(self, work: _Repeated) -> SqlResult | WaitingStatement | None:
        """Run statements while this thread holds the node's turn. Returns the outcome of the last one, or None if the
        next one belongs in the thread of the node.
        """
        if work.changes_rows and not self._autocommit and self._ctx.txn is None:
            self._transactions.begin_now(self._ctx, self._ctx)
        statements, stop = self._statements, min(work.count, work.done + _STEPS)
        if stop - work.done > 1:
            counts = statements.run_together(self._ctx, work.text, work.given[work.done : stop])
            if work.done + len(counts) == stop:
                work.note_counts(counts[:-1])
                return SqlResult((), (), counts[-1])
            work.note_counts(counts)
        while True:
            started = statements.run_now(self._ctx, work.text, work.given[work.done])
            if not isinstance(started, SqlResult) or work.done == stop - 1:
                return started
            work.note(started)

    # -- in the thread of the node

    async def _run_rest(self, work: _Repeated) -> Executed:
        ctx, sql = self._ctx, self._core.sql
        if work.changes_rows and not self._autocommit and ctx.txn is None:
            self._core.txns.begin(ctx)
        while not work.is_done:
            params = work.given[work.done]
            names = sql.parameters(work.text) if isinstance(params, Mapping) else ()
            work.note(await result_of(ctx, await sql.execute(ctx, work.text, values_of(params, names))))
            if work.done % _STEPS == 0:
                await asyncio.sleep(0)
        return work.executed

    async def _commit(self) -> None:
        pending = self._core.txns.commit(self._ctx)
        if pending is not None:
            await pending.wait()

    async def _rollback(self) -> None:
        self._core.txns.rollback(self._ctx)

    async def _end(self) -> None:
        self._core.txns.fiber_stopped(self._ctx)
        self._core.sessions.forget(self._ctx.session)
