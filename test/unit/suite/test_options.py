"""Options of the runner and of suites: which tests run, are repeated, written and reported."""

from __future__ import annotations

import asyncio
import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from console.suite.case import Settings, discover
from console.suite.cli import main
from console.suite.dump import dump
from console.suite.instance import State
from console.suite.junit import write_junit
from console.suite.report import Report, RunOutcome, TestPart
from console.suite.runner import run_case
from console.suite.suite_ini import SuiteError, load_suite
from test.unit.suite.shared_warm import shared_warm
from test.unit.suite.test_runner import BOX, make_suite, run

RIGHT = "1\n---\n- 1\n...\n"
WRONG = "1\n---\n- 2\n...\n"


def app_suite(directory: Path, core: str = "app", **scripts: str) -> Path:
    path = directory / "s"
    path.mkdir()
    (path / "suite.ini").write_text(f"[default]\ncore = {core}\n")
    for name, source in scripts.items():
        (path / f"{name}.test.lua").write_text(source)
    return path


TAP = "print('TAP version 13') print('1..1') print('ok 1 - fine') os.exit(0)"


def test_update_writes_the_result_file_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--update-result rewrites the result file of a mismatch and says so; a test that fails otherwise
    keeps its file.
    """
    path = make_suite(tmp_path, "1\n", t__result=WRONG, u__result=WRONG)
    (path / "u.test.lua").write_text("os.exit(3)\n")
    assert main([str(path), "--update"]) == 1
    out = capsys.readouterr().out
    assert "s/t.test.lua  updated: t.result" in out
    assert "s/u.test.lua  failed" in out
    assert (path / "t.result").read_text() == RIGHT
    assert (path / "u.result").read_text() == WRONG


def test_excluded_tests_are_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = app_suite(tmp_path, a=TAP, b=TAP, c=TAP)
    assert main([str(path), "--exclude", "a.test", "--exclude", "s/c"]) == 0
    assert "s/b.test.lua  passed" in (out := capsys.readouterr().out)
    assert "1 passed" in out


def test_tests_are_repeated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(app_suite(tmp_path, a=TAP)), "--repeat", "3"]) == 0
    out = capsys.readouterr().out
    assert [line.partition("  ")[0] for line in out.splitlines()[:3]] == [f"s/a.test.lua {n}/3" for n in (1, 2, 3)]
    assert "3 passed" in out


PARENT = """
local ffi = require('ffi')
ffi.cdef('int getppid(void);')
local command = io.open('/proc/' .. ffi.C.getppid() .. '/cmdline'):read('*a')
print('TAP version 13') print('1..1')
print((command:find('become_warm', 1, true) and 'ok' or 'not ok') .. ' 1 - is forked')
os.exit(0)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="nodes are forked on Linux alone")
def test_nodes_are_programs_of_their_own_if_that_is_wanted(tmp_path: Path) -> None:
    """Nodes are forked from a process with all imports, or are separate processes if asked for."""
    path = app_suite(tmp_path, a=PARENT)
    assert main([str(path)]) == 0
    assert main([str(path), "--no-fork"]) == 1


def test_tap_is_another_name_of_app(tmp_path: Path) -> None:
    assert main([str(app_suite(tmp_path, "tap", a=TAP))]) == 0


def fragile(tmp_path: Path, ini: str) -> Report:
    # The first run of the server finds no such file, and makes it.
    mark = tmp_path / "ran"
    box = f"{BOX}file = io.open('{mark}')\nio.open('{mark}', 'w')\n"
    path = make_suite(tmp_path, "file ~= nil\n", ini=ini, box=box, t__result="file ~= nil\n---\n- true\n...\n")
    (case,) = discover(path)
    return asyncio.run(run_case(case, Settings(timeout=20, warm=shared_warm())))


def test_a_fragile_test_is_tried_again_and_the_report_says_so(tmp_path: Path) -> None:
    report = fragile(tmp_path, "fragile = t.test.lua ; gh-1 gh-2\n")
    assert report.outcome is RunOutcome.PASSED
    assert report.note == "fragile, 1 more try (gh-1, gh-2)"


def test_other_tests_are_not_tried_again(tmp_path: Path) -> None:
    assert fragile(tmp_path, "fragile = u.test.lua\n").outcome is RunOutcome.FAILED


@pytest.mark.parametrize(("output", "outcome"), [("false", RunOutcome.PASSED), ("null", RunOutcome.FAILED)])
def test_only_known_outputs_of_a_fragile_test_are_tried_again(tmp_path: Path, output: str, outcome: RunOutcome) -> None:
    """A fragile test is repeated only if the reject file has one of its known `checksums`."""
    text = f"file ~= nil\n---\n- {output}\n...\n"
    checksum = hashlib.md5(text.encode()).hexdigest()
    ini = 'fragile = {\n "retries": 5, "tests": {"t.test.lua": {"issues": ["gh-1"], "checksums": ["%s"]}}}\n'
    assert fragile(tmp_path, ini % checksum).outcome is outcome


