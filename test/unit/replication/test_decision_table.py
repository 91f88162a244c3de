"""Who may decide about synchronous transactions: the tables in the docstring of `box.replication.raft`, row by row.

An instance with the real machine of elections, limbo and driver is brought into each state. Then everything happens
there that could make it decide: acknowledgements arrive, and the time of its transactions is over.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random

import pytest

from box.data.codec import pack
from box.errors import BoxError, ErrorCode
from box.log import Log
from box.replication import raft
from box.replication.elections import Elections
from box.replication.raft import Role
from box.wire.change import Request
from box.wire.constants import SYNCHRO_TYPES, Flag, RequestType
from box.wire.messages import Claim, RaftRequest, SynchroRequest, decode_synchro, is_claim, raft_row, synchro_row
from box.wire.row import Row
from test.support import until
from test.unit.txn._world import INSTANCE_ID, World

OTHER, THIRD = 2, 3


def table(heading: str) -> list[list[str]]:
    """Return the rows of the table below a heading. A line without its second cell continues the row above."""
    after = (raft.__doc__ or "").split(heading, 1)[1].split("```")[1]
    lines = [line for line in after.splitlines() if line]
    starts = [match.start() for match in re.finditer(r"(?:^|(?<=  ))\S", lines[0])]
    rows: list[list[str]] = []
    for line in lines:
        cells = [line[start:end].strip() for start, end in zip(starts, [*starts[1:], None], strict=True)]
        if cells[1] or not rows:
            rows.append(cells)
        else:
            rows[-1] = [f"{above} {cell}".strip() for above, cell in zip(rows[-1], cells, strict=True)]
    return rows


class Instance:
    """Instance 1 of three, in which two votes elect a leader."""

    def __init__(self) -> None:
        world = self.world = World(quorum=2, timeout=1000)
        world.journal.is_quick = True
        self.space = world.space(is_sync=True)
        self.elections = Elections(
            world.loop,
            Random(1),
            Log(lambda: 0.0),
            own_vclock=lambda: world.journal.vclock,
            coming=lambda: world.journal.vclock,
            write=self._record,
            push=lambda news: None,
            synchro=world.synchro,
        )
        self.elections.raft.instance_id = INSTANCE_ID
        self.elections.set_timeouts(election=1000, death=1000)
        self.elections.set_quorum(2, 3)
        self.elections.set_mode("manual")
        self.elections.start()
        self.promotion: asyncio.Task[None] | None = None
        self.told: list[BoxError] = []

    async def _record(self, row: Row) -> None:
        """Write a RAFT row."""

    async def stop(self) -> None:
        if self.promotion is not None:
            self.promotion.cancel()
            await asyncio.gather(self.promotion, return_exceptions=True)
        await self.elections.stop()
        self.world.synchro.stop()

    # -- events

    async def elect(self) -> None:
        """Win an election; the promotion then waits until a majority has its claim."""
        machine = self.elections.raft
        self.promotion = asyncio.create_task(self.elections.promote())
        await until(lambda: machine.role is Role.CANDIDATE, "a candidate", 5)
        vote = RaftRequest(machine.term, INSTANCE_ID, Role.FOLLOWER)
        self.elections.receive(raft_row(vote), OTHER)
        await until(lambda: "claim" in self.written, "the claim")

    async def lead(self) -> None:
        await self.elect()
        self.acknowledge()
        assert self.promotion is not None
        await self.promotion

    def acknowledge(self) -> None:
        """Let a majority have all rows."""
        self.world.synchro.on_ack(OTHER, self.world.journal.vclock)

    def hear(self) -> None:
        """Receive acknowledgements from a majority that has no new rows."""
        self.world.synchro.on_ack(OTHER, {})

    def depose(self) -> None:
        later = RaftRequest(self.elections.raft.term + 1, OTHER, Role.LEADER)
        self.elections.receive(raft_row(later), OTHER)

    def insert(self, key: int) -> None:
        self.world.write(self.space, Request.insert(pack([key])), self.world.context())
        pending = self.world.pending
        assert pending is not None
        pending.on_done(lambda done: self.told.append(done.error) if done.error is not None else None)

    def receive_insert(self, origin_id: int, lsn: int) -> None:
        """Write a synchronous transaction of another instance."""
        world, ctx = self.world, self.world.context()
        txn = world.txns.begin(ctx)
        body = b"\x82\x10" + pack(self.space.id) + b"\x21" + pack([lsn])
        world.dml.write_row(ctx, Row(RequestType.REPLACE, origin_id, lsn, body=body))
        world.txns.commit_open(ctx, txn, waits=False)

    async def receive_claim(self, claim: Claim) -> None:
        row = synchro_row(SynchroRequest(RequestType.CONFIRM, claim.owner_id, 0, 0, THIRD, claim=claim))
        row.replica_id, row.lsn = THIRD, 1
        await self.world.synchro.apply(row)

    async def let_time_pass(self) -> None:
        """End the time that transactions wait for a quorum, and let everything happen that follows."""
        self.world.synchro.set_timeout(0)
        for _ in range(20):
            await asyncio.sleep(0)

    # -- what it has written

    @property
    def written(self) -> list[str]:
        """The decisions of this instance in its log, in the words of the table."""
        rows = [row for entry in self.world.journal.entries if entry.run is None for row in entry.rows]
        return [word for row in rows if row.replica_id == INSTANCE_ID and (word := _word(row))]


def _word(row: Row) -> str:
    if row.type == RequestType.NOP and row.flags & Flag.PROPOSED:
        return "a proposal"
    if is_claim(row):
        return "claim"
    return RequestType(row.type).name if row.type in SYNCHRO_TYPES else ""


@asynccontextmanager
async def instance() -> AsyncIterator[Instance]:
    running = Instance()
    try:
        yield running
    finally:
        await running.stop()


# -- decisions ----------------------------------------------------------------------------------------------------


async def _leader_whose_rows_a_majority_has(it: Instance) -> None:
    await it.lead()
    it.insert(1)
    it.acknowledge()


async def _leader_that_heard_a_majority(it: Instance) -> None:
    await it.lead()
    it.insert(1)
    it.hear()


async def _leader_whose_proposal_a_majority_has(it: Instance) -> None:
    await _leader_that_heard_a_majority(it)
    await it.let_time_pass()
    it.acknowledge()


async def _leader_that_heard_nobody(it: Instance) -> None:
    await it.lead()
    it.world.synchro.forget_follower(OTHER)
    it.insert(1)


async def _deposed(it: Instance) -> None:
    await it.lead()
    it.insert(1)
    it.depose()
    it.acknowledge()


async def _latest_leader(it: Instance) -> None:
    it.receive_insert(OTHER, 1)
    await it.elect()
    it.hear()


async def _latest_leader_whose_claim_a_majority_has(it: Instance) -> None:
    it.receive_insert(OTHER, 1)
    await it.lead()


async def _follower(it: Instance) -> None:
    it.receive_insert(OTHER, 1)
    it.acknowledge()


STATES: dict[str, tuple[Callable[[Instance], Awaitable[None]], list[str]]] = {
    "leader, its PROMOTE is written": (_leader_whose_rows_a_majority_has, ["claim", "PROMOTE", "CONFIRM"]),
    "leader, heard a majority since r": (_leader_that_heard_a_majority, ["claim", "PROMOTE", "a proposal"]),
    "leader, a majority has the proposal": (
        _leader_whose_proposal_a_majority_has,
        ["claim", "PROMOTE", "a proposal", "ROLLBACK"],
    ),
    "leader, no majority heard since r": (_leader_that_heard_nobody, ["claim", "PROMOTE"]),
    "deposed": (_deposed, ["claim", "PROMOTE"]),
    "latest leader": (_latest_leader, ["claim"]),
    "latest leader, a majority has the claim": (_latest_leader_whose_claim_a_majority_has, ["claim", "PROMOTE"]),
    "follower": (_follower, []),
}
"""How an instance gets into each state of the table, and all rows that it has written in the end."""

LAST = {"CONFIRM(r)": "CONFIRM", "PROMOTE(n)": "PROMOTE", "its claim(n), once": "claim"}
"""The table's words for rows, where `Instance.written` uses other words."""
QUIET = ("leader, no majority heard since r", "deposed", "follower")

