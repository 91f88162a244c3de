"""Tables with `as_of`, from a snapshot and the log, have the node's rows at any moment of its history."""

from __future__ import annotations

import asyncio
import importlib.util
import random
import time
from pathlib import Path
from typing import Any

import pytest

from box import Node
from box.errors import BoxError
from box.spark.conditions import Condition
from box.spark.moments import Moment
from box.spark.source_options import SourceOptions
from box.spark.table import Table

from .files import arrow_schema

GOODS = "s = box.schema.space.create('goods', {format = {{'id', 'unsigned'}, {'name', 'string'}}}) s:create_index('pk')"


def open_table(directory: Path, **options: str) -> Table:
    return Table.open(SourceOptions.of({"path": str(directory), "space": "goods", **options}))


def rows_of(table: Table, *conditions: Condition) -> list[tuple[Any, ...]]:
    schema = arrow_schema(table.columns)
    shares = table.shares(conditions)
    batches = [batch for share in shares for batch in table.read(share, table.columns, schema, conditions)]
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def read(directory: Path, as_of: str = "latest", **options: str) -> list[tuple[Any, ...]]:
    return sorted(rows_of(open_table(directory, as_of=as_of, **options)), key=repr)


async def stored(node: Node) -> list[tuple[Any, ...]]:
    """Return the node's tuples; fields that they lack are nil, as in a table."""
    tuples, width = await node.eval(
        "local s = box.space.goods return s and s:select() or {}, s and math.max(1, #s:format()) or 0"
    )
    return sorted(((tuple(row) + (None,) * width)[:width] for row in tuples), key=repr)


async def vclock(node: Node) -> str:
    pairs = await node.eval(
        "local t = {} for i, n in pairs(box.info.vclock) do t[#t + 1] = i .. ': ' .. n end return t"
    )
    return "{" + ", ".join(pairs) + "}"


def run(directory: Path, *steps: str, **options: Any) -> list[tuple[Any, ...]]:
    """Evaluate Lua on a node, and return the space's tuples at the end."""

    async def main() -> list[tuple[Any, ...]]:
        async with Node(directory, log_level=0, **options) as node:
            for step in steps:
                await node.eval(step)
            return await stored(node)

    return asyncio.run(main())


def decoders() -> list[str]:
    return ["python"] if importlib.util.find_spec("numba") is None else ["python", "compiled"]


class Program:
    """Generates random changes of the space `goods`, with few keys so that changes meet."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.key_type = self.random.choice(["unsigned", "string", "integer", "two"])
        self.index_type = "hash" if self.random.random() < 0.25 else "tree"
        self.names = ["id", "name", "n"]

    def create(self) -> str:
        first = {"two": "unsigned"}.get(self.key_type, self.key_type)
        parts = f"{{1, '{first}'}}" + (", {2, 'string'}" if self.key_type == "two" else "")
        kinds = (first, "string", "unsigned")
        fields = ", ".join(
            f"{{name = '{name}', type = '{kind}', is_nullable = {str(name == self.names[2]).lower()}}}"
            for name, kind in zip(self.names, kinds, strict=True)
        )
        return (
            f"s = box.schema.space.create('goods', {{format = {{{fields}}}}}) "
            f"s:create_index('pk', {{type = '{self.index_type}', parts = {{{parts}}}}})"
        )

    def key(self) -> list[str]:
        number = self.random.randrange(60)
        first = (
            f"'k{number}'" if self.key_type == "string" else str(number - 20 if self.key_type == "integer" else number)
        )
        return [first, f"'t{self.random.randrange(3)}'"] if self.key_type == "two" else [first]

    def tuple(self) -> str:
        key = self.key()
        fields = key if len(key) == 2 else [*key, f"'name {self.random.randrange(9)}'"]
        return "{" + ", ".join([*fields, str(self.random.randrange(100))][: self.random.choice([2, 3, 3, 3])]) + "}"

    def operations(self) -> str:
        choices = ["{'=', 3, %d}", "{'+', 3, %d}", "{'|', 3, %d}", "{'=', '" + self.names[2] + "', %d}"]
        return "{" + self.random.choice(choices) % self.random.randrange(50) + "}"

    def change(self) -> str:
        key = "{" + ", ".join(self.key()) + "}"
        return self.random.choice(
            [
                f"s:insert{self.tuple()}",
                f"s:replace{self.tuple()}",
                f"s:replace{self.tuple()}",
                f"s:update({key}, {self.operations()})",
                f"s:update({key}, {self.operations()})",
                f"s:upsert({self.tuple()}, {self.operations()})",
                f"s:upsert({self.tuple()}, {self.operations()})",
                f"s:delete({key})",
                f"s:delete({key})",
            ]
        )

    def step(self) -> str:
        """Generate a step that may fail, and then changes nothing."""
        dice = self.random.random()
        if dice < 0.03:
            return "s:truncate()"
        if dice < 0.05:
            self.names[2] = f"n{self.random.randrange(1000)}"
            return f"local f = s:format() f[3].name = '{self.names[2]}' s:format(f)"
        if dice < 0.06:
            return "s:drop() " + self.create()
        if dice < 0.10:
            return "box.snapshot()"
        if dice < 0.2:
            end = self.random.choice(["box.commit()", "box.rollback()"])
            return f"box.begin() {' '.join(f'pcall(function() {self.change()} end)' for _ in range(5))} {end}"
        return " ".join(f"pcall(function() {self.change()} end)" for _ in range(self.random.randrange(1, 40)))


@pytest.mark.parametrize("seed", range(5))
def test_a_table_is_what_the_node_has_at_every_moment(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table has the node's rows at each moment; in half of the runs the changes do not fit into memory."""
    if seed % 2:
        monkeypatch.setattr("box.spark.change_runs.BUDGET", 500)
        monkeypatch.setattr("box.spark.change_runs._PIECE_BYTES", 200)
    program = Program(seed)
    moments: list[tuple[str, str, list[tuple[Any, ...]]]] = []

    async def main() -> None:
        async with Node(tmp_path, log_level=0, checkpoint_count=100) as node:
            await node.eval(program.create())
            for _ in range(30):
                await node.eval(f"s:replace{program.tuple()}")
            await node.eval("box.snapshot()")
            for number in range(40):
                await node.eval(program.step())
                if number % 8 == 7:
                    signature = await node.eval("return box.info.signature")
                    moments.append((await vclock(node), str(signature), await stored(node)))
                    assert read(tmp_path) == moments[-1][2]
            for number, (clock, signature, expected) in enumerate(moments):
                for decoder in decoders():
                    assert read(tmp_path, clock, decoder=decoder) == expected, f"moment {number}, {clock}, {decoder}"
                assert read(tmp_path, signature, partitions="9") == expected, f"moment {number}, {signature}"

    asyncio.run(main())
    assert read(tmp_path) == moments[-1][2]


