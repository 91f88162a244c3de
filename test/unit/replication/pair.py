"""Replicas without a network, in pairs, to compare two ways of applying the same rows.

`changes` and `synchronous` generate changes: (request type, space, fields, operations, whether the encoding is
unusual).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from hypothesis import strategies as st

from box.data.codec import pack
from box.errinj import ErrorInjections
from box.errors import BoxError
from box.log import Log
from box.replication.row_sink import RowSink
from box.wire.change import Request
from box.wire.change_run import ChangeRun
from box.wire.constants import RequestType
from box.wire.messages import SynchroRequest, synchro_row
from box.wire.row import Row
from test.unit.txn._world import World, code

PLAIN, INDEXED, TRIGGERED, SYNCHRONOUS, MISSING = 512, 513, 514, 515, 600
ORIGIN = 2
KINDS = (2, 3, 3, 3, 4, 5, 9)


class _Instance:
    instance_id = 1

    def __init__(self, world: World) -> None:
        self.vclock = world.journal.vclock


class _Options:
    skips_conflicts = False


class _Elections:
    def is_outdated(self, origin_id: int) -> bool:
        return False


class _Trigger:
    def __init__(self, heard: list[Any]) -> None:
        self._heard = heard

    async def call(self, ctx: Any, old: bytes | None, new: bytes | None, name: str, operation: str) -> None:
        self._heard.append((old, new, name, operation))


class Replica:
    """All parts of an instance that take part in applying rows."""

    def __init__(self, *, skips_conflicts: bool, mvcc: bool = False) -> None:
        world = self.world = World(mvcc=mvcc)
        extra = (("sk", "TREE", True, [(2, "string")]), ("three", "TREE", False, [(3, "unsigned", True)]))
        self.spaces = [
            world.space("plain", space_id=PLAIN),
            world.space("indexed", *extra, space_id=INDEXED),
            world.space("triggered", space_id=TRIGGERED),
            world.space("synchronous", space_id=SYNCHRONOUS, is_sync=True),
        ]
        self.heard: list[Any] = []
        self.spaces[2].on_replace.append(_Trigger(self.heard))
        options = _Options()
        options.skips_conflicts = skips_conflicts
        stand_ins: Any = (_Instance(world), options, _Elections())
        self.sink = RowSink(
            *stand_ins,
            schema=world.schema,
            txns=world.txns,
            dml=world.dml,
            synchro=world.synchro,
            log=Log(lambda: 0.0),
            errinj=ErrorInjections(),
        )
        self.sink.on_failure = lambda error: self.failures.append(error.code)
        self.failures: list[int] = []

    async def apply(self, *rows: Row) -> str | None:
        """Apply one transaction; return the error with which an applier would stop, or None."""
        try:
            await self.sink.apply(self.world.ctx, list(rows))
        except BoxError as error:
            return f"{code(error)} {error.message}"
        return None

    async def apply_run(self, run: ChangeRun) -> str | None:
        """Apply rows of several transactions as a run, as an applier does."""
        number = 0
        while number < len(run):
            try:
                end = self.sink.apply_run(self.world.ctx, run, number, len(run))
            except BoxError as error:
                return f"{code(error)} {error.message}"
            if end < len(run):
                error_text = await self.apply(run.row(end))
                if error_text is not None:
                    return error_text
                end += 1
            number = end
        return None

    def state(self) -> Any:
        """Return everything that is visible from outside, for comparisons."""
        contents = [self.world.all(space, iid=iid) for space in self.spaces for iid in space.indexes]
        journal, limbo = self.world.journal, [(entry.lsn, entry.written, entry.wait_ack) for entry in self.world.limbo]
        applied = dict(self.sink.applied)
        return contents, journal.rows, self.world.dml.counters, applied, self.heard, limbo, self.world.limbo.owner_id

    def decide(self, kind: RequestType, lsn: int) -> None:
        """Apply the origin's CONFIRM or ROLLBACK for its synchronous transactions in the log."""
        if kind == RequestType.ROLLBACK:
            self.world.journal.write()
        self.world.synchro.recover(synchro_row(SynchroRequest(kind, ORIGIN, lsn, 0, ORIGIN)))


