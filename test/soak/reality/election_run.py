"""One run of the campaign "elections": members that are processes, clients, faults, and the checks.

```
when                  check
while clients call    no two members lead in one term; no process ends by itself
after the last fault  all members know one leader; then vclocks are equal within two `replication_timeout`
at rest               limbos are empty, no upstream has stopped, no decisions contradict each other, and
                      the rows agree with the outcomes that clients were told
```
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Final

from box.errors import BoxError
from test.soak.reality.election_faults import ElectionInjector, draw_faults
from test.soak.reality.links import Links
from test.soak.reality.member import OURS, Member
from test.soak.reality.orders import SPACES, Client, ReportedOutcomes
from test.support import until

TIMEOUT: Final = 1.0
"""The option `replication_timeout` of all members, in seconds."""
OPTIONS: Final[dict[str, Any]] = {
    "replication_timeout": TIMEOUT,
    "replication_connect_timeout": 5,
    "replication_connect_quorum": 0,
    "replication_sync_timeout": 5,
    "replication_synchro_timeout": 3,
    "election_timeout": 2,
    "memtx_use_mvcc_engine": True,
    "wal_mode": "write",
    "memtx_memory": 64 << 20,
    "wal_max_size": 200_000,
    "checkpoint_count": 1000,
}
_CLIENTS: Final = 6
_EVERY: Final = 0.2
"""Seconds between two queries of a member's state."""
_BOUND: Final = 2 * TIMEOUT
"""Seconds within which vclocks must be equal, once there is a leader and no fault."""
_LEADER: Final = 60.0
"""Seconds within which the members must elect a leader, on a busy machine."""
_NEVER: Final = 40.0
"""Seconds after which a condition that is still false is taken for one that never comes true."""


@dataclass(frozen=True, slots=True)
class RunChoice:
    """The parameters of a run. `tarantools` of the members run the executable `tarantool`, the others Lunabox.

    `seconds` is how long clients and faults go on; `spaces` are the names of the spaces that clients insert into.
    """

    seed: int
    seconds: float
    members: int = 5
    tarantool: str = ""
    tarantools: int = 1
    spaces: Sequence[str] = ("orders",)


@dataclass
class ElectionOutcome:
    """The result of a run. `directory` has all files of the members; it is removed if there are no violations."""

    directory: str
    calls: Counter[str] = field(default_factory=Counter)
    faults: int = 0
    terms: int = 0
    equal_after: float = -1.0
    """Seconds from the election of the last leader to equal vclocks; -1 if they never were equal."""
    violations: list[str] = field(default_factory=list)
    crashes: list[str] = field(default_factory=list)
    """Crashes of Tarantool 2.8.1 that are known, and no violations."""
    diverged: dict[str, str] = field(default_factory=dict)
    """Tarantool members that have decided alone after they were deposed, with the error that all others report.

    docs/guides/elections.md describes this hazard of 2.8.1; later checks leave these members out.
    """


async def run(chosen: RunChoice) -> ElectionOutcome:
    """Play one run with its own processes, and return what was found."""
    directory = Path(tempfile.mkdtemp(prefix="elections-", dir="/tmp"))
    outcome = ElectionOutcome(str(directory))
    cluster = _Cluster(chosen, directory, outcome)
    try:
        await cluster.start()
        await cluster.play()
    except (AssertionError, BoxError, OSError, TimeoutError) as error:
        outcome.violations.append(f"the run ended early: {error!r}")
    finally:
        await cluster.close()
    if not outcome.violations:
        shutil.rmtree(directory)
    return outcome


