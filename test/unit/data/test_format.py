"""Tuple formats: their checks, the order of checks and the texts."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from box.data.codec import pack, pack_array_header, pack_float32, unpack
from box.data.format import FieldDef, TupleFormat
from box.data.keydef import KeyDef, PartDef
from box.data.times.points import Datetime, Interval
from box.data.types import FieldType as T
from box.errors import BoxError, ErrorCode

THREE = TupleFormat([FieldDef("first", T.UNSIGNED), FieldDef("second", T.STRING), FieldDef("third", T.DOUBLE)])
PRIMARY = KeyDef([PartDef(0, T.UNSIGNED)])


def mismatch(field: str, expected: str, got: str) -> str:
    return f"Tuple field {field} type does not match one required by operation: expected {expected}, got {got}"


def error_of(form: TupleFormat, value: Any) -> tuple[str, str]:
    with pytest.raises(BoxError) as raised:
        form.validate(value if isinstance(value, bytes) else pack(value))
    return ErrorCode(raised.value.code).name, raised.value.message


def test_a_good_tuple_comes_back_decoded() -> None:
    assert THREE.validate(pack([1, "a", 2.5])) == [1, "a", 2.5]
    assert THREE.validate(pack([1, "a", 2.5, None, [1]])) == [1, "a", 2.5, None, [1]]


@pytest.mark.parametrize(
    ("value", "name", "message"),
    [
        ([1, 2, 3.0], "FIELD_TYPE", mismatch("2 (second)", "string", "unsigned")),
        ([-1, 2, 3.0], "FIELD_TYPE", mismatch("1 (first)", "unsigned", "integer")),
        ([1, None], "FIELD_TYPE", mismatch("2 (second)", "string", "nil")),
        ([1, "a", 3], "FIELD_TYPE", mismatch("3 (third)", "double", "unsigned")),
        ([1, "a"], "FIELD_MISSING", "Tuple field 3 (third) required by space format is missing"),
        ([], "FIELD_MISSING", "Tuple field 1 (first) required by space format is missing"),
        (b"\xa1a", "TUPLE_NOT_ARRAY", "Tuple/Key must be MsgPack array"),
        (b"\x93\x01\xa1a", "INVALID_MSGPACK", "Invalid MsgPack - packet body"),
        (b"\x93\x01\xa1a" + pack_float32(1.5), "FIELD_TYPE", mismatch("3 (third)", "double", "float")),
    ],
)
def test_errors(value: Any, name: str, message: str) -> None:
    assert error_of(THREE, value) == (name, message)


def test_large_tuples_come_without_what_nobody_asks_for() -> None:
    """A check of a large tuple does not decode texts, which takes 9 ms a megabyte, but finds a wrong end."""
    large = pack([1, "name", 2.5, b"\xff" * 5000, {"a": [1]}])
    assert THREE.validate_many([large, pack([2, "b", 0.5])]) == [[1, "name", 2.5], [2, "b", 0.5]]
    assert TupleFormat([], [PRIMARY]).indexed_fields([large]) == [[1]]
    assert TupleFormat([], [PRIMARY]).indexed_fields([pack([7])]) == [[7]]
    for wrong in (large[:-1], large + b"\x01"):
        with pytest.raises(BoxError) as raised:
            THREE.validate_many([large, wrong])
        assert raised.value.code == ErrorCode.INVALID_MSGPACK


@pytest.mark.parametrize("wrong", [b"\x93\x01\xa1a", b"\x93\x01\xa1a" + pack_float32(1.5), b"\xa1a", b"", pack([1])])
def test_many_tuples_at_once(wrong: bytes) -> None:
    """Checking many tuples at once gives the same values, and the error of the first wrong one."""
    good = [pack([number, "name", 2.5]) for number in range(5)]
    assert THREE.validate_many(good) == list(map(THREE.validate, good))
    with pytest.raises(BoxError) as raised:
        THREE.validate_many([*good, wrong, pack([-1])])
    assert (ErrorCode(raised.value.code).name, raised.value.message) == error_of(THREE, wrong)


def test_one_tuple_with_the_byte_of_a_single_float_costs_the_others_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every 30th double has that byte: no batch may be decoded one by one for it."""
    alone: list[bytes] = []
    monkeypatch.setattr("box.data.format.unpackb", lambda raw, **options: alone.append(raw) or unpack(raw))
    form = TupleFormat([FieldDef("number", T.UNSIGNED), FieldDef("value", T.DOUBLE)])
    values = [[1, 0.5], [0xCA, 0.5], [3, 1.5]]
    assert form.validate_many(list(map(pack, values))) == values
    assert not alone


