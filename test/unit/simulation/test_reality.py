"""The campaign "reality": workloads, faults and checks of the simulation with real processes, and their control
channel.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from box.errors import BoxError, ErrorCode
from box.journal.directory import LogDirectory, LogKind
from box.journal.storage import FileStorage
from box.testing.simulation.faults import Fault
from box.testing.simulation.log_contents import LogContents
from box.testing.simulation.run import Scenario
from box.testing.simulation.simulated_node import Changes, NodeDied
from box.testing.simulation.workload import SYNC, Refused, insert_rows
from test.soak.reality.node import RealNode
from test.soak.reality.play import play_really
from test.support import until, wait_until

ROOT = Path(__file__).parents[3]
SPACE, INDEX = 280, 288
PATIENCE = 30.0
FAULTS = (
    Fault(0.3, "kill", "node1", "node1", 0.1, 0.0),
    Fault(0.9, "isolate", "node2", "node2", 0.4, 0.0),
    Fault(1.0, "kill", "node3", "node3", 0.1, 0.0),
)


@pytest.mark.parametrize("workload", ["bank", "transactions"])
def test_all_checks_pass_with_real_processes(workload: str) -> None:
    scenario = Scenario(7, workload=workload, seconds=2, faults=FAULTS, options={"wal_mode": "write"})
    outcome = asyncio.run(play_really(scenario))
    assert not outcome.violations
    assert outcome.calls["ok"] > 5
    assert not Path(outcome.directory).exists()


def test_a_leader_is_elected_among_real_processes() -> None:
    faults = (Fault(0.3, "halt", "node2", "node2", 0.3, 0.0), Fault(0.5, "restart", "node3", "node3", 0.1, 0.0))
    outcome = asyncio.run(play_really(Scenario(7, workload="set", seconds=2, faults=faults, elections="candidate")))
    assert not outcome.violations
    assert outcome.calls["ok"] > 5


def test_a_run_that_hangs_ends_and_says_who_has_not_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run whose node is never resumed ends after its time, and names the node that has not answered."""
    monkeypatch.setattr(RealNode, "go_on", lambda node: None)
    faults = (Fault(0.2, "halt", "node2", "node2", 0.1, 0.0),)
    scenario = Scenario(7, workload="async", seconds=1, faults=faults, options={"wal_mode": "write"})
    outcome = asyncio.run(play_really(scenario, overtime=2.0))
    last = [text for text in outcome.violations if "the time for this run is over" in text]
    assert len(last) == 1
    assert "node2: transaction" in last[0]
    shutil.rmtree(outcome.directory)


# -- the control channel


def create(changes: Changes) -> None:
    changes.insert(SPACE, [SYNC, 1, "test", "memtx", 0, {}, []])
    changes.insert(INDEX, [SYNC, 0, "pk", "tree", {"unique": True}, [[0, "unsigned"]]])


def refuse(changes: Changes) -> None:
    changes.insert(SYNC, [100])
    raise Refused


def divide(changes: Changes) -> None:
    1 / 0  # noqa: B018


async def wait_for_long(changes: Changes) -> None:
    changes.insert(SYNC, [200])
    await asyncio.sleep(PATIENCE)


def with_a_node(story: Callable[[RealNode], Awaitable[None]], directory: Path, **options: object) -> None:
    async def run() -> None:
        node = RealNode(directory, "n", **options)
        try:
            await node.start()
            await node.transaction(create)
            await story(node)
        finally:
            await node.kill()

    asyncio.run(run())


def pid_of(node: RealNode) -> int:
    assert node.process is not None
    return node.process.pid


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_results_and_errors_come_back(tmp_path: Path) -> None:
    async def story(node: RealNode) -> None:
        await node.transaction(partial(insert_rows, SYNC, [[1], [2]]))
        with pytest.raises(BoxError) as caught:
            await node.transaction(partial(insert_rows, SYNC, [[3], [1]]))
        assert caught.value.code == ErrorCode.TUPLE_FOUND
        with pytest.raises(Refused):
            await node.transaction(refuse)
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            await node.transaction(divide)
        await node.look()
        assert node.rows(SYNC) == [[1], [2]]
        assert node.has(SYNC, 2)
        assert not node.has(SYNC, 3)
        assert not node.violations

    with_a_node(story, tmp_path)


def test_nobody_knows_of_a_call_whose_process_dies(tmp_path: Path) -> None:
    """A call whose process dies has no outcome: what it had not committed is gone, acknowledged rows are there."""

    async def story(node: RealNode) -> None:
        await node.transaction(partial(insert_rows, SYNC, [[1]]))
        call = asyncio.ensure_future(node.transaction(wait_for_long))
        await node.look()  # requests begin in the order in which they were made
        await node.kill()
        with pytest.raises(NodeDied):
            await call
        with pytest.raises(NodeDied):
            await node.transaction(create)
        assert not node.is_running
        await node.start()
        await node.look()
        assert node.rows(SYNC) == [[1]]
        assert not node.violations

    with_a_node(story, tmp_path, memtx_use_mvcc_engine=True)


