"""A transaction manager with spaces and a journal that completes when the test says so."""

from __future__ import annotations

import asyncio
from typing import Any

from box.data.codec import pack, unpack
from box.data.format import FieldDef, TupleFormat
from box.data.keydef import KeyDef, PartDef
from box.data.types import FieldType
from box.errors import BoxError, ErrorCode, client_error
from box.index import IndexDef, create_index
from box.schema.schema import Schema
from box.schema.space import Layout, Space, SpaceDef, SpaceOpts
from box.session import Context, Session
from box.txn.dml import Dml
from box.txn.engines import make_engines
from box.txn.lifecycle import TransactionManager
from box.txn.limbo import Limbo
from box.txn.mvcc import MvccStorage
from box.txn.pending import Pending
from box.txn.storage import TupleStorage
from box.txn.synchro import LimboDriver
from box.wire.change import Request
from box.wire.entry import JournalEntry
from box.wire.vclock import VClock

INSTANCE_ID = 1


class FakeJournal:
    """A journal whose entries wait in `queue` until `write` or `fail`; with `is_quick` they complete at once."""

    is_void = False
    takes_runs = True

    def __init__(self) -> None:
        self.queue: list[JournalEntry] = []
        self.rows: list[tuple[int, Any]] = []
        self.entries: list[JournalEntry] = []
        self.vclock = VClock()
        self.is_quick = False
        self.refuses = False
        self.submitted = asyncio.Event()
        """An event that is set while entries wait."""

    def completes_at_once(self, rows: int = 1) -> bool:
        return self.is_void or self.is_quick

    def flush(self) -> bool:
        return False

    def pass_rows(self, count: int) -> None:
        raise AssertionError("not a void journal")

    def submit(self, entry: JournalEntry) -> None:
        if self.refuses:
            raise client_error(ErrorCode.WAL_IO)
        self.queue.append(entry)
        self.submitted.set()
        if self.is_quick:
            self.write()

    def write(self, count: int | None = None) -> None:
        """Complete the oldest entries, or all."""
        for _ in range(len(self.queue) if count is None else count):
            entry = self.queue.pop(0)
            if not self.queue:
                self.submitted.clear()
            for row in entry.rows if entry.run is None else entry.run.rows():
                if not row.replica_id:
                    row.replica_id = 0 if row.group_id else INSTANCE_ID
                    row.lsn = self.vclock[row.replica_id] + 1
                self.vclock.follow(row.replica_id, row.lsn)
                self.rows.append((int(row.type), unpack(row.body) if row.body else None))
            self.entries.append(entry)
            entry.on_complete(entry)

    def fail(self, keep: int = 0) -> None:
        """Fail all entries but the oldest `keep`, newest first."""
        while len(self.queue) > keep:
            entry = self.queue.pop()
            entry.error = client_error(ErrorCode.WAL_IO)
            entry.on_complete(entry)


def index_def(space_id: int, iid: int, name: str, kind: str, unique: bool, *parts: Any) -> IndexDef:
    part_defs = tuple(
        PartDef(
            part[0] - 1,
            FieldType(part[1]),
            is_nullable=len(part) > 2 and part[2],
            path=part[3] if len(part) > 3 else None,
        )
        for part in parts
    )
    return IndexDef(space_id, iid, name, kind, unique, part_defs)


class World:
    """The parts of an instance that write; `quorum` is that of synchronous spaces, `mvcc` turns versions on."""

    def __init__(self, *, mvcc: bool = False, quorum: int = 1, timeout: float = 5.0) -> None:
        self.loop = asyncio.get_running_loop()
        self.journal = FakeJournal()
        self.limbo = Limbo(quorum, timeout)
        self.limbo.instance_id = INSTANCE_ID
        self.synchro = LimboDriver(self.limbo, self.journal, self.loop)
        self.storage: TupleStorage = MvccStorage() if mvcc else TupleStorage()
        self.txns = TransactionManager(self.journal, self.storage, self.synchro, self.loop)
        self.schema = Schema(make_engines())
        self.dml = Dml(self.schema, self.txns, loop=self.loop)
        self.pending: Pending | None = None
        self.ctx = self.context()

    def context(self) -> Context:
        return Context(Session(1, "background", self.schema.admin))

    def space(
        self, name: str = "s", *extra: tuple[str, str, bool, Any], space_id: int = 512, kind: str = "TREE", **opts: Any
    ) -> Space:
        """Make a space with a primary key on field 1 (unsigned) and more indexes: (name, type, unique, parts)."""
        engine = opts.pop("engine", "memtx")
        definition = SpaceDef(space_id, 1, name, engine, opts=SpaceOpts(**opts))
        key = KeyDef([PartDef(0, FieldType.UNSIGNED)])
        indexes = {}
        if engine == "memtx":
            indexes[0] = create_index(index_def(space_id, 0, "pk", kind, True, (1, "unsigned")), None, space_name=name)
        for iid, (index_name, index_kind, unique, parts) in enumerate(extra, 1):
            made = index_def(space_id, iid, index_name, index_kind, unique, *parts)
            indexes[iid] = create_index(made, key, space_name=name)
        fields = [FieldDef("id", FieldType.UNSIGNED)]
        tuple_format = TupleFormat(fields, [index.key_def for index in indexes.values()])
        space = Space(Layout(definition, tuple_format, indexes), self.schema.engine(engine))
        self.schema.add_space(space)
        return space

    # -- short forms with decoded values, committing at once

    def write(self, space: Space, request: Request, ctx: Context | None = None) -> bytes | None:
        """Write and return the result; a commit that is not complete goes to `pending`."""
        outcome = self.dml.write(ctx or self.ctx, space, request)
        self.pending = outcome if isinstance(outcome, Pending) else None
        return outcome.result if isinstance(outcome, Pending) else outcome

    def commit(self, ctx: Context | None = None) -> None:
        """Commit; if that is not complete, it goes to `pending`."""
        self.pending = self.txns.commit(ctx or self.ctx)

    def replace(self, space: Space, *fields: Any, ctx: Context | None = None) -> Any:
        return unpack(self.write(space, Request.replace(pack(list(fields))), ctx) or b"")

    def insert(self, space: Space, *fields: Any, ctx: Context | None = None) -> Any:
        return unpack(self.write(space, Request.insert(pack(list(fields))), ctx) or b"")

    def get(self, space: Space, *key: Any, ctx: Context | None = None, iid: int = 0) -> Any:
        found = self.dml.reads.get(ctx or self.context(), space, iid, list(key))
        return None if found is None else unpack(found)

    def all(self, space: Space, ctx: Context | None = None, iid: int = 0) -> list[Any]:
        rows = self.dml.reads.select(ctx or self.context(), space, iid, 2, 0, 1000, [])
        return [unpack(raw) for raw in rows]


def code(error: BoxError) -> str:
    return ErrorCode(error.code).name