def test_missing_fields_at_the_end_take_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thorough check takes ten times as long, and spaces that were extended have many such tuples."""
    optional = [FieldDef(name, kind, is_nullable=True) for name, kind in (("b", T.STRING), ("c", T.DOUBLE))]
    form = TupleFormat([FieldDef("a", T.UNSIGNED), *optional], [PRIMARY])
    good: list[list[Any]] = [[1], [0xCA], [1, "x"], [1, None, 0.5]]
    with monkeypatch.context() as context:
        context.setattr("box.data.format._FieldTree.check", None)
        short = TupleFormat(form.fields, [PRIMARY])
        assert short.validate_many(list(map(pack, good))) == good
        assert [short.validate(pack(value)) for value in good] == good
    assert error_of(form, [1, 2]) == ("FIELD_TYPE", mismatch("2 (b)", "string", "unsigned"))
    assert error_of(form, [])[0] == "FIELD_MISSING"


def test_many_tuples_come_with_the_uuids_that_are_part_of_a_key() -> None:
    """Others take long to decode. Their form is checked all the same."""
    fields = [FieldDef("id", T.UNSIGNED), FieldDef("owner", T.UUID)]
    values = [[1, uuid4()], [2, uuid4()]]
    raws = list(map(pack, values))
    assert TupleFormat(fields, [KeyDef([PartDef(1, T.UUID)])]).validate_many(raws) == values
    unkeyed = TupleFormat(fields, [PRIMARY])
    assert [number for number, _ in unkeyed.validate_many(raws)] == [1, 2]
    short = b"\x92\x03\xd5\x02xx"
    for wrong in (pack([3, "text"]), short):
        with pytest.raises(BoxError) as raised:
            unkeyed.validate_many([*raws, wrong])
        assert (ErrorCode(raised.value.code).name, raised.value.message) == error_of(unkeyed, wrong)


def test_a_byte_that_looks_like_a_single_float_is_no_harm() -> None:
    assert THREE.validate(pack([1, "\u028a", 2.5]))[1] == "\u028a"  # 0xca 0x8a in UTF-8


def test_fields_without_a_name_go_by_number() -> None:
    form = TupleFormat(key_defs=[PRIMARY])
    assert error_of(form, ["a"])[1] == (mismatch("1", "unsigned", "string"))


def test_field_count() -> None:
    form = TupleFormat([FieldDef("a", T.UNSIGNED)], exact_field_count=2)
    assert form.validate(pack([1, 2])) == [1, 2]
    assert error_of(form, [1]) == ("EXACT_FIELD_COUNT", "Tuple field count 1 does not match space field count 2")
    assert error_of(form, ["a", 2, 3])[0] == "EXACT_FIELD_COUNT"


def test_nullable_fields_may_be_nil_or_missing() -> None:
    form = TupleFormat([FieldDef("a", T.UNSIGNED), FieldDef("b", T.STRING, is_nullable=True)])
    for value in ([1], [1, None], [1, "x"]):
        assert form.validate(pack(value)) == value
    assert error_of(form, [1, 2])[1].endswith("expected string, got unsigned")


def test_any_takes_nil_but_must_be_there() -> None:
    form = TupleFormat([FieldDef("a", T.UNSIGNED), FieldDef("b")])
    assert form.validate(pack([1, None])) == [1, None]
    assert error_of(form, [1])[1] == "Tuple field 2 (b) required by space format is missing"


def test_gaps_before_an_indexed_field_may_hold_anything() -> None:
    form = TupleFormat(key_defs=[PRIMARY, KeyDef([PartDef(2, T.STRING)])])
    assert form.validate(pack([1, None, "x"])) == [1, None, "x"]
    assert error_of(form, [1, None])[1] == "Tuple field 3 required by space format is missing"


_SAMPLES: dict[str, list[Any]] = {
    "unsigned": [0, 2**64 - 1],
    "negative": [-1, -(2**63)],
    "double": [1.5, -0.0],
    "decimal": [Decimal("1.5")],
    "string": ["", "a"],
    "bytes": [b"", b"a"],
    "boolean": [True, False],
    "uuid": [uuid4()],
    "datetime": [datetime(2024, 2, 29, tzinfo=UTC), Datetime(2**40, 1)],
    "interval": [Interval(month=1)],
    "array": [[], [1]],
    "map": [{}, {"a": 1}],
}
_TAKES = {
    T.UNSIGNED: {"unsigned"},
    T.INTEGER: {"unsigned", "negative"},
    T.NUMBER: {"unsigned", "negative", "double", "decimal"},
    T.DOUBLE: {"double"},
    T.DECIMAL: {"decimal"},
    T.STRING: {"string"},
    T.VARBINARY: {"bytes"},
    T.BOOLEAN: {"boolean"},
    T.UUID: {"uuid"},
    T.DATETIME: {"datetime"},
    T.INTERVAL: {"interval"},
    T.ARRAY: {"array"},
    T.MAP: {"map"},
    T.SCALAR: {"unsigned", "negative", "double", "decimal", "string", "bytes", "boolean", "datetime"},
    T.ANY: set(_SAMPLES),
}


@pytest.mark.parametrize("kind", list(T))
def test_what_each_type_takes(kind: T) -> None:
    """The quick check and the thorough one accept exactly the values of the table, nullable or not."""
    for nullable in (False, True):
        form = TupleFormat([FieldDef("a", kind, is_nullable=nullable)])
        for name, samples in _SAMPLES.items():
            for sample in samples:
                if name in _TAKES[kind]:
                    assert form.validate(pack([sample])) == [sample]
                    decoded = {UUID: UUID(int=0), Decimal: Decimal(0)}.get(type(sample), sample)  # it is part of no key
                    assert form.validate_many([pack([sample])] * 3) == [[decoded]] * 3
                else:
                    assert error_of(form, [sample])[0] == "FIELD_TYPE"
                    good = pack([_SAMPLES[min(_TAKES[kind])][0]])
                    with pytest.raises(BoxError, match="type does not match"):
                        form.validate_many([good, pack([sample]), good])
        if nullable or kind is T.ANY:
            assert form.validate(pack([None])) == [None]
        else:
            assert error_of(form, [None])[1].endswith("got nil")


def test_the_stricter_type_of_format_and_index_counts() -> None:
    form = TupleFormat([FieldDef("a", T.INTEGER)], [PRIMARY])
    assert error_of(form, [-1])[1].endswith("expected unsigned, got integer")
    form = TupleFormat([FieldDef("a", T.UNSIGNED)], [KeyDef([PartDef(0, T.INTEGER)])])
    assert error_of(form, [-1])[1].endswith("expected unsigned, got integer")


def test_types_that_do_not_go_together() -> None:
    with pytest.raises(BoxError) as raised:
        TupleFormat([FieldDef("field1", T.STRING)], [PRIMARY])
    assert (
        raised.value.message
        == "Field 1 (field1) has type 'string' in space format, but type 'unsigned' in index definition"
    )
    with pytest.raises(BoxError) as raised:
        TupleFormat([], [PRIMARY, KeyDef([PartDef(0, T.STRING)])])
    assert raised.value.message == "Field 1 has type 'unsigned' in one index, but type 'string' in another"


def test_nullability_of_format_and_index() -> None:
    """A field is nullable only if both the format and all indexes allow nil."""
    nullable_part = KeyDef([PartDef(0, T.UNSIGNED, is_nullable=True)])
    assert TupleFormat([], [nullable_part]).validate(pack([None])) == [None]
    assert error_of(TupleFormat([FieldDef("a", T.UNSIGNED, is_nullable=True)], [PRIMARY]), [None])[0] == "FIELD_TYPE"
    assert error_of(TupleFormat([FieldDef("a", T.UNSIGNED)], [nullable_part]), [None])[0] == "FIELD_TYPE"
    assert error_of(TupleFormat([], [PRIMARY, nullable_part]), [None])[0] == "FIELD_TYPE"


PATHS = TupleFormat(
    [], [PRIMARY, KeyDef([PartDef(2, T.STRING, path='["FIO"]["fname"]'), PartDef(1, T.UNSIGNED, path="[1]")])]
)


def test_paths_inside_fields() -> None:
    good = [1, [5], {"FIO": {"fname": "x"}}]
    assert PATHS.validate(pack(good)) == good


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1, [5], {"FIO": 1}], mismatch('[3]["FIO"]', "map", "unsigned")),
        ([1, [5], {"FIO": {"fname": 7}}], mismatch('[3]["FIO"]["fname"]', "string", "unsigned")),
        ([1, [5], {"FIO": {}}], 'Tuple field [3]["FIO"]["fname"] required by space format is missing'),
        ([1, [], {"FIO": {"fname": ""}}], "Tuple field [2][1] required by space format is missing"),
        ([1, [5]], 'Tuple field [3]["FIO"]["fname"] required by space format is missing'),
        ([1, {}, {}], mismatch("2", "array", "map")),
    ],
)
def test_errors_inside_fields(value: Any, message: str) -> None:
    assert error_of(PATHS, value)[1] == message


NESTED = {
    "elements": ([PartDef(1, T.UNSIGNED, path="[*]")], [[1, 2, 3]]),
    "nullable": (
        [PartDef(1, T.STRING, path="[*].a.b", is_nullable=True), PartDef(0, T.UNSIGNED)],
        [[{"a": {"b": "x"}}, {"a": {"b": "y"}}]],
    ),
    "several": (
        [PartDef(1, T.UNSIGNED, path="[*].a"), PartDef(1, T.SCALAR, path="[*].b[2]"), PartDef(2, T.STRING, path="a.b")],
        [[{"a": 1, "b": [2, True]}], {"a": {"b": "x"}}],
    ),
    "names": (
        [PartDef(1, T.STRING, path='["it\'s"].b'), PartDef(1, T.UNSIGNED, path="a[1]", is_nullable=True)],
        [{"it's": {"b": "x"}, "a": [1]}, None],
    ),
}


@pytest.mark.parametrize(("parts", "usual"), NESTED.values(), ids=NESTED)
def test_compiled_checks_of_paths_are_those_of_the_tree(parts: list[PartDef], usual: list[Any]) -> None:
    """For random values, the compiled checks of places inside fields accept and refuse what the slow check does."""
    source = random.Random(7)
    form = TupleFormat([FieldDef("id", T.UNSIGNED)], [PRIMARY, KeyDef(parts)])
    outcomes = set()
    for _ in range(1000):
        values = [1, *[_changed(source, value) for value in usual]][: source.randrange(2, 9)]
        raw, expected = pack(values), None
        try:
            form.check(raw, values)
        except BoxError as error:
            expected = (error.code, error.message)
        for validate in (form.validate, lambda raw: form.validate_many([raw])[0]):
            try:
                assert validate(raw) == values
                found = None
            except BoxError as error:
                found = (error.code, error.message)
            assert found == expected
        outcomes.add(expected)
    assert None in outcomes
    assert len(outcomes) > 3


def _changed(source: random.Random, value: Any) -> Any:
    """Return a value with some places in it changed or gone."""
    if source.random() < 0.15:
        return _nested(source, 2)
    if isinstance(value, list):
        return [_changed(source, element) for element in value[: source.randrange(1, 9)]]
    if isinstance(value, dict):
        return {name: _changed(source, each) for name, each in value.items() if source.random() < 0.9}
    return value


def _nested(source: random.Random, depth: int) -> Any:
    kind = source.randrange(8 if depth else 4)
    if kind < 4:
        return (source.randrange(9), "text", None, -1)[kind]
    if kind < 6:
        return [_nested(source, depth - 1) for _ in range(source.randrange(3))]
    return {name: _nested(source, depth - 1) for name in source.sample(("a", "b", "it's"), source.randrange(4))}


def test_paths_that_contradict() -> None:
    with pytest.raises(BoxError) as raised:
        TupleFormat([], [KeyDef([PartDef(2, T.STRING, path=path)]) for path in ('["FIO"]["fname"]', '["FIO"][1]')])
    assert raised.value.message == "Field [3][\"FIO\"] has type 'map' in one index, but type 'array' in another"


def test_which_format_stores_tuples_of_another() -> None:
    """A format can store tuples of another one if its types are wider and its fields as nullable."""

    def form(kind: T, nullable: bool = False) -> TupleFormat:
        return TupleFormat([FieldDef("a", kind, is_nullable=nullable)])

    assert form(T.INTEGER).can_store(form(T.UNSIGNED))
    assert not form(T.UNSIGNED).can_store(form(T.INTEGER))
    assert form(T.UNSIGNED, True).can_store(form(T.UNSIGNED))
    assert not form(T.UNSIGNED).can_store(form(T.UNSIGNED, True))
    assert TupleFormat().can_store(form(T.UNSIGNED))
    assert not form(T.UNSIGNED).can_store(TupleFormat())
    assert form(T.ANY, True).can_store(TupleFormat())


def test_names() -> None:
    assert THREE.field_no("second") == 1
    assert THREE.field_no("nope") is None
    assert PATHS.field_type((2, "FIO", "fname")) is T.STRING
    assert PATHS.field_type((2, "x")) is T.ANY
    assert PATHS.field_type((9,)) is T.ANY


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([7, "k" * 5000, "t" * 5000, b"b" * 5000, 1.5, None], [7, "k" * 5000, "", b"", 1.5, None]),
        ([7, "k", "t" * 9000, [1, 2]], [7, "k", "t" * 9000, [1, 2]]),
        ([7, "k", *range(9000)], [7, "k", *range(9000)]),
    ],
    ids=["large texts", "a container", "many fields"],
)
def test_large_texts_without_an_index_are_not_decoded(values: list[Any], expected: list[Any]) -> None:
    """Large texts come out empty unless decoding the whole tuple is faster; fields of keys and the checks stay."""
    keys = [KeyDef([PartDef(0, T.UNSIGNED)]), KeyDef([PartDef(1, T.STRING)])]
    fields = [FieldDef("id", T.UNSIGNED), FieldDef("key", T.STRING), FieldDef("x", T.ANY, True)]
    form = TupleFormat(fields, keys)
    assert form.validate(pack(values)) == expected
    with pytest.raises(BoxError):
        form.validate(pack(["7", *values[1:]]))
    with pytest.raises(BoxError, match="Invalid MsgPack"):
        form.validate(pack(values)[:-1])


def test_values_without_a_key_are_only_checked() -> None:
    """`validate_many` finds malformed decimals and UUIDs, also where it leaves their values out."""
    raw = [1, Decimal("-12.34"), UUID(int=7)]
    fields = [FieldDef(kind.value, kind) for kind in (T.UNSIGNED, T.DECIMAL, T.UUID)]
    fmt = TupleFormat(fields, [KeyDef([PartDef(0, T.UNSIGNED)])])
    assert fmt.validate_many([pack(raw), pack(raw)]) == [[1, Decimal(0), UUID(int=0)]] * 2
    for number, kind in enumerate((T.DECIMAL, T.UUID), 1):
        keyed = TupleFormat(fields, [KeyDef([PartDef(number, kind)])])
        assert [found[number] for found in keyed.validate_many([pack(raw)])] == [raw[number]]
    long = Decimal("1" * 38)
    assert fmt.validate_many([pack([1, long, UUID(int=7)])]) == [[1, long, UUID(int=0)]]
    good = pack(raw)
    place = good.index(b"\x01\x02")  # the type of the decimal and its scale
    for wrong in (b"\x01\x27", b"\x01\x02\xa1", b"\x01\x02\x01\x23\x44"):
        with pytest.raises(BoxError):
            fmt.validate_many([good[:place] + wrong + good[place + len(wrong) :]])


@given(st.lists(st.sampled_from([0.5, 0xCA, "\u028a", "x" * 200, b"\xca", [0.25], 1e300, None]), max_size=4))
def test_single_precision_floats_are_found(values: list[Any]) -> None:
    """One in a field of type `double` is refused; the same byte elsewhere is not."""
    fmt = TupleFormat([FieldDef("d", T.DOUBLE, is_nullable=True)], [])
    rest = b"".join(map(pack, values))
    head = pack_array_header(1 + len(values))
    assert fmt.fits(head + pack(0.5) + rest, [0.5, *values])
    with pytest.raises(BoxError, match="expected double, got float"):
        fmt.validate(head + pack_float32(0.5) + rest)


@pytest.mark.parametrize("names", ["km", "mk"])
def test_the_first_violation_within_a_tuple_is_reported(names: str) -> None:
    """The order of the tuple counts, not that of the index parts."""
    for place in ("a.{}", "a[*].{}"):
        form = TupleFormat([], [KeyDef([PartDef(0, T.UNSIGNED, path=place.format(name)) for name in names])])
        for value, first in (({"k": "z", "m": True}, "k"), ({"m": "z", "k": True}, "m")):
            _, message = error_of(form, [{"a": [value] if "*" in place else value}])
            assert f'["{first}"]' in message
