"""What nodes of a suite find around them: modules, the command `tarantool`, variables, defaults of box.cfg."""

from __future__ import annotations

import json
from pathlib import Path

from console.suite.runner import RunOutcome

from .test_runner import BOX, NEW, make_suite, run


def replies(path: Path) -> list[str]:
    """Return the lines of the values in the only result of a suite."""
    lines = (path / "t.result").read_text().splitlines()
    return [line.removeprefix(" | ") for line in lines if line.startswith((" | -", " |   -")) and line != " | ---"]


def test_surroundings(tmp_path: Path) -> None:
    """Modules are in the node's directory, `tarantool` is a command, hosts are `localhost`, the log has a name."""
    test = (
        "dofile('own.lua')\nrequire('many').n\n"
        "require('fio').listdir('box')[1] ~= nil\n"
        "io.popen('tarantool --version'):read('*l'):match('^Tarantool 2.8.1')\n"
        "box.cfg.log:match('[^/]*$')\nbox.cfg.replication_sync_timeout\n"
        "os.getenv('LISTEN'):match('^%a+:'), os.getenv('ADMIN'):match('^%a+:')\n"
    )
    ini = "use_unix_sockets = False\nlua_libs = own.lua many missing.lua\n"
    path = make_suite(tmp_path, test, ini=ini, own__lua="return 5")
    text = (path / "suite.ini").read_text().replace("use_unix_sockets_iproto = 1", "use_unix_sockets_iproto = False")
    (path / "suite.ini").write_text(text)
    (path / "many").mkdir()
    (path / "many" / "init.lua").write_text("return {n = 6}")
    report = run(path)
    assert report.outcome is RunOutcome.NEW, report.text
    assert replies(path) == [
        "- 5", "- 6", "- true", "- Tarantool 2.8.1",
        "- box.log", "- 100", "- 'localhost:'", "- 'localhost:'",
    ]  # fmt: skip


def test_values_of_test_run(tmp_path: Path) -> None:
    """The methods that ask for parameters and positions, and those that wait, return what Tarantool's runner does."""
    test = NEW + (
        "test_run:get_cfg('engine')\ntest_run:cmd('config engine')\ntest_run:get_cfg('nothing')\n"
        "test_run:get_param('default', 'status')\ntest_run:get_lsn('default', 9)\n"
        "test_run:wait_cond(function() return false, 5 end, 0.01)\n"
        "test_run:wait_cond(function() error('never') end, 0.01)\n"
        "test_run:wait_log('default', 'never there', nil, 0.01)\n"
        "test_run:wait_upstream(1, {timeout = 0.01})\n"
        "require('test_run').new('localhost', test_run.port):cmd('pop')\n"
    )
    path = make_suite(tmp_path, test, ini="config = suite.cfg\n")
    (path / "suite.cfg").write_text(json.dumps({"*": {"x": {"engine": "memtx"}}}))
    report = run(path)
    assert report.outcome is RunOutcome.NEW, report.text
    values = replies(path)
    assert values[:7] == ["- memtx", "- {'engine': 'memtx'}", "- null", "- ['running']", "- null", "- false", "- 5"]
    assert ":1: never" in (path / "t.result").read_text().replace("\n |     ", " ").replace("''", "'")
    assert values[8] == "- false"
    assert values[-1] == "- error: 'Wrong command: ''pop'''"


def test_files_of_a_server(tmp_path: Path) -> None:
    """`workdir` is copied once, `lua_libs` of a server are found, and only data are cleaned, also while it runs."""
    test = NEW + (
        "fio = require('fio')\n"
        'test_run:cmd(\'create server other with script="s/other.lua", workdir="s/data", lua_libs="s/more.lua"\')\n'
        "require('more')\n"
        "fio.listdir('other')\n"
        "test_run:cmd('start server other')\n"
        "test_run:cmd('start server other')\n"
        "test_run:cmd('cleanup server other')\n"
        "fio.listdir('other')\n"
        "test_run:cmd('delete server other')\n"
        "test_run:cmd('switch other')\n"
    )
    path = make_suite(tmp_path, test, other__lua=BOX, more__lua="return 8")
    (path / "data").mkdir()
    (path / "data" / "note").touch()
    report = run(path)
    assert report.outcome is RunOutcome.NEW, report.text
    assert replies(path) == [
        "- true", "- 8", "- - note", "- true", "- true", "- true", "- - note", "- true",
        "- error: Attempt to evaluate a command on the nonexistent server 'other'",
    ]  # fmt: skip


def test_new_output_of_an_app(tmp_path: Path) -> None:
    """An app test that is not TAP gets a result file when the user asks for it."""
    import asyncio

    from console.suite.runner import Settings, discover, run_case

    path = make_suite(tmp_path, "print('hello')\nos.exit(0)\n")
    (path / "suite.ini").write_text("[default]\ncore = app\n")
    (case,) = discover(path)
    assert run(path).outcome is RunOutcome.FAILED
    assert asyncio.run(run_case(case, Settings(update=True))).outcome is RunOutcome.NEW
    assert (path / "t.result").read_text() == "hello\n"
