"""One run: a cluster, a workload, faults and a verdict; runs are made from a `Scenario`, which fits into a small file.

`shorten` looks for a part of a scenario's faults that is enough to make it fail.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Self

from box.errors import BoxError
from box.testing.simulation.checks import Watch, come_to_rest, compare, uncaught
from box.testing.simulation.faults import KINDS, Fault, Injector, plan
from box.testing.simulation.loop import Deadlock, TooSlow
from box.testing.simulation.simulated_node import NodeDied
from box.testing.simulation.simulation import Simulation
from box.testing.simulation.trace import Trace
from box.testing.simulation.workloads import WORKLOADS

_VERSION: Final = 1


@dataclass(frozen=True)
class Scenario:
    """Everything that a run follows from. `kinds` of faults are planned from the seed, unless `faults` are given."""

    seed: int
    nodes: int = 3
    workload: str = "bank"
    seconds: float = 60.0
    kinds: tuple[str, ...] = KINDS
    faults: tuple[Fault, ...] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    """More options of `box.cfg` for every node."""

    def planned(self) -> Self:
        """The same with its faults written out."""
        if self.faults is not None:
            return self
        names = [f"node{number + 1}" for number in range(self.nodes)]
        random = Simulation.random_of(self.seed, "faults")
        return replace(self, faults=tuple(plan(random, names, self.kinds, self.seconds)))

    def to_json(self) -> str:
        """The text of a file for `from_json`."""
        return json.dumps({"version": _VERSION} | asdict(self.planned()), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """ValueError for what is no scenario."""
        try:
            values = json.loads(text)
            if values.pop("version") != _VERSION:
                raise ValueError("the version is another one")
            faults = tuple(Fault(*fault) for fault in values.pop("faults"))
            scenario = cls(faults=faults, **values | {"kinds": tuple(values["kinds"])})
        except (TypeError, KeyError, AttributeError, ValueError) as error:
            raise ValueError(f"not a scenario: {error}") from None
        known = {f"node{number + 1}" for number in range(scenario.nodes)}
        strangers = [fault for fault in faults if fault.kind not in KINDS or not {fault.node, fault.other} <= known]
        if scenario.workload not in WORKLOADS or strangers:
            raise ValueError(f"not a scenario: {scenario.workload}, {strangers}")
        return scenario


@dataclass
class Outcome:
    """The end of a run. `violations` is empty if all went well."""

    scenario: Scenario
    violations: list[str]
    digest: str
    simulated: float
    wall: float
    calls: dict[str, int]
    trace: Trace
    logs: dict[str, list[str]]

    @property
    def summary(self) -> str:
        """One line."""
        scenario = self.scenario
        verdict = "failed" if self.violations else "ok"
        calls = ", ".join(f"{count} {ending}" for ending, count in self.calls.items())
        speed = self.simulated / self.wall if self.wall else 0.0
        return (
            f"seed {scenario.seed} {scenario.workload} {scenario.nodes} nodes: {verdict}; "
            f"{len(scenario.faults or ())} faults, {calls}; {self.simulated:.0f} simulated s, {speed:.0f} a second; "
            f"trace {self.digest}"
        )


def play(scenario: Scenario, *, keeps_messages: bool = False, deadline: float | None = None) -> Outcome:
    """Run a scenario. `deadline` bounds the real seconds: beyond it the run has failed, and says who waits."""
    scenario = scenario.planned()
    start = time.monotonic()
    with Simulation(scenario.seed, keeps_messages=keeps_messages) as simulation:
        simulation.loop.wall_deadline = None if deadline is None else start + deadline
        workload_class = WORKLOADS[scenario.workload]
        violations: list[str] = []
        history: list[Any] = []
        try:
            simulation.run(_scenario(simulation, scenario, workload_class, violations, history))
        except (Deadlock, TooSlow) as error:
            violations.append(str(error))
        except (BoxError, NodeDied, TimeoutError, RuntimeError) as error:
            violations.append(f"the run ended early: {error!r}")
        violations += uncaught(simulation)
        endings: dict[str, int] = {}
        for call in history:
            endings[call.ending.value] = endings.get(call.ending.value, 0) + 1
        logs = {node.name: list(node.log.lines) for node in simulation.nodes.values()}
        wall, simulated = time.monotonic() - start, simulation.loop.time()
        return Outcome(scenario, violations, simulation.trace.digest, simulated, wall, endings, simulation.trace, logs)


async def _scenario(
    simulation: Simulation, scenario: Scenario, workload_class: Any, violations: list[str], history: list[Any]
) -> None:
    options: dict[str, Any] = {
        "replication_synchro_quorum": scenario.nodes // 2 + 1,
        "replication_synchro_timeout": 2,
        "wal_mode": "fsync",
        "wal_max_size": 5_000,
        "checkpoint_count": 1000,
        "log_level": 4,
    }
    nodes = await simulation.start_cluster(scenario.nodes, **(options | scenario.options))
    workload = workload_class(simulation, nodes)
    workload.history.operations = history
    await workload.prepare()
    watch = Watch(simulation)
    watching = simulation.loop.create_task(_watch(watch, workload, violations))
    injector = Injector(simulation)
    workload.stop_at = simulation.loop.time() + scenario.seconds
    clients = workload.start()
    await injector.run(scenario.faults or ())
    await asyncio.gather(*clients)
    await injector.finish()
    violations += await come_to_rest(simulation)
    watching.cancel()
    with suppress(asyncio.CancelledError):
        await watching
    violations += watch.violations
    if not violations:
        violations += workload.verdict()
        violations += compare(simulation)


async def _watch(watch: Watch, workload: Any, violations: list[str]) -> None:
    while True:
        watch.look()
        found = list(workload.watch())
        violations += [text for text in found if text not in violations]
        await asyncio.sleep(0.1)


def shorten(
    outcome: Outcome, *, runs: int = 40, deadline: float | None = None, tell: Callable[[str], None] = lambda text: None
) -> Outcome:
    """Leave faults out, by halves and smaller parts, as long as the scenario still fails. (Zeller's ddmin.)"""
    faults: Sequence[Fault] = outcome.scenario.faults or ()
    parts = 2
    while len(faults) > 1 and runs > 0:
        size = -(-len(faults) // parts)
        for begin in range(0, len(faults), size):
            runs -= 1
            rest = (*faults[:begin], *faults[begin + size :])
            attempt = play(replace(outcome.scenario, faults=rest), deadline=deadline)
            if attempt.violations:
                outcome, faults, parts = attempt, rest, max(parts - 1, 2)
                tell(f"{len(faults)} faults are enough")
                break
            if runs <= 0:
                break
        else:
            if size == 1:
                break
            parts = min(parts * 2, len(faults))
    return outcome
