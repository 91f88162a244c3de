"""Help at the console: screens, the tutorial, lists of spaces, hints, ways to leave, pasted statements."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import lua
from console.command_texts import HELP
from console.interactive.helpbar import HelpBar
from console.interactive.hints import hint, suggestion
from console.interactive.pasted import split
from console.syntax import Syntax
from test.unit.console.emulator import ENTER, LUNABOX, PROMPT, UP, Emulator, dense
from test.unit.console.test_connect import Server

Open = Callable[..., Emulator]
SPACE = (
    "box.cfg{log = 'n.log'} s = box.schema.space.create('goods', {format = {{'id', 'unsigned'},"
    " {name = 'name', type = 'string', is_nullable = true}}})"
)
INDEXES = "s:create_index('pk') s:create_index('name', {parts = {'name'}, unique = false})"


@pytest.fixture
def open_terminal(tmp_path: Path) -> Iterator[Open]:
    emulators = []

    def start(*, prompt: str = PROMPT, command: tuple[str, ...] = LUNABOX, **environment: str) -> Emulator:
        emulators.append(Emulator(tmp_path, command, lines=60, environment=environment))
        emulators[-1].wait_prompt(prompt)
        return emulators[-1]

    yield start
    for emulator in emulators:
        emulator.close()


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.stop()


# -- help and the tutorial -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("output", ["yaml", "table"])
def test_help_fits_eighty_columns(open_terminal: Open, output: str) -> None:
    """No line of help exceeds 80 columns; in table mode help is text; the terminal's own commands follow."""
    terminal = open_terminal()
    terminal.enter(f"\\set output {output}")
    shown = terminal.answer("help")
    assert "\\set delimiter <delimiter> -- set expression delimiter" in shown
    assert "\\dt                        -- list the spaces" in shown
    assert "\n  \\| <command>               -- pipe the next answer to a shell command\n" in shown
    raw = terminal.raw.decode().replace("\r", "")
    assert max(len(line) for line in raw[raw.rindex("To get help") :].split("\n")[:-1]) <= 80
    if output == "table":
        assert shown.startswith("To get help, see the Tarantool manual")


def test_help_of_the_command_fits_eighty_columns() -> None:
    assert max(map(len, HELP.splitlines())) <= 80


def tutorial_lines() -> list[str]:
    path = Path(lua.__file__).with_name("modules") / "internal" / "tutorial.lua"
    lines = [line.removesuffix("]]},") for line in path.read_text().splitlines()]
    return [line.removeprefix(PROMPT) for line in lines if line.startswith(PROMPT)]


def test_lines_of_the_tutorial_work(open_terminal: Open) -> None:
    """All statements of the tutorial run in their order, with the answers that its screens show."""
    terminal = open_terminal()
    answers = {line: terminal.answer(line) for line in tutorial_lines()}
    assert len(answers) > 30
    assert not {line: text for line, text in answers.items() if "error" in text}
    assert answers["6 * 7"] == "---\n- 42\n..."
    assert answers["box.info.status"] == "---\n- running\n..."
    assert answers["s:get(1).name"] == "---\n- pear\n..."
    assert answers["s:update(1, {{'+', 'price', 0.5}, {'=', 'name', 'Pear'}})"] == "---\n- [1, 'Pear', 3.5]\n..."
    assert answers["s.index.price:max()"] == "---\n- [1, 'Pear', 3.5]\n..."
    assert answers["s:count()"] == "---\n- 5\n..."  # the last time it is entered


def test_screens_of_the_tutorial_are_text(open_terminal: Open) -> None:
    """The tutorial's screens are shown as text on the terminal, not as YAML."""
    terminal = open_terminal()
    assert terminal.answer("tutorial()").startswith("Tutorial, screen 1 of 12: A line of Lua\n====")
    assert "screen 2 of 12" in terminal.answer("tutorial('next')")
    terminal.enter("\\set output lua")
    assert terminal.answer("tutorial('next')").startswith("Tutorial, screen 3 of 12")


# -- the bar -------------------------------------------------------------------------------------------------------


def test_the_bar_goes_when_the_statement_is_sent(open_terminal: Open) -> None:
    terminal = open_terminal()
    terminal.enter("function slow(duration) require('fiber').sleep(duration) end")
    terminal.type("slow(")
    terminal.wait("\nslow(duration)")
    terminal.type("1.5)" + ENTER)
    terminal.wait(lambda text: "slow(1.5)" in text and "\nslow(duration)" not in text, seconds=1)
    terminal.wait_prompt()
    assert "\nslow(duration)" not in terminal.text


