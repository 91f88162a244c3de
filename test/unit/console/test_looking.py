"""The display of answers: tables, the pager, files, commands, timing, errors, progress."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lua.text_console.text_table import ASCII, RowGroup, groups_of, render, text_width
from test.unit.console.emulator import ENTER, PROMPT, Emulator, dense

Open = Callable[..., Emulator]
SIZES = [(80, 24), (200, 50)]
SPACE = "box.cfg{log = 'n.log'} s = box.schema.space.create('goods', {format = {'id', 'name'}}) s:create_index('pk')"
SLOW_START = """
local ffi = require('ffi')
ffi.cdef('int usleep(unsigned int microseconds);')
box.ctl.on_schema_init(function()
    box.space._index:before_replace(function(_, new)
        ffi.C.usleep(60000)
        return new
    end)
end)
"""
"""A script whose start takes seconds, because each definition of an index waits."""


@pytest.fixture
def open_terminal(tmp_path: Path) -> Iterator[Open]:
    """A function that starts a console on a terminal of a size and waits for its prompt."""
    emulators = []

    def start(columns: int = 80, lines: int = 24, **environment: str) -> Emulator:
        emulators.append(Emulator(tmp_path, columns=columns, lines=lines, environment=environment))
        emulators[-1].wait_prompt()
        return emulators[-1]

    yield start
    for emulator in emulators:
        emulator.close()


def group(columns: str, *rows: tuple[str | None, ...], numbers: str = "", total: int | None = None) -> RowGroup:
    names = tuple(columns.split())
    return RowGroup(names, tuple(name in numbers for name in names), rows, len(rows) if total is None else total)


# -- tables ----------------------------------------------------------------------------------------------------


def test_columns_are_as_wide_as_their_texts() -> None:
    """Columns are as wide as their texts, numbers align right, characters may be two columns wide, absent values are
    null.
    """
    text = render([group("id name", ("1", "pear"), ("20", "日本語"), ("3", None), numbers="id")], 80)
    assert text == "id │ name\n───┼───────\n 1 │ pear\n20 │ 日本語\n 3 │ null\n3 rows\n"


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_a_table_fits_the_terminal(width: int) -> None:
    """In a narrow terminal the widest columns are cut and marked; if they get too narrow, lists are shown."""
    wide = group("a b c d e f", *[("x" * 100, "y", "日本" * 30, "1", "zz", "w" * 9)] * 3)
    for line in render([wide], width).split("\n"):
        assert text_width(line) <= width or "rows" in line
    assert "…" in render([wide], width)
    assert "…" not in render([wide], 0)


def test_what_would_move_the_cursor_is_escaped() -> None:
    """Control characters and bytes that are no UTF-8 are escaped."""
    text = render(groups_of([[[b"a"], [False], [[b"x\n\x1b[2J\xff\0"]], 1]]), 80, ASCII)
    assert text.split("\n")[2] == "x\\n\\e[2J\\xff\\0"


def test_rows_that_are_not_shown_are_counted() -> None:
    assert render([group("a", ("1",), total=9)], 80).endswith("9 rows (the first 1 shown, \\set rows 0 shows all)\n")


@pytest.mark.parametrize("size", SIZES)
def test_tables_on_the_terminal(open_terminal: Open, size: tuple[int, int]) -> None:
    """The terminal shows tuples by their format, lists, maps, scalars, empty answers and errors."""
    terminal = open_terminal(*size)
    terminal.enter(SPACE)
    terminal.enter("\\set output table")
    assert terminal.answer("s:insert{1, 'pear'}, s:insert{2, 'fig'}").split("\n")[0].split() == ["id", "│", "name"]
    assert terminal.answer("s:select()").split("\n")[-1] == "2 rows"
    assert terminal.answer("{{a = 1, b = 2}, {a = 3}}").split("\n")[2:4] == ["1 │    2", "3 │ null"]
    assert terminal.answer("{x = {1, 2}}").split("\n")[2] == "x   │ [1,2]"
    assert terminal.answer("s:select(99)") == "0 rows"
    assert terminal.answer("y = 5") == ""
    assert terminal.answer("s:insert{1, 'a'}").startswith("error: Duplicate key")
    assert terminal.answer("\\set output yaml") == "---\n- true\n..."


# # -- destinations of answers ------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
def test_the_pager_is_for_what_does_not_fit(open_terminal: Open, tmp_path: Path, size: tuple[int, int]) -> None:
    r"""The pager opens only for answers that do not fit the screen; `\set pager off` disables it."""
    pager = tmp_path / "pager"
    pager.write_text('#!/bin/sh\necho "paged $(wc -l)"\n')
    pager.chmod(0o755)
    terminal = open_terminal(*size, PAGER=str(pager))
    terminal.enter("function lines(n) local t = {} for i = 1, n do t[i] = 'x' .. i end return unpack(t) end")
    assert "paged" not in terminal.answer(f"lines({size[1] - 5})")
    terminal.enter(f"lines({size[1]})")
    assert f"paged {size[1] + 3}" in terminal.text
    terminal.enter("\\set pager off")
    terminal.enter(f"lines({size[1] + 1})")
    assert f"- x{size[1] + 1}" in terminal.text


def test_files_and_commands(open_terminal: Open, tmp_path: Path) -> None:
    r"""`\o FILE` sends answers to a file until `\o`; `\| COMMAND` sends one to a command; a failure is one line."""
    terminal = open_terminal()
    terminal.enter("\\o answers.txt")
    terminal.enter("6 * 7")
    terminal.enter("\\o")
    assert terminal.answer("1 + 1") == "---\n- 2\n..."
    assert (tmp_path / "answers.txt").read_text() == "---\n- 42\n...\n\n"
    terminal.enter("\\| tr a-z A-Z")
    assert terminal.answer("'shout'") == "---\n- SHOUT\n..."
    assert terminal.answer("'quiet'") == "---\n- quiet\n..."
    assert terminal.answer("\\o /nowhere/x") == "/nowhere/x: No such file or directory"
    terminal.enter("\\| exit 3")
    terminal.enter("1")
    assert terminal.answer("'still ' .. 'here'") == "---\n- still here\n..."


def test_timing(open_terminal: Open) -> None:
    terminal = open_terminal()
    terminal.enter("\\timing on")
    terminal.enter("require('fiber').sleep(0.05)")
    terminal.wait_for(r"Time: \d+\.\d+ m?s")
    terminal.enter("\\timing off")
    assert "Time" not in terminal.answer("1 + 1")


@pytest.mark.parametrize("kind", ["xterm", "dumb"])
def test_only_statements_have_a_time(open_terminal: Open, kind: str) -> None:
    """Commands of the session show no time: it would be that of the last statement."""
    terminal = open_terminal(200, 50, TERM=kind)
    terminal.enter("\\timing on")
    terminal.enter("1 + 1")
    terminal.wait("Time: ")
    terminal.wait_prompt()
    terminal.enter("\\help")
    terminal.wait("Pasted lines are run one by one.")
    terminal.wait_prompt()
    assert terminal.text.count("Time: ") == 1


# -- errors ----------------------------------------------------------------------------------------------------


def colour_of(terminal: Emulator, text: str) -> str:
    """Return the colour of the first character of a text on the screen."""
    for number, line in enumerate(terminal.screen.display):
        if text in line:
            return str(terminal.screen.buffer[number][line.index(text)].fg)
    raise AssertionError(f"{text!r} is not on the screen")


@pytest.mark.parametrize(("environment", "colour"), [({}, "red"), ({"NO_COLOR": "1"}, "default")])
def test_errors_are_red(open_terminal: Open, environment: dict[str, str], colour: str) -> None:
    """Errors are red unless NO_COLOR is set; answers are not."""
    terminal = open_terminal(**environment)
    terminal.enter("error('bad')")
    assert colour_of(terminal, "- error") == colour
    terminal.enter("'a' .. 'bc'")
    assert colour_of(terminal, "- abc") == "default"


@pytest.mark.parametrize("language", ["lua", "sql"])
def test_backslash_commands_are_not_shown_as_errors(open_terminal: Open, language: str) -> None:
    """The backslash of a command has the colour of plain text in every language."""
    terminal = open_terminal()
    terminal.enter(f"\\set language {language}")
    terminal.type("\\help")
    terminal.wait(lambda _: terminal.cursor_line.endswith("\\help"))
    assert colour_of(terminal, "\\help") == "default"
    assert colour_of(terminal, "\\set") == "default"


def test_position_and_stack(open_terminal: Open, tmp_path: Path) -> None:
    """An error's place in a file is shown below the answer, and the stack when asked for."""
    (tmp_path / "app.lua").write_text(
        "local function inner()\n  box.error(1, 'deep')\nend\nfunction outer() inner() end\n"
    )
    terminal = open_terminal()
    terminal.enter("dofile('app.lua')")
    terminal.enter("outer()")
    terminal.wait("at app.lua:2; \\stack shows the stack")
    terminal.wait_prompt()
    terminal.type("\\stack" + ENTER)
    terminal.wait("stack traceback:")
    terminal.wait_prompt()
    stack = terminal.text.rpartition("stack traceback:")[2]
    assert "app.lua:2: in function" in stack
    assert "app.lua:4: in function" in stack
    assert "console" not in stack
    assert "xpcall" not in stack


