"""What programs and service managers notice of the executable, as a 2.8.1 does it."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from test.support import wait_until
from test.unit.console.test_cli import COMMAND, run, script

LOST = "can't initialize storage: "


def test_a_script_is_at_the_bottom_of_its_stack(tmp_path: Path) -> None:
    """Programs find out by the depth of the stack whether they are run or required."""
    depth = "print(pcall(debug.getlocal, 3, 1), debug.getinfo(2), pcall(coroutine.yield))"
    outcome = run(tmp_path, "-e", depth, script(tmp_path, depth))
    line = "false\tnil\tfalse\tattempt to yield across C-call boundary\n"
    assert outcome.stdout == line * 2


def test_one_fiber_runs_the_whole_command_line(tmp_path: Path) -> None:
    """Its id is that of Tarantool, and what it keeps in its storage stays."""
    source = "print(require('fiber').id(), require('fiber').self().storage.x)"
    outcome = run(tmp_path, "-e", "require('fiber').self().storage.x = 5", "-e", source, script(tmp_path, source))
    assert outcome.stdout == "103\t5\n" * 2


def test_a_script_that_fails_runs_no_triggers(tmp_path: Path) -> None:
    trigger = "box.ctl.on_shutdown(function() print('bye') end) "
    assert run(tmp_path, "-e", f"{trigger} print('end')").stdout == "end\nbye\n"
    failed = run(tmp_path, "-e", f"{trigger} error('a\\0b', 0)")
    assert (failed.stdout, failed.stderr) == ("", "LuajitError: a\nfatal error, exiting the event loop\n")


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ("work_dir = 'no'", 1, "can't chdir to `no': No such file or directory\n"),
        ("pid_file = 'no/p'", 1, "failed to create pid file '{}/no/p': No such file or directory\n"),
        (
            "log = 'no/log'",
            1,
            "SystemError can't open log file: {}/no/log: No such file or directory\n"
            "failed to initialize logging subsystem\n",
        ),
        ("background = true", 1, "'background' requires 'log' configuration option to be set\n"),
        ("background = true, log = 'l'", 1, "'background' requires 'pid_file' configuration option to be set\n"),
    ],
)
def test_a_start_that_fails_ends_the_process(tmp_path: Path, options: str, code: int, message: str) -> None:
    """Lua cannot catch it."""
    outcome = run(tmp_path, "-e", f"pcall(box.cfg, {{{options}}}) print('here')")
    assert (outcome.returncode, outcome.stdout) == (code, "")
    assert outcome.stderr == message.format(tmp_path)


def test_a_start_that_fails_later_is_logged(tmp_path: Path) -> None:
    source = "pcall(box.cfg, {log = 'log', memtx_dir = 'no'}) print('here')"
    outcome = run(tmp_path, "-e", source)
    assert (outcome.returncode, outcome.stdout) == (1, "")
    assert outcome.stderr.count("\n") == 1
    assert outcome.stderr.endswith(f"main/103/interactive F> {LOST}error reading directory 'no'\n")
    lines = (tmp_path / "log").read_text().splitlines()[-2:]
    assert [line.partition(" main/103/interactive ")[2] for line in lines] == [
        "!> SystemError error reading directory 'no': No such file or directory",
        f"F> {LOST}error reading directory 'no'",
    ]


def test_lines_of_no_fiber_name_none(tmp_path: Path) -> None:
    """Those of the start have the fiber of the script."""
    run(tmp_path, script(tmp_path, "box.cfg{log = 'log', read_only = false, readahead = 20000} error('boom', 0)"))
    lines = [line.partition("] ")[2] for line in (tmp_path / "log").read_text().splitlines()]
    assert lines[-2:] == ["main utils.c:1014 E> LuajitError: boom", "main F> fatal error, exiting the event loop"]
    assert "main/103/script.lua I> set 'readahead' configuration option to 20000" in lines
    assert not [line for line in lines if "'log' configuration" in line or "read_only" in line]


def test_background(tmp_path: Path) -> None:
    """The command ends with 0 while a child with the number of the pid file serves; its output goes to the log."""
    source = """
        box.cfg{background = true, log = 'log', pid_file = 'pid', listen = 'unix/:./i', custom_proc_title = 'shop'}
        box.schema.space.create('s'):create_index('pk')
        box.space.s:insert{1, require('fio').readlink('/proc/self/fd/0')}
        require('fiber').create(function()
            local connection = require('net.box').connect('unix/:./i')
            print(connection:ping(), io.read('*a'), require('fio').path.exists('pid'))
            io.flush()
            require('log').info('was here')
        end)
    """
    outcome = run(tmp_path, script(tmp_path, source), text="input")
    assert (outcome.returncode, outcome.stdout, outcome.stderr) == (0, "", "")
    log = tmp_path / "log"
    wait_until(lambda: "was here" in log.read_text())
    pid = int((tmp_path / "pid").read_text())
    try:
        assert "true\t\ttrue\n" in log.read_text()
        assert os.getsid(pid) == pid
        title = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0")
        assert title == b"lunabox script.lua <running>: shop"
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: not (tmp_path / "pid").exists())
    finally:
        if (tmp_path / "pid").exists():
            os.kill(pid, signal.SIGKILL)
    assert f"main C> got signal 15 - {signal.strsignal(15)}\n" in log.read_text()
    assert (tmp_path / "00000000000000000000.xlog").stat().st_size > 300


@pytest.mark.parametrize("is_abstract", [False, True])
def test_the_service_manager_is_told(tmp_path: Path, is_abstract: bool) -> None:
    name = f"@{tmp_path}" if is_abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(name.replace("@", "\0", 1))
        manager.settimeout(30)
        environment = {**os.environ, "NOTIFY_SOCKET": name}
        command = [*COMMAND, "-e", "box.cfg{log = 'log'}"]
        with subprocess.Popen(command, cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL) as program:
            try:
                assert [manager.recv(99) for _ in range(3)] == [b"STATUS=loading", b"STATUS=running", b"READY=1"]
            finally:
                program.terminate()
        tell(tmp_path, name, "error('no', 0)")
        assert manager.recv(99) == b"STATUS=Failed to startup: no"


def tell(directory: Path, address: str, source: str) -> str:
    environment = {**os.environ, "NOTIFY_SOCKET": address}
    outcome = subprocess.run(
        [*COMMAND, "-e", source], cwd=directory, env=environment, capture_output=True, text=True, timeout=60,
        check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return outcome.stderr


def test_a_service_manager_that_is_not_there(tmp_path: Path) -> None:
    assert tell(tmp_path, "relative", "") == "systemd: NOTIFY_SOCKET contains bad value\n"
    assert tell(tmp_path, "/" + "x" * 200, "") == "systemd: NOTIFY_SOCKET is longer than MAX_UNIX_PATH\n"
    tell(tmp_path, str(tmp_path / "gone"), "box.cfg{log = 'log'} os.exit()")
    log = (tmp_path / "log").read_text()
    assert log.count("!> systemd: failed to send message: No such file or directory") == 2


def test_the_title_of_the_process(tmp_path: Path) -> None:
    """It is as long as it must be, though the environment stands behind the command line."""
    source = """
        local function shown() print((io.open('/proc/self/cmdline'):read('*a'):gsub('%z*$', ''))) end
        box.cfg{log = 'log'} shown()
        box.cfg{custom_proc_title = ('x'):rep(500)} shown()
        box.cfg{custom_proc_title = 'y'} shown()
        print(os.getenv('PROBE'), os.environ().PROBE, select(2, require('title').get()).status)
        os.exit()
    """
    environment = {**os.environ, "PROBE": "p" * 600}
    outcome = subprocess.run(
        [*COMMAND, script(tmp_path, source)], cwd=tmp_path, env=environment, capture_output=True, text=True,
        timeout=60, check=True,
    )  # fmt: skip
    head = "lunabox script.lua <running>"
    assert outcome.stdout.splitlines() == [
        head, f"{head}: {'x' * 500}", f"{head}: y", f"{'p' * 600}\t{'p' * 600}\trunning",
    ]  # fmt: skip


def test_paths_of_the_environment(tmp_path: Path) -> None:
    """Two semicolons in LUA_PATH stand for Tarantool's default path."""
    environment = {**os.environ, "LUA_PATH": "a/?.lua;;b", "LUA_CPATH": ";;", "HOME": "/h"}
    outcome = subprocess.run(
        [*COMMAND, "-e", "print(package.path) print(package.cpath)"], env=environment, capture_output=True, text=True,
        timeout=60, check=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    path, cpath = outcome.stdout.splitlines()
    assert path.startswith("a/?.lua;/h/.luarocks/share/lua/5.1/?.lua;")
    assert path.endswith("/usr/share/lua/5.1/?/init.lua;;b")
    assert cpath.startswith(";/h/.luarocks/lib/lua/5.1/?.so;")


def test_the_root_of_searches_is_that_of_the_caller(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "part.lua").write_text("return ...")
    (tmp_path / "d" / "main.lua").write_text(
        "package.setsearchroot() print(package.searchroot(), require('part'))\n"
        "package.setsearchroot(box.NULL) print(package.searchroot())\n"
        "print(pcall(package.setsearchroot, 5))"
    )
    output = re.sub(r"lua:\d+:", "lua:", run(tmp_path, "d/main.lua").stdout)
    assert output.splitlines() == [
        f"{tmp_path}/d\tpart",
        str(tmp_path),
        "false\tbuiltin/tarantool.lua: Search root must be a string",
    ]


def test_options_of_the_log_before_the_start_stay(tmp_path: Path) -> None:
    source = "require('log').cfg{log = 'own', level = 3} box.cfg{} print(box.cfg.log, box.cfg.log_level) os.exit()"
    outcome = run(tmp_path, "-e", source)
    assert (outcome.stdout, outcome.stderr) == ("own\t3\n", "")
    assert "Tarantool 2.8.1" in (tmp_path / "own").read_text()


def test_a_log_without_a_file_cannot_be_rotated(tmp_path: Path) -> None:
    outcome = run(tmp_path, "-e", "box.cfg{log = '|cat >log'} os.exit()")
    assert outcome.stderr == "started logging into a pipe, SIGHUP log rotation disabled\n"


def test_a_terminal_that_is_injected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that test a session say that their pipe is a terminal."""
    monkeypatch.setenv("ERRINJ_STDIN_ISATTY", "1")
    assert run(tmp_path, text="1\n").stdout == "tarantool> 1\n---\n- 1\n...\n\ntarantool> "
    assert run(tmp_path, "-e", "print(7)", text="1\n").stdout == "7\n"


def test_the_name_in_messages_is_that_of_the_command(tmp_path: Path) -> None:
    """Users link the command under Tarantool's name."""
    link = tmp_path / "tarantool"
    link.write_text(f"#!{sys.executable}\nfrom console.cli import main\nmain()\n")
    link.chmod(0o755)
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    outcome = subprocess.run([link, "-z"], env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (outcome.returncode, outcome.stderr) == (64, "tarantool: invalid option -- 'z'\n")


def test_print_takes_numbers_of_tostring(tmp_path: Path) -> None:
    assert run(tmp_path, "-e", "print(setmetatable({}, {__tostring = function() return 1.5 end}))").stdout == "1.5\n"


def test_options_are_shown_in_the_order_of_tarantool(tmp_path: Path) -> None:
    """It follows from the order in which options come into the table `box.cfg`."""
    source = """
        box.cfg{
            log = 'l', listen = 'unix/:./x', work_dir = '.', memtx_memory = 2^27, log_level = 6, checkpoint_count = 4,
            replication_timeout = 2, pid_file = 'p', custom_proc_title = 'x', slab_alloc_minimal = 16,
        }
        for name in pairs(box.cfg) do print(name) end
        os.exit()
    """
    names = run(tmp_path, script(tmp_path, source)).stdout.split()
    assert names[:10] == [
        "pid_file", "vinyl_run_count_per_level", "wal_queue_max_size", "feedback_host", "log_format",
        "custom_proc_title", "wal_dir", "memtx_min_tuple_size", "wal_dir_rescan_delay", "replication_anon",
    ]  # fmt: skip
    assert names[-10:] == [
        "wal_mode", "worker_pool_threads", "checkpoint_count", "read_only", "work_dir", "replication_skip_conflict",
        "vinyl_write_threads", "checkpoint_wal_threshold", "iproto_threads", "replication_sync_timeout",
    ]  # fmt: skip


def test_options_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers have the notation of Lua, and a NULL in box.cfg asks for the value of the environment."""
    monkeypatch.setenv("TT_READAHEAD", "0x4000")
    source = (
        "print(require('json').encode(box.internal.cfg.env)) "
        "box.cfg{log = 'l', readahead = box.NULL} print(box.cfg.readahead) os.exit()"
    )
    assert run(tmp_path, "-e", source).stdout == '{"readahead":16384}\n16384\n'
    monkeypatch.setenv("TT_READAHEAD", "16_384")
    output = run(
        tmp_path, "-e", "print(pcall(box.cfg)) print(pcall(function() return box.internal.cfg.env end))"
    ).stdout
    text = 'Environment variable TT_READAHEAD has incorrect value for option "readahead": '
    text += "should be convertible to a number"
    place = "builtin/box/load_cfg.lua"
    assert output == f"false\t{place}:19: {place}:852: {text}\nfalse\t{place}:852: {text}\n"


def test_texts_of_wrong_formulas(tmp_path: Path) -> None:
    """Those of Lua, in which Tarantool evaluates `replication_synchro_quorum`."""
    source = """
        for _, formula in ipairs{'N +', 'os.exit()', 'x', '"a"', ']]'} do
            print((select(2, pcall(box.cfg, {replication_synchro_quorum = formula})).message:gsub("^.-': ", '')))
        end
    """
    assert run(tmp_path, script(tmp_path, source)).stdout.splitlines() == [
        """[string "local expr = [[N +]]..."]:3: Failed to load N +:"""
        """[string "return (N +)"]:1: unexpected symbol near ')'""",
        """[string "return (os.exit())"]:1: attempt to index global 'os' (a nil value)""",
        """[string "local expr = [[x]]..."]:7: Expression should return a number""",
        """[string "local expr = [["a"]]..."]:7: Expression should return a number""",
        "attempt to call a string value",
    ]


def test_files_of_a_backup_are_named_as_their_directory(tmp_path: Path) -> None:
    (tmp_path / "w" / "m").mkdir(parents=True)
    source = "box.cfg{log = 'l', work_dir = 'w', memtx_dir = './m'} print(box.backup.start()[1]) os.exit()"
    assert run(tmp_path, "-e", source).stdout == "./m/00000000000000000000.snap\n"


def test_a_log_that_syslog_does_not_take(tmp_path: Path) -> None:
    """The reason comes first, and paths are shown as they are named."""
    outcome = run(tmp_path, "-e", "box.cfg{log = 'syslog:server=unix:./no'}")
    assert (outcome.returncode, outcome.stderr) == (
        1,
        "SystemError No such file or directory: No such file or directory\n"
        "SystemError syslog logger: No such file or directory: No such file or directory\n"
        "failed to initialize logging subsystem\n",
    )
    outcome = run(tmp_path, "-e", "box.cfg{log = '.'}")
    assert outcome.stderr.startswith(f"SystemError can't open log file: {tmp_path}/.: Is a directory\n")


def test_a_pid_file_that_cannot_be_written(tmp_path: Path) -> None:
    """The start goes on, and the log tells of it."""
    # Files of no size: the log is a pipe to a command, which may write.
    source = f"trap '' XFSZ; ulimit -f 0; exec {shlex.join(COMMAND)} -e \"{{}}\""
    config = "box.cfg{log = '|cat >/dev/stderr', pid_file = 'p', wal_mode = 'none'}"
    outcome = subprocess.run(
        source.replace("{}", config), shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert f"!> failed to update pid file '{tmp_path}/p': File too large" in outcome.stderr
    assert "initializing an empty data directory" in outcome.stderr


@pytest.mark.parametrize("limit", [7, 11, 13])
def test_too_few_descriptors(tmp_path: Path, limit: int) -> None:
    outcome = subprocess.run(
        f"ulimit -n {limit}; exec {shlex.join(COMMAND)} -e 'print(1)'", shell=True, cwd=tmp_path, capture_output=True,
        text=True, timeout=60, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert (outcome.returncode, outcome.stderr) == (1, "lunabox: Too many open files: see `ulimit -n`\n")
