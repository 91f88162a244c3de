"""Lines of the log as Tarantool 2.8.1 writes them: at the start, of errors, at the end, and those of `log.cfg`."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from test.unit.console.test_cli import run, script


def lines_of(path: Path) -> list[str]:
    """Return the lines of a log without their times and the number of the process."""
    return [line.partition("] ")[2] for line in path.read_text().splitlines()]


def test_the_lines_of_a_start(tmp_path: Path) -> None:
    """The node's own fibers have the numbers of Tarantool, and options come in its order."""
    run(
        tmp_path,
        script(tmp_path, "box.cfg{log = 'l', read_only = false, readahead = 20000, listen = 'unix/:./s'} os.exit()"),
    )
    shown = [re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|for \w+ \w+ .*", "X", line) for line in lines_of(tmp_path / "l")]
    main = "main/103/script.lua"
    assert shown[2:] == [
        f"{main} I> wal/engine cleanup is paused",
        f"{main} I> instance uuid X",
        f"{main} I> : bound to unix/:(socket)",
        f"{main} I> initializing an empty data directory",
        f"{main} I> assigned id 1 to replica X",
        f"{main} I> cluster uuid X",
        "snapshot/101/main I> saving snapshot `./00000000000000000000.snap.inprogress'",
        "snapshot/101/main I> done",
        f"{main} I> ready to accept requests",
        "main/104/gc I> wal/engine cleanup is resumed",
        f"{main} I> set 'log_level' configuration option to 5",
        "main/105/checkpoint_daemon I> scheduled next checkpoint X",
        f"{main} I> set 'listen' configuration option to \"unix\\/:.\\/s\"",
        f"{main} I> set 'log_format' configuration option to \"plain\"",
        f"{main} I> set 'readahead' configuration option to 20000",
    ]
    run(tmp_path, "-e", "box.cfg{log = 'again', memtx_use_mvcc_engine = true} os.exit()")
    again = [
        re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "X", line).rpartition("> ")[2] for line in lines_of(tmp_path / "again")
    ]
    start = again.index("recovery start")
    assert again[start : start + 4] == [
        "recovery start",
        "recovering from `./00000000000000000000.snap'",
        "cluster uuid X",
        "assigned id 1 to replica X",
    ]
    assert again.count("assigned id 1 to replica X") == 1


@pytest.mark.parametrize(
    ("options", "number"),
    [("log = 'l'", 118), ("log = 'l', feedback_enabled = false", 110), ("log = 'l', listen = 'unix/:./s'", 118)],
)
def test_the_number_of_the_next_fiber(tmp_path: Path, options: str, number: int) -> None:
    source = (
        f"box.cfg{{{options}}} print(require('fiber').create(function() require('fiber').sleep(1) end):id()) os.exit()"
    )
    assert run(tmp_path, "-e", source).stdout == f"{number}\n"


def test_a_fiber_that_fails_takes_one_number(tmp_path: Path) -> None:
    """Its line in the log has the name that it has given itself."""
    source = """
        box.cfg{log = 'l'}
        local fiber = require('fiber')
        fiber.create(function() fiber.name('me') error('why') end)
        print(fiber.new(function() end):id())
        os.exit()
    """
    assert run(tmp_path, script(tmp_path, source)).stdout == "119\n"
    assert "main/118/me utils.c:1014 E> LuajitError: script.lua:4: why" in lines_of(tmp_path / "l")


def test_no_checkpoint_is_scheduled_without_an_interval(tmp_path: Path) -> None:
    later = "box.cfg{checkpoint_interval = 9} require('fiber').sleep(0) os.exit()"
    source = f"box.cfg{{log = 'l', checkpoint_interval = 0}} {later}"
    run(tmp_path, "-e", source)
    lines = lines_of(tmp_path / "l")
    assert [line for line in lines if "scheduled" in line] == lines[-1:]