class _Cluster:
    def __init__(self, chosen: RunChoice, directory: Path, outcome: ElectionOutcome) -> None:
        self._chosen = chosen
        self._outcome = outcome
        self._directory = directory
        quorum = chosen.members // 2 + 1
        others = chosen.members - (chosen.tarantools if chosen.tarantool else 0)
        self._members: list[Member] = []
        self._others = others
        for number in range(chosen.members):
            is_ours = number < others
            options = OPTIONS | {"replication_synchro_quorum": quorum}
            if not is_ours:
                options["feedback_enabled"] = False
            command = OURS if is_ours else (chosen.tarantool,)
            self._members.append(Member(directory, f"n{number + 1}", command, **options))
        uris = {member.name: member.uri for member in self._members}
        self._links = Links(directory, uris, Random(f"{chosen.seed} links"))
        self._injector = ElectionInjector(self._members, self._links)
        self._reported = ReportedOutcomes()
        self._leaders: dict[int, str] = {}

    async def start(self) -> None:
        """Start the first member, let the others join it, then turn elections on and await a leader.

        Raises:
            AssertionError: the members do not become equal or elect nobody in time.
            BoxError, OSError, TimeoutError: a member does not start or does not answer.
        """
        await self._links.open()
        founder = self._members[0]
        await founder.start(founds=True)
        for member in self._members[1:]:
            await member.start(replication=[self._links.uri(member.name, founder.name)], replication_connect_quorum=1)
        for member in self._members:
            member.options["replication"] = [member.uri, *self._links.sources(member.name)]
            await self._configure(member, "replication")
        await until(self._are_equal, "equal members", _LEADER)
        for member in self._members:
            member.options["election_mode"] = "candidate"
            await self._configure(member, "election_mode")
        await until(self._has_leader, "the first leader", _LEADER)

    async def _configure(self, member: Member, name: str) -> None:
        await member.eval_alone(f"box.cfg{{{name} = ...}}", member.options[name])

    async def play(self) -> None:
        """Run clients and faults, end all faults, then check the members."""
        chosen, loop = self._chosen, asyncio.get_running_loop()
        faults = draw_faults(chosen.seed, [member.name for member in self._members], chosen.seconds)
        keys, end = count(1), loop.time() + chosen.seconds
        clients = [
            Client(self._members, chosen.spaces, keys, Random(f"{chosen.seed} client {number}"))
            for number in range(_CLIENTS)
        ]
        watch = [asyncio.ensure_future(self._watch(member)) for member in self._members]
        calls = [asyncio.ensure_future(client.run(self._reported, end)) for client in clients]
        try:
            await asyncio.gather(self._injector.run(faults), *calls)
            await self._injector.finish()
        finally:
            for task in (*watch, *calls):
                task.cancel()
            await asyncio.gather(*watch, *calls, return_exceptions=True)
            self._outcome.calls, self._outcome.faults = self._reported.counts(), len(faults)
            (self._directory / "faults").write_text("\n".join(self._injector.happened))
        await self._judge()

    async def close(self) -> None:
        """Kill all members, close the links and collect the violations that the members' handles have noted."""
        await asyncio.gather(*(member.kill() for member in self._members), return_exceptions=True)
        await self._links.close()
        violations = self._outcome.violations
        for member in self._members:
            violations += [*member.violations, *member.alarms()]
            self._outcome.crashes += member.crashes

    async def _watch(self, member: Member) -> None:
        while True:
            await asyncio.sleep(_EVERY)
            member.notice_end()
            if not member.is_up or member.is_halted:
                continue
            await member.look()
            state = member.state
            if state.role == "leader":
                other = self._leaders.setdefault(state.term, member.name)
                if other != member.name:
                    self._outcome.violations.append(f"{member.name} and {other} lead in term {state.term}")

    async def _look(self) -> None:
        await asyncio.gather(*(member.look() for member in self._members))

    async def _are_equal(self) -> bool:
        await self._look()
        states = [member.state for member in self._whole()]
        return all(one.status == "running" and one.vclock == states[0].vclock for one in states)

    async def _has_leader(self) -> bool:
        """Return whether exactly one member is a writable leader and all members name it."""
        await self._look()
        states = [member.state for member in self._whole()]
        leaders = [one for one in states if one.leads]
        self._outcome.terms = max(one.term for one in states)
        return len(leaders) == 1 and all(one.leader == leaders[0].id for one in states)

    async def _judge(self) -> None:
        outcome, loop = self._outcome, asyncio.get_running_loop()
        await self._find_diverged()
        await until(self._has_leader, "a leader in the end", _LEADER)
        begin = loop.time()
        with suppress(AssertionError):
            await until(self._are_equal, "equal vclocks", _NEVER)
            outcome.equal_after = loop.time() - begin
        if not 0 <= outcome.equal_after <= _BOUND:
            late = f"after {outcome.equal_after:.1f} s" if outcome.equal_after > 0 else "never"
            outcome.violations.append(f"vclocks were equal {late}, and have {_BOUND:g} s: {self._vclocks()}")
        with suppress(AssertionError):
            await until(self._is_idle, "empty limbos", _NEVER)
        for member in self._whole():
            state = member.state
            if state.waiting:
                outcome.violations.append(f"{member.name}: {state.waiting} transactions wait in its limbo")
            outcome.violations += [f"{member.name} has stopped to follow {text}" for text in self._stopped(member)]
            diverged = [one for one in self._members if one.name in outcome.diverged]
            if state.contradiction and not any(_is_author(one, state.contradiction) for one in diverged):
                outcome.violations.append(f"{member.name}: {state.contradiction}")
        rows = {member.name: {space: await member.keys(space) for space in SPACES} for member in self._whole()}
        outcome.violations += self._reported.disagreements(rows, by_none_of=outcome.diverged)

    async def _find_diverged(self) -> None:
        """Find the Tarantool members that, as all others report, have diverged."""
        await self._look()
        ours, theirs = self._members[: self._others], self._members[self._others :]
        for member in theirs:
            texts = {one.state.contradiction for one in ours}
            if all(_is_author(member, text) for text in texts):
                self._outcome.diverged[member.name] = min(texts)

    def _whole(self) -> list[Member]:
        """Return the members that have not diverged."""
        return [member for member in self._members if member.name not in self._outcome.diverged]

    def _stopped(self, member: Member) -> list[str]:
        """Return the sources that a member has stopped to follow, without members that have diverged."""
        diverged = {str(one.state.id) for one in self._members if one.name in self._outcome.diverged}
        return [text for text in member.state.stopped if text.split()[0] not in diverged]

    async def _is_idle(self) -> bool:
        await self._look()
        return all(member.state.waiting == 0 and not self._stopped(member) for member in self._whole())

    def _vclocks(self) -> str:
        return "; ".join(f"{member.name} (id {member.state.id}) {member.state.vclock}" for member in self._members)


def _is_author(member: Member, contradiction: str) -> bool:
    """Return whether a member has taken the decision that contradicts an earlier one."""
    decision, _, _ = contradiction.partition(" what ")  # "ROLLBACK {...} of instance 5, lsn 9 rolls back what ..."
    return f" of instance {member.state.id}, lsn " in decision
