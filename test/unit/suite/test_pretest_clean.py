"""`pretest_clean`, and commands and waits of `test_run` whose replies are those of Tarantool's runner."""

from __future__ import annotations

from pathlib import Path

import pytest

from console.suite.language import CommandError, parse
from console.suite.runner import RunOutcome

from .test_places import replies
from .test_runner import BOX, NEW, make_suite, run

_MADE = """
box.schema.space.create('made'):create_index('pk')
box.schema.user.create('someone')
box.schema.role.create('somebody')
box.schema.func.create('something')
box.space._cluster:insert{2, '11111111-1111-4111-8111-111111111111'}
global, own = 1, 2
protected_globals = {'own'}
require('library')
"""
_ASK = (
    "box.space.made, box.schema.user.exists('someone'), box.schema.role.exists('somebody')\n"
    "box.schema.func.exists('something'), box.schema.func.exists('box.schema.user.info')\n"
    "box.space._cluster:count(), global, own, package.loaded.library\n"
    "require('library'), require('json').encode({1}), box.space._func:count() > 60\n"
)


@pytest.mark.parametrize("name", ["t.test.lua", "t.test.sql"])
def test_the_default_server_is_cleaned(tmp_path: Path, name: str) -> None:
    """What its script has made is gone; what belongs to the system, and protected names, stay."""
    files = {"library__lua": "return 5", "box__lua": BOX + _MADE}
    path = make_suite(tmp_path, _ASK, ini="lua_libs = library.lua\npretest_clean = True\n", **files)
    if name.endswith("sql"):
        (path / "t.test.lua").rename(path / name)
        (path / name).write_text("\\set language lua\n" + _ASK)
    report = run(path)
    assert report.outcome is RunOutcome.NEW, report.text
    shown = [line.removeprefix("- ") for line in replies(path) if line != "- true" or not name.endswith("sql")]
    wanted = ["null", "false", "false", "false", "true", "1", "null", "2", "null", "5", "'[1]'", "true"]
    assert shown == (wanted if name.endswith("lua") else [value for value in wanted if value != "true"])


def test_nothing_is_cleaned_without_the_option(tmp_path: Path) -> None:
    path = make_suite(tmp_path, "global\n", box__lua=BOX + "global = 1\n")
    assert run(path).outcome is RunOutcome.NEW
    assert replies(path) == ["- 1"]


def test_a_clean_that_fails_is_told(tmp_path: Path) -> None:
    script = BOX + "box.space._space:before_replace(function() error('kept') end)\n"
    made = "box.schema.space.create('made')\n"
    path = make_suite(tmp_path, "1\n", ini="pretest_clean = True\n", box__lua=BOX + made + script.removeprefix(BOX))
    report = run(path)
    assert report.outcome is RunOutcome.FAILED
    assert "pretest_clean failed" in report.text
    assert "kept" in report.text


def test_values_of_waits(tmp_path: Path) -> None:
    """Trailing nils are no results; wrong arguments fail at once."""
    test = NEW + (
        "test_run:wait_cond(function() return nil end, 0.01)\n"
        "test_run:wait_log('default', 'never there', nil, 0.01)\n"
        "test_run:wait_cond(1)\n"
        "test_run:wait_log('default', 'never there')\n"
        "test_run:cmd('')\n"
        "test_run:grep_log('nobody', 'x')\n"
    )
    path = make_suite(tmp_path, test)
    assert run(path).outcome is RunOutcome.NEW
    text = (path / "t.result").read_text()
    assert text.count("0.01)\n | ---\n | ...\n") == 2
    assert text.count(": assertion failed!") == 2
    assert "cmd('')\n | ---\n | - true\n" in text
    assert "Attempt to evaluate a command on the nonexistent server 'nobody'" in text


def test_a_filter_that_is_not_finished() -> None:
    with pytest.raises(CommandError, match="Wrong token for filter: expected 'to', got \"'a'\""):
        parse("push filter 'a'")
