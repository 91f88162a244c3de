"""Secondary indexes of spaces from a snapshot are built after the log, as in Tarantool."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest

from box import Node
from box.data.codec import pack, unpack
from box.errors import BoxError
from box.index import bulk
from box.journal.snapshot import SnapshotReader, SnapshotSpace, write_snapshot
from box.journal.storage import FileStorage
from box.schema.ids import SpaceId
from box.txn import space_load

INDEXES = {
    "tree": "'b', {parts = {{2, 'string'}}}",
    "rare": "'b', {unique = false, parts = {{3, 'unsigned', is_nullable = true, exclude_null = true}}}",
    "hash": "'b', {type = 'HASH', parts = {{2, 'string'}}}",
    "multikey": "'b', {unique = false, parts = {{4, 'unsigned', path = '[*]'}}}",
    "bitset": "'b', {type = 'BITSET', unique = false, parts = {{1, 'unsigned'}}}",
    "rtree": "'b', {type = 'RTREE', unique = false, parts = {{4, 'array'}}}",
    "functional": "'b', {func = 'f', parts = {{1, 'string'}}}",
}
FILL = """
local indexes, own, count = ...
box.schema.func.create('f', {body = 'function(t) return {t[2] .. t[1]} end', is_deterministic = true,
    is_sandboxed = true})
for name, index in pairs(indexes) do
    local s = box.schema.space.create(name)
    s:create_index('pk', own and {parts = {{2, 'string'}}} or nil)
    loadstring('(...):create_index(' .. index .. ')')(s)
    s:create_index('c', {unique = false, parts = {{2, 'string'}, {1, 'unsigned'}}})
    for id = 1, count do s:insert{id, 't' .. id, id % 3 ~= 0 and id or nil, {id, 2 * id}} end
end
box.snapshot()
"""
STATE = """
local found = {}
for name in pairs((...)) do
    for id = 0, 2 do
        local index = box.space[name].index[id]
        found[name .. id] = {index:len(), index:select({}, {iterator = 'ALL'})}
    end
end
return found
"""


async def state_of(node: Node) -> Any:
    found = await node.eval(STATE, INDEXES)
    for name in ("bitset1", "rtree1", "hash1"):
        found[name][1].sort()
    return found


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.05, 1.0])
def test_changes_after_a_snapshot(tmp_path: Path, share: float, own: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """All indexes have the tuples that were there before the restart, after few and many changes."""
    for module in (bulk, space_load):
        monkeypatch.setattr(module, "SLICE", 16)
    monkeypatch.setattr(space_load, "_SEARCHED_MAX", 40)
    rng = Random(f"{share} {own}")

    async def test() -> None:
        async with Node(str(tmp_path)) as node:
            await node.eval(FILL, INDEXES, own, 100)
            for name in INDEXES:
                for number in range(int(200 * share)):
                    key, to = rng.randrange(1, 120), f"n{number}"
                    statement = rng.choice(
                        (
                            f"replace{{{key}, 't{key}', {number}, {{{key}, 1}}}}",
                            f"insert{{{number + 200}, '{to}', nil, {{7, 8}}}}",
                            f"update({(own and repr(f't{key}')) or key}, {{{{'=', 3, {number}}}}})",
                            f"upsert({{{key}, 't{key}', 1, {{1, 1}}}}, {{{{'=', 4, {{5, {number}}}}}}})",
                            f"delete({(own and repr(f't{key}')) or key})",
                        )
                    )
                    await node.eval(f"pcall(function() box.space['{name}']:{statement} end)")
            if share == 1:  # a long stretch of tuples goes
                await node.eval("for id = 20, 90 do box.space.rare:delete(...  and 't' .. id or id) end", own)
            before = await state_of(node)
        async with Node(str(tmp_path)) as node:
            assert await state_of(node) == before

    asyncio.run(test())


def spoil(directory: Path) -> None:
    """Make the index `b` of the newest snapshot unique, which it was not."""
    path = max(directory.glob("*.snap"))
    spaces: dict[int, list[bytes]] = {}
    with SnapshotReader(FileStorage(), str(path)) as reader:
        meta = reader.meta
        trailer = []
        for runs, others in reader.tuples():
            trailer += others
            for run in runs:
                spaces.setdefault(run.space_id, []).extend(run.tuples)
    for number, raw in enumerate(spaces[SpaceId.INDEX]):
        fields = unpack(raw)
        if fields[2] == "b":
            fields[4]["unique"] = True
            spaces[SpaceId.INDEX][number] = pack(fields)
    path.unlink()
    write_snapshot(
        FileStorage(),
        str(directory),
        meta.vclock,
        meta.instance_uuid,
        [SnapshotSpace(space_id, tuples) for space_id, tuples in spaces.items()],
        trailer,
    )


REPEATED = 'Duplicate key exists in unique index "b" in space "s" with old tuple - [1, "a"] and new tuple - [2, "a"]'


@pytest.mark.parametrize(
    ("log", "error"),
    [
        ("", REPEATED),
        ("s:replace{9, 'z'}", REPEATED),
        ("s:delete(2)", None),
        ("s:update(2, {{'=', 2, 'b'}})", None),
        ("s:delete(2) s:insert{4, 'c'} s:delete(4)", None),
    ],
)
def test_repeated_keys_count_after_the_log(tmp_path: Path, log: str, error: str | None) -> None:
    """A repeated key of a secondary index is an error if the log does not change it."""

    async def make() -> None:
        async with Node(str(tmp_path)) as node:
            await node.eval(
                "local s = box.schema.space.create('s') s:create_index('pk') "
                "s:create_index('b', {unique = false, parts = {{2, 'string'}}}) "
                "s:insert{1, 'a'} s:insert{2, 'a'} s:insert{3, 'c'} box.snapshot() " + log
            )

    async def start() -> list[Any]:
        async with Node(str(tmp_path)) as node:
            assert len(await node.space["s"].index["b"].select()) == len(await node.space["s"].select())
            return await node.space["s"].select()

    asyncio.run(make())
    spoil(tmp_path)
    if error is None:
        assert asyncio.run(start())
    else:
        with pytest.raises(BoxError) as caught:
            asyncio.run(start())
        assert caught.value.message == error
