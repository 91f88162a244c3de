"""A start from the log executes plain transactions together, and has the same outcome as executing each by itself."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest

from box import Node
from box.errors import BoxError
from box.index.ordered import OrderedIndex
from box.instance.loader import LogLoader
from box.journal import reader
from box.journal.plain_runs import PlainRun
from box.wire.row import Row

SPACES = ("plain", "indexed", "synced", "own")
STATE = """
local found = {}
for _, name in ipairs({...}) do
    local space = box.space[name]
    for id = 0, space and 2 or -1 do
        local index = space.index[id]
        if index ~= nil then found[name .. id] = index:select() end
    end
end
local vclock = {}
for id, lsn in pairs(box.info.vclock) do vclock[tostring(id)] = lsn end
return found, vclock, box.info.synchro.queue.len
"""


async def make_spaces(node: Node) -> None:
    await node.eval(
        """
        box.ctl.promote()
        for _, name in ipairs({...}) do
            local space = box.schema.space.create(name, {is_sync = name == 'synced', is_local = name == 'own'})
            space:create_index('pk')
            if name == 'indexed' then
                space:create_index('text', {parts = {{2, 'string'}}})
                space:create_index('number', {unique = false, parts = {{3, 'unsigned'}}})
            end
        end
        """,
        *SPACES,
    )


def statement(rng: Random, space: str) -> str:
    """Return a random statement in Lua, which may fail."""
    key, value = rng.randrange(30), rng.randrange(100)
    if space == "indexed" and rng.random() < 0.1:
        return f"box.space.indexed.index.text:delete('t{key}')"
    row = f"{{{key}, 't{key if rng.random() < 0.9 else value}', {value}}}"
    return f"box.space.{space}:" + rng.choice(
        (
            f"replace{row}",
            f"insert{row}",
            f"update({key}, {{{{'=', 3, {value}}}}})",
            f"upsert({row}, {{{{'+', 3, 1}}}})",
            f"delete({key})",
        )
    )


def transaction(rng: Random) -> str:
    """Return a random transaction in Lua: mostly one statement in one space, sometimes many in all."""
    if rng.random() < 0.02:
        return f"box.space.indexed:alter{{field_count = {rng.choice((0, 3))}}}"
    count = rng.choice((1, 1, 1, 1, 3, 40))
    spaces = [rng.choice(SPACES)] if rng.random() < 0.8 else SPACES
    lines = [f"pcall(function() {statement(rng, rng.choice(spaces))} end)" for _ in range(count)]
    return lines[0] if count == 1 else f"box.begin() {' '.join(lines)} pcall(box.commit)"


async def state_of(node: Node) -> list[Any]:
    return await node.eval(STATE, *SPACES)


@pytest.mark.parametrize("seed", range(12))
def test_a_start_from_the_log_finds_what_was_there(tmp_path: Path, seed: int) -> None:
    """All indexes, the vclock and the queue of synchronous transactions are those of the instance that ended."""
    rng = Random(seed)
    program = [transaction(rng) for _ in range(rng.choice((20, 150)))]

    async def test() -> None:
        async with Node(str(tmp_path)) as node:
            await make_spaces(node)
            await node.eval("\n".join(program))
            before = await state_of(node)
        async with Node(str(tmp_path)) as node:
            assert await state_of(node) == before
        async with Node(str(tmp_path), force_recovery=True) as node:
            assert await state_of(node) == before

    asyncio.run(test())


def test_plain_transactions_are_executed_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 500 changes of one space none is executed alone; a transaction that a wrong row ends is undone as a whole."""
    alone: list[list[Row]] = []
    add = LogLoader.add

    async def watched(self: LogLoader, rows: list[Row], give_way: Any) -> None:
        alone.append(rows)
        await add(self, rows, give_way)

    async def test() -> None:
        async with Node(str(tmp_path)) as node:
            await make_spaces(node)
            await node.eval("for i = 1, 500 do box.space.plain:insert{i, 't', 1} end")
            await node.eval("box.begin() for i = 501, 900 do box.space.plain:insert{i, 't', 1} end box.commit()")
        monkeypatch.setattr(LogLoader, "add", watched)
        async with Node(str(tmp_path)) as node:
            assert await node.space["plain"].count() == 900
        assert not any(row.type == 2 and b"\xa1t" in row.body for rows in alone for row in rows)

    asyncio.run(test())


