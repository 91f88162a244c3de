"""Whole interactive sessions on a pseudo-terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

PLAIN = "[console]\ncompletion = 'tab'\nsuggestions = false\nhelp = false\nstyle = 'mono'\npager = 'off'\n"
"""Settings without menus, hints and bar, so that the plain stream can be compared."""
NOTHING = r"---\r?\n\.\.\."


class Screen:
    """A program on a pseudo-terminal; `expect` reads until a pattern appears, without escape sequences."""

    def __init__(self, directory: Path) -> None:
        settings = directory / "config" / "lunabox" / "config.toml"
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text(PLAIN)
        self._controller, terminal = pty.openpty()
        self.terminal = terminal
        self.process = subprocess.Popen(
            [sys.executable, "-m", "console"],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            cwd=directory,
            env={
                **os.environ,
                "HOME": str(directory),
                "XDG_CONFIG_HOME": str(directory / "config"),
                "TERM": "xterm",
                "PROMPT_TOOLKIT_NO_CPR": "1",
            },
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # keys such as Ctrl-C become signals
        )
        self._seen = ""

    def send(self, text: str) -> None:
        os.write(self._controller, text.encode())

    def expect(self, pattern: str, seconds: float = 20.0) -> str:
        deadline = time.monotonic() + seconds
        while True:
            match = re.search(pattern, self._seen, re.DOTALL)
            if match:
                self._seen = self._seen[match.end() :]
                return match[0]
            ready, _, _ = select.select([self._controller], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise AssertionError(f"no {pattern!r} in {self._seen!r}")
            try:
                data = os.read(self._controller, 65536)
            except OSError:
                raise AssertionError(f"ended before {pattern!r}: {self._seen!r}") from None
            self._seen += re.sub(r"\x1b(\[[0-9;?]*[a-zA-Z]|[()=>][0-9A-B]?)", "", data.decode(errors="replace"))

    def read_slowly(self, until: bytes, seconds: float = 60.0) -> bytes:
        """Return what the terminal gets from now on, read with a pause for every few kilobytes."""
        deadline, received = time.monotonic() + seconds, bytearray()
        while until not in received[-4096 - len(until) :]:
            assert time.monotonic() < deadline, bytes(received[-1000:])
            if select.select([self._controller], [], [], 0.1)[0]:
                received += os.read(self._controller, 4096)
                time.sleep(0.001)
        return bytes(received)

    def enter(self, statement: str, answer: str) -> None:
        """Enter one statement, wait for the next prompt and return the answer."""
        self.send(statement + "\r")
        self.expect(answer)
        self.expect("lunabox>")

    def hang_up(self) -> None:
        """Close the terminal."""
        os.close(self.terminal)
        self.terminal = -1
        os.close(self._controller)
        self._controller = -1

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.terminal >= 0:
            os.close(self.terminal)
        if self._controller >= 0:
            os.close(self._controller)


@pytest.fixture
def open_screen(tmp_path: Path) -> Iterator[Callable[[], Screen]]:
    """A function that starts a session in the test's directory and waits for its prompt."""
    screens = []

    def start() -> Screen:
        screens.append(Screen(tmp_path))
        screens[-1].expect("Lunabox .*type 'help' for interactive help.*lunabox>")
        return screens[-1]

    yield start
    for screen in screens:
        screen.close()


def test_whole_session(open_screen: Callable[[], Screen]) -> None:
    """A session configures, creates, inserts, selects, fails and defines a function; the next one has the data."""
    screen = open_screen()
    for command, answer in [
        ("box.cfg{log_level = 1}", NOTHING),
        ("s = box.schema.space.create('goods')", NOTHING),
        ("_ = s:create_index('pk')", NOTHING),
        ("s:insert{1, 'pear'}", r"- \[1, 'pear'\]\r?\n\.\.\."),
        ("s:insert{1, 'plum'}", "- error: .*Duplicate key"),
        ("function double(x)\rreturn x * 2\rend", NOTHING),
        ("double(21)", r"- 42\r?\n\.\.\."),
        ("double(4) -- \x03double(5)", r"- 10\r?\n\.\.\."),
        ("box.session.push({1}) return 2", r"%TAG !push! .*- 1\r?\n\.\.\..*- 2\r?\n\.\.\."),
    ]:
        screen.enter(command, answer)
    screen.send("box.spac\t")
    screen.expect("box.space")
    screen.enter(".goods:len()", r"- 1\r?\n\.\.\.")
    screen.send("\x04")
    assert screen.process.wait(timeout=20) == 0
    screen = open_screen()
    screen.enter("box.cfg{log_level = 1}", NOTHING)
    screen.enter("box.space.goods:select{}", r"- - \[1, 'pear'\]")
    screen.send("\x04")
    assert screen.process.wait(timeout=20) == 0


