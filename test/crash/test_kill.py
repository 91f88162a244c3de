"""Kills an instance (SIGKILL) in the middle of its work, and checks that every acknowledged row is there afterwards."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from box.data.codec import unpack
from box.instance.node import Instance
from box.journal.storage import FileStorage
from test.unit.replication.cluster import cluster, equal

from .instance import SPACE

ROOT = Path(__file__).parents[2]


class InstanceProcess:
    """A process that runs `test.crash.instance`; `lines` is its output over all starts."""

    def __init__(self, directory: Path, mode: str, **options: Any) -> None:
        self.directory = directory
        self.lines: list[str] = []
        self._arguments = [str(directory), mode, json.dumps(options)]

    async def run_until(self, condition: Callable[[list[str]], bool], seconds: float = 30) -> list[str]:
        """Start the process, kill it when `condition` is true of its output, and return all output.

        Raises:
            AssertionError: the process ends by itself.
            TimeoutError: the condition is not true within `seconds`.
        """
        self.directory.mkdir(exist_ok=True)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "test.crash.instance", *self._arguments, cwd=ROOT, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        try:
            async with asyncio.timeout(seconds):
                while not condition(self.lines):
                    line = await process.stdout.readline()
                    assert line, f"the instance ended by itself:\n{self.log}"
                    self.lines.append(line.decode().strip())
        finally:
            if process.returncode is None:
                process.kill()
            rest = await process.stdout.read()
            await process.wait()
        # The last line may be cut off: its transaction counts as not acknowledged.
        self.lines += rest.decode().split("\n")[:-1]
        return self.lines

    @property
    def log(self) -> str:
        path = self.directory / "node.log"
        return path.read_text() if path.exists() else ""


def acknowledged(lines: list[str]) -> list[list[int]]:
    """Return the keys of each acknowledged transaction."""
    return [list(map(int, line.split())) for line in lines if line[:1].isdigit()]


async def recovered(directory: Path) -> list[Any]:
    """Start an instance from the directory, return all rows, and assert that both indexes agree."""
    node = Instance(directory)
    node.log.open(str(directory / "recovery.log"))
    try:
        await node.configure({})
        ctx, space = node.new_context(), node.schema.space(SPACE)
        by_key, by_value = (
            [unpack(raw) for raw in node.dml.reads.select(ctx, space, index, 2, 0, 2**32 - 1, [])] for index in (0, 1)
        )
        assert sorted(by_value) == by_key
        return by_key
    finally:
        await node.close()


def check(rows: list[Any], transactions: list[list[int]]) -> None:
    """Assert that the rows contain all transactions, and have the right values."""
    keys = {row[0] for row in rows}
    assert transactions
    for transaction in transactions:
        assert keys.issuperset(transaction), transaction
    assert all(row[1] == f"value {row[0]}" * 10 for row in rows)


@pytest.mark.parametrize("transactions", [1, 300, 1000])
def test_killed_while_writing(tmp_path: Path, transactions: int) -> None:
    """Recovery finds every acknowledged transaction, and none in part."""

    async def main() -> None:
        lines = await InstanceProcess(tmp_path, "write").run_until(
            lambda lines: len(acknowledged(lines)) >= transactions
        )
        rows = await recovered(tmp_path)
        check(rows, acknowledged(lines))
        keys = {row[0] for row in rows}
        for number in range(max(keys) // 12 + 1):
            for fiber in range(4):
                whole = {(number * 3 + i) * 4 + fiber for i in range(1 + number % 3)}
                assert whole <= keys or not whole & keys

    asyncio.run(main())


def test_killed_again_and_again(tmp_path: Path) -> None:
    """Rows of several kills are all there: recovery reads on after a log file without an end marker."""

    async def main() -> None:
        known: list[list[int]] = []
        for _ in range(3):
            lines = await InstanceProcess(tmp_path, "write").run_until(lambda lines: len(acknowledged(lines)) >= 50)
            known += acknowledged(lines)
        check(await recovered(tmp_path), known)

    asyncio.run(main())


@pytest.mark.parametrize("snapshots", [1, 4])
def test_killed_while_a_snapshot_is_written(tmp_path: Path, snapshots: int) -> None:
    """Recovery ignores a half-written snapshot, and no log that it needs was removed."""

    async def main() -> None:
        instance = InstanceProcess(tmp_path, "snapshot", checkpoint_count=1, snap_io_rate_limit=1)
        lines = await instance.run_until(
            lambda lines: lines.count("snapshot") >= snapshots and len(acknowledged(lines)) > 100
        )
        assert not [line for line in lines if line.startswith("error")]
        check(await recovered(tmp_path), acknowledged(lines))

    asyncio.run(main())
    assert not list(tmp_path.glob("*.inprogress"))


def test_killed_while_joining() -> None:
    """A replica killed during its join leaves no snapshot, so that the next start joins anew."""

    async def main() -> None:
        async with cluster() as running:
            master = await running.master()
            for start in range(0, 20_000, 1000):
                await master.put(*([key, "x" * 100] for key in range(start, start + 1000)))
            proxy = await running.proxy(master, fragment=4096, delay=0.002)
            directory = running.directory / "replica"
            options = {"replication": [proxy.uri], "replication_timeout": 1}
            instance = InstanceProcess(directory, "follow", **options)
            killing = asyncio.ensure_future(instance.run_until(lambda lines: "ready" in lines))
            while proxy.forwarded < 50:
                assert not killing.done(), instance.log
                await asyncio.sleep(0.001)
            killing.cancel()
            await asyncio.gather(killing, return_exceptions=True)
            assert not list(directory.glob("*.snap"))
            proxy.delay = 0
            replica = Instance(directory)
            replica.log.open(str(directory / "again.log"))
            await replica.configure({"replication": [proxy.uri], "replication_timeout": 0.1})
            assert len(replica.schema.space(SPACE).primary or []) == 20_000
            assert replica.state.vclock.without_zero() == master.node.state.vclock
            await replica.close()

    asyncio.run(main())


def test_a_replica_killed_while_it_follows() -> None:
    """A killed replica continues from the end of its log: no row is missing and none comes twice."""

    async def main() -> None:
        async with cluster() as running:
            master = await running.master()
            directory = running.directory / "replica"

            async def fill() -> None:
                for key in count():
                    await master.put([key, "x" * 20])
                    await asyncio.sleep(0.001)

            filling = asyncio.ensure_future(fill())
            for _ in range(3):
                instance = InstanceProcess(directory, "follow", replication=[master.uri], replication_timeout=0.2)
                await instance.run_until(lambda lines: sum(line.startswith("rows") for line in lines) > 3)
            filling.cancel()
            await asyncio.gather(filling, return_exceptions=True)
            replica = running.member("replica-again")
            replica.disk = FileStorage(str(directory))
            await replica.start(master)
            await equal([master, replica])
            assert replica.id == 2

    asyncio.run(main())


def test_a_standby_takes_over_from_one_that_is_killed(tmp_path: Path) -> None:
    """A hot standby starts when the writer is killed, with every acknowledged transaction."""

    async def main() -> None:
        writer = InstanceProcess(tmp_path, "write")
        standby = InstanceProcess(tmp_path, "follow", hot_standby=True, log="standby.log", checkpoint_interval=0)
        log = tmp_path / "standby.log"
        is_ready = asyncio.Event()

        def is_enough(lines: list[str]) -> bool:
            if "ready" in lines:
                is_ready.set()
            is_followed = log.exists() and "Entering hot standby mode" in log.read_text()
            return is_followed and len(acknowledged(lines)) >= 500

        writing = asyncio.ensure_future(writer.run_until(is_enough, 60))
        await is_ready.wait()
        printed = await standby.run_until(lambda lines: "ready" in lines, 60)
        assert printed[:2] == ["starting", "ready"]
        transactions = acknowledged(await writing)
        check(await recovered(tmp_path), transactions)

    asyncio.run(main())
