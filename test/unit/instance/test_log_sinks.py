"""Log destinations that fail or block: nothing is raised, nothing hangs, and the log counts lost lines."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import socket
import subprocess
import sys
import threading
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from box.errors import BoxError
from box.log import Level, Log

LINE = "x" * 1000
PATIENCE = 60
"""Seconds on a busy machine; a wait for a reader that never reads would not end."""


def until(condition: Callable[[], object], seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.002)


@pytest.fixture
def log() -> Iterator[Log]:
    made = Log(lambda: 1617922620.123)
    yield made
    made.close()


@contextmanager
def standard_error(descriptor: int) -> Iterator[None]:
    """Replace descriptor 2, which Python's standard error uses."""
    kept, stream = os.dup(2), sys.stderr
    os.dup2(descriptor, 2)
    sys.stderr = os.fdopen(2, "w", closefd=False)
    try:
        yield
    finally:
        sys.stderr = stream
        os.dup2(kept, 2)
        os.close(kept)


def texts(raw: bytes) -> list[str]:
    return [line.split("> ", 1)[-1] for line in raw.decode().splitlines()]


# --- files ------------------------------------------------------------------------------------------------------------


def test_a_full_device_is_no_error(log: Log) -> None:
    log.open("/dev/full")
    for _ in range(3):
        log.error("lost")
    log.rotate()


