"""Whole runs of suites: what passes, what fails and why, and which files stay."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from console.suite.app import check_output
from console.suite.cli import main
from console.suite.runner import Report, RunOutcome, Settings, discover, is_debug, run_case

from .shared_warm import shared_warm

BOX = "box.cfg{listen = os.getenv('LISTEN')}\nrequire('console').listen(os.getenv('ADMIN'))\n"
NEW = "test_run = require('test_run').new()\n"


def make_suite(directory: Path, test: str, *, ini: str = "", box: str = BOX, **files: str) -> Path:
    """Make a suite `s` with one test `t`; other files by name, with `__` for a dot."""
    path = directory / "s"
    path.mkdir()
    (path / "suite.ini").write_text(
        f"[default]\ncore = tarantool\nscript = box.lua\nuse_unix_sockets_iproto = 1\n{ini}"
    )
    (path / "box.lua").write_text(box)
    (path / "t.test.lua").write_text(test)
    for name, text in files.items():
        (path / name.replace("__", ".")).write_text(text)
    return path


def run(path: Path, timeout: float = 20.0) -> Report:
    (case,) = discover(path)
    return asyncio.run(run_case(case, Settings(timeout=timeout, warm=shared_warm())))


def test_new_result_is_written(tmp_path: Path) -> None:
    """Without a result file the output becomes one, in version 2, and the second run passes."""
    path = make_suite(tmp_path, "1\n")
    assert run(path).outcome is RunOutcome.NEW
    assert (path / "t.result").read_text() == "-- test-run result file version 2\n1\n | ---\n | - 1\n | ...\n"
    assert run(path).outcome is RunOutcome.PASSED


def test_modules_of_the_project_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Suites find modules of the project they are in, and those on LUA_PATH."""
    project, other = tmp_path / "project", tmp_path / "other"
    (project / "test").mkdir(parents=True)
    (project / "mine").mkdir()
    (project / "mine" / "init.lua").write_text("return {answer = 42}")
    other.mkdir()
    (other / "theirs.lua").write_text("return {answer = 43}")
    monkeypatch.setenv("LUA_PATH", f"{other}/?.lua;;")
    path = make_suite(project / "test", "require('mine').answer\nrequire('theirs').answer\n")
    assert run(path).outcome is RunOutcome.NEW
    assert [line for line in (path / "t.result").read_text().splitlines() if " - " in line] == [" | - 42", " | - 43"]


def test_the_variable_master_is_only_set_for_a_replica(tmp_path: Path) -> None:
    """A script may ask `if os.getenv('MASTER') then`."""
    source = NEW + (
        "os.getenv('MASTER')\n"
        "test_run:cmd('create server other with script=\"s/other.lua\", rpl_master=default')\n"
        "test_run:cmd('start server other')\n"
        "test_run:eval('other', 'return os.getenv(\"MASTER\") ~= nil')\n"
    )
    report = run(make_suite(tmp_path, source, other__lua=BOX))
    assert report.outcome is RunOutcome.NEW, report.text
    result = (tmp_path / "s" / "t.result").read_text()
    assert "os.getenv('MASTER')\n | ---\n | - null\n" in result
    assert "~= nil')\n | ---\n | - [true]\n" in result


def test_mismatch_leaves_a_reject_file(tmp_path: Path) -> None:
    """A mismatch shows a diff, keeps the result file and leaves a reject file, which a pass removes."""
    path = make_suite(tmp_path, "1\n", t__result="1\n---\n- 2\n...\n")
    report = run(path)
    assert report.outcome is RunOutcome.FAILED
    assert "--- t.result\n+++ t.reject\n" in report.text
    assert "\n-- 2\n+- 1\n" in report.text
    assert (path / "t.reject").read_text() == "1\n---\n- 1\n...\n"
    assert (path / "t.result").read_text() == "1\n---\n- 2\n...\n"
    (path / "t.result").write_text("1\n---\n- 1\n...\n")
    assert run(path).outcome is RunOutcome.PASSED
    assert not (path / "t.reject").exists()


def test_crash_fails_the_test(tmp_path: Path) -> None:
    """An exit with another code than 0 fails the test, unless it is expected."""
    source = NEW + "os.exit(3)\n"
    report = run(make_suite(tmp_path, source))
    assert report.outcome is RunOutcome.FAILED
    assert "server default crashed: exit code 3" in report.text


