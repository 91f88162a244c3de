"""One run of `lunabox`: an instance, and its script or session. Signals: `process_signals.py`."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from functools import partial
from typing import NoReturn

import uvloop

from box.embed import LuaInstance
from box.errors import BoxError
from box.log import Level
from box.version import VERSION
from console import interpreter, streams
from console.bindings import TerminalConsole
from console.command_line import Options, command_name
from console.command_texts import PACKAGE
from console.forked_children import ForkedChildren
from console.leave import leave
from console.process_signals import ProcessSignals
from console.systemd import Service
from lua.standard_output import OUTPUT

# The main fiber: sets the global `arg`, runs the parts of the command line in their order, then the script and the
# session. Returns how many other fibers there are. Python supplies what depends on the process.
_MAIN = b"""
local nested = require('internal.nested_coroutine')
local python = require('internal.python')
local scheduler = require('internal.scheduler')
local wait = require('internal.wait')

local function finish(ok, problem)
    if not ok then
        error(problem, 0)
    end
end

-- Runs a chunk at the bottom of a stack of its own: programs find out from their depth whether they are the main one.
local function run(source, name, ...)
    local chunk, problem = loadstring(source, name)
    if not chunk then
        error(problem, 0)
    end
    local co = nested.raw_create(chunk)
    finish(nested.pass(co, nested.enter(co, ...)))
end

local parts = {e = run}

function parts.l(name)
    -- An error of require() itself has no place here.
    local ok, module = pcall(require, name)
    if not ok then
        error(module, 0)
    end
    rawset(_G, name, module)
end

local function count_others()
    local count = -1
    for _ in pairs(require('fiber').info()) do
        count = count + 1
    end
    return count
end

return function(executable, script, count, ...)
    local prelude, arguments, arg = {...}, {select(2 * count + 1, ...)}, {select(2 * count + 1, ...)}
    arg[-1], arg[0] = executable, script
    rawset(_G, 'arg', arg)
    for i = 1, 2 * count, 2 do
        parts[prelude[i]](prelude[i + 1], '=(command line)')
    end
    local source, name = wait(python.program_source())
    if source then
        run(source, name, unpack(arguments))
    end
    if python.program_begins_session() then
        require('console').start()
        return 0
    end
    return scheduler.run_ready() and 1 or count_others()
end
"""

_TITLE = b"""
local title = require('title')
return function(command, status)
    title.update{interpretor_name = command, status = status}
