"""Sequences, functions, collations, instances, views and session settings."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from box.data import codec
from box.errors import BoxError
from box.index import IteratorType
from box.schema import Privilege, Schema, Sequence, Space, SpaceId, User, fill_sequence
from box.schema.function import Function
from box.schema.session_settings import SessionSettings

from .harness import Dictionary, refusal


def sequence_row(**values: Any) -> list[Any]:
    """Make a `_sequence` row with the defaults of `box.schema.sequence.create`."""
    row = {"step": 1, "min": 1, "max": 2**63 - 1, "start": 1, "cache": 0, "cycle": False} | values
    return [1, 1, "test", *row.values()]


def create_sequence(dictionary: Dictionary, **values: Any) -> Sequence:
    dictionary.insert(SpaceId.SEQUENCE, *sequence_row(**values))
    return dictionary.schema.sequence(1)


# --- sequences ---


def test_ascending_and_descending(dictionary: Dictionary) -> None:
    """Values go from start by step up to the bound."""
    sequence = create_sequence(dictionary, max=5, start=2, step=2)
    assert [sequence.next(), sequence.next()] == [2, 4]
    with pytest.raises(BoxError, match="Sequence 'test' has overflowed"):
        sequence.next()
    assert sequence.current() == 4
    dictionary.replace(SpaceId.SEQUENCE, *sequence_row(step=-3, min=-4, max=9, start=9))
    assert [sequence.next(), sequence.next()] == [1, -2]
    with pytest.raises(BoxError, match="overflowed"):
        sequence.next()


def test_cycle_and_moved_bounds(dictionary: Dictionary) -> None:
    """A cyclic sequence starts again at the other bound; a value outside of new bounds moves to the nearer one."""
    sequence = create_sequence(dictionary, min=3, max=4, start=4, cycle=True)
    assert [sequence.next() for _ in range(4)] == [4, 3, 4, 3]
    dictionary.replace(SpaceId.SEQUENCE, *sequence_row(min=10, start=10))
    assert sequence.next() == 10
    dictionary.replace(SpaceId.SEQUENCE, *sequence_row(step=-1, min=1, max=5, start=5))
    assert sequence.next() == 5


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"step": 0}, "step option must be non-zero"),
        ({"min": 5, "max": 4}, "max must be greater than or equal to min"),
        ({"start": 0}, "start must be between min and max"),
    ],
)
def test_refused_sequences(dictionary: Dictionary, values: dict[str, int], text: str) -> None:
    """The rules for a new sequence apply to a changed one."""
    error = dictionary.error(dictionary.insert, SpaceId.SEQUENCE, *sequence_row(**values))
    assert error == f"Failed to create sequence 'test': {text}"
    create_sequence(dictionary)
    error = dictionary.error(dictionary.replace, SpaceId.SEQUENCE, *sequence_row(**values))
    assert error == f"Can't modify sequence 'test': {text}"


def test_sequence_data(dictionary: Dictionary) -> None:
    """A row of `_sequence_data` sets the value, also after a rollback; deleting it resets the value, which a rollback
    undoes.
    """
    sequence = create_sequence(dictionary)
    assert refusal(sequence.current) == "Sequence 'test' is not started"
    dictionary.insert(SpaceId.SEQUENCE_DATA, 1, 7)
    assert sequence.next() == 8
    dictionary.commit()
    dictionary.replace(SpaceId.SEQUENCE_DATA, 1, 20)
    dictionary.rollback()
    assert sequence.current() == 20, "a value that was handed out is not given back"
    assert dictionary.schema.sequence_data() == [codec.pack([1, 20])]
    dictionary.delete(SpaceId.SEQUENCE_DATA, 1)
    assert refusal(sequence.current) == "Sequence 'test' is not started"
    dictionary.rollback()
    assert sequence.current() == 7
    text = "Sequence '55' does not exist"
    assert dictionary.error(dictionary.insert, SpaceId.SEQUENCE_DATA, 55, 1) == text


def test_drop_sequence(dictionary: Dictionary) -> None:
    """A sequence is dropped after its data, use and grants; a rollback restores it with its value."""
    sequence = create_sequence(dictionary)
    attach(dictionary)
    dictionary.insert(SpaceId.SEQUENCE_DATA, 1, 7)
    dictionary.grant(0, "sequence", 1, 1)

    def refused() -> str:
        return dictionary.error(dictionary.delete, SpaceId.SEQUENCE, 1).removeprefix("Can't drop sequence 'test': ")

    assert refused() == "the sequence has data"
    dictionary.delete(SpaceId.SEQUENCE_DATA, 1)
    assert refused() == "the sequence is in use"
    dictionary.delete(SpaceId.SPACE_SEQUENCE, 512)
    assert refused() == "the sequence has grants"
    dictionary.delete(SpaceId.PRIV, 0, "sequence", 1)
    dictionary.commit()
    changes: list[bool] = []
    dictionary.schema.on_alter_sequence.append(lambda item: changes.append(item.id in dictionary.schema.sequences))
    dictionary.delete(SpaceId.SEQUENCE, 1)
    dictionary.rollback()
    assert dictionary.schema.sequence(1) is sequence
    assert changes == [False, True]


def attach(dictionary: Dictionary, is_generated: bool = False, field: int = 0, path: str = "") -> Space:
    space = dictionary.create_space(512, "test")
    dictionary.create_index(512, 0, (0, "unsigned"), (1, "string"))
    dictionary.insert(SpaceId.SPACE_SEQUENCE, 512, 1, is_generated, field, path)
    return space


def test_auto_increment(dictionary: Dictionary) -> None:
    """nil becomes the next value, a greater number advances the sequence, other values have no effect."""
    sequence = create_sequence(dictionary)
    space = attach(dictionary)
    admin = dictionary.schema.admin

    def fill(*row: Any) -> list[Any]:
        filled: list[Any] = codec.unpack(fill_sequence(space, admin, codec.pack(list(row))))
        return filled

    assert [fill(None, "a"), fill(10, "b"), fill(3, "c"), fill(None, "d")] == [[1, "a"], [10, "b"], [3, "c"], [11, "d"]]
    assert [fill("x"), fill(2**64 - 1, "x"), fill()] == [["x"], [2**64 - 1, "x"], []]
    assert sequence.current() == 11
    assert fill_sequence(space, admin, codec.pack({})) == codec.pack({})
    dictionary.rollback()
    assert space.sequence is None


def test_auto_increment_in_another_field_or_document(dictionary: Dictionary) -> None:
    """The field of a sequence may be any integer part of the primary index, also inside a document."""
    create_sequence(dictionary, start=5)
    space = dictionary.create_space(512, "test")
    parts = [{"field": 1, "type": "unsigned"}, {"field": 2, "type": "integer", "path": "a.b[2]"}]
    dictionary.insert(SpaceId.INDEX, 512, 0, "pk", "tree", {"unique": True}, parts)
    admin = dictionary.schema.admin
    dictionary.insert(SpaceId.SPACE_SEQUENCE, 512, 1, False, 1, "")
    raw = fill_sequence(space, admin, codec.pack(["x" * 40, None, 1]))
    assert codec.unpack(raw) == ["x" * 40, 5, 1]
    dictionary.delete(SpaceId.SPACE_SEQUENCE, 512)
    dictionary.insert(SpaceId.SPACE_SEQUENCE, 512, 1, False, 2, '["a"]["b"][2]')
    for document, filled in (
        ({"a": {"b": [0, None]}}, {"a": {"b": [0, 6]}}),
        ({"a": {"b": [0, 60]}}, {"a": {"b": [0, 60]}}),
        ({"a": {"b": [0]}}, {"a": {"b": [0]}}),
        ({"a": {"b": [0, None]}}, {"a": {"b": [0, 61]}}),
    ):
        assert codec.unpack(fill_sequence(space, admin, codec.pack([1, 1, document]))) == [1, 1, filled]


def test_attach_rules(dictionary: Dictionary) -> None:
    """The field must be an integer part of the primary key, a generated sequence has one space, and rows cannot be
    updated.
    """
    create_sequence(dictionary)
    space = attach(dictionary, is_generated=True)
    error = dictionary.error
    text = 'space "_space_sequence" does not support update'
    assert error(dictionary.replace, SpaceId.SPACE_SEQUENCE, 512, 1, False, 0, "") == text
    dictionary.create_space(513, "other")
    row = (513, 1, False, 0, "")
    assert error(dictionary.insert, SpaceId.SPACE_SEQUENCE, *row) == "No index #0 is defined in space 'other'"
    dictionary.create_index(513, 0, (0, "unsigned"), (1, "string"), name="pk")
    text = "Can't modify space 'other': can not attach generated sequence"
    assert error(dictionary.insert, SpaceId.SPACE_SEQUENCE, *row) == text
    prefix = "Can't create or modify index 'pk' in space 'other': "
    text = prefix + "sequence cannot be used with a non-integer key"
    assert error(dictionary.insert, SpaceId.SPACE_SEQUENCE, 513, 1, False, 1, "") == text
    text = prefix + "sequence field must be a part of the index"
    assert error(dictionary.insert, SpaceId.SPACE_SEQUENCE, 513, 1, False, 7, "") == text
    text = "Can't modify space 'test': can not drop primary key while space sequence exists"
    assert error(dictionary.delete, SpaceId.INDEX, 512, 0) == text
    text = "Can't create or modify index 'i0' in space 'test': sequence field must be a part of the index"
    parts = [{"field": 3, "type": "unsigned"}]
    assert error(dictionary.replace, SpaceId.INDEX, 512, 0, "i0", "tree", {"unique": True}, parts) == text
    assert space.sequence is not None
    assert space.sequence.is_generated


def test_sequence_access(dictionary: Dictionary) -> None:
    """Filling a field needs the right to write the sequence, unless it was generated for the space."""
    sequence = create_sequence(dictionary)
    space = attach(dictionary)
    user = dictionary.create_user(32, "user")
    dictionary.grant(32, "universe", 0, Privilege.U)
    row = codec.pack([None, "a"])
    assert (
        refusal(fill_sequence, space, user.credentials, row)
        == "Write access to sequence 'test' is denied for user 'user'"
    )
    sequence.is_generated = True
    assert codec.unpack(fill_sequence(space, user.credentials, row)) == [1, "a"]


# --- functions ---


def function_row(**values: Any) -> list[Any]:
    """Make a `_func` row with the defaults of `box.schema.func.create`."""
    row: dict[str, Any] = {"id": 100, "owner": 1, "name": "f", "setuid": 0, "language": "LUA", "body": ""}
    row |= {"routine_type": "function", "param_list": [], "returns": "any", "aggregate": "none"}
    row |= {"sql_data_access": "none", "is_deterministic": False, "is_sandboxed": False, "is_null_call": True}
    row |= {"exports": ["LUA"], "opts": {}, "comment": "", "created": "", "last_altered": ""}
    return list((row | values).values())


def test_functions(dictionary: Dictionary) -> None:
    """A function's body is loaded before the function is found by name, and released when its drop is committed."""
    schema = dictionary.schema
    loaded: list[str] = []

    def load(function: Function) -> None:
        function.handle = function.definition.body

    schema.load_function = load
    schema.unload_function = lambda function: loaded.append(function.handle)
    dictionary.insert(SpaceId.FUNC, *function_row(body="function() end", is_sandboxed=True))
    function = schema.function_by_name("f")
    assert function is not None
    assert (function.is_persistent, function.handle) == (True, "function() end")
    dictionary.rollback()
    assert (schema.function_by_name("f"), loaded) == (None, ["function() end"])
    dictionary.insert(SpaceId.FUNC, *function_row())
    dictionary.replace(SpaceId.FUNC, *function_row(created="later"))  # nothing that counts has changed
    text = "function does not support alter"
    assert dictionary.error(dictionary.replace, SpaceId.FUNC, *function_row(setuid=1)) == text
    dictionary.delete(SpaceId.FUNC, 100)
    assert schema.function_by_name("f") is None


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"name": "x" * 65001}, f"Failed to create function '{'x' * 64}': function name is too long"),
        ({"id": 32001}, "Failed to create function 'f': function id is too big"),
        ({"language": "INVALID"}, "Unsupported language 'INVALID' specified for function 'f'"),
        ({"language": "SQL"}, "Unsupported language 'SQL' specified for function 'f'"),
        ({"routine_type": "x"}, "Failed to create function 'f': unsupported routine_type value"),
        ({"sql_data_access": "x"}, "Failed to create function 'f': unsupported sql_data_access value"),
        ({"is_null_call": False}, "Failed to create function 'f': unsupported is_null_call value"),
        ({"returns": "x"}, "Failed to create function 'f': invalid returns value"),
        ({"exports": ["x"]}, "Failed to create function 'f': invalid exports value"),
        ({"aggregate": "x"}, "Failed to create function 'f': invalid aggregate value"),
        ({"param_list": ["x"]}, "Failed to create function 'f': invalid argument type"),
        ({"language": "SQL_BUILTIN"}, "Failed to create function 'f': given built-in is not predefined"),
        (
            {"language": "C", "body": "x"},
            "Failed to create function 'f': body and is_sandboxed options are not compatible with C language",
        ),
        (
            {"is_sandboxed": True},
            "Failed to create function 'f': is_sandboxed option may be set only for a persistent Lua function "
            "(one with a non-empty body)",
        ),
    ],
)
def test_refused_functions(dictionary: Dictionary, values: dict[str, Any], text: str) -> None:
    """Each wrong row of a function has Tarantool's text."""
    assert dictionary.error(dictionary.insert, SpaceId.FUNC, *function_row(**values)) == text