def test_lost_lines_are_counted_and_said_once(log: Log, tmp_path: Path) -> None:
    """The number of lost lines is logged once, before the next line that is written."""
    path = tmp_path / "n.log"
    path.symlink_to("/dev/full")
    log.open(str(path))
    for _ in range(7):
        log.info("lost")
    path.unlink()
    log.rotate()
    log.info("again")
    assert texts(path.read_bytes()) == [
        "7 lines lost: the log could not be written",
        "log file has been reopened",
        "again",
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser may mount a small disk")
def test_a_disk_that_was_full(log: Log, tmp_path: Path) -> None:
    """A line that a full disk has cut off counts as lost, and the next one begins a new line."""
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(tmp_path)], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {done.stderr.decode().strip()}")
    try:
        (tmp_path / "filler").write_bytes(b"x" * (56 * 1024))
        log.open(str(tmp_path / "n.log"))
        for _ in range(20):
            log.info(LINE)
        (tmp_path / "filler").unlink()
        log.info("again")
        log.close()
        *whole, cut, notice, last = texts((tmp_path / "n.log").read_bytes())
        assert set(whole) == {LINE}
        assert len(cut) < len(LINE)
        assert notice == f"{20 - len(whole)} lines lost: the log could not be written"
        assert last == "again"
    finally:
        log.close()
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_fifo_without_a_reader_is_an_error_at_once(log: Log, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(BoxError, match="can't open log file"):
        log.open(str(tmp_path / "fifo"))


# --- standard error ---------------------------------------------------------------------------------------------------


def test_a_closed_standard_error(log: Log) -> None:
    kept = os.dup(2)
    try:
        os.close(2)
        log.say(Level.FATAL, "nobody hears")
        log.error("nor this")
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def test_no_standard_error_at_all(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without standard error nothing is written to whatever file has descriptor 2."""
    monkeypatch.setattr(sys, "stderr", None)
    log.error("nobody hears")


@pytest.mark.parametrize("broken", ["pipe", "stream"])
def test_a_standard_error_that_broke(log: Log, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    if broken == "stream":
        stream = open(os.devnull, "w")  # noqa: SIM115
        stream.close()
        monkeypatch.setattr(sys, "stderr", stream)
        log.error("lost")
        return
    source, sink = os.pipe()
    os.close(source)
    with standard_error(sink):
        log.error("lost")
    os.close(sink)


@pytest.mark.parametrize("kind", ["pipe", "terminal", "socket"])
def test_a_standard_error_that_nobody_reads(log: Log, kind: str) -> None:
    """Lines for a standard error that nobody reads wait in limited memory, and the rest is counted.

    Kept lines arrive in order. The flags of the descriptor, which other processes share, do not change.
    """
    source, sink = {"pipe": os.pipe, "terminal": pty.openpty, "socket": socket_pair}[kind]()
    if kind == "terminal":
        tty.setraw(sink)
    flags = fcntl.fcntl(sink, fcntl.F_GETFL)
    with standard_error(sink):
        for number in range(3000):
            log.info(f"{number:5}{LINE}")
        assert fcntl.fcntl(sink, fcntl.F_GETFL) == flags
        received = read_in_thread(source)
        until(lambda: f"{1000:5}{LINE}\n".encode() in received)
        log.info("again")
        until(lambda: b"again\n" in received)
        log.close()
    os.close(sink)
    *told, last = texts(bytes(received))
    assert last == "again"
    number = 0
    for text in told:  # a terminal may take some lines in between, when the kernel gets round to it
        lost = re.fullmatch(r"(\d+) lines lost: the log could not be written", text)
        if lost is None:
            assert int(text[:5]) == number
        number += int(lost[1]) if lost else 1
    assert number == 3000
    assert any("lines lost" in text for text in told)


def socket_pair() -> tuple[int, int]:
    one, other = socket.socketpair()
    return one.detach(), other.detach()


def read_in_thread(descriptor: int) -> bytearray:
    received = bytearray()

    def read() -> None:
        try:
            while data := os.read(descriptor, 65536):
                received.extend(data)
        except OSError:
            pass  # how a terminal ends

    threading.Thread(target=read, daemon=True).start()
    return received


# --- commands ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["|there-is-no-such-command", "pipe: exit 3", "|"])
def test_a_command_that_does_not_start_is_an_error_at_once(log: Log, target: str) -> None:
    with pytest.raises(BoxError, match="logger process died") as caught:
        log.open(target)
    assert caught.value.type == "IllegalParams"


def test_a_command_that_ends_is_no_error(log: Log) -> None:
    log.open("|read line")
    log.info("taken")
    for _ in range(100):
        log.info(LINE)


@pytest.mark.parametrize("nonblock", [None, True])
def test_a_command_that_does_not_read_loses_lines(log: Log, tmp_path: Path, nonblock: bool | None) -> None:
    """A log command that does not read loses lines, as in Tarantool; when it reads, their number comes first."""
    go, piped = tmp_path / "go", tmp_path / "piped"
    log.nonblock = nonblock
    log.open(f"|while ! test -e {go}; do sleep 0.01; done; cat > {piped}")
    for _ in range(1000):
        log.info(LINE)
    go.touch()
    until(lambda: piped.exists() and len(piped.read_bytes()) > 10_000)
    log.info("again")
    log.close()
    *kept, notice, last = texts(piped.read_bytes())
    assert set(kept) == {LINE}
    assert notice == f"{1000 - len(kept)} lines lost: the log could not be written"
    assert last == "again"


def test_a_command_that_reads_late_gets_everything_that_fits(log: Log, tmp_path: Path) -> None:
    """With log_nonblock = false a mebibyte of lines waits for a log command that reads late, and
    logging never blocks.
    """
    go, piped = tmp_path / "go", tmp_path / "piped"
    log.nonblock = False
    log.open(f"|while ! test -e {go}; do sleep 0.01; done; cat > {piped}")
    start = time.monotonic()
    for number in range(1000):
        log.info(f"{number} {LINE}")
    assert time.monotonic() - start < PATIENCE
    go.touch()
    log.close()
    assert [int(line.split()[0]) for line in texts(piped.read_bytes())] == list(range(1000))


def test_a_command_that_never_reads_does_not_keep_the_log_from_closing(log: Log) -> None:
    log.nonblock = False
    log.open("|exec sleep 1000")
    assert log.pid is not None
    for _ in range(3000):
        log.info(LINE)
    start = time.monotonic()
    pid = log.pid
    log.close()
    assert time.monotonic() - start < PATIENCE
    os.kill(pid, 15)


# --- syslog -----------------------------------------------------------------------------------------------------------


@contextmanager
def daemon(path: Path, *, reads: bool = True) -> Iterator[list[bytes]]:
    """A socket in the place of syslog's; the list has its messages."""
    received: list[bytes] = []
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sock.bind(str(path))

    def read() -> None:
        while message := sock.recv(65536):
            received.append(message)

    reader = threading.Thread(target=read, daemon=True)
    if reads:
        reader.start()
    try:
        yield received
    finally:
        if reads:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as last:
                last.sendto(b"", str(path))
            reader.join()
        sock.close()
        path.unlink()


def test_a_message_to_syslog(log: Log, tmp_path: Path) -> None:
    """Messages to syslog follow RFC 3164; log_format json is refused."""
    path = tmp_path / "log"
    with daemon(path) as received:
        log.format = "json"
        log.open(f"syslog:server=unix:{path},identity=me,facility=local0")
        log.say(Level.ERROR, "bad", where="a.lua:7")
        log.info("good")
        until(lambda: len(received) == 2)
        log.close()
    stamp = time.strftime("%b %e %H:%M:%S", time.localtime(1617922620.123)).encode()
    assert received[0] == b"<131>%s me[%d]: main a.lua:7 E> bad\n" % (stamp, os.getpid())
    assert received[1].startswith(b"<134>")


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("syslog:server=unix:/nowhere/log", "No such file or directory"),
        ("syslog:server=localhost:nothing", "Input/output error"),
        ("syslog:server=unix:" + "x" * 300, "Invalid argument"),
    ],
)
def test_a_syslog_that_is_not_there_is_an_error_at_once(log: Log, target: str, reason: str) -> None:
    with pytest.raises(BoxError, match=f"syslog logger: {reason}") as caught:
        log.open(target)
    assert caught.value.type == "SystemError"