def test_the_time_is_a_moment(tmp_path: Path) -> None:
    async def main() -> None:
        async with Node(tmp_path, log_level=0) as node:
            await node.eval(f"{GOODS} s:insert{{1, 'one'}} box.snapshot() s:insert{{2, 'two'}}")
            before = await node.eval("require('fiber').sleep(0.01) return require('clock').time()")
            await node.eval("require('fiber').sleep(0.01) s:insert{3, 'three'}")
            assert read(tmp_path, f"@{before}") == [(1, "one"), (2, "two")]
            local = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(before + 3600))
            assert len(read(tmp_path, local)) == 3

    asyncio.run(main())


def test_the_newest_snapshot_alone_has_nothing_of_the_log(tmp_path: Path) -> None:
    run(tmp_path, GOODS, "s:insert{1, 'one'} box.snapshot() s:insert{2, 'two'}")
    assert rows_of(open_table(tmp_path)) == [(1, "one")]
    assert read(tmp_path) == [(1, "one"), (2, "two")]


def test_a_space_that_only_the_log_has_is_read_from_it(tmp_path: Path) -> None:
    expected = run(tmp_path, "box.snapshot()", GOODS, "for i = 1, 5000 do s:insert{i, 'n' .. i} end")
    assert read(tmp_path) == expected
    with pytest.raises(
        BoxError, match=r"does not exist in .*snap, but in the log .* run box.snapshot\(\), or read with"
    ):
        open_table(tmp_path)


def test_a_space_that_the_log_drops_is_no_longer_there(tmp_path: Path) -> None:
    run(tmp_path, GOODS, "s:insert{1, 'one'} box.snapshot() s:drop()")
    with pytest.raises(BoxError, match="Space 'goods' does not exist"):
        open_table(tmp_path, as_of="latest")


def test_a_space_has_the_name_and_the_format_of_the_moment(tmp_path: Path) -> None:
    run(
        tmp_path,
        GOODS.replace("goods", "stock"),
        "s:insert{1, 'one'} box.snapshot()",
        "s:rename('goods') s:format{{'id', 'unsigned'}, {'label', 'string'}, {'more', 'any', is_nullable = true}}",
        "s:replace{2, 'two', {1, 2}}",
    )
    table = open_table(tmp_path, as_of="latest")
    assert [column.name for column in table.columns] == ["id", "label", "more"]
    assert sorted(rows_of(table)) == [(1, "one", None), (2, "two", "[1, 2]")]