def test_drop_function_rules(dictionary: Dictionary) -> None:
    """A function is dropped after its grants; functions of SQL cannot be dropped."""
    text = "Can't drop function 1: function has grants"
    assert dictionary.error(dictionary.delete, SpaceId.FUNC, 2) == text
    dictionary.delete(SpaceId.PRIV, 2, "function", 2)
    text = "Can't drop function 1: function is SQL built-in"
    assert dictionary.error(dictionary.delete, SpaceId.FUNC, 2) == text


def test_function_access(dictionary: Dictionary) -> None:
    """Execute is granted on the function, on all functions or on the universe; the owner may always execute."""
    dictionary.insert(SpaceId.FUNC, *function_row())
    function = dictionary.schema.functions[100]
    user = dictionary.create_user(32, "user")
    text = "Execute access to function 'f' is denied for user 'user'"
    assert refusal(function.check_access, user.credentials) == text
    dictionary.grant(32, "function", 100, Privilege.X)
    assert refusal(function.check_access, user.credentials) == text, "no usage"
    dictionary.grant(32, "universe", 0, Privilege.U)
    function.check_access(user.credentials)


# --- instances ---


def test_cluster(dictionary: Dictionary) -> None:
    """An instance is registered when its row is committed."""
    schema = dictionary.schema
    changes: list[tuple[int, UUID, bool]] = []
    schema.on_cluster_change.append(lambda *change: changes.append(change))
    schema.instance_id = 1
    uuid = UUID(int=7)
    dictionary.insert(SpaceId.CLUSTER, 2, str(uuid))
    assert changes == []
    dictionary.commit()
    dictionary.delete(SpaceId.CLUSTER, 2)
    dictionary.rollback()
    assert (changes, schema.replicas[2]) == ([(2, uuid, True)], uuid)
    dictionary.delete(SpaceId.CLUSTER, 2)
    dictionary.commit()
    assert (changes[1:], list(schema.replicas)) == ([(2, uuid, False)], [1])


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ((0, str(UUID(int=7))), "Can't initialize replica id with a reserved value 0"),
        ((32, str(UUID(int=7))), "Replica count limit reached: 32"),
        ((1, str(UUID(int=7))), "The local instance id 1 is read-only"),
        ((2, str(UUID(int=0))), "Invalid UUID: 00000000-0000-0000-0000-000000000000"),
        ((2, "xx"), "Invalid UUID: xx"),
        ((3, str(UUID(int=7))), "Space _cluster does not support updates of instance uuid"),
    ],
)
def test_refused_instances(dictionary: Dictionary, row: tuple[int, str], text: str) -> None:
    """Instance ids are 1 to 31, UUIDs cannot change, and an instance cannot remove itself."""
    dictionary.insert(SpaceId.CLUSTER, 3, str(UUID(int=3)))
    dictionary.schema.instance_id = 1
    assert dictionary.error(dictionary.replace, SpaceId.CLUSTER, *row) == text
    assert "read-only" in dictionary.error(dictionary.delete, SpaceId.CLUSTER, 1)


