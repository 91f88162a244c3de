"""Nodes forked from the warm process are like nodes of processes of their own."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.suite.process import spawn
from console.suite.warm import WarmProcess, WarmStarter
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


def test_a_forked_node_ends_by_signals(warm: WarmStarter, tmp_path: Path) -> None:
    """SIGTERM as a node does, SIGKILL at once; it is the leader of its session."""
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
