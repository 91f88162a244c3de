"""Indexes are created and dropped by rows of `_index`."""

from __future__ import annotations

from typing import Any

import pytest

from box.data import codec
from box.schema import Space, SpaceId

from .harness import Dictionary


@pytest.fixture
def space(dictionary: Dictionary) -> Space:
    """A space with a primary index on its first field."""
    space = dictionary.create_space(512, "test")
    dictionary.create_index(512, 0, (0, "unsigned"), name="pk")
    dictionary.commit()
    return space


def part(field: Any = 0, type: str = "unsigned", **options: Any) -> dict[str, Any]:
    return {"field": field, "type": type, **options}


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ((1, "i", "tree", {"unique": 1}, [part()]), "Wrong index options (field 4): 'unique' must be boolean"),
        ((1, "i", "tree", {"x": 1}, [part()]), "Wrong index options (field 4): unexpected option 'x'"),
        ((1, "", "tree", {}, [part()]), "Invalid identifier '' (expected printable symbols only or it is too long)"),
        (
            (1, "x" * 65001, "tree", {}, [part()]),
            f"Can't create or modify index '{'x' * 64}' in space 'test': index name is too long",
        ),
        ((1, "i", "tree", {}, []), "Can't create or modify index 'i' in space 'test': part count must be positive"),
        ((1, "i", "tree", {}, [5]), "Wrong index options (field 1): index part is expected to be a map"),
        ((1, "i", "tree", {}, [part(), 5]), "Wrong index options (field 2): index part is expected to be a map"),
        ((1, "i", "tree", {}, [{"field": 0}]), "Wrong index options (field 1): index part: unknown field type"),
        ((1, "i", "tree", {}, [part("x")]), "Wrong index options (field 1): 'field' must be unsigned"),
        ((1, "i", "tree", {}, [part(x=1)]), "Wrong index options (field 1): unexpected option 'x'"),
        ((1, "i", "tree", {}, [part(path="a[")]), "Wrong index options (field 1): invalid path"),
        ((1, "i", "tree", {}, [part(sort_order="x")]), "Wrong index options (field 1): index part: unknown sort order"),
        (
            (1, "i", "tree", {}, [part(nullable_action="none")]),
            "Wrong index options (field 1): index part: conflicting nullability and nullable action properties",
        ),
        (
            (1, "i", "tree", {}, [part(collation=2)]),
            "Wrong index options (field 1): collation is reasonable only for string and scalar parts",
        ),
        (
            (1, "i", "tree", {}, [part(1, "string", collation=2000)]),
            "Wrong index options (field 1): collation was not found by ID",
        ),
        (
            (1, "i", "tree", {}, [[0, "x"]]),
            "Wrong index parts: unknown field type; expected field1 id (number), field1 type (string), ...",
        ),
        (
            (1, "i", "tree", {}, [["a", "x"]]),
            "Wrong index parts: field id must be an integer; expected field1 id (number), field1 type (string), ...",
        ),
        (
            (1, "i", "tree", {}, [[0]]),
            "Wrong index parts: a field type is missing; expected field1 id (number), field1 type (string), ...",
        ),
        (
            (1, "i", "tree", {}, [[]]),
            "Wrong index parts: expected a non-empty array; expected field1 id (number), field1 type (string), ...",
        ),
        (
            (1, "i", "tree", {}, [[0, 5]]),
            "Wrong index parts: field type must be a string; expected field1 id (number), field1 type (string), ...",
        ),
        ((128, "i", "tree", {}, [part()]), "Can't create or modify index 'i' in space 'test': index id too big"),
        ((1, "i", "tree", {}, [part(40000)]), "Can't create or modify index 'i' in space 'test': field no is too big"),
        (
            (1, "i", "tree", {}, [part(), part()]),
            "Can't create or modify index 'i' in space 'test': same key part is indexed twice",
        ),
        (
            (1, "i", "tree", {}, [part(n) for n in range(256)]),
            "Can't create or modify index 'i' in space 'test': too many key parts",
        ),
        (
            (1, "i", "tree", {}, [part(2, "map")]),
            "Can't create or modify index 'i' in space 'test': field type 'map' is not supported",
        ),
        (
            (1, "i", "tree", {"unique": False}, [part(0, "string")]),
            "Field 1 has type 'unsigned' in one index, but type 'string' in another",
        ),
        ((1, "i", "x", {}, [part()]), "Unsupported index type supplied for index 'i' in space 'test'"),
        (
            (1, "i", "hash", {"unique": False}, [part()]),
            "Can't create or modify index 'i' in space 'test': HASH index must be unique",
        ),
        ((1, "i", "hash", {}, [part(1, is_nullable=True)]), "HASH does not support nullable parts"),
        (
            (1, "i", "rtree", {}, [part(1, "array")]),
            "Can't create or modify index 'i' in space 'test': RTREE index can not be unique",
        ),
        (
            (1, "i", "rtree", {"unique": False, "dimension": 21}, [part(1, "array")]),
            "Index 'i' (RTREE) of space 'test' (memtx) does not support dimension (21): must belong to range [1, 20]",
        ),
        (
            (1, "i", "rtree", {"unique": False, "distance": "x"}, [part(1, "array")]),
            "Wrong index options (field 4): distance must be either 'euclid' or 'manhattan'",
        ),
        (
            (1, "i", "rtree", {"unique": False}, [part(1)]),
            "Can't create or modify index 'i' in space 'test': RTREE index field type must be ARRAY",
        ),
        (
            (1, "i", "bitset", {"unique": False}, [part(1, "array")]),
            "Can't create or modify index 'i' in space 'test': BITSET index field type must be NUM or STR or VARBINARY",
        ),
        (
            (1, "i", "bitset", {"unique": False}, [part(1), part(2)]),
            "Can't create or modify index 'i' in space 'test': BITSET index key can not be multipart",
        ),
        (
            (1, "i", "tree", {}, [part(1, path="[*]"), part(2, path="[*]")]),
            "Wrong index options (field 2): incompatable multikey index path",
        ),
        (
            (1, "i", "tree", {}, [part(1, path="a[*]"), part(1, path="b[*]")]),
            "Wrong index options (field 2): incompatable multikey index path",
        ),
        (
            (1, "i", "tree", {}, [part(1, path="[*].a[*]")]),
            "Wrong index options (field 1): no more than one array index placeholder [*] is allowed in JSON path",
        ),
        (
            (1, "i", "hash", {}, [part(1, path="[*]")]),
            "Can't create or modify index 'i' in space 'test': HASH index cannot be multikey",
        ),
        ((1, "i", "tree", {"func": 1}, [part(path="a")]), "Functional index does not support json paths"),
        (
            (1, "i", "tree", {"func": 1}, [part(1)]),
            "Wrong functional index definition: key part numbers must be sequential and first part number must be 1",
        ),
        (
            (1, "i", "tree", {"distance": "x"}, [part()]),
            "Wrong index options (field 4): distance must be either 'euclid' or 'manhattan'",
        ),
    ],
)
def test_refused_definitions(dictionary: Dictionary, space: Space, row: tuple[Any, ...], text: str) -> None:
    """Each wrong definition has Tarantool's text, and what Lunabox lacks a clear one."""
    assert dictionary.error(dictionary.insert, SpaceId.INDEX, 512, *row) == text
    assert list(space.indexes) == [0]


