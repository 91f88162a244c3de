"""Plays a scenario of the simulation with real processes: its workload, its faults and its checks.

```
when                 check
while clients call   the workload's invariants; no node ends by itself, no vclock goes back, no two nodes lead in one
                     term, and no applier stops unless a fault explains it
at rest              vclocks and rows are equal, limbos are empty, the workload's verdict
after the end        log files that contain the same row agree on it; node logs have no unexpected line
```
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from box.errors import BoxError
from box.journal.directory import LogDirectory, LogKind
from box.journal.storage import FileStorage
from box.testing.simulation.checks import compare
from box.testing.simulation.log_contents import LogContents
from box.testing.simulation.run import Scenario
from box.testing.simulation.simulated_node import NodeDied
from box.testing.simulation.workload import Workload
from box.testing.simulation.workloads import WORKLOADS
from test.soak.reality.administrator import RealAdministrator
from test.soak.reality.injector import KINDS, RealInjector
from test.soak.reality.node import RealNode
from test.soak.reality.world import RealCluster, is_at_rest, real_cluster

_EVERY: Final = 0.2
"""Seconds between two checks of the workload's invariants."""
_LOOK: Final = 1.0
"""Seconds for an answer to a query; a node that does not answer is skipped."""
_REST: Final = 120.0
"""Seconds within which a healthy cluster must come to rest."""
_FIRST_LEADER: Final = 60.0
_OVERTIME: Final = 400.0
"""Seconds that a run may take beyond the scenario's own: more than the sum of all its deadlines."""


@dataclass
class RealOutcome:
    """The result of a run. `directory` has all files of the nodes; it is removed if `violations` is empty."""

    scenario: Scenario
    directory: str
    calls: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)


async def play_really(scenario: Scenario, overtime: float = _OVERTIME) -> RealOutcome:
    """Play a scenario with real processes, in as many seconds as it says and at most `overtime` more.

    Raises:
        ValueError: it has a fault that real processes do not offer.
    """
    scenario = scenario.with_faults()
    strangers = {fault.kind for fault in scenario.faults or ()}.difference(KINDS)
    if strangers:
        raise ValueError(f"not for real processes: {', '.join(sorted(strangers))}")
    directory = Path(tempfile.mkdtemp(prefix="reality-", dir="/tmp"))
    outcome = RealOutcome(scenario, str(directory))
    try:
        async with real_cluster(scenario, directory) as cluster:
            await _play_in_time(_Run(cluster, outcome), outcome, scenario.seconds + overtime)
    except (BoxError, NodeDied, TimeoutError, RuntimeError) as error:
        outcome.violations.append(f"the run ended early: {error!r}")
    if not outcome.violations:
        shutil.rmtree(directory)
    return outcome


async def _play_in_time(run: _Run, outcome: RealOutcome, seconds: float) -> None:
    """Play a run for at most `seconds`; if it takes longer, report the calls that have not returned as a violation."""
    playing = asyncio.ensure_future(run.play())
    try:
        done, _ = await asyncio.wait((playing,), timeout=seconds)
        if done:
            await playing
        else:
            outcome.violations.append(f"the time for this run is over, and these have not answered: {run.silent()}")
    finally:
        playing.cancel()
        await asyncio.gather(playing, return_exceptions=True)