def test_help_is_wrapped_in_a_narrow_pager(open_terminal: Open, tmp_path: Path) -> None:
    """A narrow pager cuts lines of data, which can be scrolled to, but wraps lines of help."""
    (tmp_path / "pager").write_text('#!/bin/sh\necho "with $LESS"\ncat > /dev/null\n')
    (tmp_path / "pager").chmod(0o755)
    terminal = open_terminal(20, 10, PAGER=str(tmp_path / "pager"))
    terminal.type("\\help" + ENTER)
    terminal.wait(lambda text: text.count("with RX") == 2)
    terminal.wait_prompt()
    terminal.type("('x'):rep(400)" + ENTER)
    terminal.wait("with RSX")


@pytest.mark.parametrize("size", SIZES)
def test_help_names_the_commands(open_terminal: Open, size: tuple[int, int]) -> None:
    """Help names all commands, also on a small screen."""
    terminal = open_terminal(*size)
    terminal.enter("\\set pager off")
    terminal.enter("\\help")
    for text in ("\\set output <format>", "\\timing", "\\stack", "Ctrl-C ends a statement"):
        assert text.encode() in terminal.raw


# -- progress --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
def test_progress_of_long_work(open_terminal: Open, size: tuple[int, int]) -> None:
    """Long work shows its rows and percent below the statement or in the bar, until it is done."""
    terminal = open_terminal(*size)
    terminal.enter(SPACE)
    terminal.enter("for i = 1, 1000 do s:insert{i, 'x'} end")
    terminal.enter("fiber, inject = require('fiber'), box.error.injection.set")
    terminal.enter("inject('ERRINJ_BUILD_INDEX_DELAY', true)")
    terminal.type("s:create_index('by_name', {parts = {2, 'string'}, unique = false})" + ENTER)
    terminal.wait("index build, space goods: ")
    terminal.wait_for(r"rows, \d+ %")
    terminal.interrupt()
    terminal.wait(lambda text: "index build" not in text.rpartition("interrupted")[2])
    assert dense(PROMPT) in dense(terminal.text)


