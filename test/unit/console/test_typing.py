"""Typing at the console, as a terminal shows it."""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from test.unit.console.emulator import ENTER, LUNABOX, PROMPT, RIGHT, TAB, Emulator, dense

Open = Callable[..., Emulator]
SIZES = [(80, 24), (200, 50)]
SPACE = (
    "box.cfg{log = 'node.log'} s = box.schema.space.create('goods', {format = {'id', 'name'}}) _ = s:create_index('pk')"
)


@pytest.fixture
def open_terminal(tmp_path: Path) -> Iterator[Open]:
    """A function that starts a console on a terminal of a size and waits for its prompt."""
    emulators = []

    def start(columns: int = 80, lines: int = 24, *, prompt: str = PROMPT, **environment: str) -> Emulator:
        emulators.append(Emulator(tmp_path, columns=columns, lines=lines, environment=environment))
        emulators[-1].wait_prompt(prompt)
        return emulators[-1]

    yield start
    for emulator in emulators:
        emulator.close()


@pytest.mark.parametrize(
    "statement",
    [
        "while true do end",
        "local i = 0 while true do i = i + 1 end",
        "local function f() return f() end f()",
        "require('fiber').sleep(1000)",
        "require('fiber').create(function() while true do end end)",
        "while true do pcall(function() while true do end end) end",
        "coroutine.wrap(function() while true do end end)()",
        "pcall(require('fiber').sleep, 1000) while true do end",
    ],
)
def test_control_c_ends_a_statement(open_terminal: Open, statement: str) -> None:
    """Ctrl-C ends a statement that waits or runs; the session and its fiber stay."""
    terminal = open_terminal()
    terminal.enter("fiber = require('fiber') id = fiber.id()")
    terminal.type(statement + ENTER)
    terminal.wait(lambda text: dense(statement)[-15:] in dense(text))
    terminal.interrupt()
    assert "interrupted" in dense(terminal.text)
    assert terminal.answer("fiber.id() == id, fiber.sleep(0)") == "---\n- true\n..."
    terminal.type("\x04")
    assert terminal.end() == 0


def test_what_is_stuck_is_said(open_terminal: Open) -> None:
    """A second Ctrl-C within a second prints the stack of a wait that cannot be interrupted."""
    terminal = open_terminal()
    terminal.enter(SPACE)
    terminal.enter("box.error.injection.set('ERRINJ_WAL_DELAY', true)")
    terminal.type("s:insert{1, 'pear'}" + ENTER)
    terminal.wait("s:insert{1")
    deadline = time.monotonic() + 20
    while "Still waiting" not in terminal.text and time.monotonic() < deadline:
        terminal.process.sendintr()
        terminal.read(0.3)
    terminal.wait("Still waiting: this cannot be given up.")
    terminal.wait("stack traceback:")


def test_compiled_code_is_named(open_terminal: Open) -> None:
    """For compiled code, which cannot be interrupted, a second Ctrl-C says so."""
    terminal = open_terminal()
    terminal.enter("\\set compile on")
    terminal.type("while true do end" + ENTER)
    terminal.wait("while true do end")
    deadline = time.monotonic() + 20
    while "Still running" not in terminal.text and time.monotonic() < deadline:
        terminal.process.sendintr()
        terminal.read(0.3)
    terminal.wait("is in compiled Lua code")


@pytest.mark.parametrize("size", SIZES)
def test_completion_as_one_types(open_terminal: Open, size: tuple[int, int]) -> None:
    """While one types, a sorted menu of limited height appears, and Tab takes its first entry."""
    terminal = open_terminal(*size)
    terminal.enter(SPACE)
    terminal.type("box.space.goods:i")
    terminal.wait("add a tuple; an error if its key is taken")
    menu = [line for line in terminal.text.split("\n") if "insert" in line]
    assert menu
    terminal.type(TAB)
    terminal.wait(PROMPT + "box.space.goods:insert(")
    terminal.type("{5, 'fig'})" + ENTER)
    terminal.wait("- [5, 'fig']")
    terminal.wait_prompt()
    terminal.type("string.")

    def menu_of(text: str) -> list[str]:
        lines = text.split(PROMPT + "string.")[-1].split("\n")[1:]
        return [line.split()[0] for line in lines if line.strip() and line.strip()[0].isalpha()]

    terminal.wait(lambda text: "byte" in menu_of(text) and len(menu_of(text)) > 2)  # a frame may be drawn in parts
    names = menu_of(terminal.text)
    assert names == sorted(names)
    assert 2 < len(names) <= 17


def test_completion_when_asked_for(open_terminal: Open) -> None:
    r"""With `\set completion tab` the menu appears only on Tab."""
    terminal = open_terminal()
    terminal.enter("\\set completion tab")
    terminal.enter("\\set help off")
    terminal.type("string.rever")
    terminal.wait(PROMPT + "string.rever")
    terminal.read(0.3)
    assert "backwards" not in terminal.text
    terminal.type(TAB)
    terminal.wait(PROMPT + "string.reverse(")