def test_replica_set_uuid(dictionary: Dictionary) -> None:
    """The replica set's UUID may be set, but not removed."""
    uuid = UUID(int=9)
    dictionary.replace(SpaceId.SCHEMA, "cluster", str(uuid))
    assert dictionary.schema.replicaset_uuid == uuid
    text = "Can't reset replica set UUID: it is already assigned"
    assert dictionary.error(dictionary.delete, SpaceId.SCHEMA, "cluster") == text
    dictionary.replace(SpaceId.SCHEMA, "other", 1)


# --- collations and SQL ---


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ((300, "x", 1, "x", "", {}), "Failed to initialize collation: unknown collation type."),
        ((300, "x", 1, "ICU", "x" * 31, {}), "Failed to initialize collation: collation locale is too long."),
        ((300, "x", 1, "ICU", "", {"ping": 1}), "Wrong collation options (field 5): unexpected option 'ping'"),
        ((300, "x", 1, "ICU", "", {"strength": 1}), "Wrong collation options (field 5): 'strength' must be enum"),
        (
            (300, "x", 1, "ICU", "", {"strength": "x"}),
            "Failed to initialize collation: ICU wrong strength option setting, expected "
            "PRIMARY | SECONDARY | TERTIARY | QUATERNARY | IDENTICAL.",
        ),
        (
            (300, "x", 1, "ICU", "", {"case_first": "x"}),
            "Failed to initialize collation: ICU wrong case_first option setting, expected "
            "OFF | UPPER_FIRST | LOWER_FIRST.",
        ),
    ],
)
def test_refused_collations(dictionary: Dictionary, row: tuple[Any, ...], text: str) -> None:
    """Each wrong row of a collation has Tarantool's text."""
    assert dictionary.error(dictionary.insert, SpaceId.COLLATION, *row) == text


