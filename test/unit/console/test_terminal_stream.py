"""A terminal that takes no output delays neither the prompt nor other work, and gets everything in order."""

from __future__ import annotations

import os
import pty
import select
import socket
import threading
import tty
from collections.abc import Iterator
from pathlib import Path

import pytest

from console import terminal_stream
from console.terminal_stream import TerminalStream
from lua.standard_output import StandardOutput
from test.support import wait_until
from test.unit.console.test_prompt_terminal import Screen


@pytest.fixture
def ends() -> Iterator[tuple[int, int]]:
    """The two ends of a terminal: one for a reader that reads only when told, one for writers."""
    reader, writer = pty.openpty()
    tty.setraw(writer)
    yield reader, writer
    os.close(reader)
    os.close(writer)


def read_all(reader: int, size: int) -> bytes:
    received = bytearray()
    while len(received) < size and select.select([reader], [], [], 20)[0]:
        received += os.read(reader, 65536)
    return bytes(received)


def test_drawing_does_not_wait(ends: tuple[int, int]) -> None:
    reader, writer = ends
    stream = TerminalStream(writer)
    lines = [f"line {number}\n" for number in range(30_000)]
    for line in lines:
        assert stream.write(line) == len(line)
    stream.flush()
    assert not stream.is_idle
    text = "".join(lines).encode()
    assert read_all(reader, len(text)) == text
    stream.wait(20)
    assert stream.is_idle


def test_what_waits_has_a_bound(ends: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """The buffer of drawn output is limited: beyond it drawing waits until the terminal takes some."""
    monkeypatch.setattr(terminal_stream, "_MOST", 1_000_000)
    reader, writer = ends
    stream, done = TerminalStream(writer), threading.Event()

    def draw() -> None:
        for _ in range(30):
            stream.write("x" * 100_000)
        done.set()

    threading.Thread(target=draw).start()
    wait_until(lambda: stream._size >= 1_000_000)
    assert not done.wait(0.05)
    assert len(read_all(reader, 3_000_000)) == 3_000_000
    assert done.wait(20)


def test_answers_follow_what_was_drawn_before(ends: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard output waits for what was drawn before, and reports that it cannot be written at once."""
    reader, writer = ends
    stream, output = TerminalStream(writer), StandardOutput()
    output.ahead = stream
    with open(os.dup(writer), "w") as terminal:
        monkeypatch.setattr("sys.stdout", terminal)
        assert output.takes_at_once(10)
        stream.write("drawn " * 50_000)
        assert not output.takes_at_once(10)
        answering = threading.Thread(target=output.write, args=(b"answer",))
        answering.start()
        assert read_all(reader, 300_006) == b"drawn " * 50_000 + b"answer"
        answering.join(20)
        assert output.takes_at_once(10)
        monkeypatch.undo()


def test_a_terminal_that_has_gone_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    stream = TerminalStream(writer)
    stream.write("nobody reads this")
    stream.wait(20)
    assert stream.is_idle
    os.close(writer)


def test_the_node_serves_while_prints_do_not_fit(tmp_path: Path) -> None:
    """A fiber that prints above the prompt ends although the terminal takes nothing, and no output is lost."""
    screen = Screen(tmp_path)
    try:
        screen.expect("Lunabox .*lunabox>")
        screen.enter("box.cfg{log = 'log.txt'} require('console').listen('unix/:./admin.sock')", "---")
        loop = "for i = 1, 3000 do print(('line %04d '):format(i) .. ('x'):rep(60)) fiber.sleep(0) end"
        screen.send(f"fiber = require('fiber') _ = fiber.create(function() {loop} printed = 'all of it' end)\r")
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(30)
            client.connect(str(tmp_path / "admin.sock"))
            received = b""
            while b"all of it" not in received:
                client.sendall(b"printed\n")
                received = client.recv(4096)
        for number in (1, 1500, 3000):
            screen.expect(f"line {number:04}", seconds=60)
        screen.enter("6 * 7", "- 42")
    finally:
        screen.close()