@pytest.mark.parametrize("completion", ["typing", "tab"])
def test_tab_in_one_read_with_the_text_before_it(open_terminal: Open, completion: str) -> None:
    """Tab in one read with the text before it, as over a slow line, completes the common part, then opens the menu."""
    terminal = open_terminal()
    terminal.enter(f"\\set completion {completion}")
    terminal.type("string.rever" + TAB)
    terminal.wait(PROMPT + "string.reverse(")
    terminal.type("'abc')" + ENTER)
    terminal.wait("- cba")
    terminal.wait_prompt()
    terminal.enter("numbers = {only_one = 1, only_two = 2}")
    terminal.type("numbers.on" + TAB)
    terminal.wait(PROMPT + "numbers.only_")
    terminal.wait("only_two")
    terminal.type(TAB)
    terminal.wait(PROMPT + "numbers.only_one")
    terminal.type(ENTER + ENTER)
    terminal.wait("- 1")
    terminal.wait_prompt()
    terminal.type("nothing_of_this_name" + TAB + ENTER)
    terminal.wait("...")


@pytest.mark.parametrize("size", SIZES)
def test_signature_in_the_bar(open_terminal: Open, size: tuple[int, int]) -> None:
    """The bar shows the signature of the function at the cursor, and follows the cursor."""
    terminal = open_terminal(*size)
    terminal.type("box.schema.user.passwd(")
    terminal.wait("box.schema.user.passwd([user], password)  set a password")
    assert "set a password" in terminal.screen.display[size[1] - 1]
    terminal.type("\x15")
    terminal.wait(lambda text: "set a password" not in text)


def test_suggestion_from_the_history(open_terminal: Open) -> None:
    """The rest of an earlier statement is shown after the cursor, and Right accepts it."""
    terminal = open_terminal()
    terminal.enter("value = 40 + 2")
    terminal.type("val")
    terminal.wait(lambda _: terminal.cursor_line == PROMPT + "value = 40 + 2")
    terminal.type(RIGHT + " return value" + ENTER)
    terminal.wait("- 42")


def test_matching_brackets_are_marked(open_terminal: Open) -> None:
    """The bracket at the cursor and its partner are highlighted."""
    terminal = open_terminal()
    terminal.type("f(1)")
    terminal.wait(PROMPT + "f(1)")
    terminal.type("\x1b[D")

    def are_marked(_: str) -> bool:
        # The cursor may have been elsewhere when the text was there: drawing was not done.
        row, start = terminal.screen.buffer[terminal.screen.cursor.y], len(PROMPT)
        return bool(row[start + 1].underscore and row[start + 3].underscore)

    terminal.wait(are_marked)


def test_vi_mode(open_terminal: Open) -> None:
    """In vi mode Escape starts commands of vi."""
    terminal = open_terminal()
    terminal.enter("\\set editing vi")
    terminal.type("1 + 100\x1b")
    terminal.wait(PROMPT + "1 + 100")
    terminal.type("0")
    terminal.type("i2 + \x1b")
    terminal.wait(PROMPT + "2 + 1 + 100")
    terminal.type(ENTER)
    terminal.wait("- 103")


def test_external_editor(open_terminal: Open, tmp_path: Path) -> None:
    """After Ctrl-X Ctrl-E the statement is what the external editor has written."""
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nprintf 'return 6 * 7' > \"$1\"\n")
    editor.chmod(0o755)
    terminal = open_terminal(VISUAL=str(editor))
    terminal.type("1")
    terminal.wait(PROMPT + "1")
    terminal.type("\x18\x05")
    terminal.wait(PROMPT + "return 6 * 7")
    terminal.type(ENTER)
    terminal.wait("- 42")


def test_the_history_is_private_and_kept(open_terminal: Open, tmp_path: Path) -> None:
    """The history is written at once, so that it survives a kill, and is readable by its owner alone."""
    terminal = open_terminal()
    terminal.enter("secret = 1")
    terminal.process.kill(9)
    terminal.end()
    path = tmp_path / ".lunabox_history"
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    terminal = open_terminal()
    terminal.recall()
    terminal.wait(PROMPT + "secret = 1")


def test_a_file_of_settings(open_terminal: Open, tmp_path: Path) -> None:
    """Wrong lines of the settings file are reported, and the others apply."""
    path = tmp_path / ".config" / "lunabox" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_text("[console]\noutput = 'table'\nstyle = 'pink'\n")
    terminal = open_terminal()
    assert "style: one of default, dark, light, mono expected" in terminal.text
    assert terminal.answer("return 1").split("\n") == ["value", "─────", "    1", "1 row"]