def test_collations(dictionary: Dictionary) -> None:
    """A collation can be created, and dropped when nothing uses it, but not altered."""
    schema: Schema = dictionary.schema
    dictionary.insert(SpaceId.COLLATION, 300, "own", 1, "icu", "ru_RU", {"strength": "primary"})
    assert schema.collation_by_name("own") is schema.collations[300]
    dictionary.create_space(512, "test")
    parts = [{"field": 0, "type": "string", "collation": 300}]
    dictionary.insert(SpaceId.INDEX, 512, 0, "pk", "tree", {}, parts)
    text = "Can't drop collation own : collation is referenced by index"
    assert dictionary.error(dictionary.delete, SpaceId.COLLATION, 300) == text
    dictionary.delete(SpaceId.INDEX, 512, 0)
    text = "collation does not support alter"
    assert dictionary.error(dictionary.replace, SpaceId.COLLATION, 300, "own", 1, "ICU", "", {}) == text
    dictionary.delete(SpaceId.COLLATION, 300)
    assert schema.collation_by_name("own") is None
    assert dictionary.error(dictionary.delete, SpaceId.COLLATION, 0) == "Can't drop collation none : system collation"


def test_sql_objects_are_checked(dictionary: Dictionary) -> None:
    """Rows of SQL's objects are refused if SQL would not write them."""
    error = dictionary.error
    assert error(dictionary.insert, SpaceId.TRIGGER, "t", 280, {}) == "Failed to execute SQL statement: "
    row: tuple[Any, ...] = ("f", 280, 281, False, "simple", "none", "none", [0], [0])
    text = "Failed to create foreign key constraint 'f': unknown ON DELETE action"
    assert error(dictionary.insert, SpaceId.FK_CONSTRAINT, *row) == text
    row = ("f", 280, 281, True, "simple", "no_action", "no_action", [0], [0])
    assert error(dictionary.insert, SpaceId.FK_CONSTRAINT, *row).endswith("referencing space must be empty")
    row = (280, "c", True, "SQL", "1", True)
    text = "Tarantool does not support deferred ck constraints"
    assert error(dictionary.insert, SpaceId.CK_CONSTRAINT, *row) == text


