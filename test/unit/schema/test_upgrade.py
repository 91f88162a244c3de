"""Directories of older versions: a start adds what they lack, and users' objects stay.

The old dictionaries are made from the present one by removing what came later, version by version.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from box.data.codec import pack, unpack
from box.errors import BoxError
from box.instance.node import Instance
from box.journal import MemoryStorage
from box.journal.snapshot import SnapshotSpace, write_snapshot
from box.schema.bootstrap import DICTIONARY_VERSION, bootstrap_rows
from box.schema.ids import SpaceId
from box.schema.upgrade import SchemaUpgrade
from box.session import Context
from box.txn.pending import completed
from box.wire.change import Request
from box.wire.vclock import VClock

UUID_1 = UUID(int=1)
ADMIN, PUBLIC, SUPER, USER = 1, 2, 31, 32
READ_WRITE, EXECUTE = 3, 4
ALTER_AND_DROP, CREATE, LOG_IN = 192, 32, 24

Dictionary = dict[int, list[Any]]


def present() -> Dictionary:
    """Return a fresh instance's rows by space, with a user's space, its rows, a function and a grant."""
    rows: Dictionary = {}
    for space_id, raw in bootstrap_rows(UUID_1, UUID_1):
        rows.setdefault(space_id, []).append(unpack(raw))
    rows[SpaceId.SPACE].append([512, ADMIN, "goods", "memtx", 0, {}, []])
    rows[SpaceId.INDEX].append([512, 0, "pk", "tree", {"unique": True}, [[1, "unsigned"]]])
    rows[SpaceId.SEQUENCE] = [[7, ADMIN, "numbers", 1, 1, 2**63 - 1, 1, 0, False]]
    rows[SpaceId.SPACE_SEQUENCE] = [[512, 7, False, 1, ""]]
    rows[SpaceId.USER].append([USER, ADMIN, "seller", "user", {}])
    rows[SpaceId.PRIV] += [[ADMIN, USER, "space", 512, READ_WRITE], [ADMIN, USER, "universe", 0, READ_WRITE]]
    rows[512] = [["a", 1], ["b", 2]]
    return rows


def without_spaces(rows: Dictionary, *ids: int) -> None:
    gone = set(map(int, ids))
    rows[SpaceId.SPACE] = [row for row in rows[SpaceId.SPACE] if row[0] not in gone]
    rows[SpaceId.INDEX] = [row for row in rows[SpaceId.INDEX] if row[0] not in gone]
    rows[SpaceId.PRIV] = [row for row in rows[SpaceId.PRIV] if row[2] != "space" or row[3] not in gone]
    for space_id in gone:
        rows.pop(space_id, None)


def cut_format(rows: Dictionary, space_id: int, fields: int) -> None:
    (space,) = (row for row in rows[SpaceId.SPACE] if row[0] == space_id)
    space[6] = space[6][:fields]


def to_2_3_1(rows: Dictionary) -> None:
    for row in rows[SpaceId.FUNC]:
        if row[2] in ("LUA", "box.schema.user.info"):
            row[3] = 1


def to_2_1_3(rows: Dictionary) -> None:
    to_2_3_1(rows)
    spaces = (SpaceId.SESSION_SETTINGS, SpaceId.CK_CONSTRAINT, SpaceId.FUNC_INDEX, SpaceId.VCOLLATION)
    without_spaces(rows, *spaces)
    cut_format(rows, SpaceId.FUNC, 4)
    cut_format(rows, SpaceId.SPACE_SEQUENCE, 3)
    rows[SpaceId.FUNC] = [[1, ADMIN, "box.schema.user.info", 1, "LUA"], [2, ADMIN, "mine", 0]]
    rows[SpaceId.SPACE_SEQUENCE] = [row[:3] for row in rows[SpaceId.SPACE_SEQUENCE]]
    rows[SpaceId.PRIV] = [row for row in rows[SpaceId.PRIV] if row[2] != "function" or row[3] == 1]


def to_1_10_2(rows: Dictionary) -> None:
    to_2_1_3(rows)
    without_spaces(rows, SpaceId.TRIGGER, SpaceId.FK_CONSTRAINT)
    cut_format(rows, SpaceId.SCHEMA, 1)
    rows[SpaceId.COLLATION] = [
        [1, "unicode", ADMIN, "ICU", "", {}],
        [2, "unicode_ci", ADMIN, "ICU", "", {"strength": "primary"}],
        [4, "mine", ADMIN, "ICU", "", {}],
    ]
    rows[SpaceId.INDEX][-1][4]["sql"] = "CREATE INDEX"


def to_1_7_5(rows: Dictionary) -> None:
    to_1_10_2(rows)
    spaces = (SpaceId.SEQUENCE, SpaceId.SEQUENCE_DATA, SpaceId.SPACE_SEQUENCE, SpaceId.VSEQUENCE, SpaceId.COLLATION)
    without_spaces(rows, *spaces, SpaceId.VINYL_DEFERRED_DELETE)
    rows[SpaceId.USER] = [row for row in rows[SpaceId.USER] if row[0] != SUPER]
    privileges = (row for row in rows[SpaceId.PRIV] if row[1] != SUPER)
    rows[SpaceId.PRIV] = [[*row[:4], 7 if row[1] == ADMIN else row[4] & 7] for row in privileges if row[4] & 7]
    for space in rows[SpaceId.SPACE]:
        if space[0] in (SpaceId.PRIV, SpaceId.VPRIV):
            space[6][3]["type"] = "unsigned"
    for index in rows[SpaceId.INDEX]:
        if index[0] in (SpaceId.PRIV, SpaceId.VPRIV):
            index[5] = [[field, "unsigned" if field == 3 else kind] for field, kind in index[5]]


VERSIONS: dict[tuple[int, int, int], Callable[[Dictionary], None]] = {
    (1, 7, 5): to_1_7_5,
    (1, 10, 2): to_1_10_2,
    (2, 1, 3): to_2_1_3,
    (2, 3, 1): to_2_3_1,
}


def disk_of(version: tuple[int, int, int], more: Callable[[Dictionary], None] | None = None) -> MemoryStorage:
    """Make a disk with a snapshot of a version; `more` adds rows."""
    rows = present()
    VERSIONS[version](rows)
    if more is not None:
        more(rows)
    rows[SpaceId.SCHEMA][-1] = ["version", *version]
    disk = MemoryStorage()
    spaces = [SnapshotSpace(space_id, [pack(row) for row in tuples]) for space_id, tuples in rows.items()]
    write_snapshot(disk, ".", VClock({1: 5}), UUID_1, spaces)
    return disk


def rows_of(node: Instance, space_id: int) -> list[Any]:
    if space_id not in node.schema.spaces:
        return []
    return [unpack(raw) for raw in node.schema.tuples(space_id)]


async def upgrade(node: Instance, ctx: Context) -> None:
    """Call `box.schema.upgrade()`."""
    await SchemaUpgrade(node.schema, node.dml, ctx, node.log, node.clock).run()


def named_functions(rows: list[Any]) -> set[str]:
    """Return functions by name, without ids and dates."""
    return {repr(row[1:-2]) for row in rows}


def assert_upgraded(node: Instance, version: tuple[int, int, int]) -> None:
    """Assert that everything of a fresh instance is there, and the user's objects."""
    wanted = present()
    assert ["version", *DICTIONARY_VERSION] in rows_of(node, SpaceId.SCHEMA)
    spaces = {row[0]: row for row in rows_of(node, SpaceId.SPACE)}
    assert spaces == {row[0]: row for row in wanted[SpaceId.SPACE]}
    assert rows_of(node, SpaceId.INDEX) == wanted[SpaceId.INDEX]
    assert rows_of(node, SpaceId.USER) == wanted[SpaceId.USER]
    assert named_functions(rows_of(node, SpaceId.FUNC)) >= named_functions(wanted[SpaceId.FUNC])
    assert {row[1] for row in rows_of(node, SpaceId.COLLATION)} >= {row[1] for row in wanted[SpaceId.COLLATION]}
    assert all(row[5] for row in rows_of(node, SpaceId.COLLATION) if row[3] == "ICU")
    granted = {tuple(row[1:4]): row[4] for row in rows_of(node, SpaceId.PRIV)}
    for _, grantee, kind, object_id, mask in wanted[SpaceId.PRIV]:
        if kind != "function":
            assert granted[grantee, kind, object_id] & mask == mask
    public = {object_id for grantee, kind, object_id in granted if (grantee, kind) == (PUBLIC, "function")}
    assert public == {row[0] for row in rows_of(node, SpaceId.FUNC) if row[2] != "mine"}
    if version < (2, 1, 0):
        assert granted[USER, "space", 512] == READ_WRITE | ALTER_AND_DROP
        log_in = LOG_IN if version < (1, 7, 7) else 0
        assert granted[USER, "universe", 0] == READ_WRITE | ALTER_AND_DROP | CREATE | log_in
    else:
        assert granted[USER, "universe", 0] == READ_WRITE
    if version >= (1, 7, 6):
        assert rows_of(node, SpaceId.SPACE_SEQUENCE) == wanted[SpaceId.SPACE_SEQUENCE]
    assert rows_of(node, 512) == [["a", 1], ["b", 2]]