def test_refused_primary_keys(dictionary: Dictionary) -> None:
    """A primary key must be unique, not nullable, and the first index."""
    dictionary.create_space(513, "new")

    def refused(iid: int, *parts: Any, **options: Any) -> str:
        return dictionary.error(dictionary.insert, SpaceId.INDEX, 513, iid, "i", "tree", options, list(parts))

    prefix = "Can't create or modify index 'i' in space 'new': "
    assert refused(1, part()) == "Can't modify space 'new': can not add a secondary key before primary"
    assert refused(0, part(), unique=False) == prefix + "primary key must be unique"
    assert refused(0, part(path="[*]")) == prefix + "primary key cannot be multikey"
    assert refused(0, part(), func=1) == prefix + "primary key can not use a function"
    assert refused(0, part(is_nullable=True)) == "Primary index of space 'new' can not contain nullable parts"


def test_wrong_record_before_the_format_is_known(empty: Dictionary) -> None:
    """While `_index` has no format, the trigger checks the fields of its rows."""
    text = empty.error(empty.insert, SpaceId.INDEX, 280, 1, "i", "tree", True)
    assert text == (
        "Wrong record in _index space: got {unsigned, unsigned, string, string, boolean}, expected "
        "{space id (unsigned), index id (unsigned), name (string), type (string), options (map), parts (array)}"
    )


def test_build_on_existing_data(dictionary: Dictionary, space: Space) -> None:
    """A new index gets the stored tuples; a duplicate or a wrong field refuses it."""
    rows = [dictionary.insert(512, number, number % 2, f"name {number}") for number in range(4)]
    text = "Can not perform index build in a multi-statement transaction"
    assert dictionary.error(dictionary.create_index, 512, 1, (2, "string")) == text
    dictionary.commit()
    assert dictionary.error(dictionary.create_index, 512, 1, (1, "unsigned")) == (
        'Duplicate key exists in unique index "i1" in space "test" with old tuple - [0, 0, "name 0"] '
        'and new tuple - [2, 0, "name 2"]'
    )
    text = "Tuple field 4 required by space format is missing"
    assert dictionary.error(dictionary.create_index, 512, 1, (3, "unsigned")) == text
    dictionary.create_index(512, 3, (2, "string"))
    dictionary.commit()
    dictionary.create_index(512, 1, (1, "unsigned"), unique=False)
    assert list(space.indexes) == [0, 1, 3]
    assert space.index(1).values_list() == [rows[0], rows[2], rows[1], rows[3]]
    assert space.index_by_name("i3").values_list() == rows


