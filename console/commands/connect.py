"""`lunabox connect URI`: a console on another instance."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import sys
from typing import Final

from box.errors import BoxError
from box.net.dial import parse_address
from box.net.uri import Uri, address_of
from console import streams
from console.interactive.settings import TerminalSettings, load
from console.remote.nodes import address_problem, dial, reason_of
from console.remote.remote_console import CONNECTION, FINE, LUA_ERROR, USAGE, AwaitInterrupts, RemoteConsole

_EPILOG: Final = """\
URI: [user[:password]@]host:port, [user[:password]@]unix/:path, or a port of this machine. The port of an instance
(`box.cfg.listen`) or of a text console (`console.listen`). A password that is missing is asked for.

exit codes: 0 fine, 1 a statement failed, 2 wrong command line, 3 no connection

examples:
  lunabox connect admin@db1:3301
  lunabox connect unix/:/var/run/lunabox/app.sock
  lunabox connect db1:3301 -e 'return box.info.status'
  lunabox connect db1:3301 --output table < report.lua
"""


def parser() -> argparse.ArgumentParser:
    """Make the parser of the command line."""
    options = argparse.ArgumentParser(
        prog="lunabox connect",
        description="Enter statements that another instance carries out.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    options.add_argument("uri", metavar="URI", help="where the instance listens")
    options.add_argument("-e", dest="expressions", metavar="EXPR", action="append", default=[], help="carry out EXPR")
    options.add_argument("--output", choices=("yaml", "lua", "table"), help="format of answers")
    return options


def main(arguments: list[str]) -> int:
    """Run the command and return its exit code."""
    try:
        options = parser().parse_args(arguments)
    except SystemExit as end:
        return USAGE if end.code else FINE
    problem = address_problem(options.uri)
    if problem is not None:
        streams.complain(f"lunabox connect: {problem}")
        return USAGE
    settings, problems = load()
    for problem in problems:
        streams.complain(problem)
    if options.output:
        settings.output = options.output
    elif options.expressions or not sys.stdin.isatty():
        settings.output = "yaml"
    password = _password(parse_address(options.uri), options.uri)
    try:
        return asyncio.run(_run(options.uri, password, options.expressions, settings))
    except (KeyboardInterrupt, asyncio.CancelledError):
        return 130  # what a shell reports after SIGINT: 128 and the signal's number


def _password(uri: Uri, address: str) -> str | None:
    """Return the address's password, or ask for one without echo; None if there is no terminal to ask on."""
    if uri.login is None or uri.password is not None:
        return uri.password
    try:
        with open("/dev/tty"):
            return getpass.getpass(f"Password of {uri.login} at {address_of(address)}: ")
    except (OSError, EOFError, KeyboardInterrupt):
        return None


async def _run(address: str, password: str | None, expressions: list[str], settings: TerminalSettings) -> int:
    try:
        node = await dial(address, password=password)
        # A guest may connect, but this call shows whether it may execute anything.
        await node.call("console_names", "names", "", "", 1)
    except BoxError as error:
        streams.complain(f"lunabox connect: {address_of(address)}: {reason_of(error)}")
        return CONNECTION
    interrupts = AwaitInterrupts()
    console = RemoteConsole(node, interrupts, settings)
    try:
        if expressions:
            return await _carry_out(console, expressions)
        return await _converse(console, interrupts, settings)
    finally:
        node.close()


async def _carry_out(console: RemoteConsole, expressions: list[str]) -> int:
    from console.interactive.printer import is_error
    from console.prompt import LineTerminal

    console.terminal = LineTerminal()
    for expression in expressions:
        answer = await console.execute(expression)
        if answer is None:
            return CONNECTION
        if is_error(answer):
            streams.complain(answer.removeprefix("---\n- ").removesuffix("\n...\n").rstrip("\n"))
            return LUA_ERROR
        streams.write(answer)
    return FINE


async def _converse(console: RemoteConsole, interrupts: AwaitInterrupts, settings: TerminalSettings) -> int:
    from console.prompt import LineTerminal, typed_terminal

    is_terminal = sys.stdin.isatty()
    if is_terminal:
        console.terminal = typed_terminal(console.ask, settings, interrupts)
    else:
        console.terminal = LineTerminal()
    return await console.run(stops_at_error=not is_terminal)