class _Run:
    def __init__(self, cluster: RealCluster, outcome: RealOutcome) -> None:
        self._cluster = cluster
        self._nodes = cluster.nodes
        self._world = cluster.world
        self._scenario = outcome.scenario
        self._outcome = outcome
        self._has_elections = outcome.scenario.elections != "off"
        self._administrator = RealAdministrator(cluster.nodes)
        self._leaders: dict[int, str] = {}
        self._seen: dict[str, None] = {}

    async def play(self) -> None:
        scenario, world = self._scenario, self._world
        workload = WORKLOADS[scenario.workload](world, self._nodes, has_elections=self._has_elections)
        if scenario.rate is not None:
            workload.slow_down(scenario.rate)
        await workload.prepare()
        if self._has_elections:
            await self._elect()
        injector = RealInjector(self._nodes, self._cluster.links)
        tasks = [asyncio.ensure_future(self._administrator.run()), asyncio.ensure_future(self._watch(workload))]
        workload.stop_at = world.loop.time() + scenario.seconds
        clients = workload.start()
        try:
            await injector.run(scenario.faults or ())
            await asyncio.gather(*clients)
            await injector.finish()
            if workload.needs_rest:
                await world.until(self._comes_to_rest, _REST, "rest")
        finally:
            for task in (*tasks, *clients):
                task.cancel()
            await injector.cancel()
            endings = await asyncio.gather(*tasks, *clients, return_exceptions=True)
            self._outcome.calls = Counter(call.ending.value for call in workload.history.operations)
            self._outcome.violations += [repr(ending) for ending in endings if isinstance(ending, Exception)]
            self._outcome.violations += [*injector.violations, *self._violations()]
        await self._judge(workload)

    def silent(self) -> str:
        """Return the names of nodes that have not answered, each with the methods that were called."""
        return "; ".join(f"{node.name}: {', '.join(node.unanswered)}" for node in self._nodes if node.unanswered)

    def _violations(self) -> Iterable[str]:
        yield from self._seen
        yield from self._administrator.violations
        for node in self._nodes:
            yield from node.violations

    async def _elect(self) -> None:
        # Spaces are created by asynchronous transactions, which a new leader may not have: all nodes get them first.
        await self._world.until(self._has_equal_rows, _FIRST_LEADER, "equal spaces")
        for node in self._nodes:
            await node.configure(election_mode=self._scenario.elections)
        await self._world.until(self._has_a_leader, _FIRST_LEADER, "the first leader")

    async def _has_equal_rows(self) -> bool:
        return is_at_rest(self._nodes, has_elections=False)

    async def _has_a_leader(self) -> bool:
        return any(node.is_running and not node.state.is_read_only for node in self._nodes)

    async def _comes_to_rest(self) -> bool:
        for node in self._nodes:
            await self._administrator.help(node)
        await self._look_at_all()
        return is_at_rest(self._nodes, has_elections=self._has_elections)

    async def _watch(self, workload: Workload) -> None:
        sees_rows = type(workload).watch is not Workload.watch
        while True:
            await asyncio.sleep(_EVERY)
            if sees_rows:
                await self._look_at_all()
                self._seen |= dict.fromkeys(workload.watch())
            for node in self._nodes:
                if node.is_running and node.state.is_leader:
                    other = self._leaders.setdefault(node.state.term, node.name)
                    if other != node.name:
                        self._seen[f"{node.name} leads in term {node.state.term}, and so does {other}"] = None

    async def _look_at_all(self) -> None:
        """Fetch rows and states of all nodes that run and are not halted."""
        await asyncio.gather(*(self._look_at(node) for node in self._nodes if node.is_running and not node.is_halted))

    async def _look_at(self, node: RealNode) -> None:
        with suppress(NodeDied, BoxError, TimeoutError):
            async with asyncio.timeout(_LOOK):
                await node.look()

    async def _judge(self, workload: Workload) -> None:
        violations = self._outcome.violations
        for node in self._nodes:
            await node.look()
        if not violations:
            violations += workload.verdict()
            if workload.needs_rest:
                violations += compare(self._nodes)
        for node in self._nodes:
            await node.stop()
            violations += [*node.violations, *node.unexpected_output()]
        violations += _compare_logs(self._nodes, has_elections=self._has_elections)


def _compare_logs(nodes: Sequence[RealNode], *, has_elections: bool) -> Iterable[str]:
    contents = LogContents(has_elections=has_elections)
    for node in nodes:
        contents.read(node.name, LogDirectory(FileStorage(str(node.directory)), ".", LogKind.XLOG))
    return contents.violations
