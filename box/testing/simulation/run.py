"""One run: a cluster, a workload, faults and a verdict, all derived from a `Scenario`, which fits into a small file."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from types import FrameType
from typing import Any, Final, Self

from box.errors import BoxError
from box.replication.elections import ElectionMode
from box.testing.simulation.checks import Watch, become_equal, come_to_rest, compare, is_at_rest, uncaught
from box.testing.simulation.faults import EVERY_KIND, KINDS, Fault, draw_faults
from box.testing.simulation.history import ClientCall
from box.testing.simulation.injector import Injector
from box.testing.simulation.loop import Deadlock, TooSlow
from box.testing.simulation.simulated_node import NodeDied, SimulatedNode
from box.testing.simulation.simulation import Simulation
from box.testing.simulation.trace import Trace
from box.testing.simulation.workload import Workload
from box.testing.simulation.workloads import WORKLOADS

_VERSION: Final = 2
"""The version of the files of scenarios."""
_HUGE_TIMEOUT: Final = 1e6
"""The `replication_synchro_timeout` with elections, in seconds.

A leader that rolls back by itself, while others elect a leader that confirms, differs from them for ever. In this
version of Tarantool the timeout must be longer than any partition.
"""
_HAZARDOUS_TIMEOUTS: Final = (0.4, 0.8, 1.5, 3.0)
"""The choices of `replication_synchro_timeout` for `Scenario.hazards`, in seconds.

An election takes about a second of silence and one of votes, so these are shorter and longer than it.
"""
_ELECTION_OPTIONS: Final = {"replication_synchro_timeout": _HUGE_TIMEOUT}
"""Options of nodes with elections."""
_GRACE: Final = 5.0
"""The seconds beyond the deadline after which a callback is interrupted."""
_THRESHOLDS: Final = (20_000, 100_000)
"""The choices of `checkpoint_wal_threshold`, in bytes: a few snapshots a minute.

