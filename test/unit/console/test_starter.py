"""Lua programs that start instances with the executable of Lunabox, as an instance manager does."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from test.support import wait_until

COMMAND = [sys.executable, "-m", "console"]
DEADLINE = 30.0

# Sets defaults for an instance, keeps a console to look into it, and lets nobody change the pid file afterwards.
STARTER = """
local ffi = require('ffi')
local fio = require('fio')
local console = require('console')
ffi.cdef('int kill(int pid, int sig); int isatty(int fd); int getppid(void);')

local directory = fio.cwd()
local script = arg[1]
local name = fio.basename(script, '.lua')
assert(ffi.C.isatty(0) == 0 and ffi.C.getppid() > 1)
assert(ffi.string(ffi.C.getgrgid(ffi.C.getpwuid(ffi.C.getuid()).pw_gid).gr_name) ~= '')

local configure = box.cfg
assert(type(configure) == 'function')
box.cfg = function(options)
    require('fiber').name(name, {truncate = true})
    console.listen('unix/:' .. directory .. '/' .. name .. '.control')
    options = options or {}
    options.pid_file = fio.pathjoin(directory, name .. '.pid')
    options.log = fio.pathjoin(directory, name .. '.log')
    options.wal_dir = fio.pathjoin(directory, name)
    options.memtx_dir = options.wal_dir
    fio.mkdir(options.wal_dir, tonumber('0750', 8))
    configure(options)
    local metatable = getmetatable(box.cfg)
    local again = metatable.__call
    metatable.__call = function(old, new)
        new.pid_file = old.pid_file
        again(old, new)
    end
end

require('title').update{script_name = script, __defer_update = true}
os.setenv('MANAGED', 'true')
for i = 0, #arg do
    arg[i] = arg[i + 1]
end
dofile(script)
"""

INSTANCE = """
box.cfg{}
box.cfg{pid_file = 'changed', replication_timeout = 0.5}
print(arg[0], arg[1], arg[2], os.getenv('MANAGED'), box.cfg.pid_file, box.cfg.replication_timeout)
"""


def ask(path: Path, command: str) -> str:
    """Return the reply of a text console to a command."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        connection.sendall(command.encode() + b"\n")
        reply = b""
        while not reply.endswith(b"\n...\n"):
            reply += connection.recv(4096)
    return reply[128:].decode()


def wait_for_line(path: Path, text: str, process: subprocess.Popen[str]) -> None:
    def is_there() -> bool:
        assert process.poll() is None, process.communicate()
        return path.exists() and text in path.read_text()

    wait_until(is_there)


def test_an_instance_under_a_starter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A starter script can replace box.cfg, and set its __call after the configuration.

    arg is shifted. Messages before the configuration go to standard error, later ones to the log.
    """
    monkeypatch.delenv("MANAGED", raising=False)
    (tmp_path / "starter.lua").write_text("require('log').info('Starting instance %s...', arg[1])\n" + STARTER)
    (tmp_path / "one.lua").write_text(INSTANCE)
    process = subprocess.Popen(
        [*COMMAND, "starter.lua", "one.lua", "a", "b"],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for_line(tmp_path / "one.log", "entering the event loop", process)
    assert (tmp_path / "one.pid").read_text() == str(process.pid)
    assert ask(tmp_path / "one.control", "box.info.status, box.info.pid") == f"---\n- running\n- {process.pid}\n...\n"
    os.kill(process.pid, signal.SIGTERM)
    output, errors = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0
    assert output.split() == ["one.lua", "a", "b", "true", str(tmp_path / "one.pid"), "0.5"]
    assert errors.startswith("Starting instance one.lua...\n")
    assert "main/" not in errors
    assert not (tmp_path / "one.pid").exists()


def test_modules_beside_the_script_are_found_first_of_all(tmp_path: Path) -> None:
    """Modules beside the script are found before built-in ones: suites bring their own test_run."""
    (tmp_path / "test_run.lua").write_text("return 'mine'\n")
    (tmp_path / "script.lua").write_text("print(require('test_run'))\n")
    run = subprocess.run([*COMMAND, "script.lua"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.stdout == "mine\n", run.stderr


def test_built_in_modules_survive_an_emptied_package_loaded(tmp_path: Path) -> None:
    """Built-in modules load again after a suite has emptied package.loaded."""
    source = """
        local json, log = require('json'), require('log')
        local keep = {_G = true, package = true, string = true, table = true, ffi = true, box = true, json = true}
        for name in pairs(package.loaded) do
            if not keep[name] then
                package.loaded[name] = nil
            end
        end
        print(require('digest').crc32('a'), require('json') == json, require('log') == log)
        box.cfg{log = 'n.log'}
        box.schema.space.create('t'):create_index('pk')
        print(box.space.t:insert{1, require('pickle').pack('A', 'x')}, require('uuid').str():len())
        require('fiber').yield()
        os.exit(0)
    """
    (tmp_path / "script.lua").write_text(source)
    run = subprocess.run([*COMMAND, "script.lua"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.stdout == "1043315919\ttrue\ttrue\n[1, 'x']\t36\n", run.stderr
