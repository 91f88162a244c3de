"""Nodes for Python programs: `from box import Node`."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypedDict, TypeVar, Unpack, overload

import box.instance.parts  # noqa: F401 - otherwise imported while the program's loop runs, which would stop it
from box.embed.arguments import checked_path
from box.embed.declarations import Declarations, name_of
from box.embed.embedding import Embedding
from box.embed.handles import Spaces
from box.embed.log_forwarding import forward_to, logger_of_nodes
from box.embed.lua_instance import LuaInstance
from box.embed.node_options import NodeOptions, check_names
from box.embed.schema_requests import SchemaRequests
from box.embed.task_contexts import TaskContexts
from box.embed.transaction_block import TransactionBlock
from box.errors import BoxError, ErrorCode, client_error, system_error
from box.log import Level

if TYPE_CHECKING:
    import pyarrow as pa

    from box.embed.callables import PythonFunction
    from box.embed.declarations import NodeTrigger
    from box.embed.sql_statements import Parameters, PreparedStatement, SqlResult

F = TypeVar("F", bound=Callable[..., Any])


def _leave_soon(code: int) -> None:
    """Handle `os.exit` of an embedded node: raise SystemExit in the event loop.

    `asyncio.run` passes it on after it has cancelled the program's tasks, which stops the node.
    """
    asyncio.get_running_loop().call_soon(_leave, code)


def _leave(code: int) -> None:
    raise SystemExit(code)


def _check_path(directory: object) -> None:
    try:
        checked_path("the directory", directory)
    except TypeError as error:
        raise TypeError(f"{error}; options are keywords: listen=3301") from None


class ClusterInfo(TypedDict):
    """The replica set of a node: the `cluster` part of its information."""

    uuid: str


class NodeInfo(TypedDict):
    """Information about a node, as in `box.info`.

    `id` and `uuid` identify the instance. `vclock` maps each replica id to the number (lsn) of its newest row here;
    `lsn` is the instance's own component. `ro` is true while the node accepts no changes. `listen` is the bound
    address, or None without a server.
    """

    id: int
    uuid: str
    cluster: ClusterInfo
    status: str
    ro: bool
    lsn: int
    vclock: dict[int, int]
    listen: str | None


class Node:
    """A node inside a Python program: `async with Node("data", listen=3301) as node`.

    `directory` holds its files and is created if its parent exists; None keeps everything in memory. Keywords are the
    options of `box.cfg` (`NodeOptions`). The node logs to `logger`, by default the one called `box`, unless the option
    `log` names another destination. `os.exit(code)` in Lua raises SystemExit in the program's event loop.

    Raises:
        TypeError: an option does not exist, or `directory` is no path.
        ValueError: no file can have the name `directory`, because it contains NUL or is not valid Unicode.
        ConfigError: an option has a wrong value (at the start).
        BoxSystemError: the directory cannot be made or read (at the start).
        ClientError: ALREADY_RUNNING, another running node owns the directory (at the start).
    """

    def __init__(
        self,
        directory: str | PathLike[str] | None = None,
        *,
        logger: logging.Logger | None = None,
        **options: Unpack[NodeOptions],
    ) -> None:
        check_names("Node()", options)
        _check_path(directory)
        self._embedding = embedding = Embedding()
        self._directory = directory
        self._logger = logger or logger_of_nodes()
        self._is_stopping = False
        self._options: dict[str, Any] = {**options}
        self._declarations = Declarations(embedding)
        self.space: Spaces = Spaces(embedding)
        """The spaces by name: `node.space["goods"]` or `node.space.goods`."""
        self.schema: SchemaRequests = SchemaRequests(embedding)
        """Creates and lists spaces, sequences, users, roles, grants and functions."""

    def __repr__(self) -> str:
        where = "in memory" if self._directory is None else repr(os.fspath(self._directory))
        return f"<node {where} {'running' if self.is_running else 'not running'}>"

    @property
    def is_running(self) -> bool:
        """True between the start and the stop."""
        return self._embedding.is_running

    async def start(self) -> None:
        """Start the node; `async with` calls it.

        Raises:
            ClientError: ALREADY_RUNNING, the node is running already. See `Node` for the other errors of a start.
            RuntimeError: no loop of asyncio runs, for example because the program uses trio.
        """
        embedding = self._embedding
        if asyncio._get_running_loop() is None:
            raise RuntimeError("box.Node needs a running loop of asyncio; box.sync.Node works without one")
        if embedding.is_running:
            raise BoxError(ErrorCode.ALREADY_RUNNING, "The node is running already")
        self._make_directory()
        instance = self._make_instance()
        try:
            if not self._options.get("log"):
                instance.node.log.forward = self._log_lines()
            self._declarations.apply(instance)
            embedding.prepare(TaskContexts(instance.node))
            await instance.configure(self._options)
        except BaseException as error:
            embedding.end()
            self._declarations.release()
            await instance.stop()
            if isinstance(error, BoxError):
                raise self._with_directory(error) from None
            raise
        embedding.begin(instance)

    def _make_directory(self) -> None:
        """Create the directory if it is missing and its parent exists."""
        if self._directory is None or os.path.isdir(self._directory):
            return
        try:
            os.mkdir(self._directory)
        except OSError as error:
            path = os.fspath(self._directory)
            if isinstance(error, FileExistsError):
                raise system_error(f"'{path}' is not a directory", error.errno or 0) from None
            raise system_error(f"can't create directory '{path}': {error.strerror}", error.errno or 0) from None

    def _with_directory(self, error: BoxError) -> BoxError:
        """Return the error of a start with the directory named as the program gave it."""
        if self._directory is None or self._options.get("work_dir"):
            return error
        path = os.fspath(self._directory)
        if error.code == ErrorCode.ALREADY_RUNNING and not self._options.get("wal_dir"):
            refusal = client_error(ErrorCode.ALREADY_RUNNING, f"'{path}'")
            refusal.add_note("Another running node has the directory, in this process or in another one.")
            return refusal
        text = error.message.replace("directory '.'", f"directory '{path}'").replace("'./", f"'{path}/")
        return error if text == error.message else BoxError(error.code, text, type=error.type, errno=error.errno)

    def _log_lines(self) -> Callable[[Level, str], None]:
        """Return the function that takes the lines of the log; simulated nodes override it to keep the lines."""
        return forward_to(self._logger)

    def _make_instance(self) -> LuaInstance:
        """Make an instance that is not configured yet; simulated nodes override it."""
        return LuaInstance(self._directory, on_exit=_leave_soon)

    async def stop(self) -> None:
        """Stop the node; safe to call again.

        Calls that have not ended are cancelled. Pending writes end as usual; a write that has no quorum yet raises
        FiberIsCancelled, although it is in the log and the next start decides about it. Open transactions are rolled
        back. In a forked child process the call does nothing, because the node belongs to the parent.

        Raises:
            RuntimeError: the call comes from another thread or event loop than the node's.
        """
        embedding = self._embedding
        if embedding.running_contexts is not None:
            if embedding.running_contexts.is_forked:
                return
            embedding.running_contexts.check_thread("stop()")
        if embedding.is_running and not self._is_stopping:
            self._is_stopping = True
            try:
                await self._declarations.shut_down()
            finally:
                self._is_stopping = False
        instance = embedding.end()
        self._declarations.release()
        if instance is not None:
            await embedding.wait_background()
            await instance.stop()
            await instance.node.let_go()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def configure(self, **options: Unpack[NodeOptions]) -> None:
        """Change options while the node runs: `box.cfg{...}`.

        Raises:
            TypeError: an option does not exist.
            ConfigError: a value is wrong, or the option can only be set at the start.
        """
        check_names("configure()", options)
        self._embedding.new_context("configure()")
        await self._embedding.instance.configure({**options})

    def transaction(self) -> TransactionBlock:
        """Open a transaction: `async with node.transaction() as tx`; see `TransactionBlock`."""
        return TransactionBlock(self._embedding)

    async def eval(self, source: str, *args: Any) -> Any:
        """Run Lua source, with the arguments as `...`. Returns None, the value, or a list of several values.

        Inside a Python transaction the source is part of it. A transaction that the source itself leaves open is rolled
        back.

        Raises:
            LuajitError: the source does not compile, or its code raised a Lua error.
            TransactionError: FUNCTION_TX_ACTIVE, the source left a transaction open.
            BoxError: the code raised it with `box.error`.
        """
        return await self._embedding.eval(source, *args)

    async def call(self, name: str, *args: Any) -> Any:
        """Call a Lua function by name: `a.b` or `a.b:method`.

        Arguments, results, transactions and errors are those of `eval`.
        """
        return await self._embedding.call(name, *args)

    async def execute(self, sql: str, params: Parameters = ()) -> SqlResult:
        """Run a statement of SQL: `await node.execute("SELECT name FROM goods WHERE price < ?", [3])`.

        `params` are the values of its parameters: a sequence, or a mapping for named ones (`:price`). Returns the rows,
        a list with `columns`, `row_count` and `autoincrement_ids`. Inside a Python transaction the statement is part of
        it. A transaction that the statement itself opens and leaves open is rolled back.

        Raises:
            DuplicateKeyError: a unique index has the key already.
            SchemaError: a table or another object is not there, or a definition is wrong.
            ClientError: SQL_SYNTAX_NEAR_TOKEN, SQL_EXECUTE and others of the statement; ILLEGAL_PARAMS and
                SQL_BIND_NOT_FOUND, a parameter is wrong.
            TransactionError: FUNCTION_TX_ACTIVE, the statement left a transaction open.
        """
        from box.embed.sql_statements import execute

        return await execute(self._embedding, sql, params)

    async def arrow(self, sql: str, params: Parameters = ()) -> pa.Table:
        """Run a query of SQL and return its rows as a table of pyarrow; see `execute`.

        The types of columns are described in [SQL](../sql.md#arrow).

        Raises:
            ModuleNotFoundError: pyarrow is not installed.
            ClientError: ILLEGAL_PARAMS, the statement returns no rows, or Arrow cannot represent a value. The
                statement has run all the same. Other errors are those of `execute`.
        """
        from box.embed.arrow_tables import pyarrow, table_of

        pyarrow()
        return table_of(await self.execute(sql, params))

    async def prepare(self, sql: str) -> PreparedStatement:
        """Analyse a statement that will run many times; see `PreparedStatement`.

        Raises:
            ClientError: SQL_PREPARE, the statements take more memory than `sql_cache_size`. Others are those of
                `execute`.
        """
        from box.embed.sql_statements import PreparedStatement

        return PreparedStatement(self._embedding, sql)

    # -- functions and triggers, which stay declared when the node stops and starts

    @overload
    def function(self, function: F) -> F: ...

    @overload
    def function(self, function: str) -> Callable[[F], F]: ...

    def function(self, function: F | str) -> F | Callable[[F], F]:
        """Make a Python function a global of Lua: `@node.function`, or `@node.function("module.name")`.

        Lua code calls it by name, and so do clients that have the privilege. Arguments and results are the values of
        `eval`; a tuple is several results. Requests that the function makes are part of its caller's transaction. A
        coroutine function may wait. Exceptions become Lua errors: a BoxError as it is, any other with its type and
        text.

        Raises:
            TypeError: the object cannot be called, or has no name, as a `functools.partial` has none: then call
                `node.function("name")(object)`.
        """
        if isinstance(function, str):
            name = function

            def declare(function: F) -> F:
                self._declarations.function(name, function)
                return function

            return declare
        self._declarations.function(name_of(function), function)
        return function

    def on_connect(self, function: PythonFunction) -> NodeTrigger:
        """Call `function(SessionInfo)` whenever a client connects; an exception refuses the client."""
        return self._declarations.trigger("on_connect", function)

    def on_disconnect(self, function: PythonFunction) -> NodeTrigger:
        """Call `function(SessionInfo)` whenever a client's session ends."""
        return self._declarations.trigger("on_disconnect", function)

    def on_shutdown(self, function: PythonFunction) -> NodeTrigger:
        """Call `function()` when `stop` begins, while the node still works; all such functions share a limit of 3
        seconds.
        """
        return self._declarations.trigger("on_shutdown", function)

    @property
    def info(self) -> NodeInfo:
        """Status, ids, vclock and read-only mode of the node, as in `box.info`."""
        node = self._embedding.core
        return {
            "id": node.state.instance_id,
            "uuid": str(node.state.instance_uuid),
            "cluster": {"uuid": str(node.state.replicaset_uuid)},
            "status": node.status,
            "ro": node.mode.is_read_only,
            "lsn": node.state.vclock[node.state.instance_id],
            "vclock": dict(node.state.vclock),
            "listen": node.iproto.bound_address,
        }
