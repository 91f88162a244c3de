"""Spaces are created and dropped by rows of `_space`, and a refused row changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from box.data import codec
from box.errors import BoxError
from box.schema import Space, SpaceId

from .harness import Dictionary


def test_create_alter_drop(dictionary: Dictionary) -> None:
    """A space is known by id and name exactly while its row is there."""
    schema = dictionary.schema
    seen: list[Space] = []
    schema.on_alter_spaces.append(seen.extend)
    version = schema.version
    space = dictionary.create_space(512, "test", is_sync=True)
    assert schema.space_by_name("test") is space
    assert (space.is_sync, space.is_local, space.is_system, space.has_triggers) == (True, False, False, False)
    dictionary.replace(SpaceId.SPACE, 512, 1, "renamed", "memtx", 2, {}, [{"name": "a", "type": "unsigned"}])
    assert schema.space_by_name("renamed") is space
    assert (space.is_sync, space.format.exact_field_count, space.format.field_no("a")) == (False, 2, 0)
    with pytest.raises(BoxError, match="Space 'test' does not exist"):
        schema.space_by_name("test")
    dictionary.delete(SpaceId.SPACE, 512)
    assert not schema.has_space(512)
    assert schema.version == version + 3
    assert seen == [space] * 3


def test_rollback(dictionary: Dictionary) -> None:
    """Undoing create, rename and drop, newest first, restores the dictionary."""
    schema = dictionary.schema
    space = dictionary.create_space(512, "kept")
    dictionary.create_index(512, 0, (0, "unsigned"))
    dictionary.commit()
    dictionary.create_space(513, "new")
    dictionary.replace(SpaceId.SPACE, 512, 1, "renamed", "memtx", 0, {}, [])
    dictionary.delete(SpaceId.INDEX, 512, 0)
    dictionary.delete(SpaceId.SPACE, 512)
    dictionary.rollback()
    assert not schema.has_space(513)
    assert schema.space_by_name("kept") is space is schema.space(512)
    assert list(space.indexes) == [0]
    with pytest.raises(BoxError, match="'renamed'"):
        schema.space_by_name("renamed")


LONG = "x" * 65001


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ((0, 1, "x", "memtx", 0, {}, []), "Failed to create space 'x': space id 0 is reserved"),
        ((2**31, 1, "x", "memtx", 0, {}, []), "Failed to create space 'x': space id is too big"),
        (
            (2**40, 1, "x", "memtx", 0, {}, []),
            "Tuple field 1 type does not match one required by operation: expected uint32_t, got uint64_t",
        ),
        ((9, 1, LONG, "memtx", 0, {}, []), f"Failed to create space '{'x' * 64}': space name is too long"),
        ((9, 1, "", "memtx", 0, {}, []), "Invalid identifier '' (expected printable symbols only or it is too long)"),
        (
            (9, 1, "a\n", "memtx", 0, {}, []),
            "Invalid identifier 'a\n' (expected printable symbols only or it is too long)",
        ),
        ((9, 1, "x", "tweedledee-and-dum", 0, {}, []), "Failed to create space 'x': space engine name is too long"),
        ((9, 1, "x", "unknown", 0, {}, []), "Space engine 'unknown' does not exist"),
        ((9, 1, "x", "vinyl", 0, {}, []), "Lunabox does not support the vinyl engine"),
        ((9, 1, "x", "service", 0, {}, []), "Tarantool does not support non-system space with 'service' engine."),
        ((9, 1, "x", "memtx", 0, {"a": 1}, []), "Wrong space options (field 5): unexpected option 'a'"),
        ((9, 1, "x", "memtx", 0, {1: 1}, []), "Wrong space options (field 5): key must be a string"),
        ((9, 1, "x", "memtx", 0, {"sql": 1}, []), "Wrong space options (field 5): 'sql' must be string"),
        ((9, 1, "x", "memtx", 0, {"temporary": 1}, []), "Wrong space options (field 5): 'temporary' must be boolean"),
        ((9, 1, "x", "memtx", 0, {"group_id": 2}, []), "Replication group '2' does not exist"),
        ((9, 1, "x", "memtx", 0, {"view": True}, []), "Space declared as a view must have SQL statement"),
        (
            (9, 1, "x", "memtx", 0, {"group_id": 1, "is_sync": True}, []),
            "Failed to create space 'x': local space can't be synchronous",
        ),
        (
            (9, 1, "x", "memtx", 1, {}, [{"name": "a"}, {"name": "b"}]),
            "Failed to create space 'x': exact_field_count must be either 0 or >= formatted field count",
        ),
        ((9, 1, "x", "memtx", 0, {}, [1]), "Failed to create space 'x': field 1 is not map"),
        (
            (9, 1, "x", "memtx", 0, {}, [{"name": "a"}, {1: 2}]),
            "Failed to create space 'x': field 2 format is not map with string keys",
        ),
        ((9, 1, "x", "memtx", 0, {}, [{}]), "Failed to create space 'x': field 1 name is not specified"),
        ((9, 1, "x", "memtx", 0, {}, [{"name": LONG}]), "Failed to create space 'x': field 1 name is too long"),
        (
            (9, 1, "x", "memtx", 0, {}, [{"name": "a", "type": "b"}]),
            "Failed to create space 'x': field 1 has unknown field type",
        ),
        (
            (9, 1, "x", "memtx", 0, {}, [{"name": "a", "is_nullable": 1}]),
            "Wrong space format (field 1): 'is_nullable' must be boolean",
        ),
        (
            (9, 1, "x", "memtx", 0, {}, [{"name": "a", "is_nullable": True, "nullable_action": "abort"}]),
            "Failed to create space 'x': field 1 has conflicting nullability and nullable action properties",
        ),
        (
            (9, 1, "x", "memtx", 0, {}, [{"name": "a", "type": "unsigned", "collation": 1}]),
            "Failed to create space 'x': collation is reasonable only for string, scalar and any fields",
        ),
        (
            (9, 1, "x", "memtx", 0, {}, [{"name": "a", "type": "string", "collation": 999}]),
            "Wrong collation options (field 1): collation was not found by ID",
        ),
        ((9, 1, "x", "memtx", 0, {}, [{"name": "a"}, {"name": "a"}]), "Space field 'a' is duplicate"),
    ],
)
def test_refused_definitions(dictionary: Dictionary, row: tuple[Any, ...], text: str) -> None:
    """Each wrong definition has Tarantool's text."""
    assert dictionary.error(dictionary.insert, SpaceId.SPACE, *row) == text
    assert len(dictionary.schema.spaces) == 25


