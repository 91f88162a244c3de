"""Commands of a console session: evaluation, backslash commands, output formats, transactions."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

Converse = Callable[[list[str]], list[str]]

NOTHING = "---\n...\n"
TRUE = "---\n- true\n...\n"


def test_expression_comes_first(converse: Converse) -> None:
    """`return <line>` is tried before `<line>`."""
    assert converse(["x = 5", "x", "x, x + 1", "local y = 2 return y"]) == [
        NOTHING,
        "---\n- 5\n...\n",
        "---\n- 5\n- 6\n...\n",
        "---\n- 2\n...\n",
    ]


def test_fiber_lives_as_long_as_the_session(converse: Converse) -> None:
    """All commands of a session run in one fiber, with its storage and id and a name of a console."""
    replies = converse(
        [
            "fiber = require('fiber')",
            "fiber.self().storage.x = fiber.id()",
            "fiber.self().storage.x == fiber.id()",
            "fiber.self():name()",
        ]
    )
    assert replies[2:] == [TRUE, "---\n- 'console/unix/:'\n...\n"]


def test_command_may_wait(converse: Converse) -> None:
    """A command that sleeps is answered when it is done."""
    assert converse(["require('fiber').sleep(0.001) return 'slept'"]) == ["---\n- slept\n...\n"]


def test_session_is_admins_console(converse: Converse) -> None:
    """box.session describes a console of user admin."""
    assert converse(["box.cfg{log_level = 1}", "box.session.type(), box.session.user()"])[1] == (
        "---\n- console\n- admin\n...\n"
    )


def test_transaction_stays_open(converse: Converse) -> None:
    """A transaction stays open from command to command."""
    replies = converse(
        [
            "box.cfg{log_level = 1, memtx_use_mvcc_engine = true}",
            "s = box.schema.space.create('t')",
            "_ = s:create_index('pk')",
            "box.begin()",
            "s:replace{1}",
            "box.is_in_txn()",
            "box.rollback()",
            "s:select{}",
        ]
    )
    assert replies[5:] == [TRUE, NOTHING, "---\n- []\n...\n"]


@pytest.mark.parametrize(
    ("command", "reply"),
    [
        ("\\set language lua", TRUE),
        ("\\set language", "---\n- language: lua\n...\n"),
        (
            "\\set language x",
            "---\n- error: 'Invalid language \"x\", supported languages: lua and sql.'\n...\n",
        ),
        ("\\set output foo", "---\n- error: 'Invalid format \"foo\", supported languages: lua and yaml.'\n...\n"),
        ("\\set output", "---\n- error: 'Specify output format: lua or yaml.'\n...\n"),
        ("\\set output lua,x", "---\n- error: 'Wrong option \"x\", expecting: line or block.'\n...\n"),
        ("\\set foo", "---\n- error: 'Unknown parameter: foo'\n...\n"),
        ("\\set", "---\n- error: Invalid set syntax, type \\help for help\n...\n"),
        ("\\foo bar", "---\n- error: Invalid command \\foo bar. Type \\help for help.\n...\n"),
    ],
)
def test_backslash_commands(converse: Converse, command: str, reply: str) -> None:
    """Backslash commands for settings return true, or an error text."""
    assert converse([command]) == [reply]


def test_help(converse: Converse) -> None:
    r"""`\help` and the global `help` show the same screen."""
    by_command, short, by_name = converse(["\\help", "\\h", "help"])
    assert by_command == short == by_name
    assert by_command.startswith("---\n- - |\n    To get help")


def test_quit(converse: Converse) -> None:
    r"""`\quit` ends the session without an answer."""
    assert converse(["\\quit"]) == [""]


def test_tilde_dot_quits(converse: Converse) -> None:
    """`~.` ends the session as in ssh."""
    assert converse(["1", "~."]) == ["---\n- 1\n...\n", ""]


def test_push(converse: Converse) -> None:
    """A pushed value is a tagged document before the answer."""
    first, second = converse(["box.session.push({1, {a = 2}}) return 5", "6"])
    assert first == "%TAG !push! tag:tarantool.io/push,2018\n---\n- 1\n- a: 2\n...\n"
    assert second == "---\n- 5\n...\n"


def test_push_shows_any_value(converse: Converse) -> None:
    """A pushed value is shown like an answer: also values that MessagePack lacks, and tuples."""
    (shown,) = converse(["box.session.push({rawequal, box.tuple.new{1, 2}})"])
    assert re.fullmatch(
        r"%TAG !push! tag:tarantool.io/push,2018\n---\n- 'function: builtin#\d+'\n- \[1, 2\]\n\.\.\.\n", shown
    )


def test_console_functions_need_a_console(converse: Converse) -> None:
    """delimiter() and ac() work inside a console only, and start() only once."""
    assert converse(["require('console').delimiter()", "require('console').ac(true)"]) == [
        "---\n- \n...\n",
        NOTHING,
    ]


def test_completion_of_tuples(converse: Converse) -> None:
    """After a tuple a colon offers methods, a dot the fields of its format."""
    replies = converse(
        [
            "box.cfg{log_level = 1}",
            "box.schema.space.create('t', {format = {{'idea', 'unsigned'}}}):create_index('pk')",
            "t = box.space.t:insert{1}",
            "require('console').completion_handler('t:unp', 0, 5)",
            "require('console').completion_handler('t.ide', 0, 5)",
            "require('console').completion_handler('t.idea.x', 0, 8)",
        ]
    )
    assert replies[3:] == [
        "---\n- - t:unpack(\n  - t:unpack(\n...\n",
        "---\n- - t.idea\n  - t.idea\n...\n",
        "---\n- null\n...\n",
    ]


def test_completion(converse: Converse) -> None:
    """Members of tables and of their metatables' __index are completed; methods only after a colon."""
    (reply,) = converse(
        [
            "t = setmetatable({abc = 1, abd = print}, {__index = {abe = print}}) "
            "return require('console').completion_handler('t.ab', 0, 4), "
            "require('console').completion_handler('t:ab', 0, 4), "
            "require('console').completion_handler('t.zz', 0, 4)"
        ]
    )
    assert "- t.abc\n" in reply
    assert "t.abd(" in reply
    assert "t.abe(" in reply
    assert "t:abc" not in reply
    assert reply.endswith("- null\n...\n")


