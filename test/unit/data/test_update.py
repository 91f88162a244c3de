"""Update operations."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from box.data.codec import pack, pack_float32, unpack
from box.data.format import FieldDef, TupleFormat
from box.data.types import FieldType as T
from box.data.update import apply_update, apply_upsert, check_operations
from box.errors import BoxError, ErrorCode

PLAIN = TupleFormat()
NAMED = TupleFormat([FieldDef("id", T.UNSIGNED), FieldDef("value"), FieldDef("ratio", T.DOUBLE), FieldDef("f")])


def update(value: list[Any], *ops: Any, fmt: TupleFormat = PLAIN, index_base: int = 1) -> Any:
    return unpack(apply_update(pack(value), list(ops), fmt=fmt, index_base=index_base))


def error_of(value: list[Any], *ops: Any, fmt: TupleFormat = PLAIN, index_base: int = 1) -> tuple[str, str]:
    with pytest.raises(BoxError) as raised:
        update(value, *ops, fmt=fmt, index_base=index_base)
    return ErrorCode(raised.value.code).name, raised.value.message


def wrong_argument(op: str, field: str, expected: str) -> str:
    return f"Argument type in operation '{op}' on field {field} does not match field type: expected {expected}"


@pytest.mark.parametrize(
    ("value", "ops", "result"),
    [
        ([1, 2], [], [1, 2]),
        ([1, 2], [["=", 2, "x"]], [1, "x"]),
        ([1, 2], [["=", -1, "x"]], [1, "x"]),
        ([1, 2], [["=", 3, "x"]], [1, 2, "x"]),
        ([1, 2], [["=", 5, "x"]], [1, 2, None, None, "x"]),
        ([1, 2], [["!", 5, "x"]], [1, 2, None, None, "x"]),
        ([1, 2], [["!", 1, "x"]], ["x", 1, 2]),
        ([1, 2], [["!", -1, "x"]], [1, 2, "x"]),
        ([1, 2], [["!", -3, "x"]], ["x", 1, 2]),
        ([1, 2, 3], [["#", 2, 1]], [1, 3]),
        ([1, 2, 3], [["#", 2, 100]], [1]),
        ([1, 2, 3], [["#", 7, 1]], [1, 2, 3]),
        ([1, 2, 3], [["#", 1, 1], ["=", 1, "x"]], ["x", 3]),
        ([1, 2, 3], [["!", 1, 0], ["+", 2, 5]], [0, 6, 2, 3]),
        ([1, 2], [["=", 2, "a"], ["=", 2, "b"]], [1, "b"]),
        ([1, 5], [["+", 2, 3]], [1, 8]),
        ([1, 5], [["-", 2, 8]], [1, -3]),
        ([1, 2**64 - 2], [["+", 2, 1]], [1, 2**64 - 1]),
        ([1, -(2**63)], [["-", 2, 2**63 - 1], ["+", 1, 0]], None),
        ([1, 1.5], [["+", 2, 1]], [1, 2.5]),
        ([1, 1], [["-", 2, 0.1]], [1, 0.9]),
        ([1, Decimal("1.5")], [["+", 2, 1]], [1, Decimal("2.5")]),
        ([1, 1], [["+", 2, Decimal("0.25")]], [1, Decimal("1.25")]),
        ([1, 0.1], [["+", 2, Decimal("0.2")]], [1, Decimal("0.3")]),
        ([1, 0b1100], [["&", 2, 0b0110]], [1, 0b0100]),
        ([1, 0b1100], [["|", 2, 0b0110]], [1, 0b1110]),
        ([1, 0b1100], [["^", 2, 0b0110]], [1, 0b1010]),
        ([1, "abcdef"], [[":", 2, 2, 3, "XY"]], [1, "aXYef"]),
        ([1, "abcdef"], [[":", 2, -1, 0, "XY"]], [1, "abcdefXY"]),
        ([1, "abcdef"], [[":", 2, -4, 2, ""]], [1, "abcf"]),
        ([1, "abcdef"], [[":", 2, 3, -1, "-"]], [1, "ab-f"]),
        ([1, "abcdef"], [[":", 2, 3, -10, "-"]], [1, "ab-cdef"]),
        ([1, "abc"], [[":", 2, 50, 1, "!"]], [1, "abc!"]),
    ],
)
def test_top_level(value: list[Any], ops: list[Any], result: list[Any] | None) -> None:
    if result is None:
        assert error_of(value, *ops)[0] == "UPDATE_INTEGER_OVERFLOW"
    else:
        assert update(value, *ops) == result


@pytest.mark.parametrize(
    ("value", "ops", "result"),
    [
        ([1, [10, 20]], [["=", "[2][1]", 0]], [1, [0, 20]]),
        ([1, [10, 20]], [["=", "[2][3]", 30]], [1, [10, 20, 30]]),
        ([1, [10, 20]], [["!", "[2][1]", 5]], [1, [5, 10, 20]]),
        ([1, [10, 20]], [["!", "[2][3]", 5]], [1, [10, 20, 5]]),
        ([1, [10, 20]], [["#", "[2][1]", 9]], [1, []]),
        ([1, {"a": {"b": 1}}], [["+", "[2].a.b", 4]], [1, {"a": {"b": 5}}]),
        ([1, {"a": {"b": 1}}], [["=", "[2].a.c", 4]], [1, {"a": {"b": 1, "c": 4}}]),
        ([1, {"a": {"b": 1}}], [["!", "[2]['c']", 4]], [1, {"a": {"b": 1}, "c": 4}]),
        ([1, {"a": 1, "b": 2}], [["#", "[2].a", 1]], [1, {"b": 2}]),
        ([1, [[1, 2], [3, 4]]], [["=", "[2][1][1]", 0], ["=", "[2][2][2]", 0]], [1, [[0, 2], [3, 0]]]),
        ([1, [1, 2, 3]], [["#", "[2][1]", 1], ["=", "[2][2]", 9]], [1, [2, 9]]),
        ([1, [1, 2]], [["!", "[2][1]", 0], ["+", "[2][3]", 5]], [1, [0, 1, 7]]),
        ([1, {"a": [1], "b": "x"}], [["+", "[2].a[1]", 1], [":", "[2].b", 2, 0, "y"]], [1, {"a": [2], "b": "xy"}]),
        (
            [1, {"a": {"x": 1, "y": 2}}],
            [["#", "[2].a.x", 1], ["=", "[2].a.y", 3], ["!", "[2].a.z", 4]],
            [1, {"a": {"y": 3, "z": 4}}],
        ),
        ([1, {1: "one", 2: 5}], [["+", "[2][2]", 1]], [1, {1: "one", 2: 6}]),
        (
            [1, {"a": [{"k": 1}, {"k": 2}]}],
            [["=", f"[2].a[{n}].k", 0] for n in (1, 2)],
            [1, {"a": [{"k": 0}, {"k": 0}]}],
        ),
        ([1, [[[1]]]], [["=", "[2][1][1][1]", 5], ["=", "[2][1][2]", 6], ["=", "[2][2]", 7]], [1, [[[5], 6], 7]]),
    ],
)
def test_inside_fields(value: list[Any], ops: list[Any], result: list[Any]) -> None:
    assert update(value, *ops) == result


def test_order_of_keys() -> None:
    """One operation keeps the order of a map; after several the changed keys come first, the last one foremost."""
    raw = pack([{"a": 1, "b": 2, "c": 3}])

    def keys(*ops: Any) -> list[str]:
        return list(unpack(apply_update(raw, list(ops), fmt=PLAIN))[0])

    assert keys(["=", "[1].b", 0]) == ["a", "b", "c"]
    assert keys(["=", "[1].d", 0]) == ["d", "a", "b", "c"]
    assert keys(["=", "[1].b", 0], ["=", "[1].c", 0]) == ["c", "b", "a"]
    assert keys(["=", "[1].b", 0], ["=", "[1].d", 0]) == ["d", "b", "c", "a"]


def test_names_and_index_base() -> None:
    assert update([1, 2, 0.5], ["+", "value", 1], fmt=NAMED) == [1, 3, 0.5]
    assert update([1, 2, 0.5], ["+", 1, 1], index_base=0) == [1, 3, 0.5]
    assert update([1, "abc"], [":", 1, 0, 1, "X"], index_base=0) == [1, "Xbc"]
    assert update([1, 2, 0.5, {"x": 1}], ["+", "f.x", 1], fmt=NAMED) == [1, 2, 0.5, {"x": 2}]


def test_float_results() -> None:
    """A result that fits a single-precision float is stored as one, except in a field of type double."""
    assert apply_update(pack([1, 2, 0.5]), [["+", 2, 0.5]], fmt=NAMED) == b"\x93\x01" + pack_float32(2.5) + pack(0.5)
    assert apply_update(pack([1, 2, 0.5]), [["+", 3, 1]], fmt=NAMED) == pack([1, 2, 1.5])
    assert apply_update(pack([1, 2, 0.1]), [["+", 3, 1]], fmt=PLAIN) == pack([1, 2, 1.1])
    assert unpack(apply_update(b"\x92\x01" + pack_float32(1.5), [["+", 2, 1]], fmt=PLAIN)) == [1, 2.5]
    assert update([1, 1e308], ["+", 2, 1e308]) == [1, float("inf")]


def test_other_bytes_stay_as_they_are() -> None:
    """Values beside a change keep their encoding, even a longer one than necessary."""
    raw = bytes.fromhex("94 01 cd0005 ca3fc00000 82a16101a16102")
    assert apply_update(raw, [["+", 1, 1]], fmt=PLAIN) == b"\x94\x02" + raw[2:]
    assert apply_update(raw, [], fmt=PLAIN) == raw


@pytest.mark.parametrize(
    ("ops", "name", "message"),
    [
        ({}, "ILLEGAL_PARAMS", "Illegal parameters, update operations must be an array {{op,..}, {op,..}}"),
        ([1], "ILLEGAL_PARAMS", "Illegal parameters, update operation must be an array {op,..}"),
        ([[]], "ILLEGAL_PARAMS", "Illegal parameters, update operation must be an array {op,..}, got empty array"),
        ([[1]], "ILLEGAL_PARAMS", "Illegal parameters, update operation name must be a string"),
        ([["="] * 3] * 4001, "ILLEGAL_PARAMS", "Illegal parameters, too many operations for update"),
        ([["=", True, 1]], "ILLEGAL_PARAMS", "Illegal parameters, field id must be a number or a string"),
        ([[""]], "UNKNOWN_UPDATE_OP", 'Unknown UPDATE operation #1: ""'),
        ([["=", 2, 1], ["==", 2, 1]], "UNKNOWN_UPDATE_OP", 'Unknown UPDATE operation #2: "=="'),
        ([["="]], "UNKNOWN_UPDATE_OP", "Unknown UPDATE operation #1: wrong number of arguments, expected 3, got 1"),
        (
            [[":", 2, 1]],
            "UNKNOWN_UPDATE_OP",
            "Unknown UPDATE operation #1: wrong number of arguments, expected 5, got 3",
        ),
        ([["=", 0, 1]], "NO_SUCH_FIELD_NO", "Field 0 was not found in the tuple"),
        ([["+", 9, 1]], "NO_SUCH_FIELD_NO", "Field 9 was not found in the tuple"),
        ([["+", -9, 1]], "NO_SUCH_FIELD_NO", "Field -9 was not found in the tuple"),
        ([["=", "some text", 1]], "NO_SUCH_FIELD_NAME", "Field 'some text' was not found in the tuple"),
        ([["=", "f text", 1]], "UPDATE_FIELD", "Field 'f text' UPDATE error: invalid JSON in position 2"),
        ([["=", "nope", 1]], "NO_SUCH_FIELD_NAME", "Field 'nope' was not found in the tuple"),
        ([["+", "+", 1]], "UPDATE_FIELD", "Field '+' UPDATE error: invalid JSON in position 1"),
        ([["+", 2, "x"]], "UPDATE_ARG_TYPE", wrong_argument("+", "2", "a number")),
        ([["+", "value", True]], "UPDATE_ARG_TYPE", wrong_argument("+", "'value'", "a number")),
        ([["+", 3, 1]], "UPDATE_ARG_TYPE", wrong_argument("+", "3", "a number")),
        ([["&", "value", -1]], "UPDATE_ARG_TYPE", wrong_argument("&", "'value'", "a positive integer")),
        ([["#", 1, "x"]], "UPDATE_ARG_TYPE", wrong_argument("#", "1", "a positive integer")),
        ([["|", 3, 1]], "UPDATE_ARG_TYPE", wrong_argument("|", "3", "a positive integer")),
        ([[":", 3, "x", 1, ""]], "UPDATE_ARG_TYPE", wrong_argument(":", "3", "an integer")),
        ([[":", 2, 1, 1, ""]], "UPDATE_ARG_TYPE", wrong_argument(":", "2", "a string")),
        ([[":", 3, 0, 1, ""]], "UPDATE_SPLICE", "SPLICE error on field 3: offset is out of bound"),
        ([[":", 3, -9, 1, ""]], "UPDATE_SPLICE", "SPLICE error on field 3: offset is out of bound"),
        ([["+", 2, 2**64 - 1]], "UPDATE_INTEGER_OVERFLOW", "Integer overflow when performing '+' operation on field 2"),
        (
            [["+", 2, Decimal("9" * 38)]],
            "UPDATE_DECIMAL_OVERFLOW",
            "Decimal overflow when performing operation '+' on field 2",
        ),
        ([["#", "f.a", 2]], "UPDATE_FIELD", "Field 'f.a' UPDATE error: can delete only 1 field from a map in a row"),
        ([["#", "f.a", 0]], "UPDATE_FIELD", "Field 'f.a' UPDATE error: cannot delete 0 fields"),
        ([["!", "f.a", 0]], "UPDATE_FIELD", "Field 'f.a' UPDATE error: the key exists already"),
        ([["=", "f.a.b.c", 0]], "NO_SUCH_FIELD_NAME", "Field ''f.a.b.c'' was not found in the tuple"),
        ([["+", "f.c.f[100]", 1]], "NO_SUCH_FIELD_NAME", "Field ''f.c.f[100]'' was not found in the tuple"),
        (
            [["=", "f.a[1]", 0]],
            "UPDATE_FIELD",
            "Field 'f.a[1]' UPDATE error: can not access by index a non-array field",
        ),
        ([["=", "f.g.a", 0]], "UPDATE_FIELD", "Field 'f.g.a' UPDATE error: can not access by key a non-map field"),
        ([["=", "f[*]", 0]], "UPDATE_FIELD", "Field 'f[*]' UPDATE error: invalid JSON in position 3"),
        ([["=", "f.g[5]", 0]], "NO_SUCH_FIELD_NAME", "Field ''f.g[5]'' was not found in the tuple"),
        (
            [["=", "f.g[1]", 0], ["=", "f.g.a", 0]],
            "UPDATE_FIELD",
            "Field 'f.g.a' UPDATE error: can not update array by non-integer index",
        ),
        (
            [["=", "f.a", 0], ["=", "f[1]", 0]],
            "UPDATE_FIELD",
            "Field 'f[1]' UPDATE error: can not update map by non-string key",
        ),
        (
            [["=", "f.a", 0], ["=", "f.a", 0]],
            "UPDATE_FIELD",
            "Field 'f.a' UPDATE error: double update of the same field",
        ),
        ([["+", 2, 1], ["+", 2, 1]], "UPDATE_FIELD", "Field 2 UPDATE error: double update of the same field"),
        ([["=", 4, {}], ["=", "f.a", 1]], "UPDATE_FIELD", "Field 'f.a' UPDATE error: double update of the same field"),
    ],
)
def test_errors(ops: Any, name: str, message: str) -> None:
    value = [1, 1, "abc", {"a": 1, "g": [1, 2], "c": {"f": []}}]
    with pytest.raises(BoxError) as raised:
        apply_update(pack(value), ops, fmt=NAMED)
    assert (ErrorCode(raised.value.code).name, raised.value.message) == (name, message)


def test_nothing_inside_what_another_operation_has_put_in() -> None:
    message = "Field '[1][3].a' UPDATE error: double update of the same field"
    assert error_of([[1, 2]], ["=", "[1][3]", {"a": 1}], ["=", "[1][3].a", 2]) == ("UPDATE_FIELD", message)


def test_upsert_leaves_out_what_fails() -> None:
    """Upsert reports failed operations and skips them; the others apply."""
    errors: list[BoxError] = []
    raw = pack([1, "a", [5]])
    ops = [["+", 1, 1], ["+", 2, 1], ["=", "[3][1].x", 1], ["=", "[3][1]", 6], ["=", 4, "new"]]
    result = apply_upsert(raw, ops, fmt=PLAIN, on_error=errors.append)
    assert unpack(result) == [2, "a", [6], "new"]
    assert [ErrorCode(error.code).name for error in errors] == ["UPDATE_ARG_TYPE", "UPDATE_FIELD"]


def test_upsert_checks_the_form_of_operations() -> None:
    for function in (lambda ops: apply_upsert(pack([1]), ops, fmt=PLAIN), lambda ops: check_operations(ops, fmt=PLAIN)):
        with pytest.raises(BoxError, match="Unknown UPDATE operation #1"):
            function([["%", 1, 1]])


@pytest.mark.parametrize("count", [2**32, 2**63])
def test_fields_are_counted_in_32_bits(count: int) -> None:
    with pytest.raises(BoxError, match="cannot delete 0 fields"):
        update([1, 2, 3], ["#", 2, count])


@pytest.mark.parametrize(
    ("fields", "ops"),
    [
        ([1, "a", 1.5], [["=", 2, "b"], ["+", 3, 1]]),
        ([1, "a", 1.5], [["-", "ratio", 0.5], ["=", "value", None]]),
        ([1, 2, 1.5], [["+", 2, -3], ["=", 1, 2**63]]),
        ([1, 2**64 - 1, 1.5], [["-", 2, 2**64 - 1]]),
        ([1, -(2**63), 1.5], [["+", 2, 2**63]]),
    ],
)
def test_the_fast_path_agrees_with_the_general_one(fields: list[Any], ops: list[list[Any]]) -> None:
    """If the last operation is unknown to the fast path, all operations take the general one."""
    short = update(fields, *ops, fmt=NAMED)
    assert update(fields, *ops, ["!", 4, "end"], fmt=NAMED) == [*short, "end"]
    assert unpack(apply_upsert(pack(fields), ops, fmt=NAMED)) == short
