"""`as_of` with every type of field, synchronous rollbacks, changed formats, and old versions of files."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from box import Node
from box.data.codec import pack
from box.journal.rows import encode_header
from box.journal.xlog import EOF_MARKER, BlockEncoder
from box.spark.reference import ReferenceDecoder
from box.wire.change import Request
from box.wire.row import Row

from .files import FORMAT, GOODS, arrow_schema, goods
from .test_as_of import decoders, open_table, rows_of

TYPES = "unsigned integer number double decimal string uuid boolean varbinary array map any scalar".split()

CREATE = """
decimal, uuid, ffi = require('decimal'), require('uuid'), require('ffi')
varbinary = require('msgpack').decode
function fields()
    local found = {{'id', 'unsigned'}}
    for n, kind in ipairs(types) do found[n + 1] = {name = kind .. extra, type = kind, is_nullable = true} end
    return found
end
extra = ''
s = box.schema.space.create('goods', {format = fields(), is_sync = sync})
s:create_index('pk')
made = {
    unsigned = function() return math.random(1000) end,
    integer = function() return math.random(2000) - 1000 end,
    number = function() return ({1, 2.5, decimal.new('3.75'), -7})[math.random(4)] end,
    double = function() return ffi.cast('double', math.random(50)) end,
    decimal = function() return decimal.new(math.random(10000)) / 8 end,
    string = function() return string.rep('s', math.random(0, 40)) end,
    uuid = function() return uuid.fromstr('64d22e4d-ac92-4a23-899a-e59f34af54' .. math.random(10, 99)) end,
    boolean = function() return math.random(2) == 1 end,
    varbinary = function() return box.NULL end,
    array = function() return ({{}, {1, 'two'}, {{1}}})[math.random(3)] end,
    map = function() return setmetatable(({{a = 1}, {b = {c = 'd'}}})[math.random(2)], {__serialize = 'map'}) end,
    any = function() return ({1, 'x', {1}, true, box.NULL})[math.random(5)] end,
    scalar = function() return ({1, 'x', true, 1.5})[math.random(4)] end,
}
function value(n) if math.random(8) == 1 then return box.NULL end return made[types[n]]() end
function tuple()
    local found = {math.random(40)}
    for n = 1, #types do found[n + 1] = value(n) end
    return found