@pytest.mark.parametrize("version", VERSIONS, ids=str)
def test_files_of_an_older_version(version: tuple[int, int, int]) -> None:
    """Files of an older version are upgraded at the first start; the next one changes nothing."""

    async def main() -> None:
        disk = disk_of(version)
        vclock: VClock | None = None
        for _ in range(3):
            node = Instance(disk=disk)
            await node.configure({"log_level": 0})
            assert_upgraded(node, version)
            assert vclock in (None, node.state.vclock)
            vclock = node.state.vclock.copy()
            ctx = node.new_context()
            await upgrade(node, ctx)
            assert node.state.vclock == vclock
            await node.close()

    asyncio.run(main())


def test_an_upgrade_that_waits_for_its_call() -> None:
    """A member of a replica set, or a start with ERRINJ_AUTO_UPGRADE, is upgraded only by box.schema.upgrade()."""

    async def main() -> None:
        node = Instance(disk=disk_of((2, 1, 3)))
        node.errinj.set("ERRINJ_AUTO_UPGRADE", True)
        said: list[str] = []
        node.log.warn = said.append  # type: ignore[method-assign]
        await node.configure({"log_level": 0})
        assert ["version", 2, 1, 3] in rows_of(node, SpaceId.SCHEMA)
        assert said == [
            "Your schema version is 2.1.3 while Tarantool 2.8.1-0-g0000000 requires a more recent schema version. "
            "Please, consider using box.schema.upgrade()."
        ]
        ctx = node.new_context()
        node.dml.write(ctx, node.schema.space(512), Request.insert(pack(["c", 3])))
        await node.configure({"read_only": True})
        with pytest.raises(BoxError, match="read-only mode"):
            await upgrade(node, ctx)
        await node.configure({"read_only": False})
        await upgrade(node, ctx)
        node.dml.write(ctx, node.schema.space(512), Request.delete([3]))
        assert_upgraded(node, (2, 1, 3))
        await node.close()

    asyncio.run(main())


