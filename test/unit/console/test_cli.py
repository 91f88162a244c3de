"""The command `lunabox`: options, scripts, piped input, exit codes, signals."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from console.cli import USAGE_ERROR
from console.command_line import Options, UsageError, parse_arguments
from console.program import strip_shebang
from test.support import wait_until

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
        (["a.lua", "-v", "x"], Options(script="a.lua", arguments=("-v", "x"))),
        (["-i", "-e", "x = 1", "-l", "fiber", "-"], Options((("e", "x = 1"), ("l", "fiber")), True, "-")),
        (["--", "-x"], Options(script="-x")),
        (["-V"], Options(show="version")),
        (["--help"], Options(show="help")),
    ],
)
def test_arguments(arguments: list[str], options: Options) -> None:
    """Options end at the script's name; later arguments are the script's."""
    assert parse_arguments(arguments) == options


@pytest.mark.parametrize("arguments", [["-z"], ["-e"], ["--nothing"]])
def test_wrong_arguments(arguments: list[str]) -> None:
    """An unknown option is an error."""
    with pytest.raises(UsageError):
        parse_arguments(arguments)


def test_shebang_is_skipped_and_lines_stay() -> None:
    """A first line `#!` is skipped, and lines keep their numbers."""
    assert strip_shebang(b"#!/usr/bin/env lunabox\nx()") == b"\nx()"
    assert strip_shebang(b"x()\n#") == b"x()\n#"
    assert strip_shebang(b"#!x") == b""


def test_version_tells_of_a_debug_build(tmp_path: Path) -> None:
    """The version's first line and target say that this is a debug build, for the suite runner."""
    lines = run(tmp_path, "--version").stdout.splitlines()
    assert lines[0] == "Tarantool 2.8.1-0-g0000000"
    assert lines[1] == "Target: Linux-x86_64-Debug"
    assert lines[2].startswith("Lunabox ")


@pytest.mark.parametrize(
    ("argument", "text"),
    [
        ("-z", "invalid option -- 'z'"),
        ("-e", "option requires an argument -- 'e'"),
        ("--nothing", "unrecognized option '--nothing'"),
        ("--nothing=1", "unrecognized option '--nothing=1'"),
        ("--version=3", "option '--version' doesn't allow an argument"),
    ],
)
def test_wrong_option(tmp_path: Path, argument: str, text: str) -> None:
    """A wrong option ends with exit code 64 and the message of getopt."""
    wrong = run(tmp_path, argument)
    assert (wrong.returncode, wrong.stderr) == (USAGE_ERROR, f"lunabox: {text}\n")


def test_help(tmp_path: Path) -> None:
    """Help shows the command's own name, however it was started."""
    assert "Usage: lunabox [OPTIONS] [SCRIPT [ARGS]]\n" in run(tmp_path, "--help").stdout


def test_script_that_cannot_be_read(tmp_path: Path) -> None:
    """A script that cannot be opened ends with its errno as exit code; a directory can be opened but not read."""
    missing = run(tmp_path, "nope.lua")
    assert (missing.returncode, missing.stdout) == (2, "Can't open script nope.lua: No such file or directory\n")
    assert missing.stderr == ""
    mistyped = run(tmp_path, "conect", "localhost:3301")
    assert (mistyped.returncode, mistyped.stderr) == (2, "lunabox: did you mean the command 'connect'?\n")
    directory = run(tmp_path, ".")
    assert (directory.returncode, directory.stdout) == (1, "")
    assert directory.stderr == "LuajitError: cannot read .: Is a directory\nfatal error, exiting the event loop\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_script_without_permission(tmp_path: Path) -> None:
    """A script without permission ends with EACCES as exit code."""
    (tmp_path / script(tmp_path, "print(1)")).chmod(0)
    outcome = run(tmp_path, "script.lua")
    assert (outcome.returncode, outcome.stdout) == (13, "Can't open script script.lua: Permission denied\n")


