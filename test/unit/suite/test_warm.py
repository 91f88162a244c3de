"""Nodes forked from the warm process, which has all imports, behave as separate processes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from console.process_title import _fitting
from console.suite.process import spawn
from console.suite.warm import WarmProcess, WarmStarter
from console.suite.warm_process import _REHEARSED_AFTER, _ended
from test.support import wait_until

LOOK = """
local names = {}
for name, value in pairs(os.environ()) do table.insert(names, name .. '=' .. value) end
table.sort(names)
print(table.concat(names, ' '))
print(require('fio').cwd(), arg[0], arg[1], arg[-1], io.read('*a') == '', #arg)
io.stdout:write('by C\\n')
local count = 0
for _ in pairs(require('fio').listdir('/proc/self/fd')) do count = count + 1 end
io.stderr:write('on standard error\\n')
os.exit(5)
"""


@pytest.fixture(scope="module")
def warm() -> Iterator[WarmStarter]:
    starter = WarmStarter()
    yield starter
    starter.close()


def start(warm: WarmStarter, directory: Path, source: str, **env: str) -> WarmProcess:
    (directory / "s.lua").write_text(source)
    with (directory / "out").open("wb") as out, (directory / "err").open("wb") as err:
        process = warm.spawn(["s.lua", "one"], cwd=directory, env=env, stdout=out, stderr=err)
    assert process is not None
    return process


def test_a_forked_node_finds_what_a_process_of_its_own_finds(warm: WarmStarter, tmp_path: Path) -> None:
    async def both() -> None:
        (other := tmp_path / "other").mkdir()
        (mine := tmp_path / "mine").mkdir()
        env = {"A": "b", "LANG": "C.UTF-8"}
        process = start(warm, mine, LOOK, **env)
        assert await process.wait() == 5
        (other / "s.lua").write_text(LOOK)
        with (other / "out").open("wb") as out, (other / "err").open("wb") as err:
            command = (sys.executable, "-m", "console", "s.lua", "one")
            spawned = await spawn(command, cwd=other, env=env | {"PYTHONPATH": os.getcwd()}, stdout=out, stderr=err)
        assert await spawned.wait() == 5
        expected = (other / "out").read_text().replace(f" PYTHONPATH={os.getcwd()}", "").replace("/other", "/mine")
        assert (mine / "out").read_text() == expected
        assert (mine / "err").read_text() == (other / "err").read_text()

    asyncio.run(both())


# What must be a process's own. Each line is compared with that of the other process, or has to differ.
OWN = """
local ffi = require('ffi')
ffi.cdef('int getpid(void); int getsid(int);')
local function lines(path, pattern)
    local found = {}
    for line in io.lines(path) do
        if line:match(pattern) then table.insert(found, line) end
    end
    return table.concat(found, ' ')
end
local function count(path)
    return #require('fio').listdir(path)
end
local same = {
    lines('/proc/self/status', '^Sig[BIC]') .. lines('/proc/self/status', '^Umask'),
    count('/proc/self/task'),
    'session ' .. tostring(ffi.C.getsid(0) == ffi.C.getpid()),
    require('tarantool').pid() == ffi.C.getpid(),
    require('fiber').id(),
    os.date('%H:%M', 0),
    io.read('*a'),
    math.random(2^30), -- LuaJIT begins with the same seed in each state
}
local own = {
    require('uuid').str(), require('digest').urandom(8):hex(), require('fiber').time() > 1.7e9,
    require('tarantool').uptime() < 60,
}
for i, value in ipairs(same) do print('same', tostring(value)) end
for i, value in ipairs(own) do print('own', tostring(value)) end
box.cfg{log = 'log'}
print('own', box.info.uuid)
print('own', box.info.cluster.uuid)
print('same', count('/proc/self/task'), box.info.pid == ffi.C.getpid(), box.info.lsn)
os.exit(0)
"""


def test_a_fork_shares_nothing_that_is_a_processes_own(warm: WarmStarter, tmp_path: Path) -> None:
    """A fork has its own random numbers, threads, signal handlers, ids, session, time zone and standard input."""

    async def outputs() -> list[list[str]]:
        env = {"LANG": "C.UTF-8", "TZ": "Asia/Tokyo"}
        found = []
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            process = start(warm, tmp_path / name, OWN, **env)
            assert await process.wait() == 0, (tmp_path / name / "err").read_text()
            found.append((tmp_path / name / "out").read_text().splitlines())
        (fresh := tmp_path / "fresh").mkdir()
        (fresh / "s.lua").write_text(OWN)
        with (fresh / "out").open("wb") as out, (fresh / "err").open("wb") as err:
            command = (sys.executable, "-m", "console", "s.lua", "one")
            spawned = await spawn(command, cwd=fresh, env=env | {"PYTHONPATH": os.getcwd()}, stdout=out, stderr=err)
        assert await spawned.wait() == 0, (fresh / "err").read_text()
        return [*found, (fresh / "out").read_text().splitlines()]

    one, two, fresh = asyncio.run(outputs())
    assert len(one) > 10
    assert [line for line in one if line.startswith("same")] == [line for line in fresh if line.startswith("same")]
    for mine, other in zip(one, two, strict=True):
        if mine.startswith("own") and mine != "own\ttrue":
            assert mine != other
    assert "same\t09:00" in one


def test_locks_are_a_nodes_own(warm: WarmStarter, tmp_path: Path) -> None:
    """A forked node's lock of its directory excludes other nodes until it ends."""
    stays = "box.cfg{log = 'log'} print('up') io.flush()"
    first = start(warm, tmp_path, stays)
    wait_until(lambda: "up" in (tmp_path / "out").read_text())

    async def end(process: WarmProcess) -> int:
        return await process.wait()

    second = start(warm, tmp_path, "box.cfg{}")
    assert asyncio.run(end(second)) == 1
    assert "Failed to lock WAL directory" in (tmp_path / "err").read_text()
    first.kill()
    assert asyncio.run(end(first)) == -signal.SIGKILL
    third = start(warm, tmp_path, "print(pcall(box.cfg, {log = 'log2'})) os.exit(8)")
    assert asyncio.run(end(third)) == 8
    assert (tmp_path / "out").read_text().startswith("true")


def test_nodes_are_alike_before_and_after_the_rehearsal(tmp_path: Path) -> None:
    """Nodes are alike before and after the fifth, before which the warm process starts an instance itself."""
    starter = WarmStarter()
    look = "print(#require('fio').listdir('/proc/self/task'), #require('fio').listdir('/proc/self/fd')) os.exit(0)"

    async def outputs() -> set[str]:
        found = set()
        for _ in range(_REHEARSED_AFTER + 3):
            assert await start(starter, tmp_path, look).wait() == 0
            found.add((tmp_path / "out").read_text())
        return found

    try:
        assert len(asyncio.run(outputs())) == 1
    finally:
        starter.close()


ENDS = {
    "raise SystemExit(3)": (3, ""),
    "raise SystemExit('said')": (1, "said\n"),
    "raise SystemExit": (0, ""),
    "return 4": (4, ""),
    "raise ValueError('wrong')": (1, "ValueError: wrong\n"),
}


@pytest.mark.parametrize("program", ENDS)
def test_a_fork_ends_as_the_interpreter_would(program: str, capfd: pytest.CaptureFixture[str]) -> None:
    """A fork ends with the exit code and standard error of an interpreter."""
    code, text = ENDS[program]
    names: dict[str, Any] = {}
    exec(f"def run():\n    {program}", names)
    assert _ended(names["run"]) == code
    assert capfd.readouterr().err.endswith(text)


def test_a_forked_node_ends_by_signals(warm: WarmStarter, tmp_path: Path) -> None:
    """A forked node ends by SIGTERM in order and by SIGKILL at once, and leads its session."""
    stays = "require('fiber').create(function() require('fiber').sleep(100) end) print('up') io.flush()"

    async def end(number: int) -> int:
        process = start(warm, tmp_path, stays)
        wait_until(lambda: "up" in (tmp_path / "out").read_text())
        assert os.getsid(process.pid) == process.pid
        assert process.returncode is None
        process.send_signal(number)
        return await process.wait()

    assert asyncio.run(end(signal.SIGTERM)) == 0
    assert asyncio.run(end(signal.SIGKILL)) == -signal.SIGKILL


def test_forked_nodes_end_with_the_warm_process(tmp_path: Path) -> None:
    starter = WarmStarter()
    process = start(starter, tmp_path, "require('fiber').create(function() require('fiber').sleep(100) end)")
    starter.close()
    wait_until(lambda: process.returncode is not None)
    assert process.returncode == -signal.SIGKILL


def test_a_request_that_is_too_long_is_left_to_others(warm: WarmStarter, tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as out:
        assert warm.spawn(["x"], cwd=tmp_path, env={"A": "x" * (1 << 17)}, stdout=out, stderr=out) is None


SHOWN = """
local function read(name)
    local file = io.open('/proc/self/' .. name)
    local text = file:read('*a')
    file:close()
    return (text:gsub('[%z\\n]+$', ''):gsub('%z', ' '))
end
print(read('comm'), read('cmdline'), os.getenv('A'))
io.open('/proc/self/environ'):close()
os.exit(0)
"""


@pytest.mark.parametrize("length", [1, 3000])
def test_a_forked_node_has_a_command_line_of_its_own(warm: WarmStarter, tmp_path: Path, length: int) -> None:
    """`ps` shows the script of a forked node, as far as there is room, and its environment is the given one."""
    value = "x" * length

    async def run() -> tuple[str, str, str]:
        process = start(warm, tmp_path, SHOWN, A=value)
        assert await process.wait() == 0
        name, command, variable = (tmp_path / "out").read_text().rstrip("\n").split("\t")
        return name, command, variable

    assert asyncio.run(run()) == ("lunabox", "lunabox s.lua one", value)


def test_a_long_command_line_is_cut() -> None:
    """A command line that is too long loses directories first, and always ends in a zero."""
    words = ["lunabox", "/a/long/way/instance.lua", "/a/longer/way/to/master.lua", "argument"]
    whole = b"\0".join(word.encode() for word in words) + b"\0"
    assert _fitting(words, len(whole)) == whole
    assert _fitting(words, len(whole) + 5) == whole + bytes(5)
    assert _fitting(words, len(whole) - 1).rstrip(b"\0") == b"lunabox\0instance.lua\0master.lua\0argument"
    assert _fitting(words, 12) == b"lunabox\0ins\0"


# A node after the imports of the warm process. It prints what it imports besides.
_AFTER_IMPORTS = """
import sys
from console.suite.warm_process import import_node
import_node()
before = {*sys.modules}
from console.cli import main
assert main(['s.lua']) == 0
print(*sorted({*sys.modules} - before))
"""
_NODE_AT_WORK = """
box.cfg{listen = 'unix/:./i.sock', log = 'log'}
require('console').listen('unix/:./a.sock')
box.schema.user.grant('guest', 'super')
local s = box.schema.space.create('s', {format = {'id', {'moment', 'any', is_nullable = true}}})
s:create_index('pk')
s:insert{1, require('uuid').new()}
s:insert{2, require('decimal').new('1.5')}
s:insert{3, require('datetime').now()}
assert(#s:select() == 3)
local connection = require('net.box').connect('unix/:./i.sock')
connection.space.s:get{1}
connection:call('box.info')
connection:close()
require('fio').listdir('.')
require('log').info('%s', require('json').encode({1}))
box.snapshot()
os.exit(0)
"""


def test_a_forked_node_imports_nothing_more(tmp_path: Path) -> None:
    """The warm process has all that a node imports until it serves clients, so that nodes do not import it each."""
    (tmp_path / "s.lua").write_text(_NODE_AT_WORK)
    done = subprocess.run(
        [sys.executable, "-c", _AFTER_IMPORTS],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("\n", "", 0)
