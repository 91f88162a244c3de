"""Two nodes that have decided differently about one synchronous row report it, and do not go on together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from box import BoxError, Node
from box.testing.free_ports import free_ports
from test.support import until

PATIENT: Final = 1000.0
"""A timeout in seconds that no test reaches."""


class Pair:
    """The master, with id 1, and the replica, with id 2, after their decisions; they do not follow each other."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
        self.master = self.node(0)
        self.replica = self.node(1, replication=self._addresses[0])

    def node(self, number: int, **options: Any) -> Node:
        directory = self._directory / str(number)
        directory.mkdir(exist_ok=True)
        return Node(
            directory,
            listen=self._addresses[number],
            replication_timeout=0.1,
            replication_synchro_quorum=3,
            replication_synchro_timeout=PATIENT,
            election_timeout=0.2,
            log=str(directory / "log"),
            **options,
        )

    def log(self, number: int) -> str:
        return (self._directory / str(number) / "log").read_text()

    async def diverge(self) -> None:
        master, replica = self.master, self.replica
        await master.start()
        await master.eval("box.schema.user.grant('guest', 'super')")
        await master.eval("box.schema.space.create('s', {is_sync = true}):create_index('pk')")
        await replica.start()
        write = asyncio.create_task(master.space["s"].insert([1]))
        await until(lambda: len(replica._embedding.core.limbo) == 1, "the row at the replica")
        await replica.configure(replication=[])
        await master.configure(replication_synchro_timeout=0.01)
        with pytest.raises(BoxError, match="Quorum collection for a synchronous transaction is timed out"):
            await write
        await replica.configure(replication_synchro_quorum=1, replication_synchro_timeout=0.01)
        await replica.eval("box.ctl.promote()")
        assert await master.space["s"].select() == []
        assert await replica.space["s"].select() == [[1]]

    async def follow(self, node: Node) -> dict[str, Any]:
        """Make a node follow the other one until its applier has stopped; returns `upstream` of `box.info`."""
        source = 1 if node is self.master else 0
        await node.configure(replication=[self._addresses[source]], replication_connect_quorum=0)
        return await self.stopped(node, source)

    async def stopped(self, node: Node, source: int) -> dict[str, Any]:
        upstream: dict[str, Any] = {}

        async def is_stopped() -> bool:
            upstream.update(await node.eval(f"return box.info.replication[{source + 1}].upstream or {{}}") or {})
            return bool(upstream.get("status") == "stopped")

        await until(is_stopped, "the end of replication")
        return upstream


@asynccontextmanager
async def diverged(directory: Path) -> AsyncIterator[Pair]:
    pair = Pair(directory)
    try:
        await pair.diverge()
        yield pair
    finally:
        await pair.master.stop()
        await pair.replica.stop()


async def contradiction_of(node: Node) -> Any:
    return await node.eval("return box.info.synchro.contradiction")


@pytest.mark.parametrize("mode", ["off", "voter"])
def test_a_promote_that_contradicts_a_rollback_here(tmp_path: Path, mode: str) -> None:
    """The log names both rows, `box.info` and the upstream show the error, and the instance is neither a candidate nor
    can it be promoted.
    """

    async def run() -> None:
        async with diverged(tmp_path) as pair:
            master = pair.master
            assert await contradiction_of(master) is None
            await master.configure(election_mode=mode)
            upstream = await pair.follow(master)
            told = await contradiction_of(master)
            _is_about_both(
                told, "PROMOTE {replica 1, lsn ", " of instance 2, lsn 1 confirms what ROLLBACK {replica 1, "
            )
            assert upstream["message"] == told
            assert f"{told}: this instance differs from others and takes no more rows; join it anew" in pair.log(0)
            assert await master.space["s"].select() == []

            with pytest.raises(BoxError, match="Split-Brain discovered"):
                await master.eval("box.ctl.promote()")
            await master.configure(election_mode="candidate", replication_synchro_quorum=1)
            assert not master._embedding.core.elections.raft.is_candidate
            assert (await master.eval("return box.info.election"))["state"] == "follower"

            await master.stop()
            pair.master = again = pair.node(0, replication=[pair._addresses[1]], replication_connect_quorum=0)
            await again.start()
            assert (await pair.stopped(again, 1))["message"] == told
            assert await contradiction_of(again) == told

    asyncio.run(run())


@pytest.mark.parametrize("mode", ["off", "voter", "manual"])
def test_a_rollback_of_a_deposed_leader_that_contradicts_a_promote_here(tmp_path: Path, mode: str) -> None:
    """The log names the instance to join anew, which gets no vote; the other one goes on with its data."""

    async def run() -> None:
        async with diverged(tmp_path) as pair:
            master, replica = pair.master, pair.replica
            await replica.configure(election_mode=mode)
            if mode == "manual":
                await replica.eval("box.ctl.promote()")
            upstream = await pair.follow(replica)
            told = await contradiction_of(replica)
            _is_about_both(told, "ROLLBACK {replica 1, lsn ", " has confirmed here")
            assert " of instance 2, lsn " in told
            assert upstream["message"] == told
            assert f"{told}: instance 1 differs from this one; join it anew" in pair.log(1)
            assert await replica.space["s"].select() == [[1]]

            asking = "return box.info.election"
            await replica.configure(election_mode="voter")
            await master.configure(election_mode="candidate", replication_synchro_quorum=2)
            await _until_state(master, "candidate")
            await replica.configure(replication=[])
            await pair.follow(replica)
            assert (await replica.eval(asking))["vote"] != 1
            assert (await master.eval(asking))["state"] != "leader"

            await replica.configure(election_mode="off")
            await replica.eval("box.ctl.promote()")
            await replica.space["s"].insert([2])
            assert await replica.space["s"].select() == [[1], [2]]

    asyncio.run(run())


async def _until_state(node: Node, state: str) -> None:
    async def is_so() -> bool:
        return bool((await node.eval("return box.info.election"))["state"] == state)

    await until(is_so, state)


def _is_about_both(told: Any, first: str, second: str) -> None:
    assert told.startswith(f"Split-Brain discovered: {first}")
    assert second in told