def test_conditions_hold_for_changed_tuples_too(tmp_path: Path) -> None:
    run(
        tmp_path,
        GOODS,
        "for i = 1, 100 do s:insert{i, 'old'} end box.snapshot()",
        "for i = 41, 50 do s:replace{i, 'new'} end for i = 101, 110 do s:insert{i, 'new'} end s:delete(45)",
    )
    table = open_table(tmp_path, as_of="latest")
    new = rows_of(table, Condition("name", "=", "new"))
    assert sorted(row[0] for row in new) == [*range(41, 45), *range(46, 51), *range(101, 111)]
    assert sorted(rows_of(table, Condition("id", ">=", 100))) == [(100, "old"), *((i, "new") for i in range(101, 111))]


@pytest.mark.parametrize("decoder", ["python", "compiled"])
def test_many_shares_take_each_change_once(tmp_path: Path, decoder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if decoder == "compiled":
        pytest.importorskip("numba", reason="the extra 'spark' is not installed")
    monkeypatch.setattr("box.spark.table._BYTES_A_SHARE", 1 << 14)
    monkeypatch.setattr("box.spark.change_runs.BUDGET", 1 << 14)
    expected = run(
        tmp_path,
        GOODS,
        "for i = 1, 20000 do s:insert{i * 2, 'name ' .. i * 7919 % 10007} end box.snapshot()",
        "for i = 1, 2000 do s:upsert({i * 21, 'put'}, {{'=', 2, 'set'}}) end",
        "for i = 1, 500 do s:delete(i * 82) end s:insert{100001, 'last'} s:insert{1, 'first'}",
    )
    table = open_table(tmp_path, as_of="latest", decoder=decoder)
    assert len(table.shares([])) > 3
    assert sorted(rows_of(table), key=repr) == expected


def test_a_long_log_makes_shares_large_unless_more_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long log makes shares large unless more are asked for, because each share reads the whole log."""
    monkeypatch.setattr("box.spark.table._BYTES_A_SHARE", 1 << 14)
    run(tmp_path, GOODS, "for i = 1, 20000 do s:insert{i, 'name ' .. i * 7919 % 10007} end box.snapshot() s:delete(1)")
    assert len(open_table(tmp_path, as_of="latest").shares([])) > 3
    monkeypatch.setattr("box.spark.merge.MergedSpace.log_size", 1 << 24)
    assert len(open_table(tmp_path, as_of="latest").shares([])) == 1
    assert len(open_table(tmp_path, as_of="latest", partitions="9").shares([])) > 3


def test_synchronous_transactions_count_once_they_are_confirmed(tmp_path: Path) -> None:
    async def main() -> None:
        async with Node(tmp_path, log_level=0, replication_synchro_timeout=0.05) as node:
            await node.eval(
                GOODS.replace("{format", "{is_sync = true, format")
                + " a = box.schema.space.create('other') a:create_index('pk')"
                " s:insert{1, 'one'} box.snapshot() s:insert{2, 'two'}"
                " box.cfg{replication_synchro_quorum = 2}"
                " ok = pcall(s.insert, s, {3, 'three'}) assert(not ok)"
            )
            assert read(tmp_path) == await stored(node) == [(1, "one"), (2, "two")]
            await node.eval(
                "box.cfg{replication_synchro_timeout = 1000}"
                " f = require('fiber').create(function() pcall(s.insert, s, {4, 'four'}) end)"
                " g = require('fiber').create(function() pcall(s.replace, s, {1, 'uno'}) end)"
            )
            waiting = await node.eval("return box.info.signature")
            assert read(tmp_path) == [(1, "one"), (2, "two")]
            await node.eval("box.cfg{replication_synchro_quorum = 1} require('fiber').sleep(0.05)")
            assert read(tmp_path) == await stored(node) == [(1, "uno"), (2, "two"), (4, "four")]
            assert read(tmp_path, str(waiting)) == [(1, "one"), (2, "two")]

    asyncio.run(main())


def test_a_directory_that_is_written_gives_one_consistent_cut(tmp_path: Path) -> None:
    """A table of a directory that a node writes is consistent: two tuples that one transaction changes are always
    equal.
    """

    async def main() -> None:
        async with Node(tmp_path, log_level=0, wal_max_size=1 << 14) as node:
            await node.eval(f"{GOODS} s:insert{{1, '0'}} s:insert{{2, '0'}} box.snapshot()")
            await node.eval(
                """
                stop = false
                writer = require('fiber').create(function()
                    local i = 0
                    while not stop do
                        require('fiber').sleep(0.0005)
                        i = i + 1
                        box.begin() s:replace{1, tostring(i)} s:replace{2, tostring(i)} box.commit()
                    end
                end)
                """
            )
            seen = set()
            for _ in range(10):
                (_, one), (_, two) = await asyncio.to_thread(read, tmp_path)
                assert one == two
                seen.add(one)
            await node.eval("stop = true")
            assert len(seen) > 3

    asyncio.run(main())
    assert len(list(tmp_path.glob("*.xlog"))) > 1


def test_rows_are_read_as_they_were_when_the_table_was_opened(tmp_path: Path) -> None:
    async def main() -> None:
        async with Node(tmp_path, log_level=0) as node:
            await node.eval(f"{GOODS} s:insert{{1, 'one'}} box.snapshot() s:insert{{2, 'two'}}")
            table = open_table(tmp_path, as_of="latest")
            await node.eval("s:insert{3, 'three'} s:delete(1)")
            assert sorted(rows_of(table)) == [(1, "one"), (2, "two")]

    asyncio.run(main())


# --- what is wrong ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "yesterday", "{1: }", "-5", "@x", "@inf", "2026-13-01"])
def test_a_moment_has_a_known_form(text: str) -> None:
    with pytest.raises(BoxError, match="is neither 'latest' nor an lsn"):
        Moment.parse(text)


def test_a_moment_beyond_the_log_is_an_error(tmp_path: Path) -> None:
    run(tmp_path, GOODS, "box.snapshot() s:insert{1, 'one'}")
    for moment in ("100000", "{1: 100000}", "{7: 1}"):
        with pytest.raises(BoxError, match=r"the log ends at \{1: \d+\}, .* is not reached yet"):
            open_table(tmp_path, as_of=moment)


def test_a_moment_before_the_oldest_snapshot_is_an_error(tmp_path: Path) -> None:
    run(tmp_path, GOODS, "s:insert{1, 'one'} box.snapshot()", checkpoint_count=1)
    (tmp_path / f"{0:020d}.snap").unlink(missing_ok=True)
    with pytest.raises(BoxError, match="the oldest snapshot is later than 1"):
        open_table(tmp_path, as_of="1")


def test_a_snapshot_that_is_later_than_the_moment_is_an_error(tmp_path: Path) -> None:
    run(tmp_path, GOODS, "s:insert{1, 'one'} box.snapshot()")
    newest = max(tmp_path.glob("*.snap"))
    for moment in ("1", "{1: 1}", "@1"):
        with pytest.raises(BoxError, match=f"{newest}: the snapshot is later than"):
            open_table(newest, as_of=moment)
    assert rows_of(open_table(newest, as_of="latest")) == [(1, "one")]


def test_a_log_file_that_was_collected_meanwhile_is_named(tmp_path: Path) -> None:
    run(tmp_path, GOODS, "box.snapshot() s:insert{1, 'one'}")
    table = open_table(tmp_path, as_of="latest")
    for path in tmp_path.glob("*.xlog"):
        path.unlink()
    with pytest.raises(BoxError, match=r"\.xlog: the file is gone: the instance has collected it; load the table anew"):
        rows_of(table)


def test_a_log_with_a_missing_file_is_an_error(tmp_path: Path) -> None:
    run(tmp_path, GOODS)
    for number in range(4):
        run(tmp_path, f"box.space.goods:insert{{{number}, 'x'}}")
    logs = sorted(tmp_path.glob("*.xlog"))
    logs[2].unlink()
    with pytest.raises(BoxError, match=rf"{logs[3]}: follows a file that begins at .* a log file is missing"):
        open_table(tmp_path, as_of="latest")


def test_the_log_of_another_instance_is_an_error(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for directory in (one, two):
        directory.mkdir()
        run(directory, GOODS, "box.snapshot() s:insert{1, 'one'}")
    with pytest.raises(BoxError, match=r"written by instance .*, the snapshot by .*: each instance needs a directory"):
        open_table(one, as_of="latest", log=str(two))


def test_a_damaged_log_names_file_and_position(tmp_path: Path) -> None:
    run(tmp_path, GOODS, "box.snapshot()", "for i = 1, 100 do s:insert{i, 'text'} end")
    path = sorted(tmp_path.glob("*.xlog"))[-1]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(BoxError, match=rf"{path}: .* at \d+"):
        read(tmp_path)


def test_another_primary_key_in_the_log_is_not_supported(tmp_path: Path) -> None:
    run(tmp_path, GOODS, "s:insert{1, 'one'} box.snapshot() s.index.pk:alter{parts = {{2, 'string'}}}")
    with pytest.raises(BoxError, match="does not support another primary key in the log: take a snapshot"):
        open_table(tmp_path, as_of="latest")
