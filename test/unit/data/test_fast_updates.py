"""The fast paths of update operations give the results of the general path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from box.data import update
from box.data._update_ops import read_operations
from box.data.codec import pack, unpack
from box.data.format import FieldDef, TupleFormat
from box.data.types import FieldType
from box.errors import BoxError

FORMAT = TupleFormat(
    [FieldDef("id", FieldType.UNSIGNED), FieldDef("name", FieldType.STRING), FieldDef("value", FieldType.DOUBLE)], []
)
values = st.one_of(
    st.sampled_from([0, 1, -1, 2**31, 2**63, 2**64 - 1, -(2**63), 0.5, 1e300, float("inf")]),
    st.sampled_from(["a", None, True, [1], {"k": 1}]),
    st.integers(-5, 5),
    st.floats(allow_nan=False, width=32),
)
rows = st.lists(values, min_size=1, max_size=5)
places = st.one_of(st.integers(-2, 7), st.sampled_from(["id", "name", "value", "none", "value.x", 1.0, True, None]))
operations = st.lists(
    st.one_of(
        st.tuples(st.sampled_from("=+-=+-&!#"), places, values),
        st.tuples(st.just("="), places),
        st.tuples(st.just(":"), places, st.just(1), st.just(1), st.just("x")),
    ).map(list),
    max_size=4,
)


@settings(max_examples=200)
@given(rows, operations, st.integers(0, 1), st.sampled_from([FORMAT, TupleFormat()]))
@example([1, "a", 0.5], [["+", "value", 0.25], ["=", 2, "b"]], 1, FORMAT)
def test_the_fast_path_agrees(row: list[Any], ops: list[Any], index_base: int, fmt: TupleFormat) -> None:
    """If the fast path gives a tuple, the general path gives the same bytes; errors are left to the general path."""
    raw = pack(row)
    fast = update._apply_fast(raw, ops, fmt, index_base)
    if fast is None:
        return
    try:
        general = update._apply_general(raw, read_operations(ops, fmt, index_base), fmt, None)
    except BoxError as error:
        raise AssertionError(f"the general path refuses: {error.message}") from error
    assert pack(fast) == general


@given(operations, st.integers(0, 1), st.sampled_from([FORMAT, TupleFormat()]))
@example([["=", [1], 1]], 1, FORMAT)
@example([["=", 2**31, 1]], 1, FORMAT)
@example([["=", 1, object()]], 1, FORMAT)
@example([["+", 1, 2**64]], 1, FORMAT)
@example([["+", 1, "a"]], 1, FORMAT)
def test_usual_operations_are_accepted_alike(ops: list[Any], index_base: int, fmt: TupleFormat) -> None:
    """The fast check of operations accepts none that the general one refuses, and raises its errors."""

    def error_of(check: Callable[[], object]) -> str | None:
        try:
            check()
        except BoxError as error:
            return error.message
        return None

    expected = error_of(lambda: read_operations(ops, fmt, index_base))
    assert error_of(lambda: update.check_operations(ops, fmt=fmt, index_base=index_base)) == expected


def test_values_of_other_types_are_decoded() -> None:
    """Fields as an update gives them are those of the tuple, also if a value has a type that decoding does not give."""
    fmt = TupleFormat([FieldDef("id", FieldType.UNSIGNED), FieldDef("list", FieldType.ARRAY)], [])
    new, fields = update.updated(pack([1, [2]]), [["=", 2, (3, 4)]], fmt, 1)
    assert fields == [1, (3, 4)]
    assert fmt.validate_fields(new, fields) == [1, [3, 4]]


def test_the_error_of_known_fields_is_that_of_the_tuple() -> None:
    """A new value of the wrong type is refused with the error that decoding the tuple finds."""
    new, fields = update.updated(pack([1, "a", 0.5]), [["=", 2, 7]], FORMAT, 1)
    assert fields == [1, 7, 0.5]
    with pytest.raises(BoxError, match="Tuple field 2 \\(name\\) type does not match one required by operation"):
        FORMAT.validate_fields(new, fields)


def checks_of(fmt: TupleFormat) -> update.FieldChecks:
    """Return the checks of fields of which the first is a key."""
    return {number: fmt.field_checker(number) or bool for number in range(1, 8)}


FREE = TupleFormat([FieldDef("name"), FieldDef("value"), FieldDef("id", FieldType.NUMBER, is_nullable=True)])


@settings(max_examples=300)
@given(rows, operations)
@example([1, "a", 0.5], [["+", "value", 0.25], ["=", 2, "b"]])
@example([1, "a", 0.5], [["=", 2, "b"]])
@example([1, "a", 0.5], [["=", 2, 5]])
@example([1, "a", 0.5], [["=", 2.0, "b"]])
@example([1, "a", 0.5], [["=", True, "b"]])
@example([1, "a", 0.5], [["=", 1, 2]])
def test_fields_change_as_in_an_update(row: list[Any], ops: list[Any]) -> None:
    """What is applied gives a valid tuple, the same as an update; what is not applied leaves the fields alone."""
    for fmt in (FORMAT, FREE):
        for base in (0, 1):
            fields = unpack(pack(row))
            if not update.change_fields(fields, ops, fmt, base, checks_of(fmt)):
                assert pack(fields) == pack(row)
                continue
            assert pack(fields) == update.apply_update(pack(row), ops, fmt=fmt, index_base=base)
            assert fields[0] == row[0]
            assert all(fmt.field_checker(number)(value) for number, value in enumerate(fields) if value != row[number])  # type: ignore[misc]


def test_usual_operations_are_applied() -> None:
    """Fields are named by number or name; all operations are applied or none."""

    def changes(fields: list[Any], ops: Any) -> bool:
        return update.change_fields(fields, ops, FORMAT, 1, checks_of(FORMAT))

    fields: list[Any] = [1, "a", 0.5, 7]
    assert changes(fields, [["=", 2, "b"]])
    assert changes(fields, [["+", "value", 0.25], ["-", 4, 2]])
    assert fields == [1, "b", 0.75, 5]
    for refused in (
        [["=", 1, 1]],
        [["=", 5, 1]],
        [["=", "name", 1]],
        [["=", 2, "c"], ["=", 2, "d"]],
        [["#", 4, 1]],
        "=",
    ):
        assert not changes(fields, refused)
    assert not changes(fields, [["=", 2, "c"], ["=", 3, "d"]])
    assert not changes(fields, [["=", 2, "c"], ["=", 3]])
    assert fields == [1, "b", 0.75, 5]