def test_fragile_that_is_no_json_is_an_error(tmp_path: Path) -> None:
    path = make_suite(tmp_path, "1\n", ini='fragile = {"tests": [}\n')
    with pytest.raises(SuiteError, match=r"suite\.ini: fragile"):
        load_suite(path)


def test_a_time_limit_shows_fibers_and_logs(tmp_path: Path) -> None:
    """At the time limit fibers and logs of all servers of the test are shown."""
    source = (
        "require('log').info('the last words')\n"
        "_ = require('fiber').create(function() require('fiber').name('sleeper') require('fiber').sleep(100) end)\n"
        "require('fiber').sleep(100)\n"
    )
    report = run(make_suite(tmp_path, source), timeout=4)
    assert report.outcome is RunOutcome.FAILED
    assert "no answer within 4 s to: require('fiber').sleep(100)" in report.text
    assert "sleeper csw=" in report.text
    assert "the last words" in report.text


def test_nodes_that_are_dropped_meanwhile_are_shown() -> None:
    """Nodes that the test drops while they are asked at the time limit are shown, too."""
    servers: dict[str, Any] = {}

    class Server:
        name, state = "a", State.RUNNING

        async def evaluate(self, _expression: str) -> str:
            servers.clear()
            return "---\n- 101 main\n...\n"

        def tail(self, _lines: int) -> str:
            return "the last words"

    servers.update(a=Server(), b=Server())
    text = asyncio.run(dump(servers.values()))
    assert text.count("101 main") == text.count("the last words") == 2


def test_a_node_that_is_stuck_is_told_from_one_that_waits(tmp_path: Path) -> None:
    report = run(make_suite(tmp_path, "while true do end\n"), timeout=4)
    assert "it does not answer" in report.text


def test_a_late_app_shows_what_it_has_written(tmp_path: Path) -> None:
    path = app_suite(tmp_path, a="print('TAP version 13') io.flush() require('fiber').sleep(100)")
    report = run(path, timeout=3)
    assert report.outcome is RunOutcome.FAILED
    assert "not finished within 3 s" in report.text
    assert "TAP version 13" in report.text


def test_a_report_for_build_servers(tmp_path: Path) -> None:
    path = app_suite(tmp_path, a=TAP, b="print('not\\27ok') os.exit(2)")
    (path / "suite.ini").write_text("[default]\ncore = app\ndisabled = c.test.lua\n")
    (path / "c.test.lua").write_text(TAP)
    report = tmp_path / "report.xml"
    assert main([str(path), "--junit", str(report)]) == 1
    root = ElementTree.parse(report).getroot()
    (suite,) = root.findall("testsuite")
    counts = {name: suite.get(name) for name in ("name", "tests", "failures", "skipped")}
    assert counts == {"name": "s", "tests": "3", "failures": "1", "skipped": "1"}
    assert [case.get("name") for case in suite] == ["a.test.lua", "b.test.lua", "c.test.lua"]
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert (failure.get("message") or "").startswith("exit code 2")


def test_parts_of_a_test_are_tests_of_the_report(tmp_path: Path) -> None:
    (case,) = discover(app_suite(tmp_path, a=TAP))
    parts = (TestPart("g.one", RunOutcome.PASSED), TestPart("g.two", RunOutcome.FAILED, "why\nwhere"))
    write_junit(tmp_path / "r.xml", [(case, Report(RunOutcome.FAILED, "all", parts=parts, seconds=1.5))])
    suite = ElementTree.parse(tmp_path / "r.xml").getroot()[0]
    assert [(part.get("classname"), part.get("name")) for part in suite] == [
        ("s.a.test.lua", "g.one"),
        ("s.a.test.lua", "g.two"),
    ]
    assert suite.get("failures") == "1"


def test_the_slowest_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slow = TAP.replace("os.exit", "require('fiber').sleep(1) os.exit")
    assert main([str(app_suite(tmp_path, a=slow, b=slow)), "--slowest", "1"]) == 0
    out = capsys.readouterr().out.splitlines()
    at = out.index("slowest:")
    assert len(out) - at == 3
    assert out[at + 1].split()[1] == "s"


def test_version() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "console.suite.cli", "--version"], capture_output=True, text=True, timeout=60, check=True
    )
    assert ended.stdout.startswith("lunabox-test ")


def test_options_of_tarantools_runner(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--conf chooses a configuration, --no-force stops after a failure, --test-timeout ends a test."""
    path = app_suite(tmp_path, a="os.exit(1)", b=TAP, c="while true do end")
    (path / "suite.ini").write_text("[default]\ncore = app\nconfig = suite.cfg\n")
    (path / "suite.cfg").write_text('{"b.test.lua": {"x": {}, "y": {}}}')
    assert main([str(path), "--conf", "y", "-k", "b.test", "--jobs", "0"]) == 0
    assert "1 passed" in capsys.readouterr().out
    assert main([str(path), "--no-force", "--exclude", "c.test"]) == 1
    assert "1 failed in" in capsys.readouterr().out
    assert main([str(path), "--test-timeout", "0.5", "-k", "c.test"]) == 1
    assert "not finished within 0.5 s" in capsys.readouterr().out