# --- views ---


def visible(dictionary: Dictionary, view: int, user: User) -> list[Any]:
    """Return the first fields of the tuples that a user sees."""
    space = dictionary.schema.space(view)
    assert space.row_filter is not None
    rows = [raw for raw in space.index(0).scan(IteratorType.ALL, []) if space.row_filter(user.credentials, raw)]
    return [codec.unpack(raw)[0] for raw in rows]


def test_views(dictionary: Dictionary) -> None:
    """In a view a user sees objects that it owns or has a right to; readers of the source see all."""
    user = dictionary.create_user(32, "user")
    dictionary.create_space(512, "owned", owner=32)
    dictionary.create_space(513, "granted")
    dictionary.create_space(514, "hidden")
    dictionary.create_index(512, 0, (0, "unsigned"))
    dictionary.insert(SpaceId.FUNC, *function_row())
    create_sequence(dictionary)
    dictionary.grant(32, "space", 513, Privilege.W)
    assert visible(dictionary, SpaceId.VSPACE, user) == [512, 513]
    assert visible(dictionary, SpaceId.VINDEX, user) == [512]
    assert visible(dictionary, SpaceId.VUSER, user) == [2, 32]
    assert visible(dictionary, SpaceId.VPRIV, user) == [1]
    assert visible(dictionary, SpaceId.VFUNC, user) == visible(dictionary, SpaceId.VSEQUENCE, user) == []
    assert len(visible(dictionary, SpaceId.VCOLLATION, user)) == 277
    dictionary.grant(32, "function", 100, Privilege.X)
    dictionary.grant(32, "sequence", 1, Privilege.R)
    assert visible(dictionary, SpaceId.VFUNC, user) == [100]
    assert visible(dictionary, SpaceId.VSEQUENCE, user) == [1]
    dictionary.grant(32, "space", int(SpaceId.SPACE), Privilege.R)
    assert 514 in visible(dictionary, SpaceId.VSPACE, user)