def test_progress_of_a_snapshot(open_terminal: Open) -> None:
    """A snapshot's progress shows rows and percent that grow, and its line disappears at the end."""
    terminal = open_terminal()
    terminal.enter(SPACE)
    terminal.enter("box.begin() for i = 1, 3000 do s:insert{i, require('digest').urandom(1000)} end box.commit()")
    terminal.enter("box.cfg{snap_io_rate_limit = 1}")
    terminal.type("box.snapshot()" + ENTER)
    found = terminal.wait_for(r"snapshot: ([\d,]+) of 3,5\d\d rows, ([1-9]\d?) %")
    assert 0 < int(found[1].replace(",", "")) < 3513
    percent = int(found[2])
    terminal.wait_for(r"snapshot: [\d,]+ of 3,5\d\d rows, (?!" + f"{percent} " + r")\d+ %")
    terminal.wait("- ok")
    terminal.wait_prompt()
    assert "rows" not in terminal.text.rpartition("- ok")[2]


def test_progress_of_a_recovery(open_terminal: Open, tmp_path: Path) -> None:
    """Progress of a recovery shows rows, and the share of the snapshot's bytes."""
    terminal = open_terminal()
    terminal.enter(SPACE)
    terminal.enter(
        "box.begin() for i = 1, 5000 do s:insert{i, require('digest').urandom(100)} end box.commit() box.snapshot()"
    )
    terminal.type("os.exit(0)" + ENTER)
    terminal.end()
    (tmp_path / "slow.lua").write_text(SLOW_START)
    again = open_terminal()
    again.enter("dofile('slow.lua')")
    again.type("box.cfg{log = 'n.log'}" + ENTER)
    found = again.wait_for(r"recovery: ([1-9][\d,]*) rows, (\d+) %, [1-9] s")
    assert int(found[2]) < 100
    again.wait_prompt()
    assert "recovery:" not in again.text
    assert "5000" in again.answer("box.space.goods:count()")


def test_progress_of_a_join(open_terminal: Open, tmp_path: Path) -> None:
    """Progress of a join shows rows so far, because the master does not send their total."""
    master = open_terminal()
    master.enter(SPACE.replace("box.cfg{", "box.cfg{listen = require('fio').cwd() .. '/m.sock', "))
    master.enter("box.schema.user.grant('guest', 'replication')")
    (tmp_path / "r").mkdir()
    (tmp_path / "slow.lua").write_text(SLOW_START)
    replica = open_terminal()
    replica.enter("dofile('slow.lua')")
    replica.type("box.cfg{log = 'r.log', work_dir = 'r', replication = require('fio').cwd() .. '/m.sock'}" + ENTER)
    replica.wait_for(r"bootstrap: [1-9]\d* rows, [1-9] s")
    replica.wait_prompt()
    assert "bootstrap:" not in replica.text
    assert "goods" in replica.answer("box.space.goods.name")


def test_a_closed_output_ends_nothing_badly(tmp_path: Path) -> None:
    """If the reader of standard output goes away, the console ends without a traceback and without a hang."""
    import subprocess
    import sys

    process = subprocess.run(
        f"{sys.executable} -m console -i | head -1",
        shell=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        input="for i = 1, 100 do print(i) end\n" * 50,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Traceback" not in process.stderr
