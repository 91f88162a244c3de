"""Checks that a node works when its message log cannot be written, and ends when its journal cannot be repaired."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "console"]

# Provokes failed writes, which are logged at length, and writes again; then the node waits for a signal.
WRITES = """
    local target = ...
    box.cfg{log = target ~= '' and target or nil, log_nonblock = os.getenv('NONBLOCK') and false or nil, log_level = 7}
    box.schema.space.create('s'):create_index('pk')
    local log = require('log')
    for key = 1, 3 do
        box.error.injection.set('ERRINJ_WAL_WRITE', true)
        local ok, problem = pcall(box.space.s.insert, box.space.s, {key, 'refused'})
        box.error.injection.set('ERRINJ_WAL_WRITE', false)
        print(ok, problem)
        box.space.s:insert{key, 'taken'}
        for _ = 1, 300 do log.info(('x'):rep(1000)) end
    end
    box.snapshot()
    print(box.space.s:count{}, #box.space.s:select{})
    io.stdout:flush()
"""


def start(directory: Path, target: str, shell: str = "", **environment: str) -> subprocess.Popen[str]:
    """Start a node that runs WRITES and logs to `target`; `shell` is a redirection of its stderr."""
    (directory / "writes.lua").write_text(WRITES)
    command = ["/bin/sh", "-c", f'exec "$@" {shell}', "sh", *COMMAND, "writes.lua", target]
    return subprocess.Popen(
        command,
        cwd=directory,
        stdout=subprocess.PIPE,
        text=True,
        env=dict(os.environ, PYTHONUNBUFFERED="1", **environment),
    )


def check_lives_and_ends(process: subprocess.Popen[str]) -> None:
    """Assert that the node prints the results of all writes, and that SIGTERM ends it in order."""
    assert process.stdout is not None
    try:
        lines = [process.stdout.readline().strip() for _ in range(4)]
        assert lines == ["false\tFailed to write to disk"] * 3 + ["3\t3"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize(
    ("target", "shell"), [("/dev/full", ""), ("", "2>&-"), ("", "2>/dev/full"), ("", "2>/dev/null"), ("|read line", "")]
)
def test_a_log_that_cannot_be_written_harms_nobody(tmp_path: Path, target: str, shell: str) -> None:
    """A log on a full or closed target keeps the node from nothing: writes are answered, and SIGTERM ends it."""
    check_lives_and_ends(start(tmp_path, target, shell))


@pytest.mark.parametrize("environment", [{}, {"NONBLOCK": "false"}])
def test_a_command_that_does_not_read_the_log_harms_nobody(tmp_path: Path, environment: dict[str, str]) -> None:
    check_lives_and_ends(start(tmp_path, "|exec sleep 60", **environment))


@pytest.mark.parametrize("environment", [{}, {"NONBLOCK": "false"}])
def test_a_syslog_that_does_not_read_harms_nobody(tmp_path: Path, environment: dict[str, str]) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as daemon:
        daemon.bind(str(tmp_path / "dev.log"))
        check_lives_and_ends(start(tmp_path, f"syslog:server=unix:{tmp_path}/dev.log", **environment))


def test_a_standard_error_that_nobody_reads_harms_nobody(tmp_path: Path) -> None:
    source, sink = os.pipe()
    try:
        check_lives_and_ends(start(tmp_path, "", f"2>/proc/{os.getpid()}/fd/{sink}"))
    finally:
        os.close(source)
        os.close(sink)


@pytest.mark.parametrize(
    ("target", "problem"),
    [("|missing", "logger process died"), ("syslog:server=unix:/nowhere", "syslog logger: No such")],
)
def test_a_log_that_is_not_there_ends_the_start(tmp_path: Path, target: str, problem: str) -> None:
    """A log target that does not exist fails the first box.cfg, and the process ends with 1."""
    process = subprocess.run(
        [*COMMAND, "-e", f"box.cfg{{log = '{target}'}}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert process.returncode == 1
    assert problem in process.stderr
    assert "failed to initialize logging subsystem" in process.stderr
    assert not list(tmp_path.glob("*.snap"))


# A console whose disk fails to sync a batch that contains "refused", and then to cut the file back.
BROKEN = """
import errno, sys
from box.journal import storage
from console.cli import main

class File(storage._DiskAppendFile):
    __slots__ = ()

    def sync(self):
        if self.path.endswith(".xlog") and b"refused" in open(self.path, "rb").read():
            raise OSError(errno.EIO, "the disk has failed")

    def truncate(self, size):
        raise OSError(errno.EIO, "the disk has failed again")

storage._DiskAppendFile = File
sys.exit(main(["node.lua"]))
"""

NODE = """
    box.cfg{log = 'node.log', wal_mode = 'fsync', listen = 'unix/:./node.sock'}
    box.schema.user.grant('guest', 'super')
    box.schema.space.create('s'):create_index('pk')
    box.space.s:insert{1, 'taken'}
    print('ready')
    io.stdout:flush()
"""

CLIENT = """
    local net_box = require('net.box')
    local c = net_box.connect('unix/:./node.sock')
    c.space.s:insert{2, 'taken'}
    print(pcall(c.space.s.insert, c.space.s, {3, 'refused'}))
"""


def test_a_write_that_cannot_be_cut_back_ends_the_node(tmp_path: Path) -> None:
    """A row that may be in the file gets no answer: the node ends, and the client's connection closes."""
    (tmp_path / "node.lua").write_text(NODE)
    node = subprocess.Popen([sys.executable, "-c", BROKEN], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert node.stdout is not None
    try:
        assert node.stdout.readline() == "ready\n"
        client = subprocess.run(
            [*COMMAND, "-e", CLIENT], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
        assert node.wait(20) == 1
    finally:
        node.kill()
        node.wait()
        node.stdout.close()
    # The row is in the file and the next start recovers it, so an answer "failed" would have been wrong.
    assert b"refused" in (tmp_path / "00000000000000000000.xlog").read_bytes()
    assert client.stdout.startswith("false")
    assert "Failed to write" not in client.stdout
    assert "truncate" not in client.stdout
    last = (tmp_path / "node.log").read_text().splitlines()[-1]
    assert last.endswith("F> failed to truncate xlog after write error: the disk has failed again")
