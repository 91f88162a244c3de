"""Replies have Tarantool's YAML form, byte for byte."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

DATA = Path(__file__).parent / "data"
MODULES = Path(__file__).parents[3] / "lua" / "modules"

FORMS = {
    "": "",
    "nil": "- null\n",
    "1, nil, 'a'": "- 1\n- null\n- a\n",
    "box.NULL": "- null\n",
    "18446744073709551615ULL": "- 18446744073709551615\n",
    "-5LL": "- -5\n",
    "4.3": "- 4.3\n",
    "2^65": "- 3.6893488147419e+19\n",
    "2^53": "- 9007199254740992\n",
    "1/0, -1/0": "- inf\n- -inf\n",
    "-0": "- 0\n",
    "1e-7": "- 1e-07\n",
    "'true', '5', 'null', '~', 'yes'": "- 'true'\n- '5'\n- 'null'\n- '~'\n- 'yes'\n",
    "'off', 'n', 'None', 'NULL'": "- off\n- n\n- None\n- NULL\n",
    "''": "- \n",
    "{a = ''}": "- a: \n",
    "' x', 'x ', 'a: b', 'a #b', '- x', '[x'": "- ' x'\n- 'x '\n- 'a: b'\n- 'a #b'\n- '- x'\n- '[x'\n",
    '"it\'s", "a:b"': "- it's\n- a:b\n",
    "'a\\nb'": "- 'a\n\n  b'\n",
    "'a\\n\\nb'": "- |-\n  a\n\n  b\n",
    "'a\\n\\nb\\n'": "- |\n  a\n\n  b\n",
    "'a\\tb', '\\0', '\\127'": '- "a\\tb"\n- "\\0"\n- "\\x7F"\n',
    "'\\255'": "- !!binary /w==\n",
    "'é', '日本'": "- é\n- 日本\n",
    "'😀', '\\240\\144\\128\\140'": "- 😀\n- !!binary 8JCAjA==\n",
    "'0b1', '-0b0', '0b2'": "- '0b1'\n- '-0b0'\n- 0b2\n",
    "{[1ULL] = 'a'}": "- 1: a\n",
    "{[box.NULL] = 1}": "- null: 1\n",
    "require('ffi').cast('char *', 0)": "- 'cdata<char *>: NULL'\n",
    "tostring(box.tuple.new{'😀', '\\194\\133'})": "- '[''😀'', !!binary woU=]'\n",
    "{1, {2, {3}}}": "- - 1\n  - - 2\n    - - 3\n",
    "{a = {1, 2}}": "- a:\n  - 1\n  - 2\n",
    "{}, {{}}": "- []\n- - []\n",
    "setmetatable({}, {__serialize = 'map'})": "- {}\n",
    "setmetatable({1, 'a', {b = true}}, {__serialize = 'seq'})": "- [1, 'a', {'b': true}]\n",
    "setmetatable({[5] = 5}, {__serialize = 'map'})": "- {5: 5}\n",
    "setmetatable({a = 1}, {__serialize = 'mapping'})": "- a: 1\n",
    "setmetatable({'', 'x'}, {__serialize = 'seq'})": "- ['', 'x']\n",
    "{[1] = 1, [3] = 3}": "- - 1\n  - null\n  - 3\n",
    "{[100] = 3}": "- 100: 3\n",
    "(function() local t = {1} return {t, t} end)()": "- - &0\n    - 1\n  - *0\n",
    "(function() local t = {} t[1] = t return t end)()": "- &0\n  - *0\n",
    "setmetatable({}, {__serialize = function() return {x = 1} end})": "- x: 1\n",
    "error('x')": "- error: x\n",
    "error({a = 1})": "- error:\n    a: 1\n",
    "error()": "- error: null\n",
    "error(box.NULL)": "- error: null\n",
    "error(1ULL)": "- error: 1\n",
    "error(false)": "- error: false\n",
    "error(box.error.new({code = 1, reason = 'reason'}))": "- error: reason\n",
    "error(setmetatable({}, {__tostring = function() return 'shown' end}))": "- error: []\n",
    "setmetatable({}, {__tostring = function() error('boom') end})": "- []\n",
    "setmetatable({1}, {__index = function() error('boom') end})": "- - 1\n",
    "setmetatable({a = 1}, {__pairs = function() error('boom') end})": "- a: 1\n",
    "setmetatable({}, {__serialize = function() end})": "- null\n",
    "{[box.NULL] = {a = box.NULL}}": "- null:\n    a: null\n",
    "{[1ULL] = 1}, {[require('decimal').new(1)] = 1}": "- 1: 1\n- 1: 1\n",
    "{[box.tuple.new{1}] = 1}, {[{}] = 1}": "- ? [1]\n  : 1\n- []: 1\n",
    "require('ffi').typeof('int'), require('ffi').typeof('uint64_t')": "- ctype<int>\n- ctype<uint64_t>\n",
    "{require('ffi').typeof('struct tuple')}": "- - ctype<struct tuple>\n",
    "x.y": "- error: '[string \"return x.y \"]:1: attempt to index global ''x'' (a nil value)'\n",
    "x =": "- error: '[string \"x = \"]:1: unexpected symbol near ''<eof>'''\n",
    "box.tuple.new{1, {b = 200}}": "- [1, {'b': 200}]\n",
    "{box.tuple.new{1}, box.tuple.new{2}}": "- - [1]\n  - [2]\n",
    "require('ffi').new('float', 1.5), require('ffi').new('uint8_t', 7)": "- 1.5\n- 7\n",
    "string.rep('lorem ipsum ', 8)": (
        "- 'lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum\n  lorem ipsum '\n"
    ),
    "setmetatable({string.rep('a', 50), string.rep('b', 50), 1}, {__serialize = 'seq'})": (
        f"- ['{'a' * 50}', '{'b' * 50}',\n  1]\n"
    ),
}


def test_forms(converse: Callable[[list[str]], list[str]]) -> None:
    """A reply is one document: `---`, an entry for each value, `...`."""
    commands = list(FORMS)
    replies = dict(zip(commands, converse([f"{command}\n" for command in commands]), strict=True))
    assert replies == {command: f"---\n{body}...\n" for command, body in FORMS.items()}


def test_addresses_are_quoted(converse: Callable[[list[str]], list[str]]) -> None:
    """Functions and threads are quoted, because their texts contain `: `."""
    function, thread = converse(["function() end", "return coroutine.create(print)"])
    assert "function" in function
    assert thread.startswith("---\n- 'thread: 0x")


@pytest.mark.parametrize(
    ("method", "reason"),
    [
        ("function() error('boom') end", "boom"),
        ("function() error({}) end", "output: '"),
        ("'nonsense'", "invalid __serialize value"),
        ("function(self) return self end", "Too high nest level"),
        ("function(self) return {self} end", "Too high nest level"),
        ("function(self) return setmetatable({}, getmetatable(self)) end", "Too high nest level"),
    ],
)
@pytest.mark.parametrize("command", ["{value}", "error({value})", "1, {{x = {value}}}"])
def test_failing_serializer(converse: Callable[[list[str]], list[str]], method: str, reason: str, command: str) -> None:
    """An error of __serialize, or an endless one, is reported, and the session goes on."""
    value = f"setmetatable({{}}, {{__serialize = {method}}})"
    reply, after = converse([command.format(value=value), "1"])
    assert reply.startswith("---\n- error: 'console: an exception occurred when formatting the output: ")
    assert reason in " ".join(reply.split())
    assert after == "---\n- 1\n...\n"


@pytest.mark.tarantool
@pytest.mark.parametrize("script", ["compare_yaml.lua", "compare_json.lua", "compare_lua.lua"])
def test_against_tarantool(tarantool: str, script: str, tmp_path: Path) -> None:
    """Run inside Tarantool, our serializers give the same texts as Tarantool's for thousands of random values."""
    outcome = subprocess.run(
        [tarantool, str(DATA / script), str(MODULES)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert outcome.stdout.endswith("0 differ\n"), outcome.stdout