def test_strings_and_comments_of_several_lines(open_screen: Callable[[], Screen]) -> None:
    """Strings and comments of several lines continue until their bracket is closed."""
    screen = open_screen()
    screen.enter("text = [[one\rtwo]]", NOTHING)
    screen.enter("#text", "- 7")
    screen.enter("--[[ a long\rcomment ]] return 8", "- 8")
    screen.enter("list = { -- a note\r1, -- one\r2}", NOTHING)
    screen.enter("#list", "- 2")
    screen.enter("-- nothing", NOTHING)


def test_completion_of_nested_members_and_methods(open_screen: Callable[[], Screen]) -> None:
    """Members of nested tables, methods of cdata and members by metatables are completed."""
    screen = open_screen()
    screen.enter("outer = {inner = {value = 5}} tuple = box.tuple.new{6}", NOTHING)
    screen.enter("object = setmetatable({}, {__index = {method = function() return 7 end}})", NOTHING)
    for beginning, rest, end, answer in [
        ("outer.inn", "er", ".value", "- 5"),
        ("outer.inner.val", "ue", " + 0", "- 5"),
        ("object:met", "hod\\(", ")", "- 7"),
        ("tuple:unp", "ack\\(", ")", "- 6"),
    ]:
        screen.send(beginning)
        screen.expect(beginning[-3:])
        screen.send("\t")
        screen.expect(rest)
        screen.enter(end, answer)


def test_history_of_an_earlier_session(open_screen: Callable[[], Screen]) -> None:
    """Up brings back statements of an earlier session, also those of several lines."""
    screen = open_screen()
    screen.enter("x = {1,\r2}", NOTHING)
    screen.send("\x04")
    assert screen.process.wait(timeout=20) == 0
    screen = open_screen()
    for _ in range(50):  # the history is read while the prompt is there already
        screen.send("\x1b[A")
        with suppress(AssertionError):
            screen.expect("2}", seconds=0.2)
            break
    screen.enter("", NOTHING)
    screen.enter("#x", "- 2")


def test_output_of_other_fibers(open_screen: Callable[[], Screen]) -> None:
    """Output of other fibers appears while the prompt waits, and the prompt is drawn again."""
    screen = open_screen()
    screen.send("_ = require('fiber').create(function() require('fiber').sleep(0.1) print('from ' .. 'behind') end)\r")
    screen.expect("from behind")
    screen.enter("1 + 1", "- 2")


def test_terminal_that_goes_away(open_screen: Callable[[], Screen]) -> None:
    """A terminal that closes ends the session as Ctrl-D does."""
    screen = open_screen()
    screen.hang_up()
    assert screen.process.wait(timeout=20) == 0


def test_the_session_of_the_readme(open_screen: Callable[[], Screen]) -> None:
    """Every statement of the README's session has the answer shown there, and the data is there after a restart."""
    text = (Path(__file__).parents[3] / "README.md").read_text()
    shown = re.search(r"```\n\$ lunabox\n(.*?)```", text, re.DOTALL)
    assert shown is not None
    exchanges = re.findall(r"lunabox> (.*?)\n(---\n.*?\.\.\.)\n", shown[1], re.DOTALL)
    assert len(exchanges) == 4
    screen = open_screen()
    for statement, answer in exchanges:
        screen.send("\r".join(line.strip() for line in statement.split("\n")) + "\r")
        assert screen.expect(r"---\r?\n.*?\.\.\.").replace("\r", "") == answer
        screen.expect("lunabox>")
    screen.send("\x04")
    assert screen.process.wait(timeout=20) == 0
    screen = open_screen()
    screen.enter("box.cfg{log = 'node.log'}", NOTHING)
    screen.enter("box.space.goods:len()", "- 2")
