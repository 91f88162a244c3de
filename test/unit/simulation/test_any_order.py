"""The result of a simulated run does not depend on addresses of objects."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from box.testing.simulation.faults import Fault
from box.testing.simulation.run import Scenario


def restarts(nodes: int) -> tuple[Fault, ...]:
    """Make a scenario whose instances stop while they serve connections, streams and tasks."""
    return tuple(Fault(0.5 + number, "restart", f"node{number + 1}", "node1", 0.1, 0.5) for number in range(nodes))


SCENARIOS = (
    Scenario(1, 4, "async", 2.0, faults=restarts(2), options={"wal_mode": "write"}),
    Scenario(1, 3, "transactions", 2.5, faults=restarts(2), options={"memtx_use_mvcc_engine": True}),
    Scenario(2, 3, "register", 2.5, faults=restarts(3), elections="manual"),
)


def play_in_any_order(scenarios: list[Path], *chances: int) -> list[str]:
    seeds = ",".join(map(str, chances))
    command = [sys.executable, "-m", "test.unit.simulation.any_order", seeds, *map(str, scenarios)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=240).stdout.splitlines()


@pytest.mark.slow
def test_sets_of_objects_are_never_gone_through(tmp_path: Path) -> None:
    """No set of objects is iterated: its order, that of addresses, would be the same nearly always."""
    paths = []
    for scenario in SCENARIOS:
        paths.append(tmp_path / f"{scenario.workload}.json")
        paths[-1].write_text(scenario.to_json())
    lines = play_in_any_order(paths, 1, 2)
    assert len(lines) == 2 * len(SCENARIOS)
    assert lines[: len(SCENARIOS)] == lines[len(SCENARIOS) :]
    assert all(line.endswith(" []") for line in lines)