def test_the_log_names_the_steps_for_functions_with_setuid() -> None:
    async def main() -> None:
        node = Instance(disk=disk_of((2, 1, 3)))
        said: list[str] = []
        node.log.info = said.append  # type: ignore[method-assign]
        await node.configure({"log_level": 0})
        assert [line for line in said if "function" in line][:3] == [
            'remove old function "box.schema.user.info"',
            'create function "box.schema.user.info" with unset setuid',
            'grant execute on function "box.schema.user.info" to public',
        ]
        await node.close()

    asyncio.run(main())


def test_check_constraints_that_were_options_of_their_space() -> None:
    """Check constraints become rows of `_ck_constraint`; a space with tuples keeps its option, with a warning."""

    def more(rows: Dictionary) -> None:
        rows[SpaceId.SPACE][-1][5] = {"checks": [{"expr": "a > 5"}]}
        checks = [{"expr": "a > 5"}, {"name": "second", "expr": "a < 9"}]
        format_ = [{"name": "A", "type": "integer"}]
        rows[SpaceId.SPACE].append([513, ADMIN, "few", "memtx", 0, {"checks": checks}, format_])
        rows[SpaceId.SPACE].append([514, ADMIN, "odd", "memtx", 0, {"checks": [7]}, format_])
        rows[SpaceId.INDEX].append([513, 0, "pk", "tree", {"unique": True}, [[0, "integer"]]])

    async def main() -> None:
        node = Instance(disk=disk_of((2, 1, 3), more))
        said: list[str] = []
        node.log.warn = said.append  # type: ignore[method-assign]
        await node.configure({"log_level": 0})
        assert said == ["check constraints of space goods have no effect: it is not empty"]
        options = {row[0]: row[5] for row in rows_of(node, SpaceId.SPACE) if row[0] >= 512}
        assert options == {512: {"checks": [{"expr": "a > 5"}]}, 513: {}, 514: {"checks": [7]}}
        assert rows_of(node, SpaceId.CK_CONSTRAINT) == [
            [513, "CK_CONSTRAINT_1_few", False, "SQL", "a > 5", True],
            [513, "second", False, "SQL", "a < 9", True],
        ]
        ctx = node.new_context()
        await completed(node.dml.write(ctx, node.schema.space(513), Request.insert(pack([6]))))
        with pytest.raises(BoxError, match="Check constraint failed 'second': a < 9"):
            await completed(node.dml.write(ctx, node.schema.space(513), Request.insert(pack([9]))))
        await node.close()

    asyncio.run(main())


def test_a_version_that_is_too_old() -> None:
    """A version that is too old is not upgraded, with a warning."""

    async def main() -> None:
        rows = present()
        rows[SpaceId.SCHEMA][-1] = ["version", 1, 6, 8]
        disk = MemoryStorage()
        spaces = [SnapshotSpace(space_id, [pack(row) for row in tuples]) for space_id, tuples in rows.items()]
        write_snapshot(disk, ".", VClock(), UUID_1, spaces)
        node = Instance(disk=disk)
        said: list[str] = []
        node.log.warn = said.append  # type: ignore[method-assign]
        await node.configure({"log_level": 0})
        assert said[0] == "can upgrade from 1.7.5 only"
        assert ["version", 1, 6, 8] in rows_of(node, SpaceId.SCHEMA)
        await node.close()

    asyncio.run(main())
