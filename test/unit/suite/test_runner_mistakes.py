"""Broken suites and users' mistakes: a clear message, and the other tests run."""

from __future__ import annotations

import asyncio
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from console.suite.cli import main
from console.suite.runner import RunOutcome, discover
from console.suite.suite_ini import SuiteError

from .test_runner import make_suite, run


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("suite.ini", "garbage", "no section headers"),
        ("suite.ini", "[default]\ncore = other\n", "unsupported core: other"),
        ("suite.cfg", '{"t.test.lua": ', "suite.cfg: Expecting value"),
        ("suite.cfg", '{"t.test.lua": 5}', "expected test name -> configuration name -> parameters"),
        ("suite.cfg", '{"t.test.lua": {"a": 5}}', "expected test name -> configuration name -> parameters"),
    ],
)
def test_broken_suites(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, message: str) -> None:
    """A broken suite runs nothing; the message has the file and the reason."""
    path = make_suite(tmp_path, "1\n", ini="config = suite.cfg\n")
    (path / name).write_text(text)
    with pytest.raises(SuiteError, match=message):
        discover(path)
    assert main([str(path)]) == 2
    assert f"lunabox-test: {path}" in capsys.readouterr().err


def test_a_path_without_a_suite(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A script without suite.ini, a missing path and a path without tests are errors."""
    (tmp_path / "t.test.lua").write_text("1\n")
    assert main([str(tmp_path / "t.test.lua")]) == 2
    assert "no suite.ini: No such file or directory" in capsys.readouterr().err
    assert main([str(tmp_path / "nothing")]) == 2
    assert "no such file or directory" in capsys.readouterr().err
    assert main([str(tmp_path)]) == 2
    text = f"lunabox-test: no suite.ini in {tmp_path}, nor below: it makes a directory a suite\n"
    assert capsys.readouterr().err == text


def test_nothing_to_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message says what tests are called, or which options leave none."""
    path = make_suite(tmp_path, "1\n")
    assert main([str(path), "-k", "other"]) == 2
    assert capsys.readouterr().err == "lunabox-test: -k, --exclude and --conf leave none of 1 tests\n"
    (path / "t.test.lua").rename(path / "t.lua")
    assert main([str(path / "t.lua")]) == 2
    assert f"lunabox-test: {path}/t.lua is no test: names of tests end in .test.lua or" in capsys.readouterr().err
    assert main([str(tmp_path)]) == 2
    names = "*.test.lua or *.test.sql or *.test.py or *_test.lua"
    assert capsys.readouterr().err == f"lunabox-test: no {names} in {path}\n"


def test_the_log_of_a_server_that_fails_is_shown_once(tmp_path: Path) -> None:
    report = run(make_suite(tmp_path, "1\n", box="error('why')\n"))
    assert report.text.startswith("server default did not start: exit code 1\nserver default crashed: exit code 1\n")
    assert report.text.count("why") == 1
    (tmp_path / "made").mkdir()
    ends = make_suite(tmp_path / "made", "1\n", box="print('said') os.exit()\n")
    assert run(ends).text.count("said") == 1


@pytest.mark.parametrize(
    ("files", "ini", "message"),
    [
        ({"t__result": "-- test-run result file version 7\n"}, "", "unknown version of a result file: 7"),
        ({"t__skipcond": "1 / 0"}, "", "t.skipcond: ZeroDivisionError: division by zero"),
        ({"t__skipcond": "what ever"}, "", "t.skipcond: SyntaxError"),
    ],
)
def test_a_test_that_cannot_run(tmp_path: Path, files: dict[str, str], ini: str, message: str) -> None:
    """A test that cannot run fails with the reason, and the next one runs."""
    report = run(make_suite(tmp_path, "1\n", ini=ini, **files))
    assert report.outcome is RunOutcome.FAILED
    assert re.search(message, report.text), report.text


def test_files_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a read-only suite a new result is a failure, and a mismatch still shows its difference."""

    def refuse(self: Path, *_args: object, **_options: object) -> int:
        raise PermissionError(13, "Permission denied", str(self))

    path = make_suite(tmp_path, "1\n")
    monkeypatch.setattr(Path, "write_text", refuse)
    report = run(path)
    assert (report.outcome, report.text) == (
        RunOutcome.FAILED,
        f"cannot write {path / 't.result'}: Permission denied",
    )
    monkeypatch.undo()
    (path / "t.result").write_text("2\n")
    monkeypatch.setattr(Path, "write_text", refuse)
    report = run(path)
    assert f"cannot write {path / 't.reject'}: Permission denied" in report.text
    assert "--- t.result\n+++ t.reject\n" in report.text


def test_a_script_without_a_line(tmp_path: Path) -> None:
    """The result of an empty script is the header alone."""
    path = make_suite(tmp_path, "")
    assert run(path).outcome is RunOutcome.NEW
    assert (path / "t.result").read_text() == "-- test-run result file version 2\n"


def test_a_directory_is_no_script(tmp_path: Path) -> None:
    """A directory with a script's name is no script."""
    path = make_suite(tmp_path, "1\n")
    (path / "d.test.lua").mkdir()
    assert [case.path.name for case in discover(path)] == ["t.test.lua"]


def test_names_with_spaces(tmp_path: Path) -> None:
    """Names of suites and scripts may have spaces."""
    path = make_suite(tmp_path, "1\n").rename(tmp_path / "my suite")
    (path / "t.test.lua").rename(path / "my test.test.lua")
    assert run(path).outcome is RunOutcome.NEW
    assert run(path).outcome is RunOutcome.PASSED


def test_a_path_given_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A test given twice runs once."""
    path = make_suite(tmp_path, "1\n", t__result="1\n---\n- 1\n...\n")
    assert main([str(path), str(path / "t.test.lua"), str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("1 passed in ")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--junit", "/"],
        ["--junit", "/no/x"],
        ["--executable", "'a"],
        ["--executable", " "],
        ["-j", "-2"],
        ["-j", "many"],
        ["--timeout", "0"],
        ["--timeout", "-1"],
        ["--timeout", "nan"],
        ["-z"],
    ],
)
def test_wrong_options(tmp_path: Path, arguments: list[str]) -> None:
    """Wrong options end with exit code 2, as argparse does."""
    with pytest.raises(SystemExit) as stop:
        main([str(tmp_path), *arguments])
    assert stop.value.code == 2


@pytest.mark.parametrize("name", ["TEST_TIMEOUT", "REPLICATION_SYNC_TIMEOUT"])
def test_wrong_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    monkeypatch.setenv(name, "soon")
    with pytest.raises(SystemExit):
        main([str(tmp_path)])
    assert f"lunabox-test: error: variable {name}: not a" in capsys.readouterr().err


def test_an_executable_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A missing executable is an error before any test."""
    assert main([str(make_suite(tmp_path, "1\n")), "--executable", "/nothing"]) == 2
    assert "cannot run /nothing: No such file or directory" in capsys.readouterr().err


def test_a_killed_server_with_a_result(tmp_path: Path) -> None:
    """A server killed by SIGKILL is no crash, but the rest of the script has no answers."""
    kill = "require('ffi').cdef('int kill(int, int);')\nrequire('ffi').C.kill(require('tarantool').pid(), 9)\n1\n"
    report = run(make_suite(tmp_path, kill, t__result=kill.replace("1\n", "1\n---\n- 1\n...\n")))
    assert report.outcome is RunOutcome.FAILED
    assert "--- t.result" in report.text


def test_a_server_that_never_gets_ready(tmp_path: Path) -> None:
    """A server that never gets ready, and ignores SIGTERM, is killed at the time limit."""
    report = run(make_suite(tmp_path, "1\n", box="while true do end\n"), timeout=1.0)
    assert "server default is not ready in time\n" in report.text


def test_a_server_without_a_console(tmp_path: Path) -> None:
    report = run(make_suite(tmp_path, "1\n", box="box.cfg{}\n"), timeout=2.0)
    assert "server default is not ready in time: it has no console on $ADMIN\n" in report.text


def test_two_runs_at_once(tmp_path: Path) -> None:
    """Two concurrent runs in one checkout have nodes, sockets and directories of their own."""
    path = make_suite(tmp_path, "1\n", t__result="1\n---\n- 1\n...\n")

    async def both() -> list[int]:
        command = (sys.executable, "-m", "console.suite.cli", str(path))
        runs = [await asyncio.create_subprocess_exec(*command, stdout=subprocess.DEVNULL) for _ in range(2)]
        return [await run.wait() for run in runs]

    assert asyncio.run(both()) == [0, 0]
    assert not (path / "t.reject").exists()


def test_a_report_that_nobody_reads(tmp_path: Path) -> None:
    """A run whose output nobody reads ends with a message."""
    path = make_suite(tmp_path, "1\n", t__result="1\n---\n- 1\n...\n")
    command = shlex.join([sys.executable, "-m", "console.suite.cli", str(path)])
    for target, reason in [("| true", "Broken pipe"), ("> /dev/full", "No space left on device")]:
        run = subprocess.run(
            f"set -o pipefail; {command} {target}",
            shell=True,
            executable="bash",
            capture_output=True,
            text=True,
            check=False,
        )
        assert (run.returncode, run.stderr) == (2, f"lunabox-test: {reason}\n")


def test_a_broken_suite_in_pytest(tmp_path: Path) -> None:
    """The pytest plugin reports a broken suite without a traceback."""
    path = make_suite(tmp_path, "1\n", ini="config = suite.cfg\n", suite__cfg="{")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "console.suite.plugin", "--rootdir", str(path), str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 2, run.stdout
    assert f"{path}/suite.cfg: Expecting property name" in run.stdout
    assert "Traceback" not in run.stdout
    assert "discover(" not in run.stdout