def test_an_error_in_a_plain_transaction_stops_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is that of the request; with force_recovery its transaction is left out, and what follows counts."""

    async def make() -> None:
        async with Node(str(tmp_path)) as node:
            await make_spaces(node)
            await node.eval(
                "local s = box.space.plain s:insert{1} box.begin() s:insert{2} s:replace{3} box.commit() s:insert{4}"
            )

    asyncio.run(make())
    decode = reader.parts_of

    def spoiled(blocks: list[bytes]) -> list[PlainRun | list[Row]]:
        parts = decode(blocks)
        for part in parts:
            for number, rest in enumerate(part.rests if isinstance(part, PlainRun) else []):
                if isinstance(part, PlainRun) and rest.endswith(b"\x91\x03"):
                    # The replace becomes an insert of a tuple that exists.
                    part.kinds[number], part.rests[number], part.values = 2, rest[:-1] + b"\x01", None
        return parts

    monkeypatch.setattr(reader, "parts_of", spoiled)

    async def start(force: bool) -> list[Any]:
        async with Node(str(tmp_path), force_recovery=force) as node:
            return [row[0] for row in await node.space["plain"].select()]

    with pytest.raises(BoxError, match="Duplicate key exists"):
        asyncio.run(start(False))
    assert asyncio.run(start(True)) == [1, 4]


FIELDS = (
    "{{'id', 'unsigned'}, {'text', 'string'}, {'value', 'double', is_nullable = true}, "
    "{'count', 'number', is_nullable = true}}"
)


def usual_statement(rng: Random, space: str) -> str:
    """Return a random statement in Lua about one of few tuples; some are no usual changes of fields, some fail."""
    key, number = rng.randrange(12), rng.choice(("1", "1.5", "-3", "2^40", "ffi.cast('float', 0.5)", "box.NULL", "'x'"))
    operation = rng.choice(
        (
            "{'=', 2, 't'}",
            f"{{'=', 'count', {number}}}",
            f"{{'=', 3, {number}}}",
            f"{{'+', 4, {number}}}",
            f"{{'-', 'value', {number}}}",
            f"{{'=', 1, {key}}}",
            "{'=', 1, 13}",
            "{'=', -1, 5}",
            f"{{'=', {rng.choice((5, 6, 9))}, {{1, {{a = 2}}}}}}",
            "{'!', 3, 0.5}",
            "{'#', 4, 1}",
            "{':', 2, 1, 1, 'new'}",
            "{'|', 4, 3}",
            "{'=', '[5].a', 3}",
        )
    )
    operations = ", ".join([operation] * rng.choice((1, 1, 1, 2)) + (["{'=', 2, 'u'}"] if rng.random() < 0.3 else []))
    row = f"{{{key}, 'text{rng.randrange(3)}', 0.{rng.randrange(9)}, {number}}}"
    return f"box.space.{space}:" + rng.choice(
        (
            f"replace{row}",
            f"insert{row}",
            f"update({key}, {{{operations}}})",
            f"update({key}, {{{operations}}})",
            f"upsert({row}, {{{operations}}})",
            f"delete({key})",
        )
    )


@pytest.mark.parametrize("seed", range(20))
def test_runs_of_mixed_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """All tuples, byte for byte, and the memory in use are those of the instance that ended; no transaction is executed
    alone.
    """
    rng = Random(seed)
    spaces = ["first", "second"] if seed % 4 == 0 else ["first"]
    program = []
    for _ in range(250):
        lines = [
            f"pcall(function() {usual_statement(rng, rng.choice(spaces))} end)" for _ in range(rng.choice((1, 1, 4)))
        ]
        program.append(lines[0] if len(lines) == 1 else f"box.begin() {' '.join(lines)} box.commit()")
    found = (
        f"local t = {{}} for _, space in ipairs{{{', '.join(f'box.space.{name}' for name in spaces)}}} do "
        "for _, row in space:pairs() do table.insert(t, require('msgpack').encode(row):hex()) end end "
        "return t, box.slab.info().arena_used"
    )
    alone: list[Row] = []
    add = LogLoader.add

    async def watched(self: LogLoader, rows: list[Row], give_way: Any) -> None:
        alone.extend(rows)
        await add(self, rows, give_way)

    async def test() -> None:
        async with Node(str(tmp_path)) as node:
            for number, name in enumerate(spaces):
                secondary = (
                    "space:create_index('text', {parts = {2}, unique = false})" if number or seed % 3 == 0 else ""
                )
                await node.eval(
                    f"local space = box.schema.space.create('{name}', {{format = {FIELDS}}}) "
                    f"space:create_index('pk') {secondary}"
                )
            await node.eval("local ffi = require('ffi') " + "\n".join(program))
            before = await node.eval(found)
        monkeypatch.setattr(LogLoader, "add", watched)
        async with Node(str(tmp_path)) as node:
            assert await node.eval(found) == before
        assert not [row for row in alone if row.body.startswith((b"\x82\x10\xcd\x02", b"\x83\x10\xcd\x02"))]

    asyncio.run(test())


def test_a_key_is_changed_once_in_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many changes of one tuple reach the index as one."""
    changes: list[int] = []
    set_many = OrderedIndex.set_many

    def watched(self: OrderedIndex, entries: Any) -> None:
        changes.append(len(entries))
        set_many(self, entries)

    async def test() -> None:
        async with Node(str(tmp_path)) as node:
            await make_spaces(node)
            await node.eval(
                "box.space.plain:insert{1, 0} for i = 1, 400 do box.space.plain:update(1, {{'+', 2, 1}}) end"
            )
        monkeypatch.setattr(OrderedIndex, "set_many", watched)
        async with Node(str(tmp_path)) as node:
            assert [list(row) for row in await node.space["plain"].select()] == [[1, 400]]
        assert 1 <= sum(changes) < 10

    asyncio.run(test())


