"""A new instance's dictionary has Tarantool's rows."""

from __future__ import annotations

from hashlib import sha256

from box.data import codec
from box.schema import SpaceId, bootstrap_rows
from box.schema.access import ALL_PRIVILEGES

from .harness import INSTANCE_UUID, REPLICASET_UUID, Dictionary


def test_rows_are_those_of_tarantool() -> None:
    """The digest of all rows is that of Tarantool's own (`_schema` to `_cluster`, in the order of a snapshot)."""
    digest = sha256()
    for space_id, raw in bootstrap_rows(INSTANCE_UUID, REPLICASET_UUID):
        digest.update(codec.pack(space_id) + raw)
    assert digest.hexdigest() == "5f586955e113b5d5a3e07755e9289dab517c404f1685731aa576527887c03167"


def test_row_counts() -> None:
    """Each system space that is not empty has Tarantool's number of rows."""
    counts: dict[int, int] = {}
    for space_id, _ in bootstrap_rows(INSTANCE_UUID, REPLICASET_UUID):
        counts[space_id] = counts.get(space_id, 0) + 1
    assert counts == {
        SpaceId.SCHEMA: 3,
        SpaceId.COLLATION: 277,
        SpaceId.SPACE: 25,
        SpaceId.INDEX: 53,
        SpaceId.FUNC: 67,
        SpaceId.USER: 5,
        SpaceId.PRIV: 82,
        SpaceId.CLUSTER: 1,
    }


def test_rows_describe_the_spaces_that_hold_them(dictionary: Dictionary) -> None:
    """Applying the rows gives every system space its format and its indexes."""
    schema = dictionary.schema
    assert sorted(schema.spaces) == [int(space_id) for space_id in SpaceId if space_id != SpaceId.VSPACE_SEQUENCE]
    for raw in schema.space(SpaceId.SPACE).index(0).values_list():
        space_id, owner, name, engine, _, _, space_format = codec.unpack(raw)
        space = schema.space(space_id)
        assert (space.owner, space.name, space.engine.name) == (owner, name, engine)
        assert space.definition.format == space_format
    for raw in schema.space(SpaceId.INDEX).index(0).values_list():
        space_id, iid, name = codec.unpack(raw)[:3]
        index = schema.space(space_id).index(iid)
        assert index.name == name
        if schema.space(space_id).engine.keeps_tuples:
            assert len(index) == len(schema.space(space_id).index(0))


def test_users_and_instance(dictionary: Dictionary) -> None:
    """Guest may log in and run what is public, admin may do everything, and the instance has id 1."""
    schema = dictionary.schema
    assert schema.admin.universal == ALL_PRIVILEGES
    assert schema.guest.universal == 24
    assert schema.guest.on("space", SpaceId.VSPACE) == 1
    assert schema.users[31].effective[("universe", 0)] == ALL_PRIVILEGES
    assert {str(uuid) for uuid in schema.replicas.values()} == {INSTANCE_UUID}
    assert str(schema.replicaset_uuid) == REPLICASET_UUID