def test_a_session_speaks_sql(converse: Converse) -> None:
    """In language sql each line is a statement; an error is the value after nil."""
    replies = converse(
        [
            "box.cfg{log_level = 1}",
            "\\set language sql",
            "\\set language",
            "select 1 as a, 'x' as b",
            "select nosuch",
            "\\set output table",
            "select 1 as a, 'x' as b",
            "select nosuch",
            "\\set output yaml",
            "\\s l lua",
            "1 + 1",
            "\\set language c",
        ]
    )
    assert replies[1:] == [
        "---\n- true\n...\n",
        "---\n- language: sql\n...\n",
        "---\n- metadata:\n  - name: A\n    type: integer\n  - name: B\n    type: string\n  rows:\n  - [1, 'x']\n...\n",
        "---\n- null\n- Can\u2019t resolve field 'NOSUCH'\n...\n",
        "value\n─────\ntrue\n1 row\n\n...\n",
        "A │ B\n──┼──\n1 │ x\n1 row\n\n...\n",
        "error: Can\u2019t resolve field 'NOSUCH'\n\n...\n",
        "---\n- true\n...\n",
        "---\n- true\n...\n",
        "---\n- 2\n...\n",
        "---\n- error: 'Invalid language \"c\", supported languages: lua and sql.'\n...\n",
    ]


def test_tutorial_is_walked_through(converse: Converse) -> None:
    """Each session has its place in the tutorial; a number leads to any screen, and the last screen is the end."""
    first, second, back, same, last, end, contents, wrong, none = converse(
        [
            "tutorial()",
            "tutorial('next')",
            "tutorial('prev')",
            "tutorial('prev')",
            "tutorial(12)",
            "tutorial('next')",
            "tutorial('list')",
            "tutorial('nxt')",
            "tutorial(13)",
        ]
    )
    assert "Tutorial, screen 1 of 12: A line of Lua" in first
    assert "Tutorial, screen 2 of 12: Start the database" in second
    assert back == same == first
    assert "screen 12 of 12" in last
    assert last == end
    assert "12  A snapshot, and the end" in contents
    assert "Usage: tutorial()" in wrong
    assert "Usage: tutorial()" in none


def test_tutorial_without_parentheses_shows_the_help(converse: Converse) -> None:
    tutorial, shown = converse(["tutorial", "help"])
    assert tutorial == shown


def test_texts_in_a_table_are_texts(converse: Converse) -> None:
    _, shown, by_command, called, screen, value = converse(
        ["\\set output table", "help", "\\help", "help()", "tutorial()", "'two\\nlines'"]
    )
    assert shown == by_command == called
    assert shown.startswith("To get help, see")
    assert screen.startswith("Tutorial, screen 1 of 12")
    assert value.startswith("value\n")


def test_end_of_a_lua_answer_is_what_eos_says(converse: Converse) -> None:
    answers = converse(
        [
            "require('console').eval('\\\\set output lua') require('console').eos('\\n...\\n')",
            "1, 'two'",
            "nothing.field",
        ]
    )
    assert answers[1] == '1, "two"\n...\n'
    assert answers[2].startswith('{error = "')
    assert answers[2].endswith("\n...\n")


_LUA_OUTPUT = [  # a statement, and the answer of Tarantool 2.8.1
    ("t = {} t.t = t return t", "{t = {nil}};"),
    ("a = {x = {}} a.x.y = a.x return {a, a.x}", "{{x = {y = {nil}}}, {nil}};"),
    ("setmetatable({a = 1}, {__serialize = function() return {b = 2} end})", "{b = 2};"),
    ("setmetatable({1, 2}, {__serialize = 'map'})", "{[1] = 1, [2] = 2};"),
    ("{1, 2, [12] = 3}", "{1, 2, nil, nil, nil, nil, nil, nil, nil, nil, nil, 3};"),
    ("{[box.NULL] = 1}", "{box.NULL = 1};"),
    ("{[{}] = 1}", "{{}, 1};"),
    ("{[{1}] = {2}}", "{{1}, {2}};"),
]


@pytest.mark.parametrize(("statement", "answer"), _LUA_OUTPUT)
def test_lua_output(converse: Converse, statement: str, answer: str) -> None:
    _start, *answers = converse(
        ["require('console').eval('\\\\set output lua') require('console').eos('\\n...\\n')", statement]
    )
    assert answers == [answer.replace(";", "\n...\n")]
