"""The inspector's commands and the filters of output."""

from __future__ import annotations

import pytest

from console.suite.filters import Filters
from console.suite.language import Command, CommandError, parse


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("setopt delimiter ';'", Command("setopt", ("delimiter", ";"))),
        ("setopt delimiter ''", Command("setopt", ("delimiter", ""))),
        (
            'create server r with rpl_master=default,\\\n   script="replication/r.lua"',
            Command("create", ("r",), {"rpl_master": "default", "script": "replication/r.lua"}),
        ),
        (
            'start server r with wait=False, wait_load=True, args="a b"',
            Command("start", ("r",), {"wait": False, "wait_load": True, "args": "a b"}),
        ),
        (
            "create server r with rpl_master=m, script 's'",
            Command("create", ("r",), {"rpl_master": "m", "script": "s"}),
        ),
        ("start server r with args='true'", Command("start", ("r",), {"args": "true"})),
        ("stop server r with signal=KILL", Command("stop", ("r",), {"signal": "KILL"})),
        ("restart server default with cleanup=1", Command("restart", ("default",), {"cleanup": "1"})),
        ("cleanup server r", Command("cleanup", ("r",))),
        ("delete server r", Command("delete", ("r",))),
        ("deploy server r", Command("deploy", ("r",))),
        ("switch r", Command("switch", ("r",))),
        ('eval r "return {1, \\"a\\"}"', Command("eval", ("r", 'return {1, "a"}'))),
        ("get_iproto_uri server r", Command("get_iproto_uri", ("r",))),
        ("set connection a, b", Command("set_connection", ("a", "b"))),
        ("create connection c to r", Command("create_connection", ("c", "r"))),
        ("drop connection c", Command("drop_connection", ("c",))),
        ("set variable v to 'r.listen'", Command("set_variable", ("v", "r.listen"))),
        ("config engine", Command("config", ("engine",))),
        ("config", Command("config")),
        ("push filter '[0-9]+: \"' to '<n>'", Command("push_filter", ('[0-9]+: "', "<n>"))),
        ("pop filter", Command("pop_filter")),
        ("clear filter", Command("clear_filter")),
    ],
)
def test_commands(text: str, command: Command) -> None:
    """Each command of the contract is parsed."""
    assert parse(text) == command


@pytest.mark.parametrize(
    "text",
    ["", "nonsense", "start server", "start server r with", "start server r with wait", "push filter 'a'", "eval r 'x"],
)
def test_bad_commands(text: str) -> None:
    """A command that cannot be parsed is an error."""
    with pytest.raises(CommandError):
        parse(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bad command", "Wrong command: 'bad command'"),
        ("setopt", "Wrong token for setopt: expected option name"),
        ("setopt delimiter", "Wrong token for setopt: expected option value"),
        ("create server", "Wrong token for server: expected name"),
        ("create server x without y=1", "Wrong token for server: expected 'with', got 'without'"),
        ("frob server x", "Unknown command for server: frob"),
        ("push connection", "Wrong token for connection: expected name"),
        ("create connection c at x", "Wrong token for server: expected 'to' or ',', got 'at'"),
        ("fly connection c", "Unknown command for connection: 'fly'"),
        ("push filter 'a' too 'b'", "Wrong token for filter: expected 'to', got 'too'"),
        ("push filter 'a' to", "Wrong token for filter: expected filter2"),
        ("fly filter", "Wrong command for filters: 'fly'"),
        ("set variable x at 'a.listen'", "Wrong token for filter: exptected 'to', got 'at'"),
        ("get variable x to 'a.listen'", "Wrong command for variables: 'get'"),
    ],
)
def test_mistakes_in_commands(text: str, message: str) -> None:
    """A wrong command is answered in the words of Tarantool's runner."""
    with pytest.raises(CommandError) as caught:
        parse(text)
    assert str(caught.value) == message


def test_backslashes_of_filters() -> None:
    """Backslashes of a filter belong to the expression, between any quotes."""
    assert parse(r'push filter "a\\.b\d" to "\\"').names == (r"a\\.b\d", "\\\\")


def test_filters_work_on_bytes() -> None:
    """A dot matches one byte; only line ends of ASCII end a line."""
    filters = Filters()
    filters.push("^..$", "two")
    filters.push("^x", "y")
    assert filters.apply("\u00e4\na\u2028x\n") == "two\na\u2028x\n"


def test_filters_apply_in_order() -> None:
    """Each line passes through all filters in order; replacements may refer to groups."""
    filters = Filters()
    filters.push("x+", "y")
    filters.push("(y)z", r"<\1>")
    assert filters.apply("xxz\nq\n") == "<y>\nq\n"
    filters.pop()
    assert filters.apply("xxz\n") == "yz\n"
    filters.clear()
    assert filters.apply("xxz\n") == "xxz\n"


def test_filters_drop_lines_that_become_blank() -> None:
    """A line that filters make blank is dropped; one that was blank before stays."""
    filters = Filters()
    filters.push("secret.*", "")
    assert filters.apply("a\n\nsecret 1\n  secret\nb\n") == "a\n\nb\n"


def test_bad_filters() -> None:
    """Popping without a filter, and a wrong regular expression, are errors."""
    filters = Filters()
    with pytest.raises(ValueError, match="no filter"):
        filters.pop()
    with pytest.raises(ValueError, match="bad filter"):
        filters.push("(", "")
