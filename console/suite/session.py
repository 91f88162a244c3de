"""A run of a test: its nodes, connections, output filters, and the commands that change them.

The inspector passes commands of nodes (`test_run:cmd`) to `TestSession.carry_out`. The runner asks the session which
connection gets the next command of the script.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from console.suite.filters import Filters
from console.suite.instance import InstanceProcess, ServerError, StartOptions, State, Surroundings
from console.suite.language import Command, CommandError, Option, parse
from console.suite.place import copy_libraries
from console.suite.script import ScriptReader
from console.suite.suite_ini import Params, SuiteError
from console.suite.wire import Address, ConsoleClient, WireError

DEFAULT = "default"
DYING_TIME = 1.0  # seconds from the end of a connection to the end of the node's process
_NO_VALUES = "---\n...\n"
_SET_ENGINE = 'UPDATE "_session_settings" SET "value" = \'{}\' WHERE "name" = \'sql_default_engine\''
_CLEAN = "require('pretest_clean').clean()"
_MAKE_TEST_RUN = "env = require('test_run') test_run = env.new()"
_Handler = Callable[[Command], Awaitable[Any]]


class RawReply(str):
    """A reply that is YAML already and is sent unchanged."""

    __slots__ = ()


class TestSession:
    """Servers by name, connections by name, and the current connections of the script.

    The script's first connection begins with `language`, any other one with Lua.
    """

    __test__ = False

    def __init__(self, around: Surroundings, params: Params, reader: ScriptReader, language: str = "lua") -> None:
        self.servers: dict[str, InstanceProcess] = {}
        self.filters = Filters()
        self._around = around
        self._params = params
        self._reader = reader
        self._language = language
        self._connections: dict[str, ConsoleClient] = {}
        self._server_of: dict[str, str] = {}
        self._current: tuple[str, ...] = (DEFAULT,)
        self._failures: list[str] = []
        self._handlers: dict[str, _Handler] = {
            "create": self._create,
            "start": self._start,
            "stop": self._stop,
            "restart": self._restart,
            "cleanup": self._cleanup,
            "delete": self._delete,
            "deploy": self._deploy,
            "setopt": self._setopt,
            "switch": self._switch,
            "eval": self._eval,
            "get_iproto_uri": self._get_iproto_uri,
            "get_log": self._get_log,
            "create_connection": self._create_connection,
            "drop_connection": self._drop_connection,
            "set_connection": self._set_connection,
            "set_variable": self._set_variable,
            "config": self._config,
            "push_filter": self._push_filter,
            "pop_filter": self._pop_filter,
            "clear_filter": self._clear_filter,
        }

    # -- for the runner --------------------------------------------------------------------------

    async def start_default(self, server: InstanceProcess) -> None:
        """Start the default server, and clean it if the suite wants that. Raises ServerError."""
        self.servers[DEFAULT] = server
        await server.start(StartOptions())
        await self._connect(DEFAULT, server)
        if self._around.suite.pretest_clean:
            reply = await self._connections[DEFAULT].execute(_CLEAN)
            if reply != _NO_VALUES:
                raise ServerError(f"pretest_clean failed:\n{reply}")
        if self._language == "sql":
            await self._begin_sql(self._connections[DEFAULT])

    async def _begin_sql(self, connection: ConsoleClient) -> None:
        """Change the connection to SQL, with the engine of the configuration for new tables. Raises ServerError."""
        await connection.execute("\\set language sql")
        engine = self._params.get("engine")
        if engine in ("memtx", "vinyl"):
            reply = await connection.execute(_SET_ENGINE.format(engine))
            if reply != "---\n- row_count: 1\n...\n":
                raise ServerError(f"cannot set the default engine {engine}:\n{reply}")

    async def execute(self, command: str) -> str:
        """Send a command of the script to the current connections in turn. Returns the reply of the first."""
        replies = [await self._execute_on(name, command) for name in self._current]
        return replies[0]

    async def carry_out(self, text: str) -> Any:
        """Run one inspector command; an empty one does nothing.

        Raises:
            CommandError, SuiteError, ServerError, ValueError: it cannot be run.
        """
        if not text.strip():
            return True
        command = parse(text)
        return await self._handlers[command.verb](command)

    async def settle(self) -> None:
        """Wait a little after a connection has ended, because its node may be dying, so that the crash is noticed
        now.
        """
        for name in self._current:
            connection = self._connections.get(name)
            server = self.servers.get(self._server_of.get(name, name))
            if server is not None and connection is not None and not connection.is_open:
                await server.wait_exit(DYING_TIME)

    def failures(self) -> list[str]:
        """Return the nodes that have crashed so far."""
        crashes = [server.check_crash() for server in self.servers.values()]
        return self._failures + [crash for crash in crashes if crash]

    async def close(self) -> None:
        """Stop every node and close every connection."""
        for server in self.servers.values():
            self._drop_connections_of(server.name)
            await server.stop()
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # -- connections -----------------------------------------------------------------------------

    async def _connect(self, name: str, server: InstanceProcess) -> None:
        self._connections[name] = await server.reach()
        self._server_of[name] = server.name

    async def _execute_on(self, name: str, command: str) -> str:
        connection = self._connections.get(name)
        if connection is None or not connection.is_open:
            server = self.servers.get(self._server_of.get(name, name))
            if server is None or server.state is not State.RUNNING:
                return ""
            try:
                await self._connect(name, server)
            except (OSError, WireError):
                return ""
        return await self._connections[name].execute(command)

    def _drop_connections_of(self, server_name: str) -> None:
        for name in [name for name, server in self._server_of.items() if server == server_name]:
            self._connections.pop(name).close()
            del self._server_of[name]

    async def _switch(self, command: Command) -> bool:
        """Continue the script at another node, and define `test_run` there."""
        (name,) = command.names
        server = self._server(self._server_of.get(name, name), "Attempt to evaluate a command on the")
        await self._set_connection(command)
        # Not on the script's connection, because a node that switches to itself is running this command there.
        await server.evaluate(_MAKE_TEST_RUN, patient=True)
        return True

    async def _set_connection(self, command: Command) -> bool:
        for name in command.names:
            connection = self._connections.get(name)
            if connection is None or not connection.is_open:
                await self._reconnect(name)
        self._current = command.names
        return True

    async def _reconnect(self, name: str) -> None:
        server = self._server(self._server_of.get(name, name), "Can't set", "connection")
        try:
            await self._connect(name, server)
        except (OSError, WireError) as error:
            raise CommandError(f"cannot connect to {name}: {error}") from error

    async def _create_connection(self, command: Command) -> bool:
        name, server = command.names
        target = self._server(server, "Can't create connection to")
        if name in self._connections:
            raise CommandError(f"Connection {name!r} already exists")
        try:
            await self._connect(name, target)
        except (OSError, WireError) as error:
            raise CommandError(f"cannot connect to {server}: {error}") from error
        return True

    async def _drop_connection(self, command: Command) -> bool:
        (name,) = command.names
        if name not in self._connections:
            raise CommandError(f"Can't drop nonexistent connection {name!r}")
        self._connections.pop(name).close()
        self._server_of.pop(name, None)
        return True

    # -- servers -----------------------------------------------------------------------------------

    def _server(self, name: str, purpose: str = "Can't find", kind: str = "server") -> InstanceProcess:
        if name not in self.servers:
            raise CommandError(f"{purpose} nonexistent {kind} {name!r}")
        return self.servers[name]

    async def _create(self, command: Command) -> Any:
        (name,) = command.names
        if name in self.servers:
            raise CommandError(f"Server {name!r} already exists")
        options = command.options
        suite = self._around.suite
        script = options.get("script")
        path = suite.find_script(str(script)) if script else suite.script
        if path is None:
            raise CommandError(f"no script for server {name}")
        master = self._server(str(options["rpl_master"])) if "rpl_master" in options else None
        data = suite.root / str(options["workdir"]) if "workdir" in options else None
        libraries = str(options.get("lua_libs", "")).split()
        copy_libraries([suite.find_library(library) for library in libraries], self._around.directory)
        server = InstanceProcess(
            name, path, self._around, master=master, instance=self._instance_name(name, path), data=data
        )
        self.servers[name] = server
        return server.listen_uri if options.get("return_listen_uri") else True

    def _instance_name(self, server_name: str, script: Path) -> str:
        """Return the name for an instance's files: the script's, or for a second instance of a script the server's."""
        name = script.name.split(".")[0]
        taken = {server.instance for server in self.servers.values()}
        return server_name if name in taken else name

    async def _start(self, command: Command) -> bool:
        (name,) = command.names
        server = self._server(name, "Can't start")
        options = _start_options(command.options)
        if server.state is State.RUNNING:
            return True
        try:
            await server.start(options)
        except ServerError:
            if options.crash_expected and server.state is State.STOPPED:
                return False
            raise
        if options.wait:
            await self._connect(name, server)
        return True

    async def _stop(self, command: Command) -> bool:
        (name,) = command.names
        server = self._server(name, "Can't stop")
        if not server.is_started:
            raise CommandError(f"Attempt to stop already stopped server {name!r}")
        self._note_crash(server)
        await server.stop(str(command.options.get("signal", "TERM")))
        self._note_crash(server)
        self._drop_connections_of(name)
        if _flag(command.options.get("cleanup", False)):
            server.cleanup()
        return True

    async def _restart(self, command: Command) -> bool:
        (name,) = command.names
        server = self._server(name)
        script = command.options.get("script")
        await self._stop(Command("stop", (name,), {}))
        if _flag(command.options.get("cleanup", False)):
            server.cleanup()
        if script:
            server.script = self._around.suite.find_script(str(script))
        await self._start(command)
        if _start_options(command.options).wait:
            # The script continues in the new process, as in the original runner.
            self._current = (name,)
            await server.evaluate(_MAKE_TEST_RUN)
        return True

    async def _cleanup(self, command: Command) -> bool:
        self._server(command.names[0], "Can't cleanup").cleanup()
        return True

    async def _delete(self, command: Command) -> bool:
        (name,) = command.names
        server = self._server(name, "Can't cleanup")
        if server.state is State.RUNNING:
            self._drop_connections_of(name)
            await server.stop()
        server.cleanup()
        del self.servers[name]
        return True

    async def _deploy(self, command: Command) -> bool:
        self._server(command.names[0]).deploy()
        return True

    async def _eval(self, command: Command) -> RawReply:
        name, expression = command.names
        server = self._server(name, "Attempt to evaluate a command on the")
        reply = await server.evaluate(expression, patient=True)
        if not reply:
            raise CommandError(f"no answer from {name}")
        return RawReply("[]\n...\n" if reply == _NO_VALUES else reply)

    async def _get_iproto_uri(self, command: Command) -> str:
        return self._server(command.names[0]).listen_uri

    async def _get_log(self, command: Command) -> str:
        return str(self._server(command.names[0], "Attempt to evaluate a command on the").log)

    async def _set_variable(self, command: Command) -> bool:
        variable, what = command.names
        server_name, _, attribute = what.partition(".")
        server = self._server(server_name)
        master = None if server.master is None else server.master.listen
        address = {"listen": server.listen, "admin": server.admin, "master": master}.get(attribute)
        if address is None:
            raise CommandError(f"unknown attribute: {what}")
        target = self._server(self._server_of.get(self._current[0], self._current[0]))
        await target.evaluate(f"{variable} = {_lua_address(address, server_name == DEFAULT)}")
        return True

    def _note_crash(self, server: InstanceProcess) -> None:
        crash = server.check_crash()
        if crash and crash not in self._failures:
            self._failures.append(crash)

    # -- the rest ------------------------------------------------------------------------------------

    async def _setopt(self, command: Command) -> bool:
        option, value = command.names
        if option != "delimiter":
            raise CommandError(f"Wrong option: {option!r}")
        self._reader.delimiter = value
        return True

    async def _config(self, command: Command) -> Any:
        return self._params

    async def _push_filter(self, command: Command) -> bool:
        self.filters.push(*command.names)
        return True

    async def _pop_filter(self, command: Command) -> bool:
        self.filters.pop()
        return True

    async def _clear_filter(self, command: Command) -> bool:
        self.filters.clear()
        return True


def _start_options(options: dict[str, Option]) -> StartOptions:
    return StartOptions(
        arguments=shlex.split(str(options.get("args", ""))),
        wait=_flag(options.get("wait", True)),
        wait_load=_flag(options.get("wait_load", True)),
        crash_expected=_flag(options.get("crash_expected", False)),
    )


def _flag(value: Option) -> bool:
    return value if isinstance(value, bool) else value not in ("", "0")


def _lua_address(address: Address, is_default: bool) -> str:
    """Return an address as Lua source: a quoted path or `localhost:port`, or the port as a number for a server that
    the test created.
    """
    if isinstance(address, Path):
        return _lua_string(str(address))
    _, port = address
    return _lua_string(f"localhost:{port}") if is_default else str(port)


def _lua_string(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def reply_text(value: Any) -> str:
    """Return an inspector reply as one YAML document: a value (as JSON), or a node's raw reply (a list of values)."""
    if isinstance(value, RawReply):
        return str(value)
    return f"--- {json.dumps(value, ensure_ascii=False)}\n...\n"


EXPECTED_ERRORS = (CommandError, SuiteError, ServerError, WireError, ValueError, OSError)