def test_format_takes_unknown_keys_and_any_case(dictionary: Dictionary) -> None:
    """A field's map may have unknown keys, and type names may be in any case."""
    space = dictionary.create_space(512, "test", format=[{"name": "a", "type": "STRING", "comment": "free"}])
    assert str(space.definition.fields[0].type) == "string"


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ((512, 1, "test", "blackhole", 0, {}, []), "can not change space engine"),
        ((512, 1, "test", "memtx", 0, {"group_id": 1}, []), "replication group is immutable"),
        ((512, 1, "test", "memtx", 0, {"temporary": True}, []), "can not switch temporary flag on a non-empty space"),
    ],
)
def test_refused_alters(dictionary: Dictionary, row: tuple[Any, ...], text: str) -> None:
    """Id, engine and owner of a space, and other basics, cannot change."""
    dictionary.create_space(512, "test")
    dictionary.create_index(512, 0, (0, "unsigned"))
    dictionary.insert(512, 1)
    assert dictionary.error(dictionary.replace, SpaceId.SPACE, *row) == f"Can't modify space 'test': {text}"


def test_new_format_is_checked_against_the_data(dictionary: Dictionary) -> None:
    """A stricter format must fit the stored tuples, and its check must be alone in its transaction."""
    space = dictionary.create_space(512, "test")
    dictionary.create_index(512, 0, (0, "unsigned"))
    dictionary.insert(512, 1, "one")
    row = [512, 1, "test", "memtx", 0, {}]
    strict = [{"name": "a", "type": "unsigned"}, {"name": "b", "type": "unsigned"}]
    fitting = [{"name": "a", "type": "unsigned"}, {"name": "b", "type": "string"}]
    text = "Can not perform space format check in a multi-statement transaction"
    assert dictionary.error(dictionary.replace, SpaceId.SPACE, *row, strict) == text
    dictionary.commit()
    text = "Tuple field 2 type does not match one required by operation: expected unsigned, got string"
    assert dictionary.error(dictionary.replace, SpaceId.SPACE, *row, strict) == text
    dictionary.replace(SpaceId.SPACE, *row, fitting)
    assert space.format.field_no("b") == 1
    loose = [{"name": "a", "type": "unsigned"}, {"name": "b", "type": "any", "is_nullable": True}]
    dictionary.replace(SpaceId.SPACE, *row, loose)  # needs no look at the data
    text = "Field 1 (a) has type 'string' in space format, but type 'unsigned' in index definition"
    assert dictionary.error(dictionary.replace, SpaceId.SPACE, *row, [{"name": "a", "type": "string"}]) == text