end
function operation()
    local n = math.random(#types)
    return {'=', math.random(2) == 1 and n + 1 or types[n] .. extra, value(n)}
end
function change()
    local dice = math.random(6)
    if dice <= 2 then s:replace(tuple())
    elseif dice == 3 then s:insert(tuple())
    elseif dice == 4 then s:update(math.random(40), {operation(), operation()})
    elseif dice == 5 then s:upsert(tuple(), {operation()})
    else s:delete(math.random(40)) end
end
function step()
    local dice = math.random(20)
    if dice == 1 then extra = tostring(math.random(100)) s:format(fields())
    elseif dice == 2 then s:truncate()
    elseif dice <= 6 then
        box.begin()
        for _ = 1, 5 do pcall(change) end
        if math.random(3) == 1 then box.rollback() else box.commit() end
    else pcall(change) end
end
"""


async def expected(node: Node, directory: Path) -> list[tuple[Any, ...]]:
    """Return the node's tuples as columns."""
    core = node._embedding.core
    columns = open_table(directory, as_of="latest").columns
    decoder = ReferenceDecoder(GOODS, columns, arrow_schema(columns), ())
    raws = list(core.tuples.read_view(core.schema.space_by_name("goods")))
    return [tuple(row.values()) for row in decoder.raw_batch(raws).to_pylist()]


def table_rows(directory: Path, decoder: str) -> list[tuple[Any, ...]]:
    return sorted(rows_of(open_table(directory, as_of="latest", decoder=decoder)), key=lambda row: row[0])


@pytest.mark.parametrize("seed", range(4))
def test_every_type_of_field_is_as_in_the_node(tmp_path: Path, seed: int) -> None:
    """Fields of every type have the node's values; half of the spaces are synchronous, and some transactions are rolled
    back.
    """
    is_sync = seed % 2 == 1

    async def main() -> None:
        async with Node(tmp_path, log_level=0, replication_synchro_timeout=0.02, checkpoint_count=100) as node:
            names = ", ".join(f"'{kind}'" for kind in TYPES)
            await node.eval(f"math.randomseed({seed}) types = {{{names}}} sync = {str(is_sync).lower()} {CREATE}")
            await node.eval("for _ = 1, 30 do s:replace(tuple()) end box.snapshot()")
            for number in range(60):
                if is_sync and number % 20 == 7:
                    await node.eval(
                        "box.cfg{replication_synchro_quorum = 2} pcall(step) box.cfg{replication_synchro_quorum = 1}"
                    )
                await node.eval("pcall(step) if box.is_in_txn() then box.rollback() end")
                if number % 15 == 14:
                    wanted = await expected(node, tmp_path)
                    for decoder in decoders():
                        assert table_rows(tmp_path, decoder) == wanted

    asyncio.run(main())


def test_binary_values_of_a_log_come_through(tmp_path: Path) -> None:
    """Binary values of a log are right; the rows are made by hand, because Lua cannot store binary."""
    path, instance = old_files(tmp_path, version="0.13", kinds=("unsigned", "varbinary", "double"))
    assert path.exists()
    assert instance
    for decoder in decoders():
        rows = table_rows(tmp_path, decoder)
        assert rows[1] == (1, b"changed \xff", 0.25)


def old_files(directory: Path, *, version: str, kinds: tuple[str, str, str]) -> tuple[Path, str]:
    """Write a snapshot and a log in a version of the format; 0.12 names the instance `Server` and writes parts as a
    list.
    """
    instance = str(uuid4())
    names = [field["name"] for field in FORMAT]
    fields = [{"name": name, "type": kind} for name, kind in zip(names, kinds, strict=True)]
    index: list[Any] = [GOODS, 0, "pk", "tree", 1, 1, 0, "num"]
    if version != "0.12":
        index = [GOODS, 0, "pk", "tree", {"unique": True}, [[0, "unsigned"]]]
    is_binary = "varbinary" in kinds
    tuples = [[n, b"old" if is_binary else name, price] for n, name, price in goods(50)]
    system = [(280, [GOODS, 1, "goods", "memtx", 0, {}, fields]), (288, index)]
    rows = [
        Row(2, lsn=lsn, tm=1.5, tsn=lsn, body=Request.insert(pack(raw)).body(space))
        for lsn, (space, raw) in enumerate(system)
    ]
    rows += [
        Row(2, lsn=lsn, tm=1.5, tsn=lsn, body=Request.insert(pack(raw)).body(GOODS))
        for lsn, raw in enumerate(tuples, 2)
    ]
    snapshot = directory / f"{7:020d}.snap"
    _write(snapshot, "SNAP", version, instance, rows)
    changed = b"changed \xff" if is_binary else "changed"
    changes = [
        (4, Request.update([1], [["=", 1, changed]], index_base=0)),
        (5, Request.delete([2])),
        (9, Request.upsert(pack([3, changed, 0.5]), [["=", 1, changed]], index_base=0)),
        (3, Request.replace(pack([100, changed, 0.5]))),
    ]
    rows = [Row(kind, 1, lsn, 2.5, tsn=lsn, body=request.body(GOODS)) for lsn, (kind, request) in enumerate(changes, 8)]
    _write(directory / f"{7:020d}.xlog", "XLOG", version, instance, rows)
    return snapshot, instance


def _write(path: Path, kind: str, version: str, instance: str, rows: list[Row]) -> None:
    name = "Server" if version == "0.12" else "Instance"
    text = f"{kind}\n{version}\nVersion: 1.6.9\n{name}: {instance}\nVClock: {{1: 7}}\n\n"
    encoder = BlockEncoder()
    stamp = b"\x04\xcb\x3f\xf8" + bytes(6)
    with path.open("wb") as file:
        file.write(text.encode())
        for start in range(0, len(rows), 10):
            some = rows[start : start + 10]
            file.write(encoder.encode(b"".join(encode_header(row, stamp) + row.body for row in some)))
        file.write(EOF_MARKER)


@pytest.mark.parametrize("version", ["0.12", "0.13"])
def test_old_and_new_versions_of_the_format_are_read(tmp_path: Path, version: str) -> None:
    old_files(tmp_path, version=version, kinds=("num", "str", "double"))
    expected_rows = {number: (number, name, price) for number, name, price in goods(50)}
    for decoder in decoders():
        assert rows_of(open_table(tmp_path, decoder=decoder)) == list(expected_rows.values())
    for number in (1, 3):
        expected_rows[number] = (number, "changed", expected_rows[number][2])
    del expected_rows[2]
    expected_rows[100] = (100, "changed", 0.5)
    for decoder in decoders():
        assert table_rows(tmp_path, decoder) == list(expected_rows.values())
