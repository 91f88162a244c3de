"""One run of `lunabox`: an instance, and its script or session. Signals: `process_signals.py`."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from functools import partial

import uvloop

from box.embed import LuaInstance
from box.errors import BoxError
from box.instance.version import VERSION
from box.log import Level
from console import interpreter, streams
from console.bindings import TerminalConsole
from console.command_line import Options
from console.command_texts import PACKAGE
from console.forked_children import ForkedChildren
from console.process_signals import ProcessSignals

# Lua code that sets the global `arg` and runs chunks; each call is one fiber.
_MAIN = b"""
local run = {}

function run.arguments(executable, script, ...)
    local arg = {...}
    arg[-1], arg[0] = executable, script
    rawset(_G, 'arg', arg)
end

function run.chunk(source, name, ...)
    local chunk, problem = loadstring(source, name)
    if not chunk then
        error(problem, 0)
    end
    return chunk(...)
end

function run.library(name)
    -- An error of require() itself has no place here.
    local ok, module = pcall(require, name)
    if not ok then
        error(module, 0)
    end
    rawset(_G, name, module)
end

function run.interactive()
    require('console').start()
end

-- How many fibers there are besides this one.
function run.fibers()
    local count = -1
    for _ in pairs(require('fiber').info()) do
        count = count + 1
    end
    return count
end

return function(name, ...)
    return run[name](...)
end
"""


def strip_shebang(source: bytes) -> bytes:
    """Remove a first line that begins with `#`, which is not Lua; the line numbers stay."""
    if not source.startswith(b"#"):
        return source
    end = source.find(b"\n")
    return b"" if end < 0 else source[end:]


class Program:
    """A run of the command."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._stop: asyncio.Future[int] = self._loop.create_future()
        self._instance: LuaInstance
        self._console: TerminalConsole
        self._main = 0

    async def run(self) -> int:
        """Run the command and return its exit code."""
        interpreter.tune()
        self._instance = LuaInstance(os.getcwd(), on_exit=self._end)
        try:
            self._instance.node.errinj.apply_environment(os.environ)
        except BoxError as error:
            streams.complain(error.message)
            await self._instance.stop()
            return 1
        self._instance.node.on_panic.append(self._die)
        self._instance.node.process.enter_directory = os.chdir
        self._console = TerminalConsole(self._instance)
        self._main = self._instance.runtime.compile(_MAIN, "=builtin/main.lua")
        signals = ProcessSignals(self._loop, self._instance.node, partial(self._end, 0), self._console)
        signals.handle()
        ForkedChildren(self._loop, self._owned_processes).watch()
        script = self._loop.create_task(self._run_script())
        await asyncio.wait((script, self._stop), return_when=asyncio.FIRST_COMPLETED)
        code = await self._finish(script)
        await self._instance.stop()
        return code

    async def _finish(self, script: asyncio.Task[int | None]) -> int:
        if not self._stop.done():
            code = script.result()
            return await self._stop if code is None else code
        self._instance.node.is_ending = True
        if not script.done():
            script.cancel()
        with suppress(asyncio.CancelledError):
            await script
        return self._stop.result()

    def _end(self, code: int) -> None:
        if not self._stop.done():
            self._stop.set_result(code & 0xFF)  # the system keeps eight bits of an exit code

    def _die(self) -> None:
        """End the process after a panic of the node; no reply, trigger or anything else may happen."""
        self._instance.node.log.close()
        streams.INHERITED.restore()
        os._exit(streams.finish(1))

    # -- the script --------------------------------------------------------------------------------------

    async def _run_script(self) -> int | None:
        """Run the script or session. Returns the exit code, or None if the program stays up."""
        is_session = self._options.interactive or self._is_terminal_session()
        if is_session:
            streams.write(f"Lunabox {VERSION} ({PACKAGE})\ntype 'help' for interactive help\n")
        try:
            await self._run_parts()
            if is_session:
                await self._call("interactive", title="interactive")
                return 0
            if not await self._stays_up():
                return 0
        except BoxError as error:
            self._say(Level.ERROR, _error_text(error))
            self._say(Level.FATAL, "fatal error, exiting the event loop")
            return 1
        self._say(Level.CRIT, "entering the event loop")
        return None

    async def _run_parts(self) -> None:
        options = self._options
        script = options.script or "lunabox"
        await self._call("arguments", _executable(), options.script or _executable(), *options.arguments)
        for kind, text in options.prelude:
            if kind == "l":
                await self._call("library", text, title=self._title)
            else:
                await self._call("chunk", text, "=(command line)", title=self._title)
        if options.script not in (None, "-"):
            with open(script, "rb") as file:  # noqa: ASYNC230 - nothing else runs yet
                source = file.read()
            await self._chunk(source, f"@{script}")
        elif options.script == "-" or self._reads_input():
            source = await streams.read_input()
            await self._chunk(source, "=stdin")

    def _reads_input(self) -> bool:
        """Run input that is not a terminal as a script; what it starts keeps the program up."""
        options = self._options
        return options.script is None and not (options.interactive or sys.stdin.isatty())

    def _is_terminal_session(self) -> bool:
        options = self._options
        return options.script is None and not options.has_expression and sys.stdin.isatty()

    @property
    def _title(self) -> str:
        """The name of the fibers that run the parts of the command line."""
        script = self._options.script
        return "interactive" if script is None else os.path.basename(script)

    async def _chunk(self, source: bytes, chunk_name: str) -> None:
        await self._call("chunk", strip_shebang(source), chunk_name, *self._options.arguments, title=self._title)

    async def _stays_up(self) -> bool:
        if self._instance.node.is_configured or self._instance.text_consoles.servers:
            return True
        fibers = (await self._call("fibers"))[0]
        return isinstance(fibers, (int, float)) and fibers > 0

    async def _call(self, name: str, *args: str | bytes, title: str = "main") -> tuple[object, ...]:
        raw = [arg if isinstance(arg, bytes) else os.fsencode(arg) for arg in args]
        return await self._instance.runtime.call_raw(self._main, name.encode(), *raw, name=title)

    # -- around it -----------------------------------------------------------------------------------------

    def _owned_processes(self) -> set[int]:
        log = self._instance.node.log.pid
        return self._instance.runtime.processes | ({log} if log is not None else set())

    def _say(self, level: Level, text: str) -> None:
        """Write a message to the log; before box.cfg it is a bare line on standard error, as in Tarantool."""
        if self._instance.node.is_configured:
            self._instance.node.log.say(level, text, fiber="main")
        else:
            streams.complain(text)