@pytest.mark.parametrize(("columns", "locale"), [(20, "C.UTF-8"), (80, "C")])
def test_poor_terminals(open_terminal: Open, columns: int, locale: str) -> None:
    """On a terminal of 20 columns without a locale a statement is entered and answered."""
    terminal = open_terminal(columns, LANG=locale, LC_ALL=locale)
    terminal.type("'x' .. 'yz'" + ENTER)
    terminal.wait("- xyz")
    terminal.wait_prompt()
    terminal.type("string.format('" + TAB)
    terminal.wait("string.form")
    terminal.type("\x03")
    terminal.wait_prompt()
    terminal.type("7 * 6" + ENTER)
    terminal.wait("- 42")
    terminal.wait_prompt()
    terminal.type("\x04")
    assert terminal.end() == 0


def test_no_locale_at_all(tmp_path: Path) -> None:
    """Without a locale tables are drawn in ASCII, though Python sets a UTF-8 locale then."""
    unset = ("/usr/bin/env", "-u", "LANG", "-u", "LC_ALL", "-u", "LC_CTYPE")
    terminal = Emulator(tmp_path, [*unset, *LUNABOX])
    try:
        terminal.enter("\\set output table")
        assert "-----" in terminal.answer("'value'")
        assert "─" not in terminal.text
    finally:
        terminal.close()


def test_low_terminals(open_terminal: Open) -> None:
    """On a low terminal the menu takes the lines that are free, and the statement stays visible."""
    terminal = open_terminal(20, 6)
    terminal.type("string.fo")
    terminal.wait(" format")
    assert "string.fo" in terminal.text
    terminal.type(TAB)
    terminal.wait("string.form")
    terminal.type("\x03")
    terminal.wait_prompt()
    terminal.type("7*6" + ENTER)
    terminal.wait(lambda _: b"- 42" in terminal.raw)
    terminal.wait_prompt()
    terminal.type("\x04")
    assert terminal.end() == 0


@pytest.mark.parametrize(("columns", "term", "locale"), [(80, "dumb", "C.UTF-8"), (20, "dumb", "C"), (80, "", "")])
def test_terminals_without_escape_sequences(open_terminal: Open, columns: int, term: str, locale: str) -> None:
    """A terminal without escape sequences gets plain lines; Ctrl-C drops input and ends statements there, too."""
    terminal = open_terminal(columns, TERM=term, LANG=locale, LC_ALL=locale)
    terminal.type("x = {" + ENTER)
    terminal.wait(lambda _: terminal.cursor_line == " " * 7 + ">")
    terminal.type("1, 2")
    terminal.wait("1, 2")
    terminal.type("\x03")
    terminal.wait_prompt()
    terminal.type("x, 6 * 7" + ENTER)
    terminal.wait("- null\n- 42")
    terminal.wait_prompt()
    terminal.type("\\timing on" + ENTER)
    terminal.wait("timing on")
    terminal.wait_prompt()
    # Ctrl-C drops what a terminal has taken and nobody has read: the statement tells when it runs.
    terminal.type("print('ru' .. 'ns') while true do end" + ENTER)
    terminal.wait("runs")
    terminal.process.sendintr()
    terminal.wait("interrupted")
    terminal.wait("Time: ")
    terminal.wait_prompt()
    assert b"\x1b" not in terminal.raw
    terminal.type("\x04")
    assert terminal.end() == 0


def test_a_standard_output_that_is_closed(tmp_path: Path) -> None:
    """A session with a closed standard output ends in order at the end of its input."""
    terminal = Emulator(tmp_path, ("/bin/sh", "-c", f"exec {sys.executable} -m console >&-"))
    deadline = time.monotonic() + 60
    while terminal.process.isalive() and time.monotonic() < deadline:  # what is typed before the prompt is lost
        terminal.type("\x04")
        terminal.read(0.5)
    assert not terminal.process.isalive()
    assert terminal.end() in (0, 1)
    assert "Traceback" not in terminal.text


def test_anything_typed(open_terminal: Open) -> None:
    """After every byte, typed in any number, the prompt still answers."""
    terminal = open_terminal()
    junk = bytes(set(range(256)) - {3, 4, 26, 28, 10, 13, 24, 15}) * 3
    terminal.process.send(b"x = '" + junk)
    terminal.read(1)
    for _ in range(10):
        terminal.type("\x1b")
        terminal.type("\x07\x03")
        terminal.type("'al' .. 'ive'" + ENTER)
        try:
            terminal.wait("- alive", seconds=3)
            break
        except AssertionError:
            continue
    terminal.wait("- alive")


def test_a_long_paste(open_terminal: Open) -> None:
    """A bracketed paste of 2,000 lines is one statement."""
    terminal = open_terminal()
    text = "x = {\n" + "".join(f"  {number},\n" for number in range(2000)) + "}"
    terminal.type(f"\x1b[200~{text}\x1b[201~")
    terminal.wait("}", seconds=60)
    terminal.type(ENTER)
    terminal.wait_prompt()
    assert terminal.answer("#x").endswith("- 2000\n...")
