"""The campaign "replication": random writes and faults on three instances, which must end with equal rows.

Each step of an episode advances a simulated clock by a few milliseconds and draws one event:

    write      asynchronous rows by any instance (each has keys of its own), local rows, synchronous rows by the owner
    network    a connection is cut, held or refused for a while
    life       an orderly restart, a crash (only what is on disk at that moment stays), a checkpoint, other options
    injection  the journal, relays, appliers, files or memory fail or wait

Then all faults end. The instances must reach equal rows and vclocks, an empty limbo, and rows that the history
(`history.py`) allows. Between episodes another instance may take over the synchronous space by `promote`. At the end
all restart from their files and a fourth instance joins: the rows must be the same as before.

Usage: python -m test.unit.replication.campaign [--seeds 200] [--first 1]; prints a line for each seed.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any

from box.data.codec import pack
from box.errinj import ErrorInjections
from box.errors import BoxError
from box.replication.state import ApplierState
from box.wire.change import Request

from .cluster import SPACE, Cluster, Member, Proxy, cluster
from .history import Change, History, Key, Outcome

SYNC, LOCAL = 600, 700
REPLICATED = (SPACE, SYNC)
MEMBERS = 3
EPISODES = 2
EVENTS = 60
LONG = 1000.0
PATIENCE = 20.0
"""Seconds within which the instances must become equal after the last fault."""
PAUSE = 0.3
"""Seconds before stopped appliers are started again: the other instances need this time to empty the limbo."""
LIMIT = 40.0
"""Seconds for one step on a busy machine; usually a whole seed takes less."""

SWITCHES: dict[str, tuple[Any, ...]] = {
    "APPLIER_SLOW_ACK": (True,),
    "RELAY_EXIT_DELAY": (0.05, 0.2),
    "RELAY_FASTER_THAN_TX": (True,),
    "RELAY_REPORT_INTERVAL": (1,),
    "RELAY_SEND_DELAY": (True,),
    "RELAY_TIMEOUT": (0.001, 0.02),
    "SNAP_COMMIT_FAIL": (True,),
    "TUPLE_ALLOC": (True,),
    "TXN_COMMIT_ASYNC": (True,),
    "WAL_DELAY": (True,),
    "WAL_DELAY_COUNTDOWN": (0, 3),
    "WAL_IO": (True,),
    "WAL_ROTATE": (True,),
    "WAL_SYNC": (True,),
    "WAL_WRITE": (True,),
    "WAL_WRITE_DISK": (True,),
    "WAL_WRITE_EOF": (True,),
    "WAL_WRITE_PARTIAL": (0, 100),
    "XLOG_GARBAGE": (True,),
    "XLOG_READ": (0, 400),
}
_DEFAULTS = ErrorInjections().values


class Campaign:
    """One seed of the campaign. `trace` lists the events, to find the cause of a failure."""

    def __init__(self, running: Cluster, seed: int) -> None:
        self.random = random.Random(seed)
        self.running = running
        self.history = History()
        self.local = [History() for _ in range(MEMBERS)]
        self.members: list[Member] = []
        self.roads: dict[tuple[int, int], Proxy] = {}
        """Proxies by (follower, source)."""
        self.owner = 0
        """The number of the instance that writes to the synchronous space."""
        self.trace: list[str] = []
        self._is_up = [True] * MEMBERS
        self._next_key = 0
        self._unsettled: list[tuple[int, Change]] = []
        self._reliefs: set[asyncio.Task[None]] = set()
        self._checkpoints: set[asyncio.Task[None]] = set()
        self._start = time.monotonic()

    def note(self, text: str) -> None:
        self.trace.append(f"{time.monotonic() - self._start:7.3f} {text}")

    # -- the whole ----------------------------------------------------------------------------------

    async def run(self) -> None:
        await self._set_up()
        for number in range(EPISODES):
            await self._episode()
            await self._heal()
            await self._check(f"after episode {number}")
            if self.random.random() < 0.5:
                await self._change_owner()
        await self._restart_all()
        await self._check("after a restart of all")
        newcomer = await self.running.member().start(self.members[self.owner])
        self.members.append(newcomer)
        await self._check("with a new member")

    async def _set_up(self) -> None:
        mvcc = self.random.random() < 0.3
        self.note(f"mvcc {mvcc}")
        options = {
            "memtx_use_mvcc_engine": mvcc,
            "replication_connect_quorum": 0,
            "replication_connect_timeout": 0.3,
            "replication_sync_timeout": 0.3,
            "replication_timeout": 0.03,
            "replication_synchro_quorum": 2,
            "wal_max_size": self.random.choice((2000, 1 << 20)),
            "checkpoint_count": 1,
        }
        running, members = self.running, self.members
        members.append(await running.master(**options))
        while len(members) < MEMBERS:
            members.append(await self._joined(options))
        await members[0].make_space(SYNC, "sync", is_sync=True)
        await members[0].make_space(LOCAL, "local", group_id=1)
        for one in range(MEMBERS):
            for other in range(MEMBERS):
                if one != other:
                    self.roads[one, other] = await running.proxy(members[other])
        for one in range(MEMBERS):
            await members[one].replicate(*self._sources(one))
        await self._become_equal()

    async def _joined(self, options: dict[str, Any]) -> Member:
        """Add a member that joins the first one; it must wait for that, because alone it would
        bootstrap a replica set.
        """
        patient = {"replication_connect_quorum": 1, "replication_connect_timeout": 30}
        member = await self.running.member().start(self.members[0], **options | patient)
        impatient = {name: options[name] for name in patient}
        member.options |= impatient
        await member.node.configure(impatient)
        return member

    def _sources(self, one: int) -> list[Member | Proxy]:
        return [self.members[one], *(road for (follower, _), road in self.roads.items() if follower == one)]

    # -- an episode ---------------------------------------------------------------------------------

    async def _episode(self) -> None:
        events: list[tuple[Callable[[int], Any], int]] = [
            (self._write, 20),
            (self._write_synchronous, 10),
            (self._cut, 2),
            (self._hold, 2),
            (self._refuse, 1),
            (self._restart, 1),
            (self._crash, 1),
            (self._checkpoint, 1),
            (self._reconfigure, 2),
            (self._inject, 5),
        ]
        actions = [action for action, weight in events for _ in range(weight)]
        for _ in range(EVENTS):
            one = self.random.randrange(MEMBERS)
            outcome = self.random.choice(actions)(one)
            if asyncio.iscoroutine(outcome):
                await outcome
            await asyncio.sleep(self.random.choice((0, 0, 0.001, 0.005, 0.02)))

    def _later(self, seconds: float, call: Callable[[], object]) -> None:
        async def wait() -> None:
            await asyncio.sleep(seconds)
            call()

        _keep(self._reliefs, wait())

    # -- writes -------------------------------------------------------------------------------------

    def _write(self, one: int) -> None:
        """Write a transaction of one to four rows: new keys, and sometimes one that the same instance has written
        before.
        """
        rows: dict[Key, list[Any] | None] = {self._new_key(SPACE): [] for _ in range(self.random.choice((1, 1, 2, 4)))}
        known = [key for _, change in self._changes_of(one) for key in change.rows if key[0] == SPACE]
        if known and self.random.random() < 0.4:
            rows[self.random.choice(known)] = self.random.choice(([], None))
        self._submit(one, rows, self.history)
        if self.random.random() < 0.1:
            self._submit(one, {self._new_key(LOCAL): []}, self.local[one])

    def _write_synchronous(self, _one: int) -> None:
        rows: dict[Key, list[Any] | None] = {self._new_key(SYNC): []}
        if self.random.random() < 0.3:
            rows[self._new_key(SPACE)] = []
        self._submit(self.owner, rows, self.history)

    def _changes_of(self, one: int) -> list[tuple[int, Change]]:
        return [pair for pair in self._unsettled if pair[0] == one]

    def _new_key(self, space: int) -> Key:
        self._next_key += 1
        return space, self._next_key

    def _submit(self, one: int, rows: dict[Key, list[Any] | None], history: History) -> None:
        """Fill in the rows, write them in one transaction, and record its outcome in the history."""
        if not self._is_up[one]:
            return
        stamp = len(history.changes)
        for (_, key), row in rows.items():
            if row is not None:
                row[:] = [key, f"{self.members[one].name}-{stamp}", "x" * self.random.choice((1, 50))]
        change = history.add(rows)
        self._unsettled.append((one, change))
        node = self.members[one].node
        ctx = node.new_context()
        try:
            node.txns.begin(ctx)
            for (space_id, key), row in rows.items():
                space = node.schema.space(space_id)
                if row is None:
                    node.dml.write(ctx, space, Request.delete([key]))
                else:
                    node.dml.write(ctx, space, Request.replace(pack(row)))
            commit = node.txns.commit(ctx)
        except BoxError as error:
            if ctx.txn is not None:
                node.txns.rollback(ctx)
            change.settle(error)
            return
        if commit is None:
            change.settle(None)
        else:
            commit.on_done(lambda done: change.settle(done.error))

    # -- the network --------------------------------------------------------------------------------

    def _road(self) -> Proxy:
        return self.random.choice(list(self.roads.values()))

    def _cut(self, _one: int) -> None:
        self.note("cut")
        self._road().cut()

    def _hold(self, _one: int) -> None:
        road = self._road()
        self.note("hold")
        road.hold()
        self._later(self.random.choice((0.01, 0.05, 0.3)), road.release)

    def _refuse(self, _one: int) -> None:
        road = self._road()
        self.note("refuse")
        road.refuse = True
        road.cut()

        def serve() -> None:
            road.refuse = False

        self._later(self.random.choice((0.02, 0.2)), serve)

    # -- life ---------------------------------------------------------------------------------------

    async def _restart(self, one: int) -> None:
        if self._is_up[one]:
            self.note(f"restart {one}")
            await self._stop(one)
            await self._start_member(one)

    async def _stop(self, one: int) -> None:
        self._is_up[one] = False
        await self.members[one].stop()
        for _, change in self._changes_of(one):
            change.is_frozen = True

    async def _start_member(self, one: int) -> None:
        await self.members[one].start(*self._sources(one))
        self._is_up[one] = True

    async def _crash(self, one: int) -> None:
        """Crash an instance: restart it from a copy of its disk, and let nothing leave it after the copy was made."""
        if not self._is_up[one]:
            return
        self.note(f"crash {one}")
        self._is_up[one] = False
        member = self.members[one]
        roads = [road for ends, road in self.roads.items() if one in ends]
        for road in roads:
            road.refuse = True
            road.cut()
        disk = member.copy_disk()
        for _, change in self._changes_of(one):
            change.is_frozen = True
        await member.stop()
        member.disk = disk
        for road in roads:
            road.refuse = False
        await self._start_member(one)

    async def _checkpoint(self, one: int) -> None:
        if not self._is_up[one]:
            return
        self.note(f"checkpoint {one}")
        node = self.members[one].node

        async def make() -> None:
            try:
                await node.checkpoints.make()
            except BoxError as error:
                self.note(f"checkpoint {one}: {error.message}")

        _keep(self._checkpoints, make())

    async def _reconfigure(self, one: int) -> None:
        if not self._is_up[one]:
            return
        self.note(f"reconfigure {one}")
        member = self.members[one]
        await member.node.configure(
            {
                "replication_synchro_timeout": self.random.choice((0.02, 0.3, LONG)),
                "replication_synchro_quorum": self.random.choice((2, 2, 3)),
            }
        )
        if self.random.random() < 0.5:
            await member.replicate(*self.random.sample(self._sources(one), self.random.randint(1, MEMBERS)))

    def _inject(self, one: int) -> None:
        if not self._is_up[one]:
            return
        member, name = self.members[one], self.random.choice(list(SWITCHES))
        value = self.random.choice(SWITCHES[name])
        self.note(f"inject {one} {name} {value}")
        member.inject(name, value)
        node = member.node

        def end() -> None:
            node.errinj.set(f"ERRINJ_{name}", _DEFAULTS[f"ERRINJ_{name}"])
            node.errinj.set("ERRINJ_WAL_DELAY", False)

        self._later(self.random.choice((0.005, 0.03, 0.2)), end)

    # -- the end of all faults --------------------------------------------------------------------------

    async def _heal(self) -> None:
        self.note("heal")
        await asyncio.gather(*self._reliefs)
        for one, member in enumerate(self.members):
            if not self._is_up[one]:
                await self._start_member(one)
            for name in SWITCHES:
                member.inject(name, _DEFAULTS[f"ERRINJ_{name}"])
            calm = {"replication_synchro_timeout": LONG, "replication_synchro_quorum": 2}
            await member.node.configure(calm)
        for one in range(MEMBERS):
            await self._follow_again(one)
        await self._become_equal()
        await asyncio.gather(*self._checkpoints)
        self._unsettled.clear()

    async def _become_equal(self) -> None:
        """Wait until all instances are equal, and restart appliers that have stopped, as an administrator would.

        An applier may stop because a row of one master arrives while transactions of another are in the limbo.
        """
        deadline = time.monotonic() + PATIENCE
        resumed = 0.0
        while not self._is_equal():
            now = time.monotonic()
            assert now < deadline, "they did not become equal"
            await asyncio.sleep(0.005)
            if now < resumed + PAUSE:
                continue
            resumed = now
            for one, member in enumerate(self.members[:MEMBERS]):
                if any(
                    applier.state is ApplierState.STOPPED for applier in member.node.replication.replicaset.appliers
                ):
                    await self._follow_again(one)

    async def _follow_again(self, one: int) -> None:
        """Configure the sources anew: first none, because setting the same sources again changes nothing."""
        await self.members[one].replicate()
        await self.members[one].replicate(*self._sources(one))

    def _is_equal(self) -> bool:
        if not all(
            applier.is_self or applier.state in (ApplierState.SYNC, ApplierState.FOLLOW)
            for member in self.members
            for applier in member.node.replication.replicaset.appliers
        ):
            return False
        nodes = [member.node for member in self.members]
        if any(node.state.vclock.without_zero() != nodes[0].state.vclock.without_zero() for node in nodes):
            return False
        return all(node.limbo.is_empty and not node.mode.is_read_only for node in nodes)

    async def _check(self, when: str) -> None:
        await self._become_equal()
        for change in self.history.changes:
            assert change.outcome is not Outcome.OPEN or change.is_frozen, f"{when}: {change} has no outcome"
        for member in self.members:
            problems = self.history.errors(_rows(member, *REPLICATED))
            assert not problems, f"{when}: {member.name}: {problems}"
        for one in range(MEMBERS):
            problems = self.local[one].errors(_rows(self.members[one], LOCAL))
            assert not problems, f"{when}: local rows of {self.members[one].name}: {problems}"
        first = _rows(self.members[0], *REPLICATED)
        assert all(_rows(member, *REPLICATED) == first for member in self.members), f"{when}: different rows"

    async def _change_owner(self) -> None:
        """Let another instance take over the limbo while no transaction is under way."""
        self.owner = self.random.randrange(MEMBERS)
        self.note(f"owner {self.owner}")
        await self.members[self.owner].node.synchro.promote()
        await self._become_equal()

    async def _restart_all(self) -> None:
        self.note("restart all")
        for one in range(MEMBERS):
            await self._stop(one)
        for one in range(MEMBERS):
            await self._start_member(one)
        for one in range(MEMBERS):
            await self._follow_again(one)


def _keep(tasks: set[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.ensure_future(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)


def _rows(member: Member, *spaces: int) -> dict[Key, list[Any]]:
    return {(space, row[0]): row for space in spaces for row in member.rows(space)}


async def _main(seed: int) -> str:
    async with cluster() as running:
        campaign = Campaign(running, seed)
        try:
            await _watched(campaign)
        except BaseException as error:
            states = [
                f"{member.name}: {node.status} {node.mode} {node.state.vclock} {node.limbo} "
                f"{[(applier, applier.error) for applier in node.replication.replicaset.appliers]}"
                for member in running.members
                if member.is_running and (node := member.node)
            ]
            text = "\n".join([f"seed {seed}", *campaign.trace[-80:], *states, *map(_where, asyncio.all_tasks())])
            raise AssertionError(text) from error
        history = campaign.history
        counts = {outcome.name.lower(): history.count(outcome) for outcome in Outcome}
        return f"seed {seed}: {counts}"


async def _watched(campaign: Campaign) -> None:
    """Run a step; if it takes longer than `LIMIT`, fail while the tasks still show where they wait."""
    task = asyncio.ensure_future(campaign.run())
    progress = -1
    while not task.done():
        before, progress = progress, len(campaign.trace) + len(campaign.history.changes)
        assert progress > before, "it hangs"
        await asyncio.wait({task}, timeout=LIMIT)
    task.result()


def _where(task: asyncio.Task[Any]) -> str:
    """Describe what a task waits for."""
    places = []
    waiting: Any = task.get_coro()
    while waiting is not None and getattr(waiting, "cr_frame", None) is not None:
        places.append(f"{waiting.__qualname__}:{waiting.cr_frame.f_lineno}")
        waiting = waiting.cr_await
    return f"{task.get_name()}: {' > '.join(places)}"


def run(seed: int) -> str:
    """Run one seed on a loop of its own.

    Raises:
        AssertionError: a check has failed; the text has the trace.
    """
    return asyncio.run(_main(seed))


def main() -> int:
    parser = argparse.ArgumentParser(prog="campaign", description="Random faults in a replica set of three.")
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=1)
    args = parser.parse_args()
    failed = 0
    for seed in range(args.first, args.first + args.seeds):
        start = time.monotonic()
        try:
            text = run(seed)
        except AssertionError as error:
            failed += 1
            text = f"FAILED {error}\ncaused by {error.__cause__!r}"
        print(f"{text} ({time.monotonic() - start:.1f} s)", flush=True)
    print(f"{args.seeds - failed} of {args.seeds} seeds passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