def test_a_start_waits_for_the_end_of_who_was_killed(tmp_path: Path) -> None:
    """A start waits until the killed process has ended, so that no two processes use one directory."""

    async def story(node: RealNode) -> None:
        for _ in range(3):
            end = asyncio.ensure_future(node.kill())
            await asyncio.sleep(0)
            await node.start()
            await end
        assert node.is_running
        assert not node.violations

    with_a_node(story, tmp_path)


def test_a_node_that_ends_by_itself_is_reported(tmp_path: Path) -> None:
    async def story(node: RealNode) -> None:
        call = asyncio.ensure_future(node.transaction(wait_for_long))
        os.kill(pid_of(node), signal.SIGABRT)
        with pytest.raises(NodeDied):
            await call
        await until(lambda: node.violations, "somebody notices")
        assert list(node.violations) == [f"n has ended by itself: {-signal.SIGABRT}"]

    with_a_node(story, tmp_path, memtx_use_mvcc_engine=True)


def test_a_crash_comes_with_work(tmp_path: Path) -> None:
    async def work(node: RealNode) -> None:
        while True:
            await node.look()

    async def story(node: RealNode) -> None:
        await node.crash_after(0.01)
        with pytest.raises(NodeDied):
            await work(node)
        await node.start()
        assert node.is_running
        assert not node.violations

    with_a_node(story, tmp_path)


def test_a_halted_node_answers_when_it_goes_on(tmp_path: Path) -> None:
    async def story(node: RealNode) -> None:
        node.halt()
        call = asyncio.ensure_future(node.transaction(partial(insert_rows, SYNC, [[1]])))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await asyncio.shield(call)
        node.go_on()
        await call

    with_a_node(story, tmp_path)


def test_an_orderly_end_loses_nothing(tmp_path: Path) -> None:
    async def story(node: RealNode) -> None:
        await node.transaction(partial(insert_rows, SYNC, [[1]]))
        await node.stop()
        assert not node.is_up
        assert not node.unexpected_output()
        await node.start()
        await node.look()
        assert node.rows(SYNC) == [[1]]

    with_a_node(story, tmp_path, wal_mode="write")


def test_disks_fail_over_restarts(tmp_path: Path) -> None:
    async def story(node: RealNode) -> None:
        await node.fail_writes(1)
        for _ in range(2):
            with pytest.raises(BoxError) as caught:
                await node.transaction(partial(insert_rows, SYNC, [[1]]))
            assert caught.value.code == ErrorCode.WAL_IO
            await node.kill()
            await node.start()
        await node.fail_writes(-1)
        await node.transaction(partial(insert_rows, SYNC, [[1]]))

    with_a_node(story, tmp_path)


ORPHAN = """
import asyncio, os, signal, sys
from pathlib import Path
from test.soak.reality.node import RealNode

async def main():
    node = RealNode(Path(sys.argv[1]), "n")
    await node.start()
    node.halt()
    Path(sys.argv[1], "pid").write_text(str(node.process.pid))
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a process that stands still outlives its test")
def test_no_process_outlives_a_test_that_was_killed(tmp_path: Path) -> None:
    """Killing the test ends its processes, also those that are stopped."""
    test = subprocess.Popen([sys.executable, "-c", ORPHAN, str(tmp_path)], cwd=ROOT)
    assert test.wait(PATIENCE) == -signal.SIGKILL
    pid = int((tmp_path / "pid").read_text())
    wait_until(lambda: not is_there(pid), "the end of the node")


def test_logs_that_differ_are_told_of(tmp_path: Path) -> None:
    """The check of logs reports equal LSNs with different rows: two nodes exchange their files."""
    names = ("one", "other")

    async def write() -> None:
        for number, name in enumerate(names):
            (tmp_path / name).mkdir()
            node = RealNode(tmp_path / name, "n")
            try:
                await node.start()
                await node.transaction(create)
                await node.transaction(partial(insert_rows, SYNC, [[number]]))
                await node.stop()
            finally:
                await node.kill()

    def differences(*names: str) -> list[str]:
        contents = LogContents(has_elections=False)
        for name in names:
            contents.read(name, LogDirectory(FileStorage(str(tmp_path / name / "n")), ".", LogKind.XLOG))
        return list(contents.violations)

    asyncio.run(write())
    assert not differences("one", "one")
    assert any("differs between one and other" in text for text in differences(*names))