def test_removed_current_directory(tmp_path: Path) -> None:
    """In a directory that was removed, the command reports that and ends with 1."""
    (tmp_path / "gone").mkdir()
    command = " ".join(["cd gone; rmdir ../gone;", *COMMAND, "-e 1"])
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    outcome = subprocess.run(
        command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert outcome.returncode == 1
    assert "lunabox: current directory: No such file or directory\n" in outcome.stderr


@pytest.mark.parametrize(
    "arguments", [("-e", "name()"), ("-l", "lib"), ("-e", "name()", "script.lua"), ("-e", "name()", "-")]
)
def test_fibers_of_the_command_line_are_called_as_the_script(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """The fibers of all parts of a command line have the name of the script, or `interactive` without one."""
    (tmp_path / "lib.lua").write_text("function name() print(require('fiber').name()) end name()")
    script(tmp_path, "name()")
    outcome = run(tmp_path, "-l", "lib", *arguments)
    expected = arguments[2] if len(arguments) > 2 else "interactive"
    assert set(outcome.stdout.split()) == {expected}


def test_a_script_is_the_main_chunk(tmp_path: Path) -> None:
    """A traceback and the frames of the TAP module end with the script."""
    name = script(tmp_path, "print(debug.traceback('x')) local t = require('tap').test('t') t:plan(1) t:ok(false, 'f')")
    outcome = run(tmp_path, name)
    assert "script.lua:1: in main chunk\n" in outcome.stdout
    assert "main.lua" not in outcome.stdout


def test_script_gets_arguments(tmp_path: Path) -> None:
    """`arg` and `...` have the script's arguments, and the process ends with the script."""
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
    """A failing script prints the error and Tarantool's last line to standard error, and ends with 1."""
    outcome = run(tmp_path, script(tmp_path, source))
    assert outcome.returncode == 1
    assert message in outcome.stderr
    assert "fatal error, exiting the event loop" in outcome.stderr


def test_a_node_waits_for_the_interpreter_for_a_millisecond(tmp_path: Path) -> None:
    """The loop's thread waits at most a millisecond for the interpreter while another thread writes a log or a
    snapshot.
    """
    program = "import sys; from console.cli import main; print(main(['-e', 'x = 1']), sys.getswitchinterval())"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(Path.cwd())},
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout == "0 0.001\n"


def test_expressions_and_libraries(tmp_path: Path) -> None:
    """-l sets a global of the library's name and -e runs text, both before the script."""
    name = script(tmp_path, "print('script', x)")
    outcome = run(tmp_path, "-l", "fiber", "-e", "x = fiber.id() > 0", name)
    assert (outcome.returncode, outcome.stdout) == (0, "script\ttrue\n")
    failed = run(tmp_path, "-e", "error('x')")
    assert (failed.returncode, failed.stderr.splitlines()[0]) == (1, "LuajitError: (command line):1: x")
    missing = run(tmp_path, "-l", "no.such.module")
    assert (missing.returncode, missing.stderr.splitlines()[0]) == (
        1,
        "LuajitError: module 'no.such.module' not found:",
    )


@pytest.mark.parametrize(
    ("value", "code"), [("5", 5), ("-1", 255), ("3.7", 3), ("'5'", 0), ("true", 0), ("false", 0), ("0 / 0", 0)]
)
def test_exit_code(tmp_path: Path, value: str, code: int) -> None:
    """The exit code is the low byte of a number given to os.exit, 0 for other values, as in Tarantool."""
    assert run(tmp_path, "-e", f"os.exit({value})").returncode == code


def test_exit_in_a_fiber(tmp_path: Path) -> None:
    """os.exit in a fiber ends the program at once."""
    source = "require('fiber').create(function() require('fiber').sleep(0) os.exit(7) end)"
    assert run(tmp_path, script(tmp_path, source)).returncode == 7


def test_piped_input(tmp_path: Path) -> None:
    """Piped input is run as a script; `-` allows arguments."""
    assert run(tmp_path, text="print(1 + 1)\nprint(2)\n").stdout == "2\n2\n"
    assert run(tmp_path, text="error('x')").returncode == 1
    assert run(tmp_path, text="x x").stderr.startswith("LuajitError: stdin:1: '=' expected near 'x'\n")
    assert run(tmp_path, "-", "a", text="print(arg[0], arg[1], ...)").stdout == "-\ta\ta\n"


def test_interactive_mode_without_a_terminal(tmp_path: Path) -> None:
    """-i after a script reads statements from a pipe and shows prompts and lines as Tarantool does."""
    outcome = run(tmp_path, "-i", script(tmp_path, "print('script')"), text="x = {\n1}\nx\nbox.session.type()\nf(")
    assert outcome.stderr == "Tarantool 2.8.1-0-g0000000\ntype 'help' for interactive help\n"
    assert outcome.stdout == (
        "script\n"
        "tarantool> x = {\n         > 1}\n---\n...\n\n"
        "tarantool> x\n---\n- - 1\n...\n\n"
        "tarantool> box.session.type()\n---\n- repl\n...\n\n"
        "tarantool> f(\n         > "
    )


def test_interactive_mode_runs_input_that_is_no_terminal_first(tmp_path: Path) -> None:
    """With -i alone all input is a script, and nothing is left for the session."""
    assert run(tmp_path, "-i", text="x = 5\nprint(x)\n").stdout == "5\ntarantool> "
    assert run(tmp_path, "-i", text="5\n").returncode == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_stop_a_server(tmp_path: Path, number: signal.Signals) -> None:
    """A node stays up after its script until a signal ends it with code 0."""
    name = script(tmp_path, "box.cfg{log = 'node.log', listen = 'unix/:./i', pid_file = 'pid'}")
    process = subprocess.Popen([*COMMAND, name], cwd=tmp_path)
    try:
        log = tmp_path / "node.log"
        wait_until(
            lambda: process.poll() is not None or (log.exists() and "entering the event loop" in log.read_text())
        )
        assert process.poll() is None
        process.send_signal(number)
        assert process.wait(timeout=30) == 0
    finally:
        process.kill()
        process.wait()
    assert not os.path.exists(tmp_path / "i")


def test_unconfigured_program_with_a_fiber_stays_up(tmp_path: Path) -> None:
    """A waiting fiber keeps a program without box.cfg running; its log goes to standard error."""
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


@pytest.mark.parametrize(
    ("redirections", "text"),
    [
        ("<&-", "1\n"),
        ("2>&-", "1\n"),
        (">&-", ""),
        ("<&- >&- 2>&-", ""),
        ("| true", ""),
    ],
)
def test_missing_streams(tmp_path: Path, redirections: str, text: str) -> None:
    """Closed streams, and pipes without a reader, are no errors, as in Tarantool."""
    command = shlex.join([*COMMAND, "-e", "print(1) require('fiber').sleep(0.01)"])
    outcome = subprocess.run(
        f"set -o pipefail; {command} {redirections}",
        shell=True,
        executable="bash",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (outcome.returncode, outcome.stdout, outcome.stderr) == (0, text, "")


@pytest.mark.parametrize(
    "arguments",
    [
        ["-e", "print(1) print(2) require('fiber').sleep(0.01) print(3)"],
        ["-e", "print(1) os.exit(0)"],
        ["-e", "require('tap').test('t'):check() print(1)"],
        ["--version"],
        ["-e", "require('console').start()"],
    ],
)
def test_a_full_standard_output_is_told_once(tmp_path: Path, arguments: list[str]) -> None:
    """A full standard output is reported once and ends with an error, while Tarantool ends silently with 0."""
    with open("/dev/full", "wb") as full:
        outcome = subprocess.run(
            [*COMMAND, *arguments],
            cwd=tmp_path,
            input=b"1\n2\n" * 50 if "console" in arguments[-1] else b"",
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    assert outcome.stderr == b"lunabox: standard output: No space left on device\n"
    assert outcome.returncode == 1


def test_both_outputs_are_full(tmp_path: Path) -> None:
    with open("/dev/full", "wb") as full:
        for unbuffered in ("", "1"):
            outcome = subprocess.run(
                [*COMMAND, "-e", "print(1)"],
                stdout=full,
                stderr=full,
                timeout=60,
                check=False,
                env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
            )
            assert outcome.returncode == 1


def test_the_exit_code_of_a_script_stays(tmp_path: Path) -> None:
    with open("/dev/full", "wb") as full:
        command = [*COMMAND, "-e", "print(1) os.exit(7)"]
        assert subprocess.run(command, stdout=full, stderr=subprocess.DEVNULL, timeout=60, check=False).returncode == 7


def test_statements_that_are_no_utf8(tmp_path: Path) -> None:
    """A session accepts and prints bytes that are no UTF-8 unchanged, whatever the locale is."""
    outcome = subprocess.run(
        [*COMMAND, "-e", "require('console').start()"],
        input=b"#'\xff\xfe\0'\nprint('\xff')\n",
        env={**os.environ, "PYTHONIOENCODING": "utf-8:strict"},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert b"\n---\n- 3\n...\n\ntarantool> " in outcome.stdout
    assert b"\n\xff\n---\n...\n\n" in outcome.stdout


def test_error_injections_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Error injections in environment variables apply from the start; a value of another type ends the process."""
    source = script(tmp_path, "print(box.error.injection.get('ERRINJ_XLOG_READ')) os.exit(0)")
    monkeypatch.setenv("ERRINJ_XLOG_READ", "100")
    assert run(tmp_path, source).stdout == "100\n"
    monkeypatch.setenv("ERRINJ_XLOG_READ", "much")
    done = run(tmp_path, source)
    assert (done.returncode, "Incorrect value for integer ERRINJ_XLOG_READ: much" in done.stderr) == (1, True)


def test_the_working_directory_of_box_cfg_is_that_of_the_process(tmp_path: Path) -> None:
    """box.cfg{work_dir} changes the directory of the process: relative paths and the search for modules follow it."""
    (tmp_path / "data").mkdir()
    (tmp_path / "outside.lua").write_text("return 1")
    (tmp_path / "data/inside.lua").write_text("return 2")
    source = (
        "box.cfg{work_dir = 'data', log_level = 1, listen = 'unix/:./node.sock'}\n"
        "print(require('fio').cwd() == os.getenv('PWD') .. '/data', package.searchroot() == require('fio').cwd())\n"
        "print(pcall(require, 'outside') == false, require('inside'))\n"
        "io.open('note', 'w'):close()\n"
        "print(pcall(box.cfg, {work_dir = 'other'}))\n"
        "box.cfg{work_dir = 'data', log_level = 2}\n"
        "os.exit(require('fio').path.exists('node.sock') and 3 or 4)\n"
    )
    done = subprocess.run(
        [*COMMAND, script(tmp_path, source)],
        cwd=tmp_path,
        env={**os.environ, "PWD": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    refusal = "false\tCan't set option 'work_dir' dynamically\n"
    assert (done.returncode, done.stdout) == (3, "true\ttrue\ntrue\t2\n" + refusal), done.stderr
    assert (tmp_path / "data/note").exists()
    assert (tmp_path / "data/00000000000000000000.snap").exists()


def test_a_working_directory_that_is_not_there(tmp_path: Path) -> None:
    done = run(tmp_path, script(tmp_path, "box.cfg{work_dir = 'nowhere'}"))
    assert done.returncode == 1
    assert "can't chdir to `nowhere'" in done.stderr