def _executable() -> str:
    """Return the command that starts this program again: `arg[-1]` of scripts. A module has no executable file."""
    path = sys.argv[0]
    if os.path.basename(path) != "__main__.py":
        return path
    command = os.path.join(os.path.dirname(sys.executable), "lunabox")
    return command if os.access(command, os.X_OK) else path


def _error_text(error: BoxError) -> str:
    if error.type == "ClientError":
        return f"{error.name}: {error.message}"
    return f"{error.type}: {error.message}"


def _check_script(path: str | None) -> int:
    """Check that a script can be opened. Returns 0 or the errno; the reason is printed."""
    if path in (None, "-"):
        return 0
    assert path is not None
    try:
        with open(path, "rb") as file:
            file.read(1)
    except IsADirectoryError:
        streams.complain(f"LuajitError: cannot read {path}: Is a directory\nfatal error, exiting the event loop")
        return 1
    except OSError as error:
        streams.write(f"Can't open script {path}: {error.strerror}\n")
        return error.errno or 1
    return 0


def _check_directory() -> int:
    """Check that the current directory exists. Returns 0 or 1; the reason is printed."""
    try:
        os.getcwd()
    except OSError as error:
        streams.complain(f"lunabox: current directory: {error.strerror}")
        return 1
    return 0


def run_program(options: Options) -> int:
    """Run the command on a new event loop and return its exit code."""

    code = _check_script(options.script) or _check_directory()
    if code:
        return code

    async def run() -> int:
        return await Program(options).run()

    return uvloop.run(run())
