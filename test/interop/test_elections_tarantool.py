"""Elections among Lunabox and Tarantool 2.8.1 in one replica set: leaders are killed, and no confirmed row is lost."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

import box
from box.errors import BoxError
from box.journal import FileStorage, SnapshotReader
from box.wire.constants import RequestType
from box.wire.messages import decode_promotions, decode_raft
from test.interop.processes import LUNABOX, POLL, NodeProcess, ProcessMesh, process_mesh
from test.support import until

TARANTOOL = os.environ.get("LUNABOX_TARANTOOL", "")
pytestmark = [
    pytest.mark.tarantool,
    pytest.mark.skipif(not TARANTOOL, reason="LUNABOX_TARANTOOL does not name a 2.8.1"),
]

_ELECTION = """election_mode = 'candidate', election_timeout = 1, replication_synchro_quorum = 2,
    replication_synchro_timeout = 60,"""
_ROUNDS = 4
"""How many leaders are killed."""
_ROWS = 15
"""Rows that are written at each leader before anything happens to it."""


async def _election(node: NodeProcess) -> tuple[int, str, bool]:
    """Return the term, the election state and whether the node is read-only."""
    term, role, is_read_only = await node.eval("return box.info.election.term, box.info.election.state, box.info.ro")
    return term, role, is_read_only


async def _leader(mesh: ProcessMesh) -> NodeProcess:
    """Wait until there is one writable leader, and return it.

    Raises:
        AssertionError: there is none in a minute, or two nodes lead in one term.
    """
    found: list[NodeProcess] = []

    async def is_elected() -> bool:
        found.clear()
        leaders: dict[int, int] = {}
        for node in mesh.nodes:
            if not node.is_running:
                continue
            term, role, is_read_only = await _election(node)
            if role == "leader":
                leaders[term] = leaders.get(term, 0) + 1
                if not is_read_only:
                    found.append(node)
        assert all(count == 1 for count in leaders.values()), leaders
        return len(found) == 1

    try:
        await until(is_elected, "a leader", 60, longest=POLL)
    except AssertionError as error:
        raise AssertionError(f"{error}: {await _described(mesh)}") from None
    return found[0]


async def _write(node: NodeProcess, keys: range, confirmed: set[int]) -> None:
    """Commit synchronous rows one by one, add confirmed keys to `confirmed`, and stop at the first error."""
    for key in keys:
        if not node.is_running:
            return
        try:
            await node.eval("box.space.synchronous:replace{...}", key)
        except BoxError:
            return  # the node does not lead any more
        confirmed.add(key)


async def _keys(node: NodeProcess) -> list[int]:
    (keys,) = await node.eval(
        "local keys = {} for _, tuple in box.space.synchronous:pairs() do keys[#keys + 1] = tuple[1] end "
        "return setmetatable(keys, {__serialize = 'array'})"
    )
    found: list[int] = keys
    return found


async def _agree(mesh: ProcessMesh) -> bool:
    """Return whether all nodes have all of the leader's log, and equal keys in the space.

    Vclocks may differ: a former leader may have a row in its log that was rolled back, and 2.8.1 fetches rows from
    nobody but the leader.
    """
    leader = await _leader(mesh)
    wanted = await leader.vclock()
    for node in mesh.nodes:
        clock = await node.vclock()
        if any(clock.get(replica_id, 0) < lsn for replica_id, lsn in wanted.items()):
            return False
    tables = [await _keys(node) for node in mesh.nodes]
    return all(table == tables[0] for table in tables)


async def _described(mesh: ProcessMesh) -> str:
    """Return the state of each running node, for the text of a failure."""
    info = "return require('json').encode({box.info.vclock, box.info.election, box.info.replication, box.info.synchro})"
    texts = [(node.executable, await node.eval(info)) for node in mesh.nodes if node.is_running]
    return "\n".join(f"{executable}: {text}" for executable, text in texts)


async def _kill_leaders(mesh: ProcessMesh) -> None:
    """Kill the leader while it writes, write at the next one, restart the first; check all confirmed rows; repeat."""
    confirmed: set[int] = set()
    for number in range(_ROUNDS):
        leader = await _leader(mesh)
        first = number * 100
        await _write(leader, range(first, first + _ROWS), confirmed)
        last = asyncio.create_task(_write(leader, range(first + _ROWS, first + 2 * _ROWS), confirmed))
        await until(lambda first=first: len(confirmed) > 0 and max(confirmed) >= first)  # type: ignore[misc]
        await leader.end(kills=True)
        await asyncio.wait([last])
        successor = await _leader(mesh)
        assert successor is not leader
        await _write(successor, range(first + 50, first + 50 + _ROWS), confirmed)
        leader.options = _ELECTION
        await mesh.start(leader)
        try:
            await until(lambda: _agree(mesh), "agreement", 60, longest=POLL)
        except AssertionError as error:
            raise AssertionError(f"{error}: {await _described(mesh)}") from None
        for node in mesh.nodes:
            keys = set(await _keys(node))
            assert confirmed <= keys, (node.executable, sorted(confirmed - keys))
    assert len(confirmed) > _ROUNDS * _ROWS


@pytest.mark.parametrize(
    "executables", [[LUNABOX, TARANTOOL, LUNABOX], [TARANTOOL, LUNABOX, TARANTOOL]], ids=["two-one", "one-two"]
)
def test_leaders_of_both_kinds_are_killed(executables: list[str]) -> None:
    """After a leader's death another is elected, one in a term, and every confirmed row is on all nodes."""

    async def main() -> None:
        async with process_mesh(executables) as mesh:
            await mesh.nodes[0].eval(
                "box.schema.space.create('synchronous', {id = 600, is_sync = true}):create_index('pk')"
            )
            await until(mesh.are_equal, "equality", 60, longest=POLL)
            await mesh.eval_all(f"box.cfg{{{_ELECTION}}}")
            await _kill_leaders(mesh)

    asyncio.run(main())


@pytest.mark.parametrize("mode", ["off", "candidate"])
def test_tarantool_starts_from_a_snapshot_that_keeps_promotions(tmp_path: Path, mode: str) -> None:
    """Tarantool passes over what a snapshot of Lunabox keeps of promotions."""

    async def write() -> None:
        async with box.Node(tmp_path, replication_synchro_quorum=1) as node:
            await node.eval("box.schema.space.create('synchronous', {is_sync = true}):create_index('primary')")
            if mode == "off":
                await node.eval("box.ctl.promote()")
            else:
                await node.eval("box.cfg{election_mode = 'candidate'} box.ctl.wait_rw(30)")
            await node.eval("box.space.synchronous:replace{1} box.snapshot() box.space.synchronous:replace{2}")

    asyncio.run(write())
    with SnapshotReader(FileStorage(), str(max(tmp_path.glob("*.snap")))) as reader:
        (raft,) = (row for row in reader.rows() if row.type == RequestType.RAFT)
    assert decode_promotions(raft) is not None
    script = (
        "box.cfg{log = 'tarantool.log'} local term = box.info.election.term "
        "print(box.space.synchronous:count(), term) box.snapshot() os.exit(0)"
    )
    (tmp_path / "script.lua").write_text(script)
    done = subprocess.run(
        [TARANTOOL, "script.lua"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["2", str(decode_raft(raft).term)]
