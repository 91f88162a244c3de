"""The command `lunabox [options] [script [arguments]]`.

    script given            run it; stay up while something serves or waits
    input is no terminal    run the input as a script, and stay up likewise
    else, or -i             an interactive session, and exit after it

Exit codes: 0; 1 after an error of a script; 64 for a wrong option; the errno of a script that cannot be read; what
`os.exit` says. SIGTERM and SIGINT end the program with 0.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from typing import NoReturn

from box.exit_status import INTERRUPTED, end_at_interrupt, raise_at_interrupt
from console.command_texts import COMMANDS, HELP, version_text

USAGE_ERROR = 64  # EX_USAGE of sysexits.h


def main(arguments: list[str] | None = None) -> int:
    """Run `lunabox` and return its exit code. Without `arguments` it takes those of the process, and ends the
    process.
    """
    return run(arguments) if arguments is not None else _run_and_leave(sys.argv[1:])


def _run_and_leave(arguments: list[str]) -> NoReturn:
    end_at_interrupt()  # until a command, or `process_signals`, handles it
    gc.disable()  # imports leave few objects to collect; `interpreter.tune` enables the collector again
    if _has_told_about_itself(arguments):
        os._exit(0)
    code = run(arguments)
    from console.leave import leave

    leave(code)


def run(arguments: list[str]) -> int:
    """Run the command in this process and return its exit code."""
    from console import streams

    streams.open_missing()
    streams.INHERITED.make_blocking()
    streams.tell_failures()
    try:
        return streams.finish(_run(arguments))
    finally:
        streams.INHERITED.restore()


def _run(arguments: list[str]) -> int:
    from console import streams
    from console.command_line import UsageError, parse_arguments

    if arguments and arguments[0] in COMMANDS:
        gc.enable()
        command = importlib.import_module(f"console.commands.{arguments[0]}")
        raise_at_interrupt()
        try:
            return int(command.main(arguments[1:]))
        except KeyboardInterrupt:
            return INTERRUPTED
    try:
        options = parse_arguments(arguments)
    except UsageError as error:
        streams.complain(str(error))
        return USAGE_ERROR
    if options.show is not None:
        streams.write(HELP if options.show == "help" else version_text())
        return 0
    from console.program import run_program

    return run_program(options)


def _has_told_about_itself(arguments: list[str]) -> bool:
    """Write the help or the version if nothing else is requested, before the slow imports.

    Returns False if it cannot be written; then `run` tries again and reports the reason.
    """
    if arguments not in (["--version"], ["-v"], ["-V"], ["--help"], ["-h"]):
        return False
    text = HELP if "h" in arguments[0] else version_text()
    try:
        return os.write(1, text.encode()) == len(text)
    except OSError:
        return False


if __name__ == "__main__":
    main()
