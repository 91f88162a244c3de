"""A signal ends an instance, whatever its programs do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from test.support import wait_until

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}

# Loops that wait as long as all is well, and try again whatever comes: what fails at once never waits.
LOOPS = {
    "datagrams": """
        local socket = require('socket')('AF_INET', 'SOCK_DGRAM', 'udp')
        socket:bind('127.0.0.1', 0)
        step = function()
            if socket:readable(0.2) then
                socket:recvfrom(100)
            end
        end""",
    "writes": """
        box.schema.space.create('s'):create_index('pk')
        step = function()
            box.space.s:replace{1}
        end""",
    "net.box": """
        local connection = require('net.box').connect('unix/:./listen.sock', {reconnect_after = 0.1})
        step = function()
            connection:ping({timeout = 0.2})
        end""",
    "children": """
        local child = require('popen').shell('while sleep 0.1; do echo; done', 'r')
        step = function()
            child:read({timeout = 0.2})
        end""",
    "box.cfg": """
        local step_number = 0
        step = function()
            step_number = step_number + 1
            box.cfg{replication = {"127.0.0.1:" .. (step_number % 2 + 1)}, replication_connect_quorum = 0}
        end""",
    "waits": """
        local fiber = require('fiber')
        step = function()
            fiber.sleep(0.05)
        end""",
}


def end(directory: Path, script: str, options: str = "") -> str:
    """Run an instance with a script and more options of `box.cfg`, end it by SIGTERM and return its log."""
    (directory / "init.lua").write_text(
        f"""
        box.cfg{{listen = 'unix/:./listen.sock', log = 'node.log', {options}}}
        {script}
        require('log').info('it is ready')
        """
    )
    process = subprocess.Popen([sys.executable, "-m", "console", "init.lua"], cwd=directory, env=ENVIRONMENT)
    log = directory / "node.log"
    try:
        wait_until(lambda: log.exists() and "it is ready" in log.read_text(), "the instance", 60)
        process.terminate()
        assert process.wait(timeout=30) == 0
    finally:
        process.kill()
        process.wait()
    return log.read_text()


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_that_tries_again_and_again_does_not_keep_it(tmp_path: Path, name: str) -> None:
    end(
        tmp_path,
        f"""
        local step
        {LOOPS[name]}
        require('fiber').create(function()
            while true do
                pcall(step)
            end
        end)
        require('fiber').sleep(0.1)
        """,
    )


def test_triggers_at_the_end_have_sockets_connections_and_children(tmp_path: Path) -> None:
    """Triggers at the end of the process still have sockets, connections and children, to tell other members of a
    group.
    """
    log = end(
        tmp_path,
        """
        local log, fiber = require('log'), require('fiber')
        local socket = require('socket')
        local receiver = socket('AF_INET', 'SOCK_DGRAM', 'udp')
        receiver:bind('127.0.0.1', 0)
        local sender = socket('AF_INET', 'SOCK_DGRAM', 'udp')
        local connection = require('net.box').connect('unix/:./listen.sock')
        local child = require('popen').shell('cat', 'rw')
        box.ctl.on_shutdown(function()
            sender:sendto('127.0.0.1', receiver:name().port, 'leaving')
            receiver:readable(5)
            log.info('received: %s', receiver:recvfrom(100))
            log.info('ping: %s', connection:ping())
            child:write('said')
            log.info('read: %s', child:read())
            fiber.sleep(0.01)
            log.info('all is told')
        end)
        """,
    )
    told = [line.partition("I> ")[2] for line in log.splitlines()]
    begin = told.index("received: leaving")
    assert told[begin : begin + 4] == ["received: leaving", "ping: true", "read: said", "all is told"]


def test_triggers_run_beside_each_other_in_fibers_of_their_own(tmp_path: Path) -> None:
    """The newest trigger begins first; one that waits holds up no other, and the log has the errors of each."""
    log = end(
        tmp_path,
        """
        local log, fiber = require('log'), require('fiber')
        box.ctl.on_shutdown(function(...)
            log.info('first %s %s %s', select('#', ...), fiber.self():name(), box.session.user())
            fiber.sleep(0.05)
            log.info('first ends')
        end)
        box.ctl.on_shutdown(function() error('of the second') end)
        box.ctl.on_shutdown(function() log.info('third') box.error(box.error.UNSUPPORTED, 'a', 'b') end)
        box.ctl.on_shutdown(function() fiber.self():cancel() fiber.testcancel() end)
        """,
        "pid_file = 'node.pid'",
    )
    lines = [line.split("] ", 1)[1] for line in log.splitlines()]
    told = [line.partition("/")[2].partition("/")[2] for line in lines]
    begin = told.index("trigger_fiber1 I> third")
    assert told[begin : begin + 7] == [
        "trigger_fiber1 I> third",
        "trigger_fiber3 I> first 0 trigger_fiber3 admin",
        "on_shutdown I> fiber `on_shutdown' has been cancelled",
        "on_shutdown I> fiber `on_shutdown': exiting",
        "on_shutdown init.lua:11 E> ER_UNSUPPORTED: a does not support b",
        "on_shutdown utils.c:1014 E> LuajitError: init.lua:10: of the second",
        "trigger_fiber3 I> first ends",
    ]
    assert [line for line in lines if line.endswith("C> got signal 15 - Terminated")]


def test_triggers_have_a_time_limit_together(tmp_path: Path) -> None:
    """Triggers that have not ended within the limit are left behind, and the log says so."""
    log = end(
        tmp_path,
        """
        local log, fiber = require('log'), require('fiber')
        box.ctl.set_on_shutdown_timeout(0.2)
        box.ctl.on_shutdown(function() fiber.sleep(100) end)
        box.ctl.on_shutdown(function() pcall(fiber.sleep, 100) end)
        box.ctl.on_shutdown(function() fiber.sleep(0.01) log.info('in time') end)
        """,
    )
    assert log.index("I> in time") < log.index(
        "E> on_shutdown triggers are timed out: not all triggers might have finished yet"
    )
