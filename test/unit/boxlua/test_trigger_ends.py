"""Triggers of transactions that wait, and triggers that are switched off, as in Tarantool 2.8.1."""

from __future__ import annotations

import pytest

from .box_support import Box, Run

_SPACE = "s = box.schema.space.create('s') s:create_index('pk') fiber = require('fiber')"


def test_a_rollback_ends_with_its_triggers(run: Run) -> None:
    """The fiber that rolls back waits for a trigger that waits, and is out of the transaction then."""

    async def body(box: Box) -> None:
        await box(_SPACE)
        assert await box("""
            local log = {}
            box.begin()
            box.on_rollback(function() fiber.sleep(0.01) log[1] = 'ran' end)
            s:replace{1}
            box.rollback()
            return log[1], box.is_in_txn(), pcall(box.begin)""") == ["ran", False, True]

    run(body)


@pytest.mark.parametrize(
    "change",
    ["s:truncate()", "s:create_index('sk', {parts = {1, 'unsigned'}})", "s:format{{'a', 'unsigned'}}", "s:rename('t')"],
)
def test_a_changed_space_runs_its_triggers_again(run: Run, change: str) -> None:
    async def body(box: Box) -> None:
        await box(_SPACE)
        assert await box(f"""
            local count = 0
            s:on_replace(function() count = count + 1 end)
            s:run_triggers(false)
            s:replace{{1}}
            local before = count
            {change}
            s:replace{{1}}
            return before, count""") == [0, 1]

    run(body)


def test_a_failed_change_leaves_them_switched_off(run: Run) -> None:
    async def body(box: Box) -> None:
        await box(_SPACE)
        assert (
            await box("""
            local count = 0
            s:on_replace(function() count = count + 1 end)
            s:run_triggers(false)
            box.begin()
            s:format{{'a', 'unsigned'}}
            box.rollback()
            s:replace{1}
            return count""")
            == 0
        )

    run(body)
