"""The campaign "elections" over real processes: its faults, its checks, its members."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from random import Random

import pytest

from box.testing.simulation.history import Ending
from test.soak.reality.election_faults import LEADER, ElectionInjector, draw_faults
from test.soak.reality.election_run import RunChoice, run
from test.soak.reality.member import OURS, Member
from test.soak.reality.orders import Client, ReportedOutcomes
from test.support import until

NAMES = ("n1", "n2", "n3")


def test_a_seed_decides_the_faults() -> None:
    faults = draw_faults(7, NAMES, 120)
    assert faults == draw_faults(7, NAMES, 120)
    assert faults != draw_faults(8, NAMES, 120)
    assert faults == sorted(faults)
    assert {fault.node for fault in faults} == {*NAMES, LEADER}
    assert all(hasattr(ElectionInjector, f"_{fault.kind}") for fault in faults)
    assert max(fault.at for fault in faults) < 120


def told(**endings: Ending) -> ReportedOutcomes:
    """Make reported outcomes of keys of the synchronous space: `k1` is the outcome of key 1."""
    found = ReportedOutcomes()
    for name, ending in endings.items():
        found.note("orders", int(name[1:]), ending, "n1")
    return found


@pytest.mark.parametrize(
    ("tables", "expected"),
    [
        (({1, 3}, {1, 3}), []),
        (({1}, {1}), []),
        (({1, 3}, {1}), ["orders: n2 alone lacks: 1 rows: 3 (n1)"]),
        (({3}, {3}), ["orders: acknowledged, not everywhere: 1 rows: 1 (n1)"]),
        (({1, 2}, {1, 2}), ["orders: refused, and there: 1 rows: 2 (n1)"]),
        (({1, 9}, {1, 9}), ["orders: nobody has sent: 1 rows: 9 (unsent)"]),
    ],
)
def test_rows_are_held_against_what_clients_were_told(tables: tuple[set[int], set[int]], expected: list[str]) -> None:
    """The check compares rows with outcomes: key 1 was acknowledged, key 2 refused, key 3 is unknown."""
    answers = told(k1=Ending.OK, k2=Ending.FAILED, k3=Ending.UNKNOWN)
    rows = {name: {"orders": table, "notes": set[int]()} for name, table in zip(NAMES, tables, strict=False)}
    assert list(answers.disagreements(rows)) == expected


def with_a_member(story: Callable[[Member], Awaitable[None]], directory: Path) -> None:
    async def live() -> None:
        member = Member(directory, "n1", OURS, replication_synchro_quorum=1)
        try:
            await member.start(founds=True)
            await story(member)
        finally:
            await member.kill()

    asyncio.run(live())


def test_a_member_keeps_what_clients_were_told_over_its_lives(tmp_path: Path) -> None:
    async def story(member: Member) -> None:
        loop, answers = asyncio.get_running_loop(), ReportedOutcomes()
        clients = [Client([member], ["orders", "notes"], count(1), Random(1))]
        calls = asyncio.gather(*(client.run(answers, loop.time() + 60) for client in clients))
        await until(lambda: answers.counts()["ok"] > 5, "some rows")
        member.halt()
        member.go_on()
        await member.kill()
        await until(lambda: answers.counts()["unknown"] or answers.counts()["failed"], "a call without an answer")
        await member.start()
        before = answers.counts()["ok"]
        await until(lambda: answers.counts()["ok"] > before, "more rows")
        calls.cancel()
        await asyncio.gather(calls, return_exceptions=True)
        assert member.state.status == "running"
        rows = {"n1": {space: await member.keys(space) for space in ("orders", "notes")}}
        assert not list(answers.disagreements(rows))
        assert not member.violations
        assert not member.alarms()

    with_a_member(story, tmp_path)


def test_a_member_that_ends_by_itself_is_told_of(tmp_path: Path) -> None:
    async def story(member: Member) -> None:
        (pid,) = await member.eval("return box.info.pid")
        os.kill(pid, signal.SIGABRT)

        def is_noticed() -> bool:
            member.notice_end()
            return bool(member.violations)

        await until(is_noticed, "somebody notices")
        assert not member.is_up
        assert f"n1 has ended by itself: {-signal.SIGABRT}" in member.violations[0]

    with_a_member(story, tmp_path)


def test_the_known_crash_of_a_tarantool_is_no_violation(tmp_path: Path) -> None:
    program = tmp_path / "tarantool"
    program.write_text("#!/bin/sh\necho '#2  0x557504347388 in box_promote+4d8'\nkill -ABRT $$\n")
    program.chmod(0o700)

    async def story() -> None:
        member = Member(tmp_path, "n1", [str(program)])
        starting = asyncio.ensure_future(member.start())
        await until(lambda: bool(member.crashes), "its end")
        await starting
        assert not member.is_up
        assert not member.violations
        await member.kill()

    asyncio.run(story())


def test_a_run_of_three_members_passes() -> None:
    outcome = asyncio.run(run(RunChoice(3, seconds=3, members=3)))
    assert not outcome.violations
    assert outcome.calls["ok"] > 5
    assert outcome.terms > 1
    assert not Path(outcome.directory).exists()
