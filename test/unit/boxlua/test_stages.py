"""Triggers of the start and of elections: `box.ctl.on_recovery_state` and `on_election`, as in Tarantool 2.11."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from .box_support import Box, Run

TRIGGERS = """
stages, roles = {}, {}
box.ctl.on_recovery_state(function(stage) table.insert(stages, stage) end)
box.ctl.on_election(function(...)
    assert(select('#', ...) == 0)
    table.insert(roles, box.info.election.state)
end)
"""
FOUNDED = ["indexes_built", "snapshot_recovered", "wal_recovered", "synced"]
RECOVERED = ["snapshot_recovered", "indexes_built", "wal_recovered", "synced"]


def test_the_stages_of_a_start(run: Run, tmp_path: Path) -> None:
    async def first(box: Box) -> None:
        await box.raw(TRIGGERS + "box.cfg{log_level = 1}")
        assert await box.raw("return stages") == [FOUNDED]

    async def second(box: Box) -> None:
        await box.raw(TRIGGERS + "box.cfg{log_level = 1}")
        assert await box.raw("return stages") == [RECOVERED]

    run(first, tmp_path, configure=False)
    run(second, tmp_path, configure=False)


def test_changes_of_roles(run: Run) -> None:
    """The last call comes with the last role."""

    async def body(box: Box) -> None:
        await box.raw(TRIGGERS + "box.cfg{election_mode = 'candidate', replication_synchro_quorum = 1}")
        async with asyncio.timeout(20):
            while await box.raw("return roles[#roles]") != ["leader"]:
                await asyncio.sleep(0.01)
        await box.raw("box.cfg{election_mode = 'voter'}")
        async with asyncio.timeout(20):
            while await box.raw("return roles[#roles]") != ["follower"]:
                await asyncio.sleep(0.01)

    run(body)


@pytest.mark.parametrize("name", ["on_recovery_state", "on_election"])
def test_lists_of_triggers(run: Run, name: str) -> None:
    async def body(box: Box) -> None:
        found: Any = await box.raw(f"""
            local function f() end
            local set = box.ctl.{name}(f) == f
            local listed = #box.ctl.{name}()
            box.ctl.{name}(nil, f)
            return set, listed, #box.ctl.{name}(), tostring(select(2, pcall(box.ctl.{name}, 1)))""")
        assert found == [True, 1, 0, "trigger reset: incorrect arguments"]

    run(body)


def test_an_error_in_a_trigger_does_not_stop_the_start(run: Run, tmp_path: Path) -> None:
    async def body(box: Box) -> None:
        log = tmp_path / "x.log"
        await box.raw(f"""
            box.ctl.on_recovery_state(function(stage) error('no ' .. stage, 0) end)
            box.cfg{{log = '{log}', log_level = 2}}""")
        assert await box.raw("return box.info.status") == ["running"]
        assert "no synced" in log.read_text()

    run(body, configure=False)
