"""In a child of `os.fork()` the node is unusable, and the child's end does not disturb the parent's node."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import asyncio, os, sys, threading, time
from pathlib import Path
from box import Node

directory, way = Path(sys.argv[1]), sys.argv[2]

async def child(node, space):
    uses = [
        lambda: space.get(1), lambda: space.replace([9]), lambda: node.eval("return 1"),
        lambda: node.call("tostring", 1), lambda: node.configure(read_only=True), lambda: node.schema.create_space("t"),
    ]
    for use in uses:
        try:
            await use()
        except RuntimeError as error:
            assert "belongs to the process that has started it" in str(error), error
        else:
            raise AssertionError("no error")
    if way == "exit":
        sys.exit(7)
    if way == "stop":
        await node.stop()
        sys.exit(7)
    if way == "outlive":
        while not (directory / "over").exists():
            time.sleep(0.01)
    os._exit(7)

def options():
    return {"listen": f"unix/:{directory}/sock", "pid_file": "node.pid", "log": "node.log"}

async def main():
    node = Node(directory, **options())
    async with node:
        space = await node.schema.create_space("s")
        await space.create_index("pk")
        written = asyncio.ensure_future(space.replace([1]))
        await asyncio.sleep(0)
        pid = os.fork()
        if pid == 0:
            await child(node, space)
        if way != "outlive":
            status = (await asyncio.to_thread(os.waitpid, pid, 0))[1]
            assert os.waitstatus_to_exitcode(status) == 7, status
            assert {"node.pid", "sock", "node.log"} <= set(os.listdir(directory))
        await written
        await space.replace([2])
        assert [tuple(row) for row in await space.select()] == [(1,), (2,)]
        lsn = node.info["lsn"]
    assert not (directory / "node.pid").exists() and not (directory / "sock").exists()
    async with node:  # the locks are free
        assert [tuple(row) for row in await node.space["s"].select()] == [(1,), (2,)]
        assert node.info["lsn"] == lsn
    if way == "outlive":
        (directory / "over").touch()
        os.waitpid(pid, 0)
    lines = (directory / "node.log").read_text().splitlines()
    assert all(f" [{os.getpid()}] " in line for line in lines), lines

asyncio.run(main())
"""


@pytest.mark.parametrize("way", ["exit", "stop", "leave", "outlive"])
def test_a_fork_and_its_end(way: str, tmp_path: Path) -> None:
    """Calls in the child raise; no file is removed, no row or log line is written twice, and the parent goes on."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path), way], capture_output=True, text=True, timeout=20, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
