"""Output to descriptors that are slow, full or non-blocking loses nothing."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from console.interactive.statement_history import PrivateHistory
from test.unit.console.test_prompt_terminal import Screen

COMMAND = [sys.executable, "-m", "console"]

ROWS = 5000
SELECT = f"""
    local s = box.schema.space.create('s') s:create_index('pk')
    for key = 1, {ROWS} do s:insert{{key, ('x'):rep(40)}} end
"""


def flags(descriptor: int) -> int:
    return fcntl.fcntl(descriptor, fcntl.F_GETFL)


def make_pair(kind: str) -> tuple[int, int]:
    """Return the reader's and the writer's end of a pipe, socket or terminal."""
    if kind == "pipe":
        return os.pipe()
    if kind == "socket":
        one, other = socket.socketpair()
        return one.detach(), other.detach()
    reader, writer = pty.openpty()
    tty.setraw(writer)
    return reader, writer


def read_slowly(reader: int, process: subprocess.Popen[bytes], seconds: float = 60) -> bytes:
    """Read in small pieces with pauses until the process has ended, and return everything."""
    received, deadline = bytearray(), time.monotonic() + seconds
    while time.monotonic() < deadline:
        ready, _, _ = select.select([reader], [], [], 0.1)
        if ready:
            try:
                received += os.read(reader, 1500)
            except OSError:  # how a terminal ends
                break
            if len(received) % 4 == 0:
                time.sleep(0.0005)
        elif process.poll() is not None:
            break
    return bytes(received)


@contextmanager
def started(source: str, writer: int, **options: int) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([*COMMAND, "-e", source], stdout=writer, **options)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("blocks", [True, False])
@pytest.mark.parametrize("kind", ["pipe", "socket", "terminal"])
@pytest.mark.parametrize("call", ["print(text)", "io.write(text, '\\n') io.stdout:flush()"])
def test_a_slow_reader_gets_everything(call: str, kind: str, blocks: bool) -> None:
    """A slow reader gets everything, also from a non-blocking descriptor, which keeps its flags."""
    reader, writer = make_pair(kind)
    os.set_blocking(writer, blocks)
    before = flags(writer)
    source = f"for number = 1, 30 do local text = number .. (' x'):rep(10000) {call} end"
    try:
        with started(source, writer) as process:
            received = read_slowly(reader, process)
            assert process.wait(20) == 0
        assert flags(writer) == before
    finally:
        os.close(writer)
        os.close(reader)
    assert [int(line.split()[0]) for line in received.decode().splitlines()] == list(range(1, 31))
    assert received.count(b"x") == 300_000


def run_shell(command: str, tmp_path: Path) -> str:
    """Run a command of a shell, in which $T is `lunabox`, and return what it writes to standard output and error."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    environment["T"] = f"{sys.executable} -m console"
    script = ["bash", "-c", f"exec 2>&1\n{command}"]
    return subprocess.run(
        script, cwd=tmp_path, env={**environment, "PYTHONPATH": os.getcwd()}, stdout=subprocess.PIPE, text=True
    ).stdout


MIXED = """
    local ffi = require('ffi')
    ffi.cdef('int puts(const char *text); int printf(const char *format, ...);')
    print('a', nil)
    io.write('b')
    ffi.C.printf('%s', 'c')
    io.stdout:write('d\\n')
    ffi.C.puts('e')
    require('tap').test('t')
    io.stderr:write('first\\n')
    os.execute('echo second')
"""


def test_standard_output_is_the_stream_of_the_c_library(tmp_path: Path) -> None:
    """Everything that writes to standard output shares one buffer, which is written at the end, after other output."""
    (tmp_path / "x.lua").write_text(MIXED)
    shown = "first\nsecond\na\tnil\nbcd\ne\nTAP version 13\n"
    assert run_shell("$T x.lua", tmp_path) == shown
    assert run_shell("$T - < x.lua", tmp_path) == shown


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("print(1) os.exit(3)", "1\n3\n"),
        ("print(1) error('x', 0)", "LuajitError: x\nfatal error, exiting the event loop\n1\n1\n"),
        ("box.ctl.on_shutdown(function() print(2) end) print(1) os.exit(4)", "1\n2\n4\n"),
        (
            "box.ctl.on_shutdown(function() print(2) end) print(1) table.sort({3, 1, 2}, function() os.exit(9) end)",
            "1\n2\n9\n",
        ),
        ("print(1) io.flush() io.stderr:write('2\\n')", "1\n2\n0\n"),
        ("io.stdout:setvbuf('no') print(1) io.stderr:write('2\\n')", "1\n2\n0\n"),
        ("print(1) io.popen('echo 2; cat >&2', 'w'):close()", "1\n2\n0\n"),
        ("io.open('f', 'w'):write('3') print(1) os.exit(io.open('f'):read('*a') == '' and 5 or 6)", "1\n5\n3"),
        ("print('a', setmetatable({}, {__tostring = function() os.exit(2) end}))", "a2\n"),
    ],
)
def test_when_buffered_output_is_written(tmp_path: Path, source: str, shown: str) -> None:
    (tmp_path / "x.lua").write_text(source)
    assert run_shell("$T x.lua; echo $?; cat f 2>/dev/null", tmp_path) == shown