end
"""

NO_USER = 67  # EX_NOUSER of sysexits.h

_MAIN_FIBER = 103
"""The id of the fiber of the script in Tarantool, after those that it starts itself, the last of them `on_shutdown`."""

_CONSOLE_NAME = f"Lunabox {VERSION} ({PACKAGE})"


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
        self._main = self._title = 0
        self._is_session = False
        self._service = Service(os.environ.get("NOTIFY_SOCKET"))

    async def run(self) -> int:
        """Run the command and return its exit code."""
        interpreter.tune()
        self._instance = LuaInstance(os.getcwd(), on_exit=self._end, uses_stdout=self._buffers_output)
        if self._buffers_output:
            OUTPUT.flush_stream = self._instance.runtime.flush
        try:
            self._instance.node.errinj.apply_environment(os.environ)
        except BoxError as error:
            streams.complain(error.message.removeprefix("Illegal parameters, "))
            await self._instance.stop()
            return 1
        self._own_process()
        self._console = TerminalConsole(self._instance)
        self._main = self._instance.runtime.compile(_MAIN, "=builtin/main.lua")
        signals = ProcessSignals(self._loop, self._instance.node, partial(self._end, 0), self._console)
        signals.handle()
        ForkedChildren(self._loop, self._owned_processes).watch()
        script = self._loop.create_task(self._run_script())
        await asyncio.wait((script, self._stop), return_when=asyncio.FIRST_COMPLETED)
        code = await self._finish(script)
        await self._instance.stop()
        OUTPUT.flush_stream = None
        return code

    def _own_process(self) -> None:
        """Let the node change what belongs to the whole process."""
        node = self._instance.node
        node.on_panic.append(self._die)
        node.on_failed_start.append(self._end_failed_start)
        node.on_status.append(self._tell_status)
        node.process.enter_directory = os.chdir
        node.paths.are_of_process = True
        node.process.detach = self._go_into_background
        self._instance.runtime.bind("title_show", self._show_title)
        self._instance.runtime.bind("exit_at_once", self._leave_at_once)

    def _end_failed_start(self, error: BoxError) -> None:
        """End the process, as Tarantool does; only a person at a terminal may try again."""
        if not (self._is_session and sys.stdin.isatty()):
            self._die(NO_USER if error.message.startswith("User not found: ") else 1)

    def _go_into_background(self, output: int | None) -> None:
        from console.background import go_into_background

        go_into_background(self._loop, output)

    @staticmethod
    def _show_title(title: bytes) -> None:
        from console.process_title import show_title

        show_title(title)

    def _tell_status(self, status: str) -> None:
        """Tell the service manager, and show the status in the title of the process."""
        if not self._title:
            self._title = self._instance.runtime.compile(_TITLE, "=title")
        self._instance.runtime.invoke_now(self._title, os.fsencode(command_name()), status.encode())
        self._log_notification(self._service.status(status))

    def _log_notification(self, error: OSError | None) -> None:
        if error is not None:
            text = f"systemd: failed to send message: {error.strerror}"
            self._instance.node.log.say(Level.SYSERROR, text)

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

    def _die(self, code: int = 1) -> NoReturn:
        """End the process after a panic of the node; no reply, trigger or anything else may happen."""
        self._instance.node.log.close()
        streams.INHERITED.restore()
        os._exit(streams.finish(code))

    def _leave_at_once(self, code: float) -> NoReturn:
        """End the process while Lua is inside a C function, where no fiber can wait. `on_shutdown` triggers run until
        they wait.
        """
        runtime = self._instance.runtime
        with suppress(BoxError, KeyError):  # there is no such handle while `box` is not loaded
            runtime.start(runtime.handle_of("box.shut_down"), 0)
        self._die(int(code) & 0xFF)

    # -- the script --------------------------------------------------------------------------------------

    async def _run_script(self) -> int | None:
        """Run the script or session. Returns the exit code, or None if the program stays up."""
        if self._is_terminal_session or (self._options.interactive and self._has_terminal):
            self._greet()
        try:
            if not await self._run_main() or self._is_session:
                return 0
        except BoxError as error:
            self._fail(error)
        if not self._stop.done():
            self._say(Level.CRIT, "entering the event loop")
            self._log_notification(self._service.ready())
        return None

    async def _run_main(self) -> bool:
        """Run the main fiber. Returns True if the program has something to stay up for."""
        options, runtime = self._options, self._instance.runtime
        bind = runtime.bind
        bind("program_source", lambda: runtime.drive(self._source()))
        bind("program_begins_session", self._begins_session)
        executable = _executable()
        words = [executable, options.script or executable]
        prelude = [word for pair in options.prelude for word in pair]
        rest = [os.fsencode(word) for word in (*prelude, *options.arguments)]
        runtime.number_fibers_from(_MAIN_FIBER)
        self._instance.node.log.system_fibers["on_shutdown"] = _MAIN_FIBER - 1
        title = "interactive" if options.script is None else os.path.basename(options.script)
        (others,) = await runtime.call_raw(
            self._main, *map(os.fsencode, words), len(options.prelude), *rest, name=title
        )
        if self._instance.node.is_configured or self._instance.text_consoles.servers:
            return True
        return isinstance(others, (int, float)) and others > 0

    async def _source(self) -> tuple[bytes, bytes] | tuple[None, None]:
        """Return the script and the name of its chunk, None without one."""
        script = self._options.script
        if script not in (None, "-"):
            with open(script, "rb") as file:  # noqa: ASYNC230 - nothing else runs yet
                return strip_shebang(file.read()), b"@" + os.fsencode(script)
        if script == "-" or not self._has_terminal:
            return strip_shebang(await streams.read_input()), b"=stdin"
        return None, None

    @property
    def _has_terminal(self) -> bool:
        """True if standard input is a terminal, or is said to be one by an error injection."""
        injected = self._instance.node.errinj.values["ERRINJ_STDIN_ISATTY"]
        return sys.stdin.isatty() if injected < 0 else bool(injected)

    @property
    def _buffers_output(self) -> bool:
        """True if what the program prints goes into the C library's stream, which buffers. A session shows each line at
        once, above its prompt, and so does a terminal.
        """
        options = self._options
        is_session = options.interactive or (not options.names_source and sys.stdin.isatty())
        return not (is_session or sys.stdout.isatty())

    @property
    def _is_terminal_session(self) -> bool:
        options = self._options
        return not options.names_source and self._has_terminal

    def _begins_session(self) -> bool:
        """Return whether a session follows the script. Without a terminal, also print Tarantool's greeting."""
        self._is_session = self._options.interactive or self._is_terminal_session
        if self._is_session and not sys.stdin.isatty():
            self._say(Level.CRIT, f"{PACKAGE}\ntype 'help' for interactive help")
        return self._is_session

    def _greet(self) -> None:
        if sys.stdin.isatty():
            streams.write(f"{_CONSOLE_NAME}\ntype 'help' for interactive help\n")

    # -- around it -----------------------------------------------------------------------------------------

    def _owned_processes(self) -> set[int]:
        log = self._instance.node.log.pid
        return self._instance.runtime.processes | ({log} if log is not None else set())

    def _say(self, level: Level, text: str) -> None:
        """Write a message of no fiber to the log; before that is open it is a bare line on standard error, as in
        Tarantool.
        """
        if self._instance.node.log.is_open:
            self._instance.node.log.say(level, text, fiber="")
        else:
            streams.complain(text)

    def _fail(self, error: BoxError) -> NoReturn:
        """Report the error of a script and end. As in Tarantool, nothing else happens after it: no triggers run, and no
        new file of the log begins.
        """
        self._service.failed(error.message)
        log = self._instance.node.log
        if log.is_open:
            log.problem(error, fiber="")
        else:
            streams.complain(_error_text(error))
        self._say(Level.FATAL, "fatal error, exiting the event loop")
        log.close()
        streams.INHERITED.restore()
        leave(streams.finish(1))


