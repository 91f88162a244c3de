"""Directories of a newer Tarantool: what is unknown here is kept unchanged, or refused at once.

The dictionaries of 2.11 and 3.3 are made here from our own by adding what came later (`box.schema.upgrade` of 3.3).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from box import Node
from box.data.codec import pack
from box.data.times.points import Interval
from box.errors import BoxError
from box.instance.node import Instance
from box.journal import MemoryStorage
from box.journal.snapshot import SnapshotSpace, write_snapshot
from box.schema.ids import SpaceId
from box.schema.upgrade import SchemaUpgrade
from box.spark.cat import rows_of as spark_rows
from box.wire.change import Request
from box.wire.constants import RequestType
from box.wire.messages import decode_synchro
from box.wire.vclock import VClock
from test.unit.schema.test_upgrade import ADMIN, PUBLIC, UUID_1, Dictionary, present, rows_of

VIEW = 341
FORMAT = [
    {"name": "id", "type": "unsigned", "constraint": {"check": 700}},
    {"name": "every", "type": "interval", "is_nullable": True},
    {"name": "parent", "type": "unsigned", "is_nullable": True, "foreign_key": {"f": {"space": 512, "field": 0}}},
]


def newer() -> Dictionary:
    """Make rows of 2.11.5: a view of sequences of spaces, a system space of a later version, a space
    with constraints.
    """
    rows = present()
    rows[SpaceId.SCHEMA][-1] = ["version", 2, 11, 5]
    form = [{"name": name, "type": kind} for name, kind in (("id", "unsigned"), ("sequence_id", "unsigned"))]
    rows[SpaceId.SPACE] += [
        [VIEW, ADMIN, "_vspace_sequence", "sysview", 0, {}, form],
        [400, ADMIN, "_later", "memtx", 0, {}, []],
        [513, ADMIN, "checked", "memtx", 0, {"constraint": {"check": 700}}, FORMAT],
    ]
    rows[SpaceId.INDEX] += [
        [VIEW, 0, "primary", "tree", {"unique": True}, [[0, "unsigned"]]],
        [VIEW, 1, "sequence", "tree", {"unique": False}, [[1, "unsigned"]]],
        [400, 0, "primary", "tree", {"unique": True}, [[0, "string"]]],
        [513, 0, "pk", "tree", {"unique": True}, [[0, "unsigned"]]],
    ]
    rows[SpaceId.PRIV].append([ADMIN, PUBLIC, "space", VIEW, 1])
    rows[SpaceId.USER][-1] += [[], 1795687945]
    rows[400] = [["key", {"a": 1}]]
    rows[513] = [[1, Interval(month=1), None]]
    for space_id in (SpaceId.SPACE, SpaceId.INDEX, SpaceId.USER):
        rows[space_id].sort(key=lambda row: row[:2])
    return rows


GC_CONSUMERS = 388


def of_3_3() -> Dictionary:
    """Make rows of 3.3.0: the replica set's UUID under another key, names of instances, triggers of functions, defaults
    of fields, positions of replicas.
    """
    rows = newer()
    ((_, replicaset_uuid),) = [row for row in rows[SpaceId.SCHEMA] if row[0] == "cluster"]
    rows[SpaceId.SCHEMA] = [
        ["replicaset_name", "set-1"],
        ["replicaset_uuid", replicaset_uuid],
        ["version", 3, 3, 0],
    ]
    rows[SpaceId.CLUSTER] = [[1, str(UUID_1), "instance-1"]]
    for row in rows[SpaceId.FUNC]:
        row.append([])
    form = [{"name": name, "type": kind} for name, kind in (("uuid", "string"), ("vclock", "map"), ("opts", "map"))]
    fields: list[dict[str, Any]] = [
        {"name": "id", "type": "unsigned"},
        {"name": "n", "type": "any", "default": 5},
        {"name": "s", "type": "string", "default": "(no SQL"},
    ]
    rows[SpaceId.SPACE] += [
        [GC_CONSUMERS, ADMIN, "_gc_consumers", "memtx", 0, {"group_id": 1}, form],
        [514, ADMIN, "defaults", "memtx", 0, {"defer_deletes": False}, fields],
    ]
    rows[SpaceId.INDEX] += [
        [GC_CONSUMERS, 0, "primary", "tree", {"unique": True}, [[0, "string"]]],
        [514, 0, "pk", "tree", {"unique": True}, [[0, "unsigned"]]],
    ]
    rows[GC_CONSUMERS] = [[str(UUID_1), {1: 5}, {"type": "replica"}]]
    for space_id in (SpaceId.SPACE, SpaceId.INDEX):
        rows[space_id].sort(key=lambda row: row[:2])
    return rows


def disk_of(rows: Dictionary) -> MemoryStorage:
    disk = MemoryStorage()
    spaces = [SnapshotSpace(space_id, [pack(row) for row in rows[space_id]]) for space_id in sorted(rows)]
    write_snapshot(disk, ".", VClock({1: 5}), UUID_1, spaces)
    return disk


async def started(disk: MemoryStorage, said: list[str]) -> Instance:
    node = Instance(disk=disk)
    node.log.info = said.append  # type: ignore[method-assign]
    await node.configure({})
    return node


@pytest.mark.parametrize(("make", "name"), [(newer, "2.11.5"), (of_3_3, "3.3.0")])
def test_a_newer_dictionary_is_kept_as_it_is(make: Callable[[], Dictionary], name: str) -> None:
    """A newer dictionary is neither upgraded nor reduced, a snapshot has all its rows, and the log lists what has no
    effect.
    """

    async def main() -> None:
        rows, said = make(), list[str]()
        disk = disk_of(rows)
        node = await started(disk, said)
        assert node.state.replicaset_uuid == UUID_1
        version = f"schema version {name} is newer than 2.7.1: system spaces stay as they are, there is no upgrade"
        notes = [version]
        if make is of_3_3:
            notes.append("defaults in the formats of these spaces have no effect: 'defaults'")
        assert [line for line in said if line in notes] == notes
        vclock = node.state.vclock.copy()
        said.clear()
        ctx = node.new_context()
        await SchemaUpgrade(node.schema, node.dml, ctx, node.log, lambda: 0.0).run()
        assert (said, node.state.vclock) == (notes, vclock)
        node.dml.write(ctx, node.schema.space(513), Request.insert(pack([2, None, None])))
        with pytest.raises(BoxError, match="Foreign key constraint 'f' failed for field '3 \\(parent\\)'"):
            node.dml.write(ctx, node.schema.space(513), Request.insert(pack([3, None, 7])))
        await node.checkpoints.make()
        await node.close()

        node = await started(disk, said)
        rows[513].append([2, None, None])
        for space_id, expected in rows.items():
            assert sorted(rows_of(node, space_id), key=str) == sorted(expected, key=str), space_id
        view = node.schema.space(VIEW)
        assert list(view.engine.tuples(view)) == [pack(row) for row in rows[SpaceId.SPACE_SEQUENCE]]
        await node.close()

    asyncio.run(main())


def test_options_that_are_unknown_stay_errors_in_our_own_dictionary() -> None:
    async def main() -> None:
        node = Instance(disk=disk_of(present()))
        await node.configure({"log_level": 0})
        row = [513, ADMIN, "later", "memtx", 0, {"later": 1}, []]
        with pytest.raises(BoxError, match="Wrong space options \\(field 5\\): unexpected option 'later'"):
            node.dml.write(node.new_context(), node.schema.space(SpaceId.SPACE), Request.insert(pack(row)))
        await node.close()

    asyncio.run(main())


def test_members_of_formats_that_2_8_ignores_stay_without_effect() -> None:
    """What a 2.8.1 has stored as `constraint` is no constraint if it has another form; here it is refused."""

    async def main() -> None:
        rows = present()
        form = [{"name": "id", "type": "unsigned", "constraint": "text", "foreign_key": 5}]
        rows[SpaceId.SPACE].append([513, ADMIN, "old", "memtx", 0, {}, form])
        rows[SpaceId.INDEX].append([513, 0, "pk", "tree", {"unique": True}, [[0, "unsigned"]]])
        rows[513] = [[1]]
        node = await started(disk_of(rows), [])
        ctx = node.new_context()
        node.dml.write(ctx, node.schema.space(513), Request.insert(pack([2])))
        assert rows_of(node, 513) == [[1], [2]]
        row = [514, ADMIN, "new", "memtx", 0, {}, form]
        with pytest.raises(BoxError, match="field 1: constraint field is expected to be a MAP"):
            node.dml.write(ctx, node.schema.space(SpaceId.SPACE), Request.insert(pack(row)))
        await node.close()

    asyncio.run(main())


@pytest.mark.parametrize(("compression", "is_refused"), [("zstd", True), ("none", False)])
def test_compressed_fields_are_refused_before_anything_is_written(compression: str, is_refused: bool) -> None:
    """Compressed fields, of the enterprise edition, are refused before anything is written."""

    async def main() -> None:
        rows = newer()
        field: dict[str, Any] = {"name": "text", "type": "string", "compression": compression}
        rows[SpaceId.SPACE].append([514, ADMIN, "packed", "memtx", 0, {}, [field]])
        disk = disk_of(rows)
        before = sorted(disk.names("."))
        if not is_refused:
            node = await started(disk, [])
            assert rows_of(node, SpaceId.SPACE)[-1][6] == [field]
            await node.close()
            return
        text = "Lunabox does not support compressed fields \\(field 'text' of space 'packed'\\)"
        with pytest.raises(BoxError, match=text):
            await started(disk, [])
        assert sorted(disk.names(".")) == before

    asyncio.run(main())


def test_the_uuid_of_the_replica_set_moves_to_its_later_key() -> None:
    """As an upgrade to 3.0 does it: the new row first. Without it the old one stays."""

    async def main() -> None:
        node = Instance(disk=disk_of(newer()))
        await node.configure({"log_level": 0})
        ctx, space = node.new_context(), node.schema.space(SpaceId.SCHEMA)
        with pytest.raises(BoxError, match="Can't reset replica set UUID: it is already assigned"):
            node.dml.write(ctx, space, Request.delete(["cluster"]))
        node.dml.write(ctx, space, Request.insert(pack(["replicaset_uuid", str(UUID_1)])))
        node.dml.write(ctx, space, Request.delete(["cluster"]))
        assert node.state.replicaset_uuid == UUID_1
        with pytest.raises(BoxError, match="Can't reset replica set UUID: it is already assigned"):
            node.dml.write(ctx, space, Request.delete(["replicaset_uuid"]))
        await node.close()

    asyncio.run(main())


def test_what_only_3_x_knows_is_kept_without_effect() -> None:
    """Grants on `lua_eval` and others have no effect, and an instance may get a name in its own row of `_cluster`."""

    async def main() -> None:
        rows, said = of_3_3(), list[str]()
        rows[SpaceId.PRIV] += [[ADMIN, PUBLIC, "lua_call", "type", 4], [ADMIN, PUBLIC, "lua_eval", "", 4]]
        node = await started(disk_of(rows), said)
        note = "grants on these objects have no effect: lua_call, lua_eval"
        assert [line for line in said if line.startswith("grants")] == [note]
        ctx, priv, node.schema.instance_id = node.new_context(), node.schema.space(SpaceId.PRIV), 1
        node.dml.write(ctx, node.schema.space(SpaceId.CLUSTER), Request.update([1], [["=", 3, "other"]]))
        assert rows_of(node, SpaceId.CLUSTER) == [[1, str(UUID_1), "other"]]
        node.dml.write(ctx, priv, Request.delete([PUBLIC, "lua_eval", ""]))
        node.dml.write(ctx, priv, Request.insert(pack([ADMIN, PUBLIC, "sql", "", 4])))
        assert [row[2] for row in rows_of(node, SpaceId.PRIV) if row[2] in ("sql", "lua_call", "lua_eval")] == [
            "lua_call",
            "sql",
        ]
        await node.close()

        node = await started(disk_of(newer()), said)
        ctx, node.schema.instance_id = node.new_context(), 1
        with pytest.raises(BoxError, match="unsigned"):
            node.dml.write(ctx, node.schema.space(SpaceId.PRIV), Request.insert(pack([1, 2, "sql", "f", 4])))
        with pytest.raises(BoxError, match="local instance id 1 is read-only"):
            node.dml.write(ctx, node.schema.space(SpaceId.CLUSTER), Request.update([1], [["=", 3, "name"]]))
        await node.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("field", "part", "text"),
    [
        ("int8", "integer", "the field type 'int8' \\(field 'n' of space 'odd'\\)"),
        ("decimal128", "decimal", "the field type 'decimal128' \\(field 'n' of space 'odd'\\)"),
        ("any", "uint64", "the field type 'uint64' \\(index 'pk' of space 'odd'\\)"),
        ("any", {"field": 1, "type": "float32"}, "the field type 'float32' \\(index 'pk' of space 'odd'\\)"),
        (
            "integer",
            {"field": 1, "type": "integer", "sort_order": "desc"},
            "descending parts of keys \\(index 'pk' of space 'odd'\\)",
        ),
    ],
)
def test_types_and_orders_of_3_x_are_refused(field: str, part: str | dict[str, Any], text: str) -> None:
    async def main() -> None:
        rows = of_3_3()
        form = [{"name": "id", "type": "unsigned"}, {"name": "n", "type": field}]
        rows[SpaceId.SPACE].append([600, ADMIN, "odd", "memtx", 0, {}, form])
        parts = [[1, part]] if isinstance(part, str) else [part]
        rows[SpaceId.INDEX].append([600, 0, "pk", "tree", {"unique": True}, parts])
        disk = disk_of(rows)
        before = sorted(disk.names("."))
        with pytest.raises(BoxError, match=f"^Lunabox does not support {text}$"):
            await started(disk, [])
        assert sorted(disk.names(".")) == before

    asyncio.run(main())


def test_snapshots_keep_the_owner_of_the_queue(tmp_path: Path) -> None:
    """A snapshot of a newer dictionary has a PROMOTE row, which tells a start who owns the queue, since which term."""

    def owners(directory: Path) -> list[tuple[int, int, int]]:
        rows = [item.row for item in spark_rows(str(max(directory.glob("*.snap"))))]
        decoded = [decode_synchro(row) for row in rows if row.type == RequestType.PROMOTE]
        return [(request.replica_id, request.lsn, request.term) for request in decoded]

    async def main() -> None:
        # Without this option a snapshot of Lunabox tells of promotions in another row, too.
        options: dict[str, Any] = {"replication_keep_promotions": False, "replication_synchro_quorum": 1}
        async with Node(tmp_path, **options) as node:
            await node.eval("box.schema.space.create('s', {is_sync = true}):create_index('pk')")
            await node.eval("box.ctl.promote() box.space.s:insert{1} box.snapshot()")
            assert owners(tmp_path) == []
            await node.eval("box.space._schema:replace{'version', 2, 11, 5} box.space.s:insert{2} box.snapshot()")
            ((owner, lsn, term),) = owners(tmp_path)
            assert (owner, lsn) == (1, await node.eval("return box.info.lsn - 1"))  # a CONFIRM follows it
            assert term >= 1
        async with Node(tmp_path, **options) as node:
            await node.eval("box.space._schema:replace{'mine', 1} box.snapshot()")
            assert owners(tmp_path) == [(1, 0, term)]

    asyncio.run(main())