def test_a_killed_program_loses_its_buffer(tmp_path: Path) -> None:
    """Unless the environment says that nothing is buffered."""
    (tmp_path / "x.lua").write_text(
        "print(1) local ffi = require('ffi') ffi.cdef('int kill(int, int);') ffi.C.kill(require('tarantool').pid(), 9)"
    )
    killed = run_shell("$T x.lua | cat; PYTHONUNBUFFERED=1 $T x.lua | cat", tmp_path)
    assert [line for line in killed.splitlines() if "Killed" not in line] == ["1"]


def test_a_session_shows_each_line_at_once(tmp_path: Path) -> None:
    command = "printf 'print(1)\nos.execute(\"echo 2\")\n' | $T -i 2>/dev/null | grep -x '[12]'"
    assert run_shell(command, tmp_path) == "1\n2\n"


def test_a_wait_for_standard_input_leaves_the_terminal_as_it_is() -> None:
    """A wait for standard input leaves the flags of the terminal, which output shares, as they were."""
    reader, writer = make_pair("terminal")
    source = """
        print('ready')
        require('socket').iowait(0, 'R', 10)
        io.write(('x'):rep(100000), '\\n')
    """
    try:
        with started(source, writer, stdin=writer) as process:
            assert os.read(reader, 100).strip() == b"ready"
            os.write(reader, b"k")
            received = read_slowly(reader, process)
            assert process.wait(20) == 0
    finally:
        os.close(writer)
        os.close(reader)
    assert received.count(b"x") == 100_000


@pytest.fixture
def screen(tmp_path: Path) -> Iterator[Screen]:
    opened = Screen(tmp_path)
    opened.expect("lunabox>")
    opened.enter("box.cfg{log_level = 1}", "---")
    yield opened
    opened.close()


def test_a_long_answer_on_a_slow_terminal(screen: Screen) -> None:
    """A long select on a slow terminal arrives complete, once and in order."""
    screen.enter(" ".join(SELECT.split()), "---")
    screen.send("box.space.s:select{}\r")
    answer = screen.read_slowly(until=b"\n...\r\n")
    assert [int(key) for key in re.findall(rb"- \[(\d+), 'x{40}'\]", answer)] == list(range(1, ROWS + 1))
    screen.enter("1 + 1", "- 2")


def test_the_node_serves_while_a_terminal_stands_still(screen: Screen, tmp_path: Path) -> None:
    """While a terminal does not take a long answer, only its session waits; a signal ends the program."""
    screen.enter("require('console').listen('unix/:./admin.sock')", "---")
    screen.send("('x'):rep(1000000)\r")
    screen.expect("xxxx")
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(10)
        client.connect(str(tmp_path / "admin.sock"))
        client.sendall(b"6 * 7\n")
        received = b""
        while b"- 42" not in received:
            received += client.recv(4096)
    screen.process.send_signal(signal.SIGTERM)
    assert screen.process.wait(20) == 0


def test_what_a_fiber_prints_before_the_end_is_seen(screen: Screen) -> None:
    """What a fiber prints while the prompt waits is seen, also right before the end."""
    screen.enter("function finish() require('fiber').sleep(0.05) print('last ' .. 'words') os.exit(3) end", "---")
    screen.send("_ = require('fiber').create(finish)\r")
    screen.expect("last words")
    assert screen.process.wait(20) == 3


@pytest.mark.parametrize("end", ["\x04", "os.exit()\r"])
def test_the_flags_of_the_terminal_after_a_session(screen: Screen, end: str) -> None:
    """After a session the terminal has its former flags."""
    before = flags(screen.terminal)
    assert not before & os.O_NONBLOCK
    screen.enter("1", "- 1")
    assert flags(screen.terminal) == before
    screen.send(end)
    assert screen.process.wait(20) == 0
    assert flags(screen.terminal) == before


@pytest.mark.parametrize("mode", [None, 0o644])
def test_the_history_is_readable_by_its_owner_alone(tmp_path: Path, mode: int | None) -> None:
    """The history file is readable by its owner alone, also one of an earlier version, because passwords are typed at
    consoles.
    """
    history = tmp_path / ".lunabox_history"
    if mode is not None:
        history.touch(mode)
    screen = Screen(tmp_path)
    try:
        screen.expect("lunabox>")
        screen.enter("box.schema.user.passwd = nil", "---")
    finally:
        screen.close()
    assert history.stat().st_mode & 0o777 == 0o600
    assert "passwd" in history.read_text()


def test_a_history_that_is_no_file_is_left_alone(tmp_path: Path) -> None:
    mode = os.stat("/dev/zero").st_mode
    (tmp_path / ".lunabox_history").symlink_to("/dev/zero")
    screen = Screen(tmp_path)
    try:
        screen.expect("lunabox>")
        screen.enter("1 + 1", "- 2")
        screen.enter("1 + 2", "- 3")
    finally:
        screen.close()
    assert os.stat("/dev/zero").st_mode == mode


def test_a_history_that_cannot_be_written_any_more_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "history"
    history = PrivateHistory(str(path))
    path.unlink()
    path.mkdir()
    history.store_string("1 + 1")
    assert list(history.load_history_strings()) == []


def _wait(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("arguments", [["-e", "require('console').start()"], ["-e", "box.cfg{log = 'node.log'}", "-"]])
def test_a_signal_ends_a_program_whose_input_stands_still(tmp_path: Path, arguments: list[str]) -> None:
    """A signal ends a program that waits for input."""
    process = subprocess.Popen([*COMMAND, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(b"box.cfg{log = 'node.log'}\n")
        process.stdin.flush()
        _wait(lambda: (tmp_path / "node.log").exists() and "ready to accept" in (tmp_path / "node.log").read_text())
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