def test_records_in_json(tmp_path: Path) -> None:
    """A table is merged into the record, without the members that it cannot have; an error is a member of its own."""
    source = """
        local log = require('log')
        log.cfg{log = 'l', format = 'json'}
        local message = {message = 'm', a = 1, level = 'x', pid = 3}
        log.info(message)
        log.info('a/b')
        print(message.level, message.pid)
        require('fiber').create(function() box.error(box.error.NO_SUCH_SPACE, 's') end)
        require('fiber').create(function() error('why') end)
    """
    assert run(tmp_path, script(tmp_path, source)).stdout == "x\t3\n"
    table, text, error, raised = map(json.loads, (tmp_path / "l").read_text().splitlines())
    assert (table["message"], table["a"], table["level"], table["fiber_id"]) == ("m", 1, "INFO", 103)
    assert table["pid"] == text["pid"] != 3
    assert (text["message"], text["file"]) == ("a/b", "script.lua")
    assert (error["message"], error["error"]) == ("ER_NO_SUCH_SPACE", "Space 's' does not exist")
    assert (raised["message"], raised["error"]) == ("LuajitError", "script.lua:9: why")


def test_the_log_before_the_start(tmp_path: Path) -> None:
    """`log.cfg` opens the log, whose lines are whole from then on. It takes a name of a level only later."""
    source = """
        local log = require('log')
        local ok, problem = pcall(log.cfg, {level = 'debug'})
        print(ok, problem:match(': (.*)'))
        log.info('bare')
        log.cfg{log = 'l'}
        print(pcall(box.cfg, {log = 'other'}))
        log.cfg{level = 'verbose'}
        log.verbose('v')
        print(log.cfg.level, log.cfg.format, log.cfg.log, log.cfg.nonblock)
        error('last', 0)
    """
    outcome = run(tmp_path, script(tmp_path, source))
    assert outcome.stdout.splitlines() == [
        "false\tbad argument #2 to 'say_logger_init' (cannot convert 'string' to 'int')",
        "false\tIncorrect value for option 'log': can't be set dynamically",
        "6\tplain\tl\tnil",
    ]
    assert outcome.stderr.splitlines()[0] == "bare"
    lines = lines_of(tmp_path / "l")
    assert lines[0] == "main/103/script.lua V> v"
    assert lines[-1] == "main F> fatal error, exiting the event loop"


def test_a_log_that_cannot_be_opened_ends_the_process(tmp_path: Path) -> None:
    outcome = run(tmp_path, "-e", "pcall(require('log').cfg, {log = 'no/l'}) print('here')")
    assert (outcome.returncode, outcome.stdout) == (1, "")
    assert outcome.stderr.splitlines()[-1] == "failed to initialize logging subsystem"


def test_a_script_that_fails_begins_no_log_file(tmp_path: Path) -> None:
    assert run(tmp_path, "-e", "box.cfg{log = 'l'} error('x')").returncode == 1
    assert not list(tmp_path.glob("*.xlog"))


def test_errors_of_triggers(tmp_path: Path) -> None:
    """An error of on_shutdown names the fiber that Tarantool reserves for it; one that never ends is told."""
    source = """
        box.ctl.set_on_shutdown_timeout(0.1)
        box.ctl.on_shutdown(function() os.exit(7) end)
        box.ctl.on_shutdown(function() error('in s') end)
        box.cfg{log = 'l'}
        os.exit(3)
    """
    assert run(tmp_path, script(tmp_path, source)).returncode == 3
    assert [line for line in lines_of(tmp_path / "l") if "on_shutdown" in line] == [
        "main/102/on_shutdown utils.c:1014 E> LuajitError: script.lua:4: in s",
        "main/102/on_shutdown !> SystemError timed out: Connection timed out",
        "main/102/on_shutdown E> on_shutdown triggers are timed out: not all triggers might have finished yet",
    ]