def test_a_late_answer_is_not_shown() -> None:
    """An answer to the bar's question is dropped if the statement was sent meanwhile."""

    async def check() -> None:
        replies: list[asyncio.Future[list[object]]] = []

        def ask(*_: object) -> asyncio.Future[list[object]]:
            replies.append(asyncio.get_running_loop().create_future())
            return replies[-1]

        async def asked(count: int) -> None:
            async with asyncio.timeout(5):
                while len(replies) < count:
                    await asyncio.sleep(0)

        shown = asyncio.Event()
        bar = HelpBar(ask, shown.set)
        bar.update("f(")
        await asked(1)
        bar.forget()
        shown.clear()
        bar.update("f(")
        assert not replies[0].cancelled()
        replies[0].set_result(["f", ["old"]])
        await asked(2)
        assert not shown.is_set()
        assert bar.shown(80) is None
        replies[1].set_result(["f", ["new"]])
        async with asyncio.timeout(5):
            await shown.wait()
        assert "".join(fragment[1] for fragment in bar.shown(80) or []) == "f(new)"

    asyncio.run(check())


# -- spaces --------------------------------------------------------------------------------------------------------


def test_spaces_are_listed_and_described(open_terminal: Open) -> None:
    terminal = open_terminal()
    assert terminal.answer("\\dt") == "no spaces yet: box.schema.space.create('name') makes one"
    assert terminal.answer("\\d goods") == "no space goods; \\dt lists them"
    terminal.enter(SPACE)
    assert "no index yet: box.space.goods:create_index('pk') makes the first" in terminal.answer("\\d goods")
    terminal.enter(INDEXES)
    terminal.enter("s:insert{1, 'pear'}")
    assert [re.split(r"\s*│\s*", line.strip()) for line in terminal.answer("\\dt").splitlines()] == [
        ["space", "id", "engine", "tuples", "indexes"],
        ["──────┼─────┼────────┼────────┼────────"],
        ["goods", "512", "memtx", "1", "2"],
        ["1 row"],
    ]
    described = terminal.answer("\\d goods")
    assert described.startswith("space goods (id 512, memtx, 1 tuple)\n")
    assert re.search(r"^name +│ string +│ nullable$", described, re.MULTILINE)
    assert re.search(r"^pk +│ TREE │ primary │ id unsigned$", described, re.MULTILINE)
    assert terminal.answer("\\d gods") == "no space gods; did you mean goods?"
    assert "_index" not in terminal.answer("\\d")
    terminal.type("\\d goo")
    terminal.wait(lambda text: "goods" in text.rpartition("\\d goo")[2])


def test_spaces_of_another_instance(open_terminal: Open, server: Server) -> None:
    """While connected, lists of spaces come from the other instance, and `exit` leaves it."""
    terminal = open_terminal(command=(*LUNABOX, "connect", server.uri()), prompt=f"{server.uri(user='')}> ")
    prompt = terminal.cursor_line + " "
    assert re.search(r"^goods +│ 512", terminal.answer("\\dt", prompt), re.MULTILINE)
    assert "space goods (id 512, memtx, 1 tuple)" in dense_lines(terminal.answer("\\d goods", prompt))
    terminal.enter("\\set output table", prompt)
    assert terminal.answer("help", prompt).startswith("To get help, see")
    terminal.enter("\\set language sql", prompt)
    shown = dense_lines(terminal.answer("select 5 as five", prompt))
    assert (shown[0].strip(), shown[2].strip()) == ("FIVE", "5")
    terminal.enter("\\set language lua", prompt)
    assert terminal.answer("for i = 1, 2 do\nend", prompt) == ""
    terminal.type("exit" + ENTER)
    assert terminal.end() == 0


def dense_lines(text: str) -> list[str]:
    return text.splitlines()


# -- hints ---------------------------------------------------------------------------------------------------------


def test_mistyped_commands_get_a_suggestion(open_terminal: Open) -> None:
    terminal = open_terminal()
    assert terminal.answer("\\timng on") == "unknown command \\timng; did you mean \\timing?"
    assert terminal.answer("\\set completoin tab") == "unknown setting completoin; did you mean completion?"
    assert terminal.answer("\\zzz") == "unknown command \\zzz; \\help lists them"
    assert terminal.answer("hlep").endswith("- null\n...\n\ndid you mean help?")


