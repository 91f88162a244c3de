"""The command `lunabox`: options, scripts, piped input, exit codes, signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from console.cli import USAGE_ERROR, Options, UsageError, parse_arguments, strip_shebang

COMMAND = [sys.executable, "-m", "console"]


def run(directory: Path, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command with `text` as its standard input."""
    return subprocess.run(
        [*COMMAND, *arguments], cwd=directory, input=text, capture_output=True, text=True, timeout=60, check=False
    )


def script(directory: Path, source: str) -> str:
    path = directory / "script.lua"
    path.write_text(source)
    return path.name


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ([], Options()),
        (["a.lua", "-v", "x"], Options(script="a.lua", arguments=["-v", "x"])),
        (["-i", "-e", "x = 1", "-l", "fiber", "-"], Options([("e", "x = 1"), ("l", "fiber")], True, "-")),
        (["--", "-x"], Options(script="-x")),
        (["-V"], Options(show="version")),
        (["--help"], Options(show="help")),
    ],
)
def test_arguments(arguments: list[str], options: Options) -> None:
    """Options end at the script; what follows is the script's."""
    assert parse_arguments(arguments) == options


@pytest.mark.parametrize("arguments", [["-z"], ["-e"], ["--nothing"]])
def test_wrong_arguments(arguments: list[str]) -> None:
    """A wrong option is an error."""
    with pytest.raises(UsageError):
        parse_arguments(arguments)


def test_shebang_is_skipped_and_lines_stay() -> None:
    """The first line may be for the shell."""
    assert strip_shebang(b"#!/usr/bin/env lunabox\nx()") == b"\nx()"
    assert strip_shebang(b"x()\n#") == b"x()\n#"
    assert strip_shebang(b"#!x") == b""


def test_version_tells_of_a_debug_build(tmp_path: Path) -> None:
    """The runner reads the first line and the target."""
    lines = run(tmp_path, "--version").stdout.splitlines()
    assert lines[0] == "Tarantool 2.8.1-0-g0000000"
    assert lines[1] == "Target: Linux-x86_64-Debug"
    assert lines[2].startswith("Lunabox ")


def test_wrong_option_and_missing_script(tmp_path: Path) -> None:
    """Exit code 64 and the errno of open."""
    wrong = run(tmp_path, "-z")
    assert (wrong.returncode, wrong.stderr) == (USAGE_ERROR, "lunabox: invalid option -- 'z'\n")
    missing = run(tmp_path, "nope.lua")
    assert (missing.returncode, missing.stdout) == (2, "Can't open script nope.lua: No such file or directory\n")


def test_script_gets_arguments(tmp_path: Path) -> None:
    """`arg` and `...` hold them; the program ends with the script."""
    name = script(tmp_path, "#!/usr/bin/env lunabox\nprint(arg[0], arg[1], arg[2], arg[3], ...)")
    outcome = run(tmp_path, name, "x", "y")
    assert (outcome.returncode, outcome.stdout) == (0, "script.lua\tx\ty\tnil\tx\ty\n")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("\nerror('boom')", "LuajitError: script.lua:2: boom"),
        ("x = = 1", "LuajitError: script.lua:1: unexpected symbol near '='"),
        ("box.error(1, 'zz')", "ER_ILLEGAL_PARAMS: Illegal parameters, zz"),
        ("box.cfg{listen = 'a b'}", "Incorrect value for option 'listen'"),
    ],
)
def test_failing_script(tmp_path: Path, source: str, message: str) -> None:
    """The error and the peer's last line on standard error; exit code 1."""
    outcome = run(tmp_path, script(tmp_path, source))
    assert outcome.returncode == 1
    assert message in outcome.stderr
    assert "fatal error, exiting the event loop" in outcome.stderr


def test_expressions_and_libraries(tmp_path: Path) -> None:
    """-l sets a global of the library's name, -e runs, both before the script."""
    name = script(tmp_path, "print('script', x)")
    outcome = run(tmp_path, "-l", "fiber", "-e", "x = fiber.id() > 0", name)
    assert (outcome.returncode, outcome.stdout) == (0, "script\ttrue\n")
    assert run(tmp_path, "-e", "error('x')").returncode == 1
    assert run(tmp_path, "-l", "no.such.module").returncode == 1


def test_exit_code(tmp_path: Path) -> None:
    """os.exit ends the program at once, in a fiber too."""
    assert run(tmp_path, "-e", "os.exit(5)").returncode == 5
    source = "require('fiber').create(function() require('fiber').sleep(0) os.exit(7) end)"
    assert run(tmp_path, script(tmp_path, source)).returncode == 7


def test_piped_input(tmp_path: Path) -> None:
    """Input that is no terminal is a script; `-` takes arguments."""
    assert run(tmp_path, text="print(1 + 1)\nprint(2)\n").stdout == "2\n2\n"
    assert run(tmp_path, text="error('x')").returncode == 1
    assert run(tmp_path, text="x x").stderr.startswith("LuajitError: stdin:1: '=' expected near 'x'\n")
    assert run(tmp_path, "-", "a", text="print(arg[0], arg[1], ...)").stdout == "-\ta\ta\n"


def test_interactive_mode_without_a_terminal(tmp_path: Path) -> None:
    """-i reads statements from a pipe; they may have several lines."""
    outcome = run(tmp_path, "-i", text="x = {\n1,\n2}\nx\nbox.session.type()\n")
    assert outcome.returncode == 0
    assert outcome.stdout.endswith("---\n...\n\n---\n- - 1\n  - 2\n...\n\n---\n- repl\n...\n\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_stop_a_server(tmp_path: Path, number: signal.Signals) -> None:
    """A node stays up after its script, until a signal ends it with code 0."""
    name = script(tmp_path, "box.cfg{log = 'node.log', listen = 'unix/:./i', pid_file = 'pid'}")
    process = subprocess.Popen([*COMMAND, name], cwd=tmp_path)
    try:
        deadline = time.monotonic() + 30
        log = tmp_path / "node.log"
        while not (log.exists() and "entering the event loop" in log.read_text()):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(number)
        assert process.wait(timeout=30) == 0
    finally:
        process.kill()
        process.wait()
    assert not os.path.exists(tmp_path / "i")


def test_unconfigured_program_with_a_fiber_stays_up(tmp_path: Path) -> None:
    """A fiber that waits keeps the program; the log's line goes to standard error."""
    process = subprocess.Popen(
        [*COMMAND, script(tmp_path, "f = require('fiber').create(function() require('fiber').sleep(1000) end)")],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        assert process.stderr.readline() == "entering the event loop\n"
        assert process.poll() is None
        process.terminate()
        assert process.wait(timeout=30) == 0
    finally:
        process.kill()
        process.communicate()