def test_an_error_before_the_start_does_not_stop_it(tmp_path: Path) -> None:
    source = (
        "box.ctl.on_schema_init(function() error('in init') end) box.cfg{log = 'l'} print(box.info.status) os.exit()"
    )
    outcome = run(tmp_path, script(tmp_path, source))
    assert (outcome.stdout, outcome.stderr) == ("running\n", "LuajitError: script.lua:1: in init\n")


def test_an_exit_in_a_fiber_begins_no_loop(tmp_path: Path) -> None:
    outcome = run(tmp_path, "-e", "require('fiber').create(function() os.exit(5) end) print('main')")
    assert (outcome.returncode, outcome.stdout, outcome.stderr) == (5, "main\n", "")


def test_arguments_of_a_script_are_those_of_the_command(tmp_path: Path) -> None:
    """A change of the table `arg` does not change them."""
    assert run(tmp_path, "-e", "arg[1] = 'new'", script(tmp_path, "print(arg[1], ...)"), "old").stdout == "new\told\n"


def test_an_option_that_comes_first_is_shown_before_a_wrong_one(tmp_path: Path) -> None:
    assert run(tmp_path, "-iv", "-z").stdout.startswith("Tarantool 2.8.1")
    assert run(tmp_path, "-i", "-v", "--help=3").stdout.startswith("Tarantool 2.8.1")
    for wrong in (["-z", "-v"], ["--help=3"], ["-e"], ["-zv"]):
        assert run(tmp_path, *wrong).returncode == 64


def test_bytes_of_an_error(tmp_path: Path) -> None:
    (tmp_path / "s.lua").write_bytes(b"error('\\255', 0)")
    import subprocess

    command = [str(Path(sys.executable).with_name("lunabox")), "s.lua"]
    outcome = subprocess.run(command, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    assert outcome.stderr.startswith(b"LuajitError: \xff\n")


@pytest.mark.parametrize(
    ("source", "code", "output", "errors"),
    [
        ("fiber.new(function() print('ran') end) print('main')", 0, "main\nran\n", ""),
        ("fiber.new(function() fiber.new(function() print('in') end) end)", 0, "in\n", ""),
        ("fiber.new(function() os.exit(5) end)", 5, "", ""),
        ("fiber.create(function() fiber.yield() os.exit(6) end)", 6, "", "entering the event loop\n"),
    ],
)
def test_fibers_that_are_ready_run_before_the_end_of_a_script(
    tmp_path: Path, source: str, code: int, output: str, errors: str
) -> None:
    """A program stays up only for those that wait."""
    outcome = run(tmp_path, script(tmp_path, f"local fiber = require('fiber') {source}"))
    assert (outcome.returncode, outcome.stdout, outcome.stderr) == (code, output, errors)


def test_numbers_of_options_are_logged_as_in_json(tmp_path: Path) -> None:
    source = "box.cfg{log = 'l', checkpoint_wal_threshold = 1/3, slab_alloc_factor = 3} box.cfg{%s} os.exit()"
    run(tmp_path, "-e", source % "checkpoint_wal_threshold = 1e18")
    lines = [line.partition("> ")[2] for line in lines_of(tmp_path / "l")]
    text = "set 'checkpoint_wal_threshold' configuration option to"
    assert [line for line in lines if line.startswith(text)] == [
        f"{text} 0.33333333333333",
        f"{text} 1000000000000000000",
    ]
    assert "Alloc factor must be less than or equal to 2.0. It will be reduced to 2.0" in lines


def test_a_missing_directory_is_named_as_the_option_has_it(tmp_path: Path) -> None:
    """`wal_dir` begins at `work_dir`, which is not part of the message."""
    (tmp_path / "data").mkdir()
    ended = run(tmp_path, "-e", "box.cfg{work_dir = 'data', wal_dir = 'missing'}")
    assert "can't initialize storage: Can't open path: missing\n" in ended.stderr + "\n"