def _executable() -> str:
    """Return the command that starts this program again: `arg[-1]` of scripts. A module has no executable file."""
    path = sys.argv[0]
    if os.path.basename(path) != "__main__.py":
        return path
    command = os.path.join(os.path.dirname(sys.executable), "lunabox")
    return command if os.access(command, os.X_OK) else path


def _error_text(error: BoxError) -> str:
    """Return the text of an uncaught error, which ends at a NUL as texts of C do."""
    kind = {"ClientError": error.name, "CustomError": "Custom type %s"}.get(error.type, error.type)
    return f"{kind}: {error.message}".partition("\0")[0]


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
        if isinstance(error, FileNotFoundError):
            _suggest_command(path)
        return error.errno or 1
    return 0


def _suggest_command(word: str) -> None:
    """Name the command that a mistyped word resembles, if there is one."""
    import difflib

    from console.command_texts import COMMANDS

    for command in difflib.get_close_matches(word, COMMANDS, 1, 0.7):
        streams.complain(f"lunabox: did you mean the command {command!r}?")


def _check_directory() -> int:
    """Check that the current directory exists. Returns 0 or 1; the reason is printed."""
    try:
        os.getcwd()
    except OSError as error:
        streams.complain(f"lunabox: current directory: {error.strerror}")
        return 1
    return 0


_DESCRIPTORS = 11
"""What the event loop and reading the script need, besides the standard streams."""


def _check_descriptors() -> int:
    """Check that the process may open enough files. Returns 0 or 1; the reason is printed."""
    opened: list[int] = []
    try:
        for _ in range(_DESCRIPTORS):
            opened.append(os.dup(2))
    except OSError as error:
        streams.complain(f"{command_name()}: {error.strerror}: see `ulimit -n`")
        return 1
    finally:
        for descriptor in opened:
            os.close(descriptor)
    return 0


def run_program(options: Options) -> int:
    """Run the command on a new event loop and return its exit code."""

    code = _check_script(options.script) or _check_directory() or _check_descriptors()
    if code:
        return code

    async def run() -> int:
        return await Program(options).run()

    return uvloop.run(run())