def test_sql_gets_a_hint(open_terminal: Open) -> None:
    terminal = open_terminal()
    assert "\\set language sql is for SQL" in terminal.answer("SELECT * FROM goods").replace("\n", " ")
    assert terminal.answer("show tables").endswith(
        "statements are Lua here; \\dt lists the spaces, \\d NAME describes one"
    )


@pytest.mark.parametrize(
    ("statement", "answer", "is_error", "has_hint"),
    [
        ("select 1", "---\n- error: near\n...\n", True, True),
        ("DELETE FROM t", "---\n- error: near\n...\n", True, True),
        ("select(nil)", "---\n- error: bad argument\n...\n", True, False),
        ("update = {} update.x.y = 1", "---\n- error: nil\n...\n", True, False),
        ("selection + 1", "---\n- error: nil\n...\n", True, False),
        ("help", "---\n- - |\n    To get help\n...\n", False, False),
        ("exti", "nil;\n", False, True),
        ("exti", "value\n─────\nnull\n1 row\n", False, True),
        ("exti", "value\n─────\n    5\n null\n2 rows\n", False, False),
        ("exits", "---\n- 5\n...\n", False, False),
    ],
)
def test_hints_are_for_mistakes(statement: str, answer: str, is_error: bool, has_hint: bool) -> None:
    assert (hint(statement, answer, is_error=is_error) is not None) == has_hint


def test_suggestions_are_of_whole_words() -> None:
    assert suggestion("hepl", ("help", "h", "o")) == "did you mean \\help?"
    assert suggestion("p", ("help", "h", "o")) == "\\help lists them"


# -- ways to leave -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("statement", ["quit", "exit", "exit;", "quit()", " exit "])
@pytest.mark.parametrize("kind", ["xterm", "dumb"])
def test_quit_and_exit_leave(open_terminal: Open, statement: str, kind: str) -> None:
    terminal = open_terminal(TERM=kind)
    terminal.type(statement + ENTER)
    assert terminal.end() == 0


def test_quit_leaves_with_a_delimiter(open_terminal: Open) -> None:
    terminal = open_terminal()
    terminal.enter("\\set delimiter ;")
    terminal.type("quit;" + ENTER)
    assert terminal.end() == 0


# -- pasted statements ---------------------------------------------------------------------------------------------


def paste(text: str) -> str:
    return f"\x1b[200~{text}\x1b[201~"


def test_pasted_lines_run_one_by_one(open_terminal: Open) -> None:
    """Pasted lines run one by one; statements of several lines are kept together, and all are in the history."""
    terminal = open_terminal()
    terminal.type(paste("x = 40\nfunction f()\n  return 2\nend\n\nf() + x\nnone.field\nx\n"))
    terminal.wait("none.field")
    terminal.type(ENTER)
    terminal.wait(lambda text: "- 42\n" in text and "- 40\n" in text)
    terminal.wait_prompt()
    text = terminal.text
    assert re.search(r"lunabox> f\(\) \+ x\n---\n- 42\n\.\.\.\n", text)
    assert re.search(r"lunabox> function f\(\)\n           return 2\n         end\n---\n\.\.\.\n", text)
    assert "attempt to index global 'none'" in text.replace("''", "'")
    terminal.recall()
    terminal.wait(lambda _: terminal.cursor_line == PROMPT + "x")
    terminal.type(UP)
    terminal.wait(lambda _: terminal.cursor_line == PROMPT + "none.field")


def test_a_pasted_statement_of_several_lines_is_one(open_terminal: Open) -> None:
    terminal = open_terminal()
    terminal.type(paste("y = {\n  1,\n  2,\n}"))
    terminal.wait("2,")
    terminal.type(ENTER)
    assert terminal.answer("#y") == "---\n- 2\n..."


def test_control_c_drops_what_was_pasted(open_terminal: Open) -> None:
    """Ctrl-C ends the running statement of a paste, and drops those after it."""
    terminal = open_terminal()
    terminal.type(paste("while true do end\nz = 1\n"))
    terminal.wait("z = 1")
    terminal.type(ENTER)
    terminal.wait(lambda text: "z = 1" not in text)
    terminal.interrupt()
    assert "interrupted" in dense(terminal.text)
    assert terminal.answer("z") == "---\n- null\n..."


def test_texts_are_split_where_statements_end() -> None:
    is_complete = Syntax().is_complete
    assert split("a = 1\n\nb = {\n2}\n\\dt\nf(", is_complete) == ["a = 1", "b = {\n2}", "\\dt", "f("]
