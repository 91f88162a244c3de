"""Suites with `core = luatest`: how the framework is found and started, and how its output is judged.

The framework itself is used if $LUATEST names it, else a stand-in.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from console.suite.cli import main
from console.suite.luatest import parse_tap
from console.suite.report import RunOutcome, TestPart
from test.support import wait_until
from test.unit.suite.test_runner import run

STAND_IN = """
return function()
    local file = arg[#arg]
    -- The framework makes the name of a module of it.
    assert(file:match('^%./.*app%-luatest/[^/]*_test%.lua$'), file)
    print('TAP version 13')
    dofile(file)
    os.exit(0)
end
"""


def make_project(directory: Path, *, rocks: bool = True, **files: str) -> Path:
    """Make PROJECT/test/app-luatest with test files, and a stand-in for the framework in PROJECT/.rocks."""
    project = directory / "project"
    suite = project / "test" / "app-luatest"
    suite.mkdir(parents=True)
    (suite / "suite.ini").write_text("[default]\ncore = luatest\n")
    for name, source in files.items():
        (suite / f"{name}_test.lua").write_text(source)
    if rocks:
        make_framework(project / ".rocks" / "share" / "tarantool")
    return suite


def make_framework(root: Path) -> None:
    (root / "luatest").mkdir(parents=True)
    (root / "luatest" / "init.lua").write_text("return {}\n")
    (root / "luatest" / "cli_entrypoint.lua").write_text(STAND_IN)


def test_the_output_is_taken_apart() -> None:
    output = (
        "TAP version 13\n1..5\n# Started on now\nok     1\tg.one\nnot ok 2\tg.two\n#   expected: 1\n#   stack\n"
        "ok 3\t# SKIP not here\nok     4\t# XFAIL known\nok 5 - other style\n# Ran 5 tests\n"
    )
    assert list(parse_tap(output)) == [
        TestPart("g.one", RunOutcome.PASSED),
        TestPart("g.two", RunOutcome.FAILED, "expected: 1\nstack"),
        TestPart("test 3", RunOutcome.SKIPPED, "not here"),
        TestPart("test 4", RunOutcome.PASSED),
        TestPart("other style", RunOutcome.PASSED),
    ]


def test_a_file_of_tests_passes_with_its_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    suite = make_project(tmp_path, good="print('1..2') print('ok 1\\tg.a') print('ok 2\\t# SKIP no')")
    assert main([str(suite)]) == 0
    assert "app-luatest/good_test.lua  passed: 1 passed, 1 skipped" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("print('1..1') print('not ok 1\\tg.a') print('#  because')", "not ok g.a\nbecause"),
        ("print('1..2') print('ok 1\\tg.a')", "planned 2 tests, ran 1"),
        ("print('1..1') print('ok 1\\tg.a') os.exit(4)", "exit code 4"),
        ("error('no such thing')", "no plan, exit code 1"),
        ("print('1..1') io.flush() require('fiber').sleep(100)", "not finished within 6 s"),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, source: str, problem: str) -> None:
    report = run(make_project(tmp_path, bad=source), timeout=6 if "sleep" in source else 60)
    assert report.outcome is RunOutcome.FAILED
    assert problem in report.text


def test_the_framework_starts_in_its_project_with_the_node_as_tarantool(tmp_path: Path) -> None:
    """The framework runs in its project, and scripts with `#!/usr/bin/env tarantool` find the node as `tarantool`."""
    source = """
    local server = os.getenv('VARDIR') .. '-server.lua'
    local file = io.open(server, 'w')
    file:write('#!/usr/bin/env tarantool\\nprint(require("tarantool").version) os.exit(0)\\n')
    file:close()
    os.execute('chmod +x ' .. server)
    local version = io.popen(server):read('*l')
    local is_here = require('fio').path.exists('.rocks') and os.getenv('LUNABOX_HASH_ORDER') == 'slots'
    print('1..1')
    print((version:match('^2%.8%.1%-') and is_here) and 'ok 1\\tg.a' or 'not ok 1\\tg.a')
    print('#', version, is_here)
    """
    report = run(make_project(tmp_path, server=source), timeout=20)
    assert report.outcome is RunOutcome.PASSED, report.text


def test_servers_that_are_left_behind_are_ended(tmp_path: Path) -> None:
    source = "os.execute('sleep 100 & echo $! > pid') print('1..1') print('ok 1\\tg.a')"
    suite = make_project(tmp_path, left=source)
    assert run(suite).outcome is RunOutcome.PASSED
    pid = int((tmp_path / "project" / "pid").read_text())
    wait_until(lambda: not is_running(pid))


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return state.rpartition(") ")[2][0] != "Z"


def test_the_framework_is_found_by_an_option_or_is_missed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = make_project(tmp_path, rocks=False, good="print('1..1') print('ok 1\\tg.a')")
    make_framework(tmp_path / "checkout")
    monkeypatch.delenv("LUATEST", raising=False)
    assert main([str(suite)]) == 1
    assert "install it there, or name it with --luatest PATH or $LUATEST" in capsys.readouterr().out
    assert main([str(suite), "--luatest", str(tmp_path / "nothing")]) == 1
    assert main([str(suite), "--luatest", str(tmp_path / "checkout")]) == 0


REAL = """
local t = require('luatest')
local g = t.group('real')
g.before_all(function() g.server = t.Server:new({alias = 'one'}) g.server:start() end)
g.after_all(function() g.server:stop() end)
g.test_server = function()
    t.assert_equals(g.server:exec(function()
        box.schema.space.create('s'):create_index('pk')
        return box.space.s:insert{1, 'a'}
    end), {1, 'a'})
end
g.test_skipped = function() t.skip('not now') end
"""


@pytest.mark.skipif("LUATEST" not in os.environ, reason="$LUATEST does not name the framework")
def test_the_framework_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Version 1 of luatest runs, with servers by `t.Server`."""
    suite = make_project(tmp_path, rocks=False, real=REAL)
    assert main([str(suite), "--luatest", os.environ["LUATEST"]]) == 0, capsys.readouterr().out
    assert "1 passed, 1 skipped" in capsys.readouterr().out