def test_view_index(dictionary: Dictionary) -> None:
    """A view reads the source's index and refuses changes."""
    view = dictionary.schema.space(SpaceId.VSPACE)
    assert codec.unpack(view.index(2).get(["_index"]) or b"")[0] == SpaceId.INDEX
    assert view.index(0).count(IteratorType.ALL, []) == 25
    for refused, text in (
        (lambda: len(view.index(0)), "Index 'primary' (TREE) of space '_vspace' (sysview) does not support size()"),
        (
            lambda: view.index(0).random(1),
            "Index 'primary' (TREE) of space '_vspace' (sysview) does not support random()",
        ),
        (lambda: view.index(0).put(1, b""), "View '_vspace' is read-only"),
    ):
        assert refusal(refused) == text
    assert repr(view.index(0)) == "<TREE index 'primary' of '_vspace', a view>"


# --- session settings ---


class FakeSession:
    """The attributes of a session that settings need."""

    def __init__(self) -> None:
        self.storage: dict[str, Any] = {}


def test_session_settings(dictionary: Dictionary) -> None:
    """Each session has its own values of settings; rows come in the order of names."""
    assert dictionary.schema.space(SpaceId.SESSION_SETTINGS).engine.name == "service"
    settings = SessionSettings()
    one, two = FakeSession(), FakeSession()
    name = "error_marshaling_enabled"
    settings.update(one, [name], codec.pack([name, True]))
    assert (settings.value(one, name), settings.value(two, name)) == (True, False)
    assert settings.get(one, [name]) == codec.pack([name, True])
    assert settings.get(one, ["x"]) is None

    def names(iterator: IteratorType, *key: Any) -> list[str]:
        return [codec.unpack(raw)[0] for raw in settings.select(one, iterator, list(key))]

    assert len(names(IteratorType.ALL)) == 10
    assert names(IteratorType.EQ, name) == names(IteratorType.REQ, name) == [name]
    assert names(IteratorType.LT, "sql_defer_foreign_keys") == ["sql_default_engine", name]
    assert names(IteratorType.GE, "sql_select_debug") == ["sql_select_debug", "sql_vdbe_debug"]
    assert names(IteratorType.GT, "sql_vdbe_debug") == []
    for key, row, text in (
        ([], [name, True], "Invalid key part count in an exact match (expected 1, got 0)"),
        ([1], [name, True], "Supplied key type of part 0 does not match index part type: expected string"),
        ([name], [name, 1], f"Session setting {name} expected a value of type boolean"),
        (
            [name],
            ["x", True],
            "Attempt to modify a tuple field which is part of index 'primary' in space '_session_settings'",
        ),
        (["sql_default_engine"], ["sql_default_engine", "z"], "Space engine 'z' does not exist"),
    ):
        assert refusal(settings.update, one, key, codec.pack(row)) == text
    assert refusal(settings.set, one, "x", 1) == "Session setting x doesn't exist"
    assert settings.values(one)[name] is True
    assert settings.refuse("insert").message == "_session_settings space does not support replace()"