@pytest.mark.skipif(os.path.exists("/dev/log") or os.path.exists("/var/run/syslog"), reason="syslog runs here")
def test_the_system_has_no_syslog(log: Log) -> None:
    with pytest.raises(BoxError, match="syslog logger: No such file or directory"):
        log.open("syslog:")


@pytest.mark.parametrize("nonblock", [None, True, False])
def test_a_syslog_that_does_not_read(log: Log, tmp_path: Path, nonblock: bool | None) -> None:
    """A syslog that does not read blocks neither the node nor its end."""
    path = tmp_path / "log"
    with daemon(path, reads=False):
        log.nonblock = nonblock
        log.open(f"syslog:server=unix:{path}")
        start = time.monotonic()
        for _ in range(3000):
            log.info(LINE)
        log.close()
        assert time.monotonic() - start < PATIENCE


def test_a_syslog_that_is_restarted_is_found_again(log: Log, tmp_path: Path) -> None:
    path = tmp_path / "log"
    with daemon(path) as received:
        log.open(f"syslog:server=unix:{path}")
        log.info("one")
        until(lambda: received)
    log.info("nobody")
    log.info("hears")
    with daemon(path) as received:
        log.info("two")
        until(lambda: len(received) == 2)
        log.close()
    assert texts(b"".join(received)) == ["2 lines lost: the log could not be written", "two"]


# --- around a line ----------------------------------------------------------------------------------------------------


def test_a_clock_that_fails_loses_no_line(tmp_path: Path) -> None:
    def clock() -> float:
        raise OverflowError("no time")

    log = Log(clock)
    log.open(str(tmp_path / "n.log"))
    log.error("said")
    log.error("\ud800")
    log.close()
    assert (tmp_path / "n.log").read_text().startswith("said (OverflowError('no time') while this was logged)\n")


def test_a_line_of_another_thread_shows_the_thread(tmp_path: Path) -> None:
    """A line from another thread has the thread's name; asking for the node's fiber would enter Lua from there."""
    asked: list[int] = []

    def fiber() -> tuple[int, str]:
        asked.append(threading.get_ident())
        return 107, "console"

    log = Log(lambda: 0.0, fiber)
    log.open(str(tmp_path / "n.log"))
    thread = threading.Thread(target=log.error, args=("bad",), name="wal")
    thread.start()
    thread.join()
    log.error("worse")
    log.close()
    first, second = (tmp_path / "n.log").read_text().splitlines()
    assert first.endswith("] wal/101/main E> bad")
    assert second.endswith("] main/107/console E> worse")
    assert asked == [threading.get_ident()]