tuples = st.one_of(
    st.tuples(st.integers(0, 4), st.sampled_from("abcd"), st.integers(0, 3)),
    st.tuples(st.integers(0, 4), st.sampled_from("abcd")),
    st.sampled_from([(), ("wrong", "a", 1), (1, "a", None)]),
)
spaces = st.sampled_from([PLAIN, PLAIN, PLAIN, INDEXED, INDEXED, TRIGGERED, SYNCHRONOUS, MISSING])
operations = st.sampled_from([[["=", 2, "x"]], [["+", 3, 5]], [["=", 1, 3]], [["#", 4, 1]], []])
oddities = st.sampled_from([0, 0, 0, 0, 1])
changes = st.tuples(st.sampled_from(KINDS), spaces, tuples, operations, oddities)
synchronous = st.tuples(
    st.sampled_from(KINDS), st.sampled_from([SYNCHRONOUS] * 6 + [PLAIN, MISSING]), tuples, operations, oddities
)
decisions = st.tuples(st.sampled_from([RequestType.CONFIRM, RequestType.ROLLBACK]), st.integers(1, 40))


def change_body(kind: int, space_id: int, fields: tuple[Any, ...], ops: list[Any], oddity: int) -> bytes:
    """Return the request body of a generated change."""
    raw = pack(list(fields))
    request = {
        2: Request.insert(raw),
        3: Request.replace(raw),
        4: Request.update(list(fields[:1]), ops),
        5: Request.delete(list(fields[:1])),
        9: Request.upsert(raw, ops),
    }[kind]
    body = request.body(space_id)
    if not oddity:
        return body
    # Other forms: a number of five bytes, the pairs in another order, something behind the end.
    if kind == 3 and len(fields) == 2:
        return b"\x82\x21" + raw + b"\x10\xce" + space_id.to_bytes(4, "big")
    return body + b"\x00" if kind == 2 else body


def transaction(changes: list[Any], lsn: int) -> list[Row]:
    """Return the rows of one transaction of generated changes."""
    rows = [
        Row(change[0], ORIGIN, lsn + number, tsn=lsn, is_commit=False, body=change_body(*change))
        for number, change in enumerate(changes)
    ]
    rows[-1].is_commit = True
    return rows


class Pair:
    """Two replicas that get the same rows in two ways. `lsn` is the next one of the origin."""

    def __init__(self, *, skips_conflicts: bool, mvcc: bool = False) -> None:
        self.one, self.other = (Replica(skips_conflicts=skips_conflicts, mvcc=mvcc) for _ in range(2))
        self.lsn = 70000

    def happen(self, step: Any) -> bool:
        """Take a step of the journal or of the limbo's owner on both replicas; return False for steps of another kind."""
        for replica in (self.one, self.other):
            journal = replica.world.journal
            if step == "written":
                journal.write()
            elif step == "failed":
                journal.fail()
            elif step == "refuse":
                journal.refuses = not journal.refuses
            elif step[0] == "decide":
                kind, back = step[1]
                replica.decide(kind, self.lsn - back)
            else:
                return False
        return True


def go_through(
    program: list[Any], skips_conflicts: bool, apply: Callable[[Pair, Any], Awaitable[None]], *, mvcc: bool = False
) -> None:
    """Run a program on both replicas, with `apply` for steps that bring rows, and assert after each step that they
    agree.
    """

    async def body() -> None:
        pair = Pair(skips_conflicts=skips_conflicts, mvcc=mvcc)
        for step in program:
            if not pair.happen(step):
                await apply(pair, step)
            assert pair.one.state() == pair.other.state()
            assert bool(pair.one.failures) == bool(pair.other.failures)
        await pair.one.sink.stop()
        await pair.other.sink.stop()

    asyncio.run(body())