def test_drop_needs_an_unused_space(dictionary: Dictionary) -> None:
    """A space is dropped after its indexes, grants and truncate records."""
    dictionary.create_space(512, "test")
    dictionary.create_index(512, 0, (0, "unsigned"))
    dictionary.grant(0, "space", 512, 1)
    dictionary.replace(SpaceId.TRUNCATE, 512, 1)

    def refused() -> str:
        return dictionary.error(dictionary.delete, SpaceId.SPACE, 512).removeprefix("Can't drop space 'test': ")

    assert refused() == "the space has indexes"
    dictionary.delete(SpaceId.INDEX, 512, 0)
    assert refused() == "the space has grants"
    dictionary.delete(SpaceId.PRIV, 0, "space", 512)
    assert refused() == "the space has truncate record"
    dictionary.delete(SpaceId.TRUNCATE, 512)
    dictionary.delete(SpaceId.SPACE, 512)
    assert dictionary.error(dictionary.delete, SpaceId.SPACE, 280) == "Can't drop space '_space': the space has indexes"


def test_truncate(dictionary: Dictionary) -> None:
    """A change of `_truncate` empties all indexes, and undoing it restores the tuples."""
    space = dictionary.create_space(512, "test")
    dictionary.create_index(512, 0, (0, "unsigned"))
    dictionary.create_index(512, 1, (1, "string"))
    raw = dictionary.insert(512, 1, "one")
    dictionary.commit()
    dictionary.insert(SpaceId.TRUNCATE, 512, 1)
    assert len(space.index(0)) == 1, "a snapshot's record does not truncate"
    dictionary.commit()
    version = dictionary.schema.version
    dictionary.replace(SpaceId.TRUNCATE, 512, 2)
    assert [len(index) for index in space.indexes.values()] == [0, 0]
    assert dictionary.schema.version == version
    dictionary.insert(512, 2, "two")
    dictionary.rollback()
    assert [index.values_list() for index in space.indexes.values()] == [[raw], [raw]]
    assert dictionary.schema.truncated == {512}


def test_truncate_is_refused(dictionary: Dictionary) -> None:
    """Truncating system spaces and unknown ones is refused, and so is truncating without the right to write."""
    error = dictionary.error
    assert error(dictionary.replace, SpaceId.TRUNCATE, 280, 1) == "Can't truncate a system space, space '_space'"
    assert error(dictionary.replace, SpaceId.TRUNCATE, 999, 1) == "Space '999' does not exist"
    dictionary.create_space(512, "test")
    dictionary.act_as(dictionary.schema.users[0])
    text = "Write access to space 'test' is denied for user 'guest'"
    assert error(dictionary.replace, SpaceId.TRUNCATE, 512, 1) == text


def test_request_prefixes(dictionary: Dictionary) -> None:
    """A journal row's body is the prefix followed by the tuple or the key."""
    space = dictionary.create_space(512, "test")
    assert codec.unpack(space.tuple_prefix + codec.pack([1])) == {0x10: 512, 0x21: [1]}
    assert codec.unpack(space.key_prefix + codec.pack([1])) == {0x10: 512, 0x20: [1]}


def test_what_a_snapshot_stores(dictionary: Dictionary) -> None:
    """A snapshot has the spaces with tuples of their own, system spaces first, without temporary ones."""
    dictionary.create_space(600, "b")
    dictionary.create_space(599, "a", temporary=True)
    dictionary.create_space(100, "low")
    dictionary.create_space(512, "hole", engine="blackhole")
    ids = [space.id for space in dictionary.schema.snapshot_spaces()]
    assert ids == [272, 276, 280, 284, 285, 288, 296, 304, 312, 320, 328, 330, 340, 356, 364, 372, 100, 600]
