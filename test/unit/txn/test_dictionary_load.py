"""Rows of system spaces from a snapshot take a fast path, with the same dictionary or error as on the general path."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from box.data.codec import pack
from box.errors import BoxError
from box.schema import Schema, SpaceId, bootstrap_runs, initial_schema
from box.schema.space import Space
from box.session import Context, Session
from box.txn.dml import Dml
from box.txn.engines import make_engines
from box.txn.lifecycle import TransactionManager
from box.txn.limbo import Limbo
from box.txn.mvcc import MvccStorage
from box.txn.storage import TupleStorage
from box.txn.synchro import LimboDriver
from box.wire.constants import RequestType
from test.unit.txn._world import FakeJournal, code

Row = tuple[int, list[Any]]
BOOTSTRAP = list(bootstrap_runs(UUID(int=1), UUID(int=2)))
_PARTS = (
    [[0, "unsigned"]],
    [[1, "string"]],
    [{"field": 0, "type": "unsigned"}, {"field": 2, "type": "scalar", "is_nullable": True}],
    [[1, "string", 1, True], [9, "wrong type"]],
)
_FIELDS = (
    [],
    [{"name": "id", "type": "unsigned"}, {"name": "text", "type": "string", "collation": 2}],
    [{"name": "id", "type": "array"}],
)


def _space(number: int, name: str, fields: list[Any], options: dict[str, Any]) -> Row:
    return SpaceId.SPACE, [number, 1, name, "memtx", 0, options, fields]


def _index(space: int, iid: int, name: str, kind: str, unique: bool, parts: list[Any]) -> Row:
    return SpaceId.INDEX, [space, iid, name, kind, {"unique": unique}, parts]


def _function(number: int, name: str, language: str) -> Row:
    return SpaceId.FUNC, [number, 1, name, 0, language]


numbers, names = st.sampled_from([512, 513, 514]), st.sampled_from(["a", "b", "c", "", "_priv"])
kinds = st.sampled_from(["tree", "hash"])
users = st.tuples(st.integers(32, 34), st.just(1), names, st.sampled_from(["user", "role"]))
objects = st.sampled_from(["space", "role", "universe"])
grants = st.tuples(st.just(1), st.integers(31, 34), objects, st.integers(0, 514), st.integers(0, 9))
rows = st.one_of(
    st.builds(_space, numbers, names, st.sampled_from(_FIELDS), st.sampled_from([{}, {"is_sync": True}])),
    st.builds(_index, numbers, st.integers(0, 2), names, kinds, st.booleans(), st.sampled_from(_PARTS)),
    st.builds(_function, st.integers(70, 72), names, st.sampled_from(["LUA", "C", "wrong"])),
    st.tuples(st.just(SpaceId.USER), users),
    st.tuples(st.just(SpaceId.PRIV), grants),
    st.tuples(st.just(SpaceId.CLUSTER), st.tuples(st.integers(0, 33), st.just(str(UUID(int=7))))),
    st.tuples(st.just(SpaceId.TRUNCATE), st.tuples(numbers, st.just(1))),
)


class Loaded:
    """The result of loading runs of rows; with `is_fast` they may take the fast path."""

    def __init__(self, runs: list[tuple[int, list[bytes]]], *, is_fast: bool, has_mvcc: bool = False) -> None:
        loop = asyncio.get_running_loop()
        self.schema = schema = initial_schema(make_engines())
        journal = FakeJournal()
        journal.is_quick = True
        storage = MvccStorage() if has_mvcc else TupleStorage()
        self.txns = txns = TransactionManager(journal, storage, LimboDriver(Limbo(1, 5.0), journal, loop), loop)
        self.dml = Dml(schema, txns, loop=loop)
        if not is_fast:
            self.dml._dictionary.takes = lambda space: False  # type: ignore[method-assign]
        self.heard: list[Space] = []
        self.members: list[tuple[int, UUID, bool]] = []
        schema.on_alter_spaces.append(self.heard.extend)
        schema.on_cluster_change.append(lambda *change: self.members.append(change))
        self.error = ""
        ctx = Context(Session(1, "background", schema.admin))
        try:
            for space_id, tuples in runs:
                self.dml.load_dictionary(ctx, schema.space(space_id), tuples)
        except BoxError as error:
            self.error = f"{code(error)} {error.message}"

    def all(self) -> list[Any]:
        """Return everything in the dictionary and the system spaces."""
        schema = self.schema
        return [
            schema.version,
            schema.replicaset_uuid,
            sorted(schema.truncated),
            schema.grants,
            self.members,
            [(space.definition, repr(space.format), _indexes(space)) for space in _spaces(schema)],
            [(user.uid, user.name, user.effective, user.credentials.universal) for user in schema.users.values()],
            [function.definition for function in schema.functions.values()],
            list(schema.collations.values()),
            self.dml.counters[RequestType.INSERT],
        ]


def _spaces(schema: Schema) -> list[Space]:
    return sorted(schema.spaces.values(), key=lambda space: space.id)


def _indexes(space: Space) -> list[Any]:
    return [
        (iid, index.definition, index.values_list() if space.is_plain else None) for iid, index in space.indexes.items()
    ]


@pytest.mark.parametrize("has_mvcc", [False, True], ids=["plain", "mvcc"])
def test_bootstrap(has_mvcc: bool) -> None:
    """The fast and the general path make equal dictionaries from the rows of a new instance, and call listeners for
    every space.
    """

    async def body() -> None:
        one, other = Loaded(BOOTSTRAP, is_fast=True, has_mvcc=has_mvcc), Loaded(BOOTSTRAP, is_fast=False)
        assert one.error == other.error == ""
        assert one.dml._dictionary.takes(one.schema.space(SpaceId.SPACE))
        assert one.all() == other.all()
        assert {space.id for space in one.heard} == {space.id for space in other.heard}
        assert len(one.heard) < len(other.heard)

    asyncio.run(body())


@settings(max_examples=25, deadline=None)
@given(st.lists(rows, max_size=12), st.booleans(), st.booleans())
def test_both_ways_agree(program: list[Row], is_sorted: bool, has_mvcc: bool) -> None:
    """The fast and the general path make equal dictionaries, or raise equal errors, from generated rows with
    mistakes.
    """
    if is_sorted:
        program.sort(key=lambda row: int(row[0]))
    runs = BOOTSTRAP + [(int(space_id), [pack(list(row))]) for space_id, row in program]

    async def body() -> None:
        one, other = Loaded(runs, is_fast=True, has_mvcc=has_mvcc), Loaded(runs, is_fast=False)
        assert one.error == other.error
        if not one.error:
            assert one.all() == other.all()

    asyncio.run(body())


def test_versions_of_tuples_are_looked_at() -> None:
    """Rows take the general path while a transaction with versions is open, which must not see them change."""

    async def body() -> None:
        loaded = Loaded(BOOTSTRAP, is_fast=True, has_mvcc=True)
        schema = loaded.schema
        ctx, other = (Context(Session(number, "background", schema.admin)) for number in (1, 2))
        space = schema.space(SpaceId.SPACE)
        txn = loaded.txns.begin(other)
        assert loaded.dml._dictionary.takes(space)
        assert loaded.txns.storage.find_by(txn, space, 0, [600]) is None
        assert not loaded.dml._dictionary.takes(space)
        loaded.dml.load_dictionary(ctx, space, [pack(_space(600, "later", [], {})[1])])
        assert schema.space(600).name == "later"
        loaded.txns.rollback_open(other, txn)
        assert loaded.dml._dictionary.takes(space)

    asyncio.run(body())


def test_triggers_of_users_run() -> None:
    """A system space with a trigger of a user takes the general path, which runs the trigger."""

    async def body() -> None:
        loaded = Loaded(BOOTSTRAP, is_fast=True)
        space = loaded.schema.space(SpaceId.SPACE)
        assert loaded.dml._dictionary.takes(space)
        seen = []

        class Trigger:
            async def call(self, _ctx: Context, _old: bytes | None, new: bytes | None, *_: str) -> None:
                seen.append(new)

        space.on_replace.append(Trigger())  # type: ignore[arg-type]
        assert not loaded.dml._dictionary.takes(space)
        row = pack(_space(600, "later", [], {})[1])
        loaded.dml.load_dictionary(Context(Session(1, "background", loaded.schema.admin)), space, [row])
        assert seen == [row]
        assert loaded.schema.space(600).name == "later"

    asyncio.run(body())
