"""The Lua modules yaml and json: decoding, options, errors."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lua.bindings.yaml_parser import parse, parse_tag, resolve

Converse = Callable[[list[str]], list[str]]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", ""),
        ("~", None),
        ("null", None),
        ("NULL", "NULL"),
        ("yes", True),
        ("no", False),
        ("on", "on"),
        ("+5", 5),
        ("-07", -7),
        ("1_000", "1_000"),
        ("9223372036854775808", 2**63),
        ("99999999999999999999", 2**64 - 1),
        ("-99999999999999999999", -(2**63)),
        ("1.5e3", 1500.0),
        (".5", 0.5),
        ("inf", float("inf")),
        ("0x10", 16.0),
        ("0xzz", "0xzz"),
        ("1.2.3", "1.2.3"),
    ],
)
def test_plain_scalars(text: str, value: object) -> None:
    """Fewer plain words than YAML allows become values, and numbers follow C."""
    assert resolve(text) == value


def test_bad_yaml() -> None:
    """An error of bad YAML names the problem, the place and the document."""
    with pytest.raises(ValueError, match=r"^did not find expected ',' or ']' at document: 1, line: 2, column: 1\n"):
        parse(b"[1, 2\n")
    with pytest.raises(ValueError, match="at document: 0"):
        parse(b"\xff")


def test_tags() -> None:
    """The tag directive of a pushed value is read."""
    assert parse_tag(b"%TAG !push! tag:tarantool.io/push,2018\n--- 1\n...\n") == (
        "!push!",
        "tag:tarantool.io/push,2018",
    )
    assert parse_tag(b"--- 1\n...\n") is None
    assert parse_tag(b"") is None


YAML = {
    "yaml.decode('[1, {a: b}]')": "- [1, {'a': 'b'}]\n",
    "yaml.decode('--- 1\\n...\\n--- a\\n...\\n')": "- 1\n- a\n",
    "yaml.decode('&1 [*1, 2]')[2]": "- 2\n",
    "(function() local t = yaml.decode('- &x [1]\\n- *x') return t[1] == t[2] end)()": "- true\n",
    "yaml.decode('!!binary /w==') == '\\255'": "- true\n",
    "yaml.decode('!!str 5'), yaml.decode('!!int 5x'), yaml.decode('!!float 1.5')": "- '5'\n- 5\n- 1.5\n",
    "yaml.decode('{[1]: 2, 5: 6}')[5]": "- 6\n",
    "yaml.decode('18446744073709551615')": "- 18446744073709551615\n",
    "yaml.decode('')": "",
    "yaml.encode({1, 'a'}) == '---\\n- 1\\n- a\\n...\\n'": "- true\n",
    "yaml.encode('a') == '--- a\\n...\\n'": "- true\n",
    "yaml.encode(1, {tag_handle = '!x!', tag_prefix = 'y'}) == '%TAG !x! y\\n--- 1\\n...\\n'": "- true\n",
    "yaml.decode('%TAG !x! y\\n--- 1\\n...\\n', {tag_only = true})": "- '!x!'\n- y\n",
    "pcall(yaml.encode, print)": "- false\n- unsupported Lua type 'function'\n",
    "pcall(yaml.decode, '*x')": "- false\n- 'invalid reference: x'\n",
    "pcall(yaml.decode, {})": "- false\n- 'Usage: yaml.decode(document, [{tag_only = boolean}])'\n",
    "yaml.new().cfg{encode_use_tostring = true}": "",
    "yaml.cfg.encode_use_tostring": "- false\n",
}
JSON = {
    "json.encode({1, 'a/b\\n', {x = true}, json.NULL})": '- \'[1,"a\\/b\\n",{"x":true},null]\'\n',
    'json.decode(\'[1, {"a": null}, "\\\\u00e9"]\')': "- [1, {'a': null}, 'é']\n",
    "json.decode('100000000000000') == 100000000000000LL": "- true\n",
    "pcall(json.decode, '[1,\\n2,\\n \"abcdefghijklmnop\" z]')": (
        "- false\n- Expected comma or ']' but found invalid token on line 3 at character 21 here 'klmnop\"  >>\n  z]'\n"
    ),
    "pcall(json.decode, '[1 2]')": (
        "- false\n- Expected comma or ']' but found int on line 1 at character 4 here '[1  >> 2]'\n"
    ),
    "pcall(json.decode, '[')": "- false\n- Expected value but found end on line 1 at character 2 here '[ >> '\n",
    "pcall(json.encode, {[true] = 1})": "- false\n- table key must be a number or string\n",
    "pcall(json.encode, 1, 2, 3)": "- false\n- 'bad argument #1 to ''?'' (expected 1 or 2 arguments)'\n",
    "json.encode({1, {2, {3}}}, {encode_max_depth = 1, encode_deep_as_nil = true})": "- '[1,null]'\n",
    "pcall(json.encode, {1, {2, {3}}}, {encode_max_depth = 1})": "- false\n- Too high nest level\n",
    "json.encode(print, {encode_invalid_as_nil = true})": "- 'null'\n",
    "json.new() ~= json, json.encode(1.23456789, {encode_number_precision = 3})": "- true\n- '1.23'\n",
}


@pytest.mark.parametrize("module", ["yaml", "json"])
def test_module(converse: Converse, module: str) -> None:
    """Values are encoded and decoded, options apply, and errors have Tarantool's texts."""
    cases = {"yaml": YAML, "json": JSON}[module]
    _, *replies = converse([f"{module} = require('{module}')", *cases])
    assert dict(zip(cases, replies, strict=True)) == {command: f"---\n{body}...\n" for command, body in cases.items()}