def test_expected_crash(tmp_path: Path) -> None:
    """crash_expected allows any end."""
    source = (
        NEW + "test_run:cmd('create server other with script=\"s/other.lua\"')\n"
        "test_run:cmd('start server other with crash_expected=True')\n"
        "test_run:switch('other')\n"
        "os.exit(3)\n"
        "test_run:switch('default')\n"
    )
    report = run(make_suite(tmp_path, source, other__lua=BOX))
    assert report.outcome is RunOutcome.NEW, report.text
    assert "os.exit(3)\n | \n" in (tmp_path / "s" / "t.result").read_text()


def test_script_that_does_not_start(tmp_path: Path) -> None:
    """If the server's script does not start, the report shows the end of the log."""
    report = run(make_suite(tmp_path, "1\n", box="error('broken instance')"))
    assert report.outcome is RunOutcome.FAILED
    assert "server default did not start: exit code 1" in report.text
    assert "broken instance" in report.text


def test_command_that_hangs(tmp_path: Path) -> None:
    """A command without an answer in time fails the test and stops the node."""
    report = run(make_suite(tmp_path, "require('fiber').sleep(1000)\n"), timeout=6)
    assert report.outcome is RunOutcome.FAILED
    assert "no answer within 6 s to: require('fiber').sleep(1000)" in report.text


def test_failing_commands_are_raised(tmp_path: Path) -> None:
    """An inspector's error is an error in the script."""
    source = NEW + "test_run:cmd('start server nobody')\ntest_run:cmd('pop filter')\n"
    assert run(make_suite(tmp_path, source)).outcome is RunOutcome.NEW
    result = (tmp_path / "s" / "t.result").read_text()
    assert " | - error: Can't start nonexistent server 'nobody'\n" in result
    assert " | - error: no filter to pop\n" in result


def test_eval_gives_a_list(tmp_path: Path) -> None:
    """eval returns the list of all values, empty without one; an error is a value, too."""
    source = NEW + (
        "test_run:eval('default', 'return 1, nil, {2}')\n"
        "test_run:eval('default', 'x = 1')\n"
        "test_run:eval('default', 'error([[no]])')\n"
        "test_run:eval('nobody', '1')\n"
    )
    assert run(make_suite(tmp_path, source)).outcome is RunOutcome.NEW
    result = (tmp_path / "s" / "t.result").read_text()
    assert "{2}')\n | ---\n | - [1, null, [2]]\n" in result
    assert "'x = 1')\n | ---\n | - []\n" in result
    assert " | - [{'error': 'no'}]\n" in result
    assert " | - error: Attempt to evaluate a command on the nonexistent server 'nobody'\n" in result


def test_clusters(tmp_path: Path) -> None:
    """All nodes of a cluster exist before the first starts, and dropping it includes those stopped already."""
    source = NEW + (
        "uris = test_run:create_cluster({'one', 'two'}, 's', {args = 'x', return_listen_uri = true})\n"
        "#uris, uris[1]:match('one.i$'), uris[2]:match('two.i$')\n"
        "test_run:wait_cond(function() return test_run:eval('two', 'return arg[1]')[1] == 'x' end)\n"
        "test_run:cmd('stop server one')\n"
        "test_run:cmd('stop server one')\n"
        "test_run:drop_cluster({'one', 'two'})\n"
        "test_run:cmd('start server two')\n"
    )
    assert run(make_suite(tmp_path, source, one__lua=BOX, two__lua=BOX)).outcome is RunOutcome.NEW
    result = (tmp_path / "s" / "t.result").read_text()
    assert " | - 2\n | - one.i\n | - two.i\n" in result
    assert " | - error: Attempt to stop already stopped server 'one'\n" in result
    assert " | - error: Can't start nonexistent server 'two'\n" in result


def test_commands_to_several_connections(tmp_path: Path) -> None:
    """A command to several connections goes to all; the reply is the first one's."""
    source = NEW + (
        "test_run:cmd('create server other with script=\"s/other.lua\"')\n"
        "test_run:cmd('start server other')\n"
        "test_run:cmd('set connection default, other')\n"
        "x = 1\n"
        "os.getenv('TEST_INSTANCE')\n"
        "test_run = require('test_run').new()\n"
        "test_run:cmd('set connection default')\n"
        "test_run:eval('other', 'return x')\n"
        "test_run:cmd('set variable address to \"other.listen\"')\n"
        "address:match('other.i$')\n"
    )
    report = run(make_suite(tmp_path, source, other__lua=BOX))
    assert report.outcome is RunOutcome.NEW, report.text
    result = (tmp_path / "s" / "t.result").read_text()
    assert "os.getenv('TEST_INSTANCE')\n | ---\n | - box\n | ...\n" in result
    assert "'return x')\n | ---\n | - [1]\n" in result
    assert " | - other.i\n" in result