With fewer snapshots, long runs spend most of their time reading logs at restarts.
"""
_FIRST_LEADER: Final = 60.0
"""The seconds in which a healthy cluster elects its first leader."""


@dataclass(frozen=True)
class Scenario:
    """Everything that determines a run.

    Unless `faults` are given, faults of the given `kinds` are drawn from the seed, and so are some options of
    `box.cfg`; `options` override them.
    """

    seed: int
    nodes: int = 3
    workload: str = "bank"
    seconds: float = 60.0
    kinds: tuple[str, ...] = KINDS
    faults: tuple[Fault, ...] | None = None
    elections: str = "off"
    """The `election_mode` of all nodes."""
    options: dict[str, Any] = field(default_factory=dict)
    """Options of `box.cfg` for all nodes, which override those that the seed chooses."""
    hazards: bool = False
    """True if synchronous timeouts are short, and all nodes must have equal vclocks soon after the last fault."""
    rate: float | None = None
    """The limit for the calls a second of all clients together; None for as many as the workload's pauses allow."""

    def with_faults(self) -> Self:
        """Return this scenario with its faults and options written out."""
        if self.faults is not None:
            return self
        names = [f"node{number + 1}" for number in range(self.nodes)]
        faults = tuple(draw_faults(Simulation.random_of(self.seed, "faults"), names, self.kinds, self.seconds))
        return replace(self, faults=faults, options=self._chosen_options() | self.options)

    def _chosen_options(self) -> dict[str, Any]:
        random = Simulation.random_of(self.seed, "options")
        options: dict[str, Any] = {
            "wal_mode": "fsync" if random.random() < 0.7 else "write",
            "wal_max_size": random.choice((2_000, 50_000)),
            "checkpoint_count": random.choice((1, 2)),
            "memtx_use_mvcc_engine": random.random() < 0.3,
            "checkpoint_wal_threshold": random.choice(_THRESHOLDS),
        }
        # `wal_cleanup_delay` keeps its long default. If it were shorter than a node may be down, nodes that restart
        # meanwhile would delete files that this node needs; if it has rows of its own, it could not join anew.
        if self.hazards:
            random = Simulation.random_of(self.seed, "hazards")
            options["replication_synchro_timeout"] = random.choice(_HAZARDOUS_TIMEOUTS)
        return options

    @property
    def quorum(self) -> int:
        """The majority of the nodes."""
        return self.nodes // 2 + 1

    @property
    def node_options(self) -> dict[str, Any]:
        """Return the options of `box.cfg` for every node. The scenario must have its options written out
        (`with_faults`).
        """
        options: dict[str, Any] = {
            "replication_synchro_quorum": self.quorum,
            "replication_synchro_timeout": 2,
            "election_timeout": 1,
            "log_level": 4,
        }
        if self.elections != "off":
            options |= _ELECTION_OPTIONS
        return options | self.options | WORKLOADS[self.workload].options

    def to_json(self) -> str:
        """Return the text of a file for `from_json`."""
        return json.dumps({"version": _VERSION} | asdict(self.with_faults()), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse the text of a file.

        Raises:
            ValueError: the text is not a valid scenario.
        """
        try:
            values = json.loads(text)
            if values.pop("version") != _VERSION:
                raise ValueError("the version is another one")
            faults = tuple(Fault(*fault) for fault in values.pop("faults"))
            scenario = cls(faults=faults, **values | {"kinds": tuple(values["kinds"])})
            scenario.check()
        except (TypeError, KeyError, AttributeError, ValueError) as error:
            raise ValueError(f"not a scenario: {error}") from None
        return scenario

    def check(self) -> None:
        """Check that the scenario can be run.

        Raises:
            ValueError: it names an unknown workload, fault or node, or its options do not go together.
        """
        known = {f"node{number + 1}" for number in range(self.nodes)}
        strangers = [
            one for one in self.faults or () if one.kind not in EVERY_KIND or not {one.node, one.other} <= known
        ]
        if self.rate is not None and not self.rate > 0:
            raise ValueError(f"{self.rate} calls a second")
        if self.workload not in WORKLOADS or strangers:
            raise ValueError(f"{self.workload}, {strangers}")
        if ElectionMode(self.elections) is not ElectionMode.OFF and not WORKLOADS[self.workload].may_elect:
            raise ValueError(f"the workload {self.workload} writes to every node, which elections forbid")


@dataclass
class Outcome:
    """The result of a run. `violations` is empty if all went well."""

    scenario: Scenario
    violations: list[str]
    noticed: float | None
    """Seconds from the clients' start to the first violation that showed before the end of the run."""
    cut_off: list[str]
    """Nodes that a full disk has cut off for good, so that the checks at rest were skipped."""
    digest: str
    simulated: float
    processor: float
    """Simulated seconds, and seconds of processor time."""
    calls: dict[str, int]
    trace: Trace
    logs: dict[str, list[str]]

    @property
    def summary(self) -> str:
        """The result in one line."""
        scenario = self.scenario
        verdict = "failed" if self.violations else "ok"
        if self.cut_off:
            verdict += f", but without rest: a full disk has cut {' and '.join(self.cut_off)} off"
        calls = ", ".join(f"{count} {ending}" for ending, count in self.calls.items())
        speed = self.simulated / self.processor if self.processor else 0.0
        elections = "" if scenario.elections == "off" else f", elections {scenario.elections}"
        elections += ", hazards" if scenario.hazards else ""
        return (
            f"seed {scenario.seed} {scenario.workload} {scenario.nodes} nodes{elections}: {verdict}; "
            f"{len(scenario.faults or ())} faults, {calls}; {self.simulated:.0f} simulated s, {speed:.0f} a second; "
            f"trace {self.digest}"
        )


@dataclass
class _Findings:
    """The findings of a run so far."""

    violations: list[str] = field(default_factory=list)
    noticed: float | None = None
    cut_off: list[str] = field(default_factory=list)
    calls: list[ClientCall] = field(default_factory=list)


def play(scenario: Scenario, *, keeps_messages: bool = False, deadline: float | None = None) -> Outcome:
    """Run a scenario.

    A run that exceeds `deadline` seconds of processor time fails, and reports the tasks that wait.
    """
    scenario = scenario.with_faults()
    start = time.process_time()
    with Simulation(scenario.seed, keeps_messages=keeps_messages) as simulation:
        simulation.loop.cpu_deadline = None if deadline is None else start + deadline
        findings = _Findings()
        violations = findings.violations
        try:
            with _alarm(deadline):
                simulation.run(_scenario(simulation, scenario, WORKLOADS[scenario.workload], findings))
        except (Deadlock, TooSlow) as error:
            violations.append(str(error))
        except (BoxError, NodeDied, TimeoutError, RuntimeError) as error:
            violations.append(f"the run ended early: {error!r}")
        # The number of turns enters the trace's digest, so that runs with different delays differ here at the latest.
        simulation.note("-", "end", f"after {simulation.loop.turns} turns")
        violations += uncaught(simulation)
        endings: dict[str, int] = {}
        for call in findings.calls:
            endings[call.ending.value] = endings.get(call.ending.value, 0) + 1
        logs = {node.name: list(node.log.lines) for node in simulation.nodes.values()}
        trace, seconds = simulation.trace, simulation.loop.time()
        took = time.process_time() - start
        return Outcome(
            scenario=scenario,
            violations=violations,
            noticed=findings.noticed,
            cut_off=findings.cut_off,
            digest=trace.digest,
            simulated=seconds,
            processor=took,
            calls=endings,
            trace=trace,
            logs=logs,
        )


@contextmanager
def _alarm(deadline: float | None) -> Iterator[None]:
    """Interrupt a callback that never ends: the loop itself checks the deadline only between turns."""
    if deadline is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(signal_number: int, frame: FrameType | None) -> None:
        place = "nowhere" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
        raise TooSlow(f"the time for this run is over in a callback that does not end: {place}")

    before = signal.signal(signal.SIGVTALRM, ring)
    signal.setitimer(signal.ITIMER_VIRTUAL, deadline + _GRACE, _GRACE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


async def _start(simulation: Simulation, scenario: Scenario, workload_class: type[Workload]) -> Workload:
    """Start a cluster with its spaces, ready for clients."""
    nodes = await simulation.start_cluster(scenario.nodes, **scenario.node_options)
    workload = workload_class(simulation, nodes, has_elections=scenario.elections != "off")
    if scenario.rate is not None:
        workload.slow_down(scenario.rate)
    await workload.prepare()
    return workload


async def _elect(simulation: Simulation, scenario: Scenario, injector: Injector) -> None:
    nodes = list(simulation.nodes.values())
    # The spaces were created asynchronously, so they could be lost with the first leader.
    await simulation.until(lambda: is_at_rest(nodes), _FIRST_LEADER, "equal spaces")
    for node in nodes:
        await node.configure(election_mode=scenario.elections)
    if scenario.elections == "manual":
        await injector.administrator.promote(nodes[0])
    await simulation.until(lambda: any(map(_takes_changes, nodes)), _FIRST_LEADER, "the first leader")


def _term(simulation: Simulation) -> int:
    return max(node.instance.elections.raft.term for node in simulation.nodes.values())


def _restless(first_term: int, simulation: Simulation) -> list[str]:
    """Report elections in a run without faults, in which the first leader should lead to the end."""
    term = _term(simulation)
    return [f"there was no fault, and still the term went from {first_term} to {term}"] if term > first_term else []


def _takes_changes(node: SimulatedNode) -> bool:
    return node.is_running and not node.instance.mode.is_read_only


async def _scenario(
    simulation: Simulation, scenario: Scenario, workload_class: type[Workload], findings: _Findings
) -> None:
    workload = await _start(simulation, scenario, workload_class)
    workload.history.operations = findings.calls
    violations = findings.violations
    has_elections = scenario.elections != "off"
    watch = Watch(simulation, workload, scenario.quorum, has_elections=has_elections)
    injector = Injector(simulation)
    tasks = [simulation.loop.create_task(watch.run())]
    if has_elections:
        await _elect(simulation, scenario, injector)
    first_term = _term(simulation)
    tasks.append(simulation.loop.create_task(injector.administrator.run()))
    begin = simulation.loop.time()
    workload.stop_at = begin + scenario.seconds
    clients = workload.start()
    differences: Iterable[str] = ()
    try:
        await injector.run(scenario.faults or ())
        await asyncio.gather(*clients)
        await injector.finish()
        if workload.needs_rest:
            unrest = await come_to_rest(simulation, injector.administrator, has_elections=has_elections)
            if unrest is not None:
                violations += unrest.violations
                findings.cut_off += unrest.cut_off
            elif scenario.hazards:
                differences = await become_equal(simulation)
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        if watch.noticed_at is not None:
            findings.noticed = max(watch.noticed_at - begin, 0.0)
        watch.look_once_more()
        violations += [*watch.violations, *injector.administrator.violations, *injector.violations, *differences]
    if scenario.elections == "candidate" and not scenario.faults:
        violations += _restless(first_term, simulation)
    if not violations and not findings.cut_off:
        violations += workload.verdict()
        if workload.needs_rest:
            violations += compare(list(simulation.nodes.values()))
