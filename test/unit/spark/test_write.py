"""Writing rows into a running node and into a new directory: types, retries, errors."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Iterator
from dataclasses import asdict
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from box import Node
from box.data.codec import pack, unpack
from box.data.times.points import Interval
from box.errors import BoxError
from box.spark.definitions import primary_key
from box.spark.node_facts import look_at
from box.spark.write.bulk_load import begin_load, finish_load, space_setup
from box.spark.write.node_client import NodeClient
from box.spark.write.run_file import write_runs
from box.spark.write.target_fields import TargetFields
from box.spark.write.upsert_marks import MARKS, Upserts, forget_batches_row, forget_job_row, prepare_row
from box.spark.write.write_options import WriteOptions
from test.support import refusing_address

GRANT = "box.schema.user.grant('guest', 'super', nil, nil, {if_not_exists = true})"
GOODS = """
s = box.schema.space.create('goods', {format = {
    {'id', 'unsigned'}, {'name', 'string'}, {'price', 'double', is_nullable = true}}})
s:create_index('pk')
"""
TYPES = """
s = box.schema.space.create('goods', {format = {
    {'id', 'unsigned'}, {'i', 'integer'}, {'n', 'number'}, {'d', 'double'}, {'c', 'decimal'}, {'s', 'string'},
    {'u', 'uuid'}, {'b', 'boolean'}, {'v', 'varbinary'}, {'a', 'array'}, {'m', 'map'}, {'x', 'any'},
    {'e', 'scalar', is_nullable = true}}})