def test_tcp_sockets(tmp_path: Path) -> None:
    """Suites without UNIX sockets get free ports."""
    source = NEW + (
        "test_run:cmd('create server other with script=\"s/other.lua\"')\n"
        "test_run:cmd('set variable port to \"other.listen\"')\n"
        "test_run:cmd('set variable uri to \"default.listen\"')\n"
        "type(port), uri == os.getenv('LISTEN')\n"
    )
    path = make_suite(tmp_path, source, ini="use_unix_sockets = False\n", other__lua=BOX)
    text = (path / "suite.ini").read_text().replace("use_unix_sockets_iproto = 1", "")
    (path / "suite.ini").write_text(text)
    report = run(path)
    assert report.outcome is RunOutcome.NEW, report.text
    assert " | - number\n | - true\n" in (path / "t.result").read_text()


@pytest.mark.parametrize(
    ("ini", "files", "reason"),
    [
        ("disabled = t.test.lua", {}, "disabled"),
        ("long_run = t.test.lua", {}, "long run"),
        ("", {"t__skipcond": "self.skip = True"}, r"skipped by t.skipcond"),
    ],
)
def test_skips(tmp_path: Path, ini: str, files: dict[str, str], reason: str) -> None:
    """Skipped tests show why."""
    report = run(make_suite(tmp_path, "1\n", ini=ini, **files))
    assert (report.outcome, report.text) == (RunOutcome.SKIPPED, reason)


TAP = "print('TAP version 13') print('1..2') print('ok - one') print('ok - two')"


@pytest.mark.parametrize(
    ("source", "outcome"),
    [
        (TAP, RunOutcome.PASSED),
        (TAP.replace("ok - two", "not ok - two"), RunOutcome.FAILED),
        (TAP.replace("1..2", "1..3"), RunOutcome.FAILED),
        (TAP + " os.exit(1)", RunOutcome.FAILED),
        ("print('hello')", RunOutcome.FAILED),
    ],
)
def test_app(tmp_path: Path, source: str, outcome: RunOutcome) -> None:
    """`core = app` judges TAP output and the exit code."""
    path = make_suite(tmp_path, source)
    (path / "suite.ini").write_text("[default]\ncore = app\n")
    assert run(path).outcome is outcome


def test_app_with_a_server(tmp_path: Path) -> None:
    """Servers that an app test creates are ended."""
    source = (
        "local test_run = require('test_run').new()\n"
        "test_run:cmd('create server other with script=\"s/other.lua\"')\n"
        "test_run:cmd('start server other')\n"
        "print(test_run:eval('other', 'return box.info.status')[1])\n"
        "os.exit(0)\n"
    )
    path = make_suite(tmp_path, source, other__lua=BOX, t__result="running\n")
    (path / "suite.ini").write_text("[default]\ncore = app\nuse_unix_sockets_iproto = True\n")
    report = run(path)
    assert report.outcome is RunOutcome.PASSED, report.text


def test_python_script(tmp_path: Path) -> None:
    """The output of a Python test is compared, with the commands and replies of `admin`."""
    path = make_suite(tmp_path, "")
    (path / "t.test.lua").unlink()
    (path / "t.test.py").write_text(
        "import sys\n"
        "admin('box.info.status')\n"
        "sys.stdout.push_filter('name: .*', 'name: <name>')\n"
        "print(f'name: {server.name}')\n"
        "server.restart()\n"
        "admin('1 + 1')\n"
        "print(iproto.uri.endswith('.i'), iproto.py_con.ping() > 0)\n"
        "print(server.get_param('status'), server.get_lsn(9), admin.execute('1').split())\n"
    )
    report = run(path)
    assert report.outcome is RunOutcome.NEW, report.text
    assert (path / "t.result").read_text() == (
        "box.info.status\n---\n- running\n...\nname: <name>\n1 + 1\n---\n- 2\n...\nTrue True\n"
        "running -1 ['---', '-', '1', '...']\n"
    )
    (path / "t.test.py").write_text("raise ValueError('broken script')\n")
    assert "ValueError: broken script" in run(path).text


