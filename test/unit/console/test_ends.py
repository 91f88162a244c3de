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


def end(directory: Path, script: str) -> str:
    """Run an instance with a script, end it by SIGTERM and return its log."""
    (directory / "init.lua").write_text(
        f"""
        box.cfg{{listen = 'unix/:./listen.sock', log = 'node.log'}}
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
