"""Directories of Tarantool 2.10, 2.11 and 3.x with all that they know.

A node, `lunabox-cat` and Spark read them row by row, and they are unharmed after a node has written to them.
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any
from uuid import UUID

from box import Interval, Node
from box.data.codec import unpack
from box.spark.cat import rows_of
from box.spark.values import to_json
from box.wire.constants import Key
from test.interop.newer import CONTENTS, DUMP, NewerTarantool, in_order, of_versions
from test.unit.spark import test_as_of as spark

XLOG = """
local found = {}
for _, row in require('xlog').pairs(...) do
    local body = row.BODY or {}
    table.insert(found, {row.HEADER.lsn or 0, body.space_id, body.tuple, body.key, body.operations})
end
return found
"""
"""Lua that returns the rows of a file as Tarantool reads them."""


async def made(directory: Path, version: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Fill a directory with everything. Returns what Tarantool has in spaces and indexes after a restart."""
    tarantool = NewerTarantool(directory, version)
    await tarantool.start()
    await tarantool.eval(f"box.session.su('admin', function() {CONTENTS} end)")
    await tarantool.stop()
    shutil.copytree(directory, directory.with_name("read"))
    again = NewerTarantool(directory.with_name("read"), version)
    await again.start()
    spaces, indexes = await again.eval(DUMP)
    await again.stop()
    return in_order(spaces), in_order(indexes)


def assert_equal(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """Assert that two maps are equal, naming what differs."""
    assert found.keys() == expected.keys()
    assert [name for name in expected if found[name] != expected[name]] == []


@of_versions("2.10", "2.11", "3")
def test_a_node_has_what_tarantool_has_and_leaves_it_unharmed(tmp_path: Path, version: str) -> None:
    async def main() -> None:
        expected, expected_in_indexes = await made(tmp_path / "theirs", version)
        directory = tmp_path / "ours"
        shutil.copytree(tmp_path / "theirs", directory)
        async with Node(directory, log=str(tmp_path / "log")) as node:
            spaces, indexes = await node.eval(DUMP)
            assert_equal(in_order(spaces), expected)
            assert_equal(in_order(indexes), expected_in_indexes)
            await node.eval("box.space.types:insert{5000} box.space.sync:insert{5000} box.snapshot()")
            await node.eval("box.space.types:insert{5001} box.space.sync:insert{5001}")
        said = (tmp_path / "log").read_text()
        assert "is newer than 2.7.1: system spaces stay as they are, there is no upgrade" in said
        if version == "3":
            assert "defaults in the formats of these spaces have no effect: 'defaults'" in said
            assert "grants on these objects have no effect: lua_call, lua_eval, sql" in said
        assert " E> " not in said

        tarantool = NewerTarantool(directory, version)
        await tarantool.start()
        spaces, indexes = await tarantool.eval(DUMP)
        for name in ("types", "sync"):
            assert [row for row in spaces[name] if row[0] >= 5000] == [[5000], [5001]]
            spaces[name] = [row for row in spaces[name] if row[0] < 5000]
        for name in (name for name in indexes if name.startswith("types.")):
            indexes[name] = [row for row in indexes[name] if row[0] < 5000]
        spaces["_sequence_data"] = expected["_sequence_data"]  # the sequence of `types` has followed
        assert_equal(in_order(spaces), expected)
        assert_equal(in_order(indexes), expected_in_indexes)
        await tarantool.stop()

    asyncio.run(main())


@of_versions("2.10", "2.11", "3")
def test_lunabox_cat_and_spark_read_the_rows_that_tarantool_reads(tmp_path: Path, version: str) -> None:
    """`lunabox-cat` has each row of each file, and Spark the tuples of each space that a node would have."""

    async def main() -> dict[str, Any]:
        spaces, _ = await made(tmp_path / "theirs", version)
        tarantool = NewerTarantool(tmp_path / "reader", version)
        await tarantool.start()
        files = sorted([*(tmp_path / "theirs").glob("*.snap"), *(tmp_path / "theirs").glob("*.xlog")])
        assert len(files) >= 4
        for file in files:
            (expected,) = await tarantool.eval(XLOG, str(file))
            assert [shown(item.row) for item in rows_of(str(file))] == [padded(row) for row in expected], file
        await tarantool.stop()
        return spaces

    spaces = asyncio.run(main())
    for name in sorted(spaces.keys() - {name for name in spaces if name.startswith("_")}):
        table = spark.open_table(tmp_path / "theirs", space=name, as_of="latest")
        width = len(table.columns)
        found = sorted(spark.rows_of(table), key=lambda row: row[0])
        expected = sorted((tuple(row) + (None,) * width)[:width] for row in spaces[name])
        for ours, theirs in zip(found, expected, strict=True):
            assert all(map(is_same, ours, theirs)), (name, ours, theirs)


def shown(row: Any) -> list[Any]:
    body = unpack(row.body) if row.body else {}
    return [row.lsn, *(body.get(key) for key in (Key.SPACE_ID, Key.TUPLE, Key.KEY, Key.OPS))]


def padded(row: list[Any]) -> list[Any]:
    return row + [None] * (5 - len(row))


def is_same(found: Any, value: Any) -> bool:
    """Return whether a value of a table stands for a value of a tuple."""
    if isinstance(value, Interval) and isinstance(found, dict):
        return all(getattr(value, name) == part for name, part in found.items())
    return found in (value, str(value) if isinstance(value, UUID) else value, to_json(value))
