"""Faults for members of a cluster with elections: `draw_faults` draws them, `ElectionInjector` lets them happen.

```
kill       SIGKILL, and a start later        isolate   cut all links of a member
halt       SIGSTOP, and SIGCONT later        split     cut the cluster in two, the member on one side
restart    SIGTERM, and a start later        cut       cut the link from one member to another
fade       cut the links to a member, then isolate it: the others have rows that it could not confirm
promote    box.ctl.promote()                 snapshot  box.snapshot()
```

Half of the faults hit the member that leads at that moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import Final

from box.errors import BoxError
from box.testing.simulation.faults import Fault
from test.soak.reality.links import Links
from test.soak.reality.member import Member

LEADER: Final = "leader"
"""In place of a node's name in a fault: the member that leads when the fault begins."""
_WEIGHTS: Final = {
    "kill": 4,
    "halt": 4,
    "isolate": 4,
    "split": 4,
    "fade": 8,
    "cut": 2,
    "restart": 1,
    "promote": 2,
    "snapshot": 1,
}
_PAUSE: Final = (0.2, 4.0)
"""Seconds between the beginnings of two faults."""
_LENGTHS: Final = ((0.1, 1.5), (1.0, 5.0), (1.0, 5.0), (4.0, 10.0))
"""Ranges of a fault's length in seconds: below a heartbeat, about a synchronous timeout (twice as likely), and longer
than an election."""
_LEADERS: Final = 0.5
"""The share of faults that hit the leader."""
_FADING: Final = 1.0
"""The most seconds that a fading leader gets no acknowledgements before it is isolated."""
_SUCCESSION: Final = 5.0
"""Seconds of isolation after which the others elect: they miss four heartbeats of a second each first."""
_PATIENCE: Final = 30.0


def draw_faults(seed: int, names: Sequence[str], seconds: float) -> list[Fault]:
    """Return the faults that `seed` draws for a run of `seconds`, by the time when each begins."""
    random = Random(f"{seed} plan")
    kinds, weights = list(_WEIGHTS), list(_WEIGHTS.values())
    faults = []
    at = random.uniform(*_PAUSE)
    while at < seconds:
        (kind,) = random.choices(kinds, weights)
        node = LEADER if random.random() < _LEADERS else random.choice(names)
        length = random.uniform(*random.choice(_LENGTHS))
        faults.append(Fault(round(at, 3), kind, node, random.choice(names), round(length, 3), random.random()))
        at += random.uniform(*_PAUSE)
    return faults


class ElectionInjector:
    """Lets faults happen. `happened` has a line for each fault with its time and member, to be read beside the logs."""

    def __init__(self, members: Sequence[Member], links: Links) -> None:
        self.happened: list[str] = []
        self._members = {member.name: member for member in members}
        self._links = links
        self._tasks: set[asyncio.Task[None]] = set()
        self._starts: dict[str, asyncio.Lock] = {name: asyncio.Lock() for name in self._members}

    async def run(self, faults: Sequence[Fault]) -> None:
        """Begin each fault at its time, and return once the last has begun; faults may still be in effect then."""
        loop = asyncio.get_running_loop()
        begin = loop.time()
        for fault in faults:
            await asyncio.sleep(max(0.0, begin + fault.at - loop.time()))
            member = self._victim(fault)
            self.happened.append(f"{loop.time() - begin:8.3f} {member.name:6} {fault}")
            task = asyncio.ensure_future(self._happen(fault, member))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def finish(self) -> None:
        """End every fault: all members run and reach each other."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._links.heal()
        for member in self._members.values():
            member.go_on()
        await asyncio.gather(*(self._revive(member) for member in self._members.values()))

    def _victim(self, fault: Fault) -> Member:
        if fault.node == LEADER:
            return next((one for one in self._members.values() if one.state.leads), self._members[fault.other])
        return self._members[fault.node]

    async def _revive(self, member: Member) -> None:
        """Start a member anew unless it answers: a process whose start was cancelled is killed first."""
        async with self._starts[member.name]:
            await member.look()
            if not member.state.status:
                await member.kill()
                await member.start()

    async def _happen(self, fault: Fault, member: Member) -> None:
        with suppress(BoxError, OSError, TimeoutError):  # another fault hit the member meanwhile
            await getattr(self, f"_{fault.kind}")(fault, member)

    async def _start(self, member: Member) -> None:
        async with self._starts[member.name]:
            if not member.is_up:
                await member.start()

    async def _kill(self, fault: Fault, member: Member) -> None:
        if member.is_up:
            await member.kill()
            await asyncio.sleep(fault.seconds)
            await self._start(member)

    async def _restart(self, fault: Fault, member: Member) -> None:
        if member.is_up and not member.is_halted:
            await member.stop()
            await asyncio.sleep(fault.seconds)
            await self._start(member)

    async def _halt(self, fault: Fault, member: Member) -> None:
        member.halt()
        await asyncio.sleep(fault.seconds)
        member.go_on()

    async def _isolate(self, fault: Fault, member: Member) -> None:
        await self._cut_off(fault, [member.name])

    async def _split(self, fault: Fault, member: Member) -> None:
        """Cut the cluster in two; the bits of the fault's amount choose the members on this member's side."""
        bits = int(fault.amount * 2 ** len(self._members))
        await self._cut_off(
            fault, [name for number, name in enumerate(self._members) if name == member.name or bits >> number & 1]
        )

    async def _fade(self, fault: Fault, member: Member) -> None:
        """Cut the links to a member, then isolate it until the others have elected.

        The first step must be shorter than the election timeout: the others still get the member's heartbeats.
        """
        for name in self._members:
            self._links.cut(name, member.name)
        await asyncio.sleep(_FADING * fault.amount)
        self._links.isolate(member.name)
        await asyncio.sleep(_SUCCESSION + fault.seconds / 2)
        self._links.rejoin(member.name)

    async def _cut(self, fault: Fault, member: Member) -> None:
        await self._without([(member.name, fault.other)], fault.seconds)

    async def _cut_off(self, fault: Fault, here: Sequence[str]) -> None:
        there = [name for name in self._members if name not in here]
        ways = [way for one in here for other in there for way in ((one, other), (other, one))]
        await self._without(ways, fault.seconds)

    async def _without(self, ways: Sequence[tuple[str, str]], seconds: float) -> None:
        for way in ways:
            self._links.cut(*way)
        await asyncio.sleep(seconds)
        for way in ways:
            self._links.mend(*way)

    async def _promote(self, fault: Fault, member: Member) -> None:
        await self._ask(member, "box.ctl.promote()")

    async def _snapshot(self, fault: Fault, member: Member) -> None:
        await self._ask(member, "box.snapshot()")

    async def _ask(self, member: Member, expression: str) -> None:
        """Evaluate Lua over a separate connection, so that a long call does not hold up the queries of the state."""
        if member.is_up and not member.is_halted:
            await member.eval_alone(expression, timeout=_PATIENCE)
