"""`.test.py` scripts: what they find in scope, and the modules that they import from `lib`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from console.suite.runner import Report, RunOutcome

from .test_runner import BOX, make_suite, run

REPLICA = "box.cfg{listen = os.getenv('LISTEN'), replication = os.getenv('MASTER')}\n" + BOX.splitlines()[1] + "\n"


def run_script(directory: Path, source: str, **files: str) -> tuple[Report, str]:
    """Run a script as the only test of a suite. Returns its report and what it printed."""
    path = make_suite(directory, "", **files)
    (path / "t.test.lua").unlink()
    (path / "t.test.py").write_text(source)
    report = run(path)
    result = path / "t.result"
    return report, result.read_text() if result.exists() else ""


def test_a_second_server(tmp_path: Path) -> None:
    """A script makes further servers, which are replicas of the first, and stops, starts and cleans them."""
    source = """
import os
from lib.tarantool_server import TarantoolServer
admin("box.schema.user.grant('guest', 'replication')", silent=True)
replica = TarantoolServer(server.ini)
replica.script = 's/replica.lua'
replica.vardir = os.path.join(server.vardir, 'other')
replica.rpl_master = server
replica.deploy()
replica.admin('box.info.id')
admin("box.schema.space.create('a')", silent=True)
replica.wait_lsn(1, server.get_lsn(1))
replica.admin('box.space.a.name')
print(replica.name, replica.status, replica.process.poll(), replica.read_pidfile() == replica.process.pid)
replica.stop()
print(replica.status, os.path.exists(os.path.join(replica.vardir, 'replica', '00000000000000000000.xlog')))
replica.crash_expected = True
replica.start()
replica.process.send_signal(6)
print(replica.process.wait())
replica.stop()
replica.cleanup()
print(os.listdir(os.path.join(replica.vardir, 'replica')))
"""
    report, result = run_script(tmp_path, source, replica__lua=REPLICA)
    assert report.outcome is RunOutcome.NEW, report.text
    assert result == (
        "box.info.id\n---\n- 2\n...\nbox.space.a.name\n---\n- a\n...\nreplica started None True\nNone False\n-6\n[]\n"
    )


def test_connections_and_logs(tmp_path: Path) -> None:
    """Scripts open connections of their own, search logs, and run the executable."""
    source = """
import os
import sys
from lib.admin_connection import AdminConnection
from lib.box_connection import BoxConnection
from lib.utils import signum, signame, prefix_each_line, find_port
admin("require('fiber').create(function() box.schema.user.grant('guest', 'super') end)", silent=True)
log = server.get_log()
with AdminConnection('localhost', server.admin.port) as console:
    console("require('log').info('hello there')")
    console.execute('x = 5')
log.seek_wait('hello th.re')
print(log.seek_once('hello') > 0, log.seek_once('nobody'), server.logfile_pos.seek_once('event loop') > 0)
box = BoxConnection('localhost', server.iproto.port)
box.call('tostring', 7)
print(box.check_connection(), iproto.check_connection())
server.test_option('-e "print(5)"')
print(server.version().splitlines()[0].split('-')[0], server.script == os.path.abspath('s/box.lua'))
print(signum('KILL'), signame(15), prefix_each_line('|', 'a\\nb\\n').split(), find_port() > 0)
sys.stdout.push_filter('^x', 'y')
print('x', 'ax')
server.stop()
server.deploy()
admin('x')
"""
    report, result = run_script(tmp_path, source)
    assert report.outcome is RunOutcome.NEW, report.text
    assert result == (
        "require('log').info('hello there')\n---\n...\nTrue -1 True\n"
        "call  tostring (7,)\n- '7'\nTrue False\ntarantool -e print(5)\n5\n\nTarantool 2.8.1 True\n"
        "9 SIGTERM ['|a', '|b'] True\ny ax\ny\n---\n- null\n...\n"
    )


def test_failures(tmp_path: Path) -> None:
    """A server that does not start raises; a crash fails the test; `lib` is gone afterwards."""
    source = """
from lib.tarantool_server import TarantoolServer, TarantoolStartError
bad = TarantoolServer(server.ini)
bad.script = 's/bad.lua'
bad.crash_expected = True
try:
    bad.deploy()
except TarantoolStartError as error:
    print(error.name)
server.process.send_signal(6)
server.wait_stop()
"""
    before = sys.modules.get("lib")
    report, _ = run_script(tmp_path, source, bad__lua="pcall(box.cfg, {listen = {}})\n")
    assert report.outcome is RunOutcome.FAILED
    assert "server default crashed: killed by SIGABRT" in report.text
    assert report.output == "bad\n"
    assert sys.modules.get("lib") is before


def test_leaving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script may end itself; an exit code fails it. Relative paths begin at the suites' directory, but only in it."""
    monkeypatch.chdir(tmp_path)
    report, result = run_script(tmp_path, "import os, sys\nprint(os.listdir('.'))\nsys.exit(0)\n")
    assert (report.outcome, result) == (RunOutcome.NEW, "['s']\n")
    assert Path.cwd() == tmp_path
    (tmp_path / "s" / "t.test.py").write_text("import sys\nsys.exit(3)\n")
    assert "the script has left with exit code 3" in run(tmp_path / "s").text