@pytest.mark.parametrize("source", ["import tarantool\n", "iproto.py_con.ping()\n"])
def test_python_script_without_its_client(tmp_path: Path, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python test without its client fails with the name of the extra to install."""
    monkeypatch.setitem(sys.modules, "tarantool", None)
    path = make_suite(tmp_path, "")
    (path / "t.test.lua").unlink()
    (path / "t.test.py").write_text(source)
    report = run(path)
    assert "pip install '.[suite]' in a clone of Lunabox" in report.text
    assert "Traceback" not in report.text


def test_tap_after_other_output() -> None:
    """Lines before the version of TAP, and those of tests inside tests, do not count."""
    assert check_output("starting\nok\nTAP version 13\n1..2\nok\n    not ok - in\nok - b\n", None) is None
    assert check_output("ok - a\n1..1\n", None) == "no TAP output"


def test_app_with_a_result() -> None:
    """An app test with a result file must have equal output."""
    assert check_output("hello\n", "hello\n") is None
    assert check_output("hello\n", "bye\n") is not None


def test_debug_build() -> None:
    """Our executable counts as a debug build, with error injections."""
    assert asyncio.run(is_debug((sys.executable, "-m", "console")))


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command prints a line for each test and a summary, and its exit code shows failures."""
    path = make_suite(tmp_path, "1\n", t__result="1\n---\n- 1\n...\n")
    assert main([str(path)]) == 0
    assert "s/t.test.lua  passed" in (output := capsys.readouterr().out)
    assert output.splitlines()[-1].startswith("1 passed in ")
    (path / "t.result").write_text("2\n")
    assert main([str(path), "-j", "2"]) == 1
    assert main([str(path), "-k", "nothing"]) == 2
    assert main([str(tmp_path / "nothing")]) == 2


def test_instances_share_a_directory(tmp_path: Path) -> None:
    """Working directory, log and data of instances are where Tarantool's suites look for them."""
    test = NEW + (
        "fio = require('fio')\n"
        "test_run:cmd('create server other with script=\"s/two.lua\"')\n"
        "test_run:cmd('start server other with args=\"x y\"')\n"
        "fio.cwd() == test_run:eval('other', 'return fio.cwd()')[1]\n"
        "#fio.glob('box/*.snap') == 1 and #fio.glob('two/*.snap') == 1\n"
        "fio.path.exists('box.log') and fio.path.exists('two.log')\n"
        "test_run:eval('other', 'return {arg[0], arg[1], arg[2], #arg}')[1]\n"
    )
    two = "fio = require('fio')\n" + BOX
    path = make_suite(tmp_path, test, two__lua=two)
    run(path)
    assert _replies(path)[-4:] == [["true"], ["true"], ["true"], ["['two.lua', 'x', 'y', 2]"]]


def test_second_instance_of_a_script_is_named_after_its_server(tmp_path: Path) -> None:
    """Two instances of one script have files of their own, named after their servers."""
    test = NEW + (
        "test_run:cmd('create server other with script=\"s/box.lua\"')\n"
        "test_run:cmd('start server other')\n"
        "#require('fio').glob('other/*.snap')\n"
    )
    path = make_suite(tmp_path, test)
    run(path)
    assert _replies(path)[-1] == ["1"]


def test_instance_starts_with_given_files(tmp_path: Path) -> None:
    """`workdir` names a directory, relative to the suites' parent, whose files the instance starts with."""
    test = NEW + (
        'test_run:cmd(\'create server other with script="s/two.lua", workdir="s/files"\')\n'
        "test_run:cmd('deploy server other')\n"
        "require('fio').glob('two/*')\n"
    )
    path = make_suite(tmp_path, test, two__lua=BOX)
    (path / "files").mkdir()
    (path / "files" / "note").touch()
    run(path)
    assert _replies(path)[-1] == ["- two/note"]


def test_restarted_node_has_test_run(tmp_path: Path) -> None:
    """A node that restarts itself continues the script and has `test_run`."""
    path = make_suite(tmp_path, NEW + "test_run:cmd('restart server default')\ntest_run ~= nil\n")
    run(path)
    assert _replies(path)[-1] == ["true"]


def test_script_goes_on_at_the_restarted_node(tmp_path: Path) -> None:
    """The script continues at the restarted node, whichever node asked for the restart."""
    test = NEW + (
        "test_run:cmd('create server other with script=\"s/two.lua\"')\n"
        "test_run:cmd('start server other')\n"
        "test_run:cmd('restart server other')\n"
        "test_run:get_server_name()\n"
    )
    path = make_suite(tmp_path, test, two__lua=BOX)
    run(path)
    assert _replies(path)[-1] == ["other"]


def test_expected_crash_at_the_start(tmp_path: Path) -> None:
    """A start that is expected to fail returns false."""
    test = NEW + (
        "test_run:cmd('create server other with script=\"s/two.lua\"')\n"
        "test_run:cmd('start server other with crash_expected=True')\n"
    )
    path = make_suite(tmp_path, test, two__lua="os.exit(1)\n")
    run(path)
    assert _replies(path)[-1] == ["false"]


def _replies(suite: Path) -> list[list[str]]:
    """Return the reply to each command in the new result file, as lines of its values."""
    text = (suite / "t.result").read_text()
    replies = [part.split(" | ...")[0] for part in text.split(" | ---\n")[1:]]
    return [[line.removeprefix(" | ").removeprefix("- ").strip() for line in reply.splitlines()] for reply in replies]


def test_node_that_is_starting_is_waited_for(tmp_path: Path) -> None:
    """eval and switch wait for a node that was started without waiting."""
    test = NEW + (
        "test_run:cmd('create server other with script=\"s/two.lua\"')\n"
        "test_run:cmd('start server other with wait=False, wait_load=False')\n"
        "test_run:eval('other', 'return 1 + 1')[1]\n"
        "test_run:cmd('switch other')\n"
        "test_run ~= nil\n"
    )
    path = make_suite(tmp_path, test, two__lua=BOX)
    run(path)
    assert _replies(path)[-3:] == [["2"], ["true"], ["true"]]


def test_server_id_is_waited_for(tmp_path: Path) -> None:
    """get_server_id waits for a node that is not configured yet."""
    two = "require('console').listen(os.getenv('ADMIN'))\nrequire('fiber').sleep(0.2)\nbox.cfg{}\n"
    test = NEW + (
        "test_run:cmd('create server other with script=\"s/two.lua\"')\n"
        "test_run:cmd('start server other with wait=False')\n"
        "test_run:get_server_id('other')\n"
    )
    path = make_suite(tmp_path, test, two__lua=two)
    run(path)
    assert _replies(path)[-1] == ["1"]


def test_switch_to_itself(tmp_path: Path) -> None:
    """A node may switch to itself."""
    path = make_suite(tmp_path, NEW + "test_run:cmd('switch default')\ntest_run ~= nil\n")
    run(path)
    assert _replies(path)[-2:] == [["true"], ["true"]]


def test_script_of_sql(tmp_path: Path) -> None:
    """Connections of an SQL script begin with SQL and may change to Lua and back; a new one begins with SQL."""
    script = (
        "CREATE TABLE t (a INT PRIMARY KEY);\n"
        "\\set language lua\n"
        f"{NEW}"
        "box.space.T.name\n"
        "test_run:cmd('restart server default')\n"
        "\\set language sql\n"
        "SELECT 1;\n"
    )
    path = make_suite(tmp_path, "")
    (path / "t.test.lua").unlink()
    (path / "t.test.sql").write_text(script)
    (case,) = discover(path)
    assert case.name == "s/t.test.sql"
    assert run(path).outcome is RunOutcome.NEW
    result = (path / "t.result").read_text()
    assert "CREATE TABLE t (a INT PRIMARY KEY);\n | ---\n | - row_count: 1\n | ...\n" in result
    assert "box.space.T.name\n | ---\n | - T\n | ...\n" in result
    assert result.endswith(
        " | ---\n | - metadata:\n |   - name: COLUMN_1\n |     type: integer\n |   rows:\n |   - [1]\n | ...\n"
    )


HASHED = """s = box.schema.space.create('s')
_ = s:create_index('pk', {type = 'hash', parts = {{1, 'string'}}})
for c in ('abcdefgh'):gmatch('.') do s:insert{c} end
s:select()
"""
HASHED_RESULT = """s = box.schema.space.create('s')
---
...
_ = s:create_index('pk', {type = 'hash', parts = {{1, 'string'}}})
---
...
for c in ('abcdefgh'):gmatch('.') do s:insert{c} end
---
...
s:select()
---
- - ['d']
  - ['a']
  - ['c']
  - ['h']
  - ['f']
  - ['b']
  - ['g']
  - ['e']
...
"""
"""Recorded with Tarantool 2.8.1."""


@pytest.mark.parametrize(("order", "outcome"), [(None, RunOutcome.PASSED), ("keys", RunOutcome.FAILED)])
def test_hash_indexes_have_the_order_of_result_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: str | None, outcome: RunOutcome
) -> None:
    """Nodes keep Tarantool's order, unless the user has chosen another one."""
    monkeypatch.delenv("LUNABOX_HASH_ORDER", raising=False)
    if order is not None:
        monkeypatch.setenv("LUNABOX_HASH_ORDER", order)
    path = make_suite(tmp_path, HASHED, t__result=HASHED_RESULT)
    assert run(path).outcome is outcome