def test_rollback_of_create_and_drop(dictionary: Dictionary, space: Space) -> None:
    """Undo restores a dropped index with its tuples, and removes a created one."""
    dictionary.create_index(512, 1, (1, "string"))
    raw = dictionary.insert(512, 1, "one")
    dictionary.commit()
    kept = space.index(1)
    dictionary.delete(SpaceId.INDEX, 512, 1)
    assert list(space.indexes) == [0]
    dictionary.insert(512, 2, 2)
    dictionary.rollback()
    assert space.index(1) is kept
    assert kept.values_list() == [raw]
    dictionary.create_index(512, 2, (1, "string"), unique=False)
    dictionary.rollback()
    assert list(space.indexes) == [0, 1]


def test_drop_rules(dictionary: Dictionary, space: Space) -> None:
    """The primary index is dropped last, and never from a system space."""
    dictionary.create_index(512, 1, (1, "string"))
    error, delete = dictionary.error, dictionary.delete
    assert error(delete, SpaceId.INDEX, 512, 0) == "Can't drop primary key in space 'test' while secondary keys exist"
    assert error(delete, SpaceId.INDEX, 280, 0) == "Can't drop the primary key in a system space, space '_space'"
    delete(SpaceId.INDEX, 512, 1)
    delete(SpaceId.INDEX, 512, 0)
    assert space.primary is None


def test_alter(dictionary: Dictionary, space: Space) -> None:
    """A rename keeps an index, other parts rebuild it, and a new primary key rebuilds the secondary indexes."""
    rows = [dictionary.insert(512, number, 9 - number, number % 2) for number in range(4)]
    dictionary.commit()
    dictionary.create_index(512, 1, (2, "unsigned"), unique=False)
    dictionary.commit()
    primary = space.index(0)
    dictionary.replace(SpaceId.INDEX, 512, 0, "renamed", "tree", {"unique": True}, [part()])
    assert space.index(0) is primary
    assert primary.name == "renamed"
    dictionary.rollback()
    assert primary.name == "pk"
    dictionary.replace(SpaceId.INDEX, 512, 0, "pk", "tree", {"unique": True}, [part(1)])
    assert space.index(0).values_list() == rows[::-1]
    assert space.index(1).values_list() == [rows[2], rows[0], rows[3], rows[1]]
    dictionary.rollback()
    assert space.index(0).values_list() == rows
    assert space.index(1).values_list() == [rows[0], rows[2], rows[1], rows[3]]


def test_alter_in_a_longer_transaction(dictionary: Dictionary, space: Space) -> None:
    """In a longer transaction a wider type is allowed, other fields and stricter uniqueness are not: they need a
    rebuild.
    """
    dictionary.create_index(512, 1, (1, "unsigned"), unique=False)
    dictionary.insert(512, 1, 1)
    dictionary.replace(SpaceId.INDEX, 512, 1, "i1", "tree", {"unique": False}, [part(1, "number")])
    text = "Can not perform index build in a multi-statement transaction"
    for options, field in (({"unique": False}, 0), ({"unique": True}, 1)):
        row = (512, 1, "i1", "tree", options, [part(field)])
        assert dictionary.error(dictionary.replace, SpaceId.INDEX, *row) == text


def test_old_parts_are_not_nullable(dictionary: Dictionary) -> None:
    """Parts written as arrays are not nullable, even if the format of their field is: they have no options."""
    nullable = [{"name": "a", "type": "unsigned"}, {"name": "b", "type": "string", "is_nullable": True}]
    space = dictionary.create_space(513, "new", format=nullable)
    dictionary.insert(SpaceId.INDEX, 513, 0, "pk", "tree", {"unique": True}, [[0, "num"]])
    dictionary.insert(SpaceId.INDEX, 513, 1, "sk", "tree", {"unique": False}, [[1, "STR"]])
    assert [index.definition.parts[0].is_nullable for index in space.indexes.values()] == [False, False]
    text = "Tuple field 2 (b) type does not match one required by operation: expected string, got nil"
    assert dictionary.error(dictionary.insert, 513, 1, None) == text


def test_engines_without_indexes(dictionary: Dictionary) -> None:
    """Blackhole spaces have no indexes, and views of system spaces and the session settings get no further ones."""
    dictionary.create_space(513, "hole", engine="blackhole")
    dictionary.create_space(514, "view", engine="sysview")
    assert dictionary.error(dictionary.create_index, 513, 0, (0, "unsigned")) == "Blackhole does not support indexes"
    text = "Can't create or modify index 'i0' in space 'view': unknown space for system view"
    assert dictionary.error(dictionary.create_index, 514, 0, (0, "unsigned")) == text
    text = "_session_settings space does not support create_index()"
    assert dictionary.error(dictionary.create_index, SpaceId.SESSION_SETTINGS, 1, (0, "string")) == text


def test_index_of_a_document(dictionary: Dictionary, space: Space) -> None:
    """A part may be a value inside a document."""
    dictionary.insert(SpaceId.INDEX, 512, 1, "deep", "tree", {"unique": True}, [part(1, "string", path="a.b")])
    raw = dictionary.insert(512, 1, {"a": {"b": "x"}})
    assert space.index(1).get(["x"]) == raw
    text = 'Tuple field [2]["a"]["b"] required by space format is missing'
    assert dictionary.error(space.format.validate, codec.pack([2, {"a": {}}])) == text