s:create_index('pk')
"""
UUID_TEXT = "64d22e4d-ac92-4a23-899a-e59f34af5479"


def table(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def address(tmp_path: Path) -> str:
    return f"unix/:{tmp_path}/socket"


async def write(uri: str, operation: str, batch: pa.RecordBatch, *, size: int = 100) -> int:
    """Write rows as one task does."""
    space = (await look_at(uri, 10)).definitions.space("goods")
    fields = TargetFields.of(space, batch.schema, frozenset(), key_only=operation == "delete")
    client = NodeClient(uri, size, 20)
    try:
        return await client.write(operation, space.id, primary_key(space), iter(fields.packed(batch)))
    finally:
        client.close()


async def stored(node: Node, space: str = "goods") -> list[list[Any]]:
    return [list(row) for row in await node.eval(f"return box.space.{space}:select()")]


def test_every_type_arrives_as_its_field_wants_it(tmp_path: Path) -> None:
    batch = table(
        id=[1], i=[-5], n=[1.5], d=[2.0], c=[Decimal("1.50")], s=["text"], u=[UUID_TEXT], b=[True], v=[b"\xff\x00"],
        a=['[1, "two"]'], m=['{"k": 1}'], x=["any"], e=[None],
    ).cast(pa.schema([("id", pa.int32()), ("i", pa.int64()), ("n", pa.float64()), ("d", pa.int16()),
                      ("c", pa.decimal128(10, 2)), ("s", pa.string()), ("u", pa.string()), ("b", pa.bool_()),
                      ("v", pa.binary()), ("a", pa.string()), ("m", pa.string()), ("x", pa.string()),
                      ("e", pa.string())]))  # fmt: skip

    async def main() -> None:
        async with Node(tmp_path, log_level=0, listen=address(tmp_path)) as node:
            await node.eval(TYPES + GRANT)
            assert await write(address(tmp_path), "replace", batch) == 1
            core = node._embedding.core
            (raw,) = list(core.tuples.read_view(core.schema.space_by_name("goods")))
            assert unpack(raw) == [
                1, -5, 1.5, 2.0, Decimal("1.50"), "text", UUID(UUID_TEXT), True, b"\xff\x00", [1, "two"], {"k": 1},
                "any", None,
            ]  # fmt: skip
            assert type(unpack(raw)[3]) is float

    asyncio.run(main())


def test_nested_columns_become_arrays_and_maps() -> None:
    from box.spark.definitions import IndexInfo, Part, SpaceInfo

    form = tuple(
        {"name": name, "type": kind} for name, kind in (("id", "unsigned"), ("a", "array"), ("m", "map"), ("t", "map"))
    )
    space = SpaceInfo(512, "goods", "memtx", form, (IndexInfo(0, "pk", "tree", (Part(0, "unsigned"),)),))
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([1]),
            pa.array([[[1], [2, 3]]]),
            pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
            pa.array([{"f": [1], "g": None}]),
        ],
        names=["id", "a", "m", "t"],
    )
    fields = TargetFields.of(space, batch.schema, frozenset())
    assert list(fields.rows(batch)) == [[1, [[1], [2, 3]], {"k": 1}, {"f": [1], "g": None}]]


def test_structs_of_parts_become_intervals() -> None:
    from box.spark.columns import Kind
    from box.spark.definitions import IndexInfo, Part, SpaceInfo
    from box.spark.reference import _ARROW_TYPES

    form = tuple({"name": name, "type": kind} for name, kind in (("id", "unsigned"), ("v", "interval"), ("m", "map")))
    space = SpaceInfo(512, "goods", "memtx", form, (IndexInfo(0, "pk", "tree", (Part(0, "unsigned"),)),))

    def tuples(parts: pa.Array) -> list[Any]:
        batch = pa.RecordBatch.from_arrays([pa.array([1]), parts, pa.array([{"a": 1}])], names=["id", "v", "m"])
        return list(TargetFields.of(space, batch.schema, frozenset()).rows(batch))

    month = Interval(month=1, day=-3, adjust="last")
    assert tuples(pa.array([asdict(month)], _ARROW_TYPES[Kind.INTERVAL])) == [[1, month, {"a": 1}]]
    assert tuples(pa.array([{"day": 2, "sec": None}])) == [[1, Interval(day=2), {"a": 1}]]
    with pytest.raises(BoxError, match=r"column 'v': a value cannot be stored: .*'days'"):
        tuples(pa.array([{"days": 2}]))
    with pytest.raises(BoxError, match="column 'v' of type int64 does not fit a field of type interval"):
        tuples(pa.array([2]))


@pytest.mark.parametrize(
    ("batch", "text"),
    [
        (table(id=[1]), "the frame lacks columns of space 'goods' that cannot be null: name"),
        (table(id=[1], name=["x"], cost=[1]), "space 'goods' has no field 'cost'; it has: id, name, price"),
        (table(id=["x"], name=["x"]), "column 'id' of type string does not fit a field of type unsigned"),
    ],
)
def test_the_frame_is_checked_before_the_first_row(tmp_path: Path, batch: pa.RecordBatch, text: str) -> None:
    async def main() -> None:
        async with Node(tmp_path, log_level=0, listen=address(tmp_path)) as node:
            await node.eval(GOODS + GRANT)
            with pytest.raises(BoxError, match=text):
                await write(address(tmp_path), "insert", batch)
            with pytest.raises(BoxError, match="a delete needs the primary key: the frame has no column 'id'"):
                await write(address(tmp_path), "delete", table(name=["x"]))
            assert await stored(node) == []

    asyncio.run(main())


def test_inserts_that_were_done_count_and_others_are_refused(tmp_path: Path) -> None:
    async def main() -> None:
        uri = address(tmp_path)
        async with Node(tmp_path, log_level=0, listen=uri) as node:
            await node.eval(GOODS + GRANT)
            batch = table(id=list(range(1000)), name=["n"] * 1000, price=[0.5] * 1000)
            assert await write(uri, "insert", batch.slice(0, 600)) == 600
            assert await write(uri, "insert", batch) == 1000
            assert len(await stored(node)) == 1000
            with pytest.raises(BoxError, match=r"Duplicate key exists in unique index .*\(row \[1, 'other'"):
                await write(uri, "insert", table(id=[1], name=["other"], price=[0.5]))
            with pytest.raises(BoxError, match=r"Tuple field 1 .* type does not match.*\(row \[-1"):
                await write(uri, "replace", table(id=[-1], name=["x"]))
            assert await write(uri, "delete", table(id=list(range(10, 1000)))) == 990
            assert [row[0] for row in await stored(node)] == list(range(10))

    asyncio.run(main())


@pytest.mark.parametrize("operation", ["replace", "insert"])
def test_what_has_no_answer_is_sent_again(tmp_path: Path, operation: str) -> None:
    """Rows without an answer are sent again when the node goes away several times."""
    rows = 20_000

    async def main() -> None:
        uri = address(tmp_path)
        async with Node(tmp_path, log_level=0, listen=uri) as node:
            await node.eval(GOODS + GRANT)
            batch = table(id=list(range(rows)), name=["n"] * rows, price=[0.5] * rows)
            task = asyncio.ensure_future(write(uri, operation, batch, size=500))
            for limit in (2000, 9000, 15000):
                while not task.done() and await node.eval("return box.space.goods:len()") < limit:
                    await asyncio.sleep(0.001)
                # All connections end; the address is served anew.
                await node.eval(f"box.cfg{{listen = ''}} box.cfg{{listen = '{uri}'}}")
            assert await task == rows
            assert await node.eval("return box.space.goods:len()") == rows

    asyncio.run(main())


def test_upserts_count_once_however_often_they_are_sent(tmp_path: Path) -> None:
    rng = random.Random(1)
    batch = table(id=[n % 7 for n in range(50)], name=["x"] * 50, price=[float(n % 3) for n in range(50)])

    async def main() -> None:
        uri = address(tmp_path)
        async with Node(tmp_path, log_level=0, listen=uri) as node:
            await node.eval(GOODS + GRANT)
            space = (await look_at(uri, 10)).definitions.space("goods")
            fields = TargetFields.of(space, batch.schema, frozenset())
            upserts = Upserts(space, [(f.number, f.column) for f in fields.fields], {"price": "+"})
            client = NodeClient(uri, 10, 10)
            await client.call(prepare_row())
            rows = list(fields.rows(batch))
            for attempt in range(4):
                rng.shuffle(rows)
                stop = 5 if attempt == 3 else attempt
                for number, (_, row) in enumerate(upserts.rows("job/1", 0, iter(rows), 10)):
                    if number < stop:
                        await client.call(row)
            expected: dict[int, float] = {}
            for number, _, price in rows:
                expected[number] = expected.get(number, 0.0) + price
            assert [row[:2] for row in await stored(node)] == [[number, "x"] for number in sorted(expected)]
            assert {row[0]: row[2] for row in await stored(node)} == expected
            assert len(await stored(node, MARKS)) == 50
            await client.call(forget_batches_row("job/", 1))
            assert len(await stored(node, MARKS)) == 50
            await client.call(forget_batches_row("job/", 2))
            assert await stored(node, MARKS) == []
            for _, row in upserts.rows("other", 0, iter(rows), 10):
                await client.call(row)
            await client.call(forget_job_row("other"))
            assert await stored(node, MARKS) == []
            with pytest.raises(BoxError, match="the frame has no column 'cost'"):
                Upserts(space, [(0, "id")], {"cost": "+"})
            client.close()

    asyncio.run(main())


def test_a_node_that_refuses_is_told() -> None:
    """A node that refuses is reported when the writer is made, and when a task finds it gone."""
    pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")
    from box.spark.write import data_writer

    with refusing_address() as address:
        options = WriteOptions.of({"uri": address, "space": "goods", "timeout": "0.2"})
        text = f"box: connect to {address}, called on fd -1: Connection refused"
        with pytest.raises(BoxError, match=f"^{re.escape(text)}$"):
            data_writer.NodeWriter(options, pa.schema([]))
        target = object.__new__(data_writer._NodeTarget)
        target.options = options
        with pytest.raises(BoxError, match=f"^{re.escape(text)}$"):
            data_writer._told(lambda: target.ask(prepare_row()))


# --- bulk load ---


def load(directory: Path, rows: list[list[Any]], *, tasks: int = 3) -> None:
    setup = space_setup(
        "goods", [("id", "unsigned", True), ("name", "string", True), ("price", "double", True)], ["id"]
    )
    space = begin_load(str(directory), "goods", setup)
    runs = []
    for number in range(tasks):
        runs += write_runs(space, (pack(row) for row in rows[number::tasks]), str(directory / ".load"))
    finish_load(str(directory), space, runs)


def rows_to_load(count: int) -> Iterator[list[Any]]:
    for number in range(count):
        yield [number * 7919 % 1000003, f"name {number}", number / 4]


def test_a_node_starts_from_a_loaded_directory(tmp_path: Path) -> None:
    rows = list(rows_to_load(5000))
    load(tmp_path / "data", rows)
    assert [path.suffix for path in (tmp_path / "data").iterdir()] == [".snap"]

    async def main() -> None:
        async with Node(tmp_path / "data", log_level=0) as node:
            assert await stored(node) == sorted(rows)
            await node.eval("box.space.goods:insert{2000000, 'more', 1.5} box.snapshot()")
        async with Node(tmp_path / "data", log_level=0) as node:
            assert await node.eval("return box.space.goods:len()") == 5001

    asyncio.run(main())


def test_runs_of_a_sorted_frame_follow_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("box.spark.write.run_file._RUN_ROWS", 100)
    rows = sorted(rows_to_load(1000))
    load(tmp_path / "data", rows, tasks=1)

    async def main() -> None:
        async with Node(tmp_path / "data", log_level=0) as node:
            assert await stored(node) == rows

    asyncio.run(main())


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([[1, "a", 0.5], [2, "b", 0.5], [1, "c", 0.5]], "Duplicate key exists in unique index"),
        ([[1, "a", 0.5], [-2, "b", 0.5]], "Tuple field 1 .* type does not match"),
        ([[1, None, 0.5], ["x"]], "type does not match"),
    ],
)
def test_what_a_node_would_refuse_is_not_loaded(tmp_path: Path, rows: list[list[Any]], text: str) -> None:
    with pytest.raises(BoxError, match=text):
        load(tmp_path / "data", rows)
    assert not list((tmp_path / "data").glob("*.snap*"))


def test_a_directory_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BoxError, match="is not empty: a bulk load makes a new directory"):
        load(tmp_path, [])
    with pytest.raises(BoxError, match=r"the space cannot be made: setup: .*no such thing"):
        begin_load(str(tmp_path / "new"), "goods", "error('no such thing')")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"space": "goods"}, "one of the options 'uri' .* and 'path' .* is required"),
        ({"uri": "a"}, "option 'space' is required"),
        ({"uri": "a", "space": "goods", "colour": "red"}, "unexpected option 'colour' of a writer into a node"),
        ({"uri": "a", "space": "goods", "operation": "merge"}, "must be one of: replace, insert, upsert, delete"),
        ({"uri": "a", "space": "goods", "operations": "n:+"}, "option 'operations' is for upserts"),
        ({"uri": "a", "space": "goods", "operation": "upsert", "operations": "n:*"}, r"'\*' of 'n' is none of"),
        ({"uri": "a", "space": "goods", "batch": "0"}, "option 'batch' must be a positive number"),
        ({"path": "a", "space": "goods"}, "a bulk load needs one of the options 'key' .* and 'setup'"),
        ({"path": "a", "space": "goods", "key": "id", "types": "id"}, "must be pairs like 'name:value'"),
    ],
)
def test_wrong_options_of_a_writer_are_named(values: dict[str, str], text: str) -> None:
    with pytest.raises(BoxError, match=text):
        WriteOptions.of(values)