@pytest.mark.parametrize("wrong", [2, 30, 59])
def test_a_wrong_row_in_a_run_of_mixed_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: int) -> None:
    """The transactions before it count, its own has no effect, and the error is that of its request."""

    async def make() -> None:
        async with Node(str(tmp_path)) as node:
            await make_spaces(node)
            await node.eval(
                "local s = box.space.plain for i = 1, 60 do "
                "box.begin() s:replace{i, 'a'} s:update(i, {{'=', 2, 'b'}}) s:replace{i + 60, 'c'} box.commit() end"
            )

    asyncio.run(make())
    decode = reader.parts_of

    def spoiled(blocks: list[bytes]) -> list[PlainRun | list[Row]]:
        parts = decode(blocks)
        for part in parts:
            for number, rest in enumerate(part.rests if isinstance(part, PlainRun) else []):
                if isinstance(part, PlainRun) and rest == b"\x92" + bytes((wrong + 60,)) + b"\xa1c":
                    part.kinds[number], part.rests[number], part.values = 2, b"\x92\x01\xa1c", None
        return parts

    monkeypatch.setattr(reader, "parts_of", spoiled)

    async def start(force: bool) -> list[Any]:
        async with Node(str(tmp_path), force_recovery=force) as node:
            return [list(row) for row in await node.space["plain"].select()]

    with pytest.raises(BoxError, match="Duplicate key exists"):
        asyncio.run(start(False))
    rest = [number for number in range(1, 61) if number != wrong]
    assert asyncio.run(start(True)) == [[n, "b"] for n in rest] + [[n + 60, "c"] for n in rest]