TOLD = (
    "leader, heard a majority since r",
    "leader, a majority has the proposal",
    "leader, no majority heard since r",
    "deposed",
)
"""States in which the caller of the transaction gets an error, at the latest when its time is over."""


def test_the_table_of_decisions_has_the_states_that_are_tested() -> None:
    """The last row that is written in a state is the one that the table allows there; quiet states write none."""
    head, *rows = table("Every decision rests on that:")
    assert head[:2] == ["state of the owner of the limbo", "what it may write"]
    allowed = {state: word for state, word, _ in rows}
    assert {state for state, word in allowed.items() if word == "nothing"} == set(QUIET)
    assert {state: LAST.get(word, word) for state, word in allowed.items() if word != "nothing"} == {
        state: written[-1] for state, (_, written) in STATES.items() if state not in QUIET
    }
    assert set(allowed) == set(STATES)


@pytest.mark.parametrize("state", list(STATES))
def test_what_an_instance_writes_in_each_state(state: str) -> None:
    bring, wanted = STATES[state]

    async def body() -> None:
        async with instance() as it:
            await bring(it)
            await it.let_time_pass()
            assert it.written == wanted
            assert [error.code for error in it.told] == [ErrorCode.SYNC_QUORUM_TIMEOUT] * (state in TOLD)

    asyncio.run(body())


# -- claims -------------------------------------------------------------------------------------------------------


async def _an_open_claim(it: Instance) -> None:
    await it.receive_claim(Claim(1, OTHER, 1))


async def _a_proposal(it: Instance) -> None:
    it.world.synchro.note_nops([Row(RequestType.NOP, OTHER, 3, flags=Flag.PROPOSED)])


async def _neither(it: Instance) -> None:
    pass


CLAIMS: list[tuple[str, str, Callable[[Instance], Awaitable[None]], int]] = [
    ("an open claim is in the log", "the same n", _an_open_claim, 1),
    ("a proposal of the former leader", "nothing", _a_proposal, 0),
    ("otherwise", "all waiting rows", _neither, 2),
]
"""For each row of the table: the beginnings of its first cells, a function that meets its condition, and the LSN that
is claimed.
"""


def test_the_table_of_claims_has_the_conditions_that_are_tested() -> None:
    rows = table("What a claim confirms; the first line that applies counts:")
    assert len(rows) == len(CLAIMS)
    for (condition, said, _), (begins, says, _bring, _lsn) in zip(rows, CLAIMS, strict=True):
        assert condition.startswith(begins)
        assert said.startswith(says)


@pytest.mark.parametrize("number", range(len(CLAIMS)))
def test_what_a_claim_says(number: int) -> None:
    """A condition counts before those below it, which are met as well."""

    async def body() -> None:
        async with instance() as it:
            for lsn in (1, 2):
                it.receive_insert(OTHER, lsn)
            for _, _, bring, _ in CLAIMS[number:]:
                await bring(it)
            await it.elect()
            claim = decode_synchro(it.world.journal.entries[-1].rows[0]).claim
            assert claim is not None
            assert (claim.owner_id, claim.lsn) == (OTHER, CLAIMS[number][3])

    asyncio.run(body())
