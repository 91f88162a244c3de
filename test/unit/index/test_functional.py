"""Functional indexes without a node, with a function in Python."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from box.data.codec import pack, unpack
from box.data.keydef import KeyDef, PartDef
from box.data.types import FieldType
from box.errors import BoxError, ErrorCode, client_error
from box.index import IndexDef, create_index
from box.index.bulk import Keyed
from box.index.functional import DisabledIndex, FunctionalTreeIndex

PRIMARY = KeyDef([PartDef(0, FieldType.UNSIGNED)])


class Function:
    """A function that counts its calls."""

    def __init__(self, make: Callable[[list[Any]], list[Any] | BoxError], is_multikey: bool = False) -> None:
        self.make = make
        self.is_multikey = is_multikey
        self.calls = 0
        self.prepared: list[int] = []
        """The number of results of each call of `many`."""

    def __call__(self, raw: bytes) -> list[Any] | BoxError:
        self.calls += 1
        return self.make(unpack(raw))

    def many(self, tuples: list[bytes]) -> list[list[Any]]:
        found: list[list[Any]] = []
        with suppress(BoxError):
            for raw in tuples:
                values = self.make(unpack(raw))
                assert isinstance(values, list)
                found.append(values)
        self.prepared.append(len(found))
        return found


def index_of(function: Function | None, *, unique: bool = False, kind: FieldType = FieldType.STRING) -> Any:
    definition = IndexDef(512, 1, "i", "TREE", unique, (PartDef(0, kind),), {"func": 7})
    return create_index(definition, PRIMARY, space_name="s", function=function)


@pytest.mark.parametrize("kind", [FieldType.STRING, FieldType.SCALAR])
def test_keys_end_with_the_primary_key(kind: FieldType) -> None:
    """Entries with equal keys are in the order of the primary key, packed or not."""
    index = index_of(Function(lambda fields: [[fields[1]]]), kind=kind)
    rows = [pack(row) for row in ([3, "a"], [1, "b"], [2, "a"])]
    for raw in rows:
        for key in index.keys_of(raw, unpack(raw)):
            assert index.add(key, raw)
    assert [unpack(raw)[0] for raw in index.select(2, [], 0, 9)] == [2, 3, 1]
    assert [unpack(raw)[0] for raw in index.select(1, ["a"], 0, 9)] == [3, 2]


def test_a_result_is_asked_for_once() -> None:
    """A replace calls the function once for each tuple, though the old tuple's keys are needed twice."""
    function = Function(lambda fields: [[[fields[1]], [fields[1]]]], is_multikey=True)
    index = index_of(function)
    raw = pack([1, "a"])
    assert len(index.keys_of(raw, unpack(raw))) == 1
    index.stored_keys(raw, unpack(raw))
    assert function.calls == 1


def test_a_build_calls_the_function_for_many_tuples_at_once() -> None:
    """A build asks for the keys of 64 tuples together, and calls the function singly only where that fails."""
    function = Function(lambda fields: [[fields[1]]])
    index, keyed = index_of(function), Keyed()
    rows = [pack([number, str(number)]) for number in range(150)]
    for _ in keyed.add_tuples(index, rows, list(map(unpack, rows))):
        pass
    assert (function.prepared, function.calls) == ([64, 64, 22], 0)
    assert keyed.keys == [index.keys_of(raw, unpack(raw))[0] for raw in rows]


def test_a_build_reports_the_tuple_whose_function_fails() -> None:
    def make(fields: list[Any]) -> list[Any]:
        if fields[0] == 70:
            raise client_error(ErrorCode.PROC_LUA, "broken")
        return [[fields[1]]]

    function = Function(make)
    index, keyed = index_of(function), Keyed()
    rows = [pack([number, "a"]) for number in range(100)]
    with pytest.raises(BoxError) as caught:
        for _ in keyed.add_tuples(index, rows, list(map(unpack, rows))):
            pass
    assert caught.value.prev is not None
    assert caught.value.prev.message == "broken"
    assert len(keyed.keys) == 70
    assert (function.prepared, function.calls) == ([64, 6], 1)


def test_large_tuples_are_not_gathered() -> None:
    """Tuples of more than 128 KiB together are not passed to the function with one call."""
    function = Function(lambda fields: [[fields[1]]])
    index = index_of(function)
    index.prepare([pack([number, "a", "x" * 50_000]) for number in range(3)])
    assert function.prepared == []


def test_a_function_that_fails_later_leaves_no_error_in_an_undo() -> None:
    def fail(fields: list[Any]) -> list[Any]:
        raise client_error(ErrorCode.PROC_LUA, "broken")

    index = index_of(Function(fail))
    raw = pack([1, "a"])
    with pytest.raises(BoxError) as caught:
        index.keys_of(raw, unpack(raw))
    assert caught.value.code == ErrorCode.FUNC_INDEX_FUNC
    assert caught.value.prev is not None
    assert caught.value.prev.message == "broken"
    assert index.stored_keys(raw, unpack(raw)) == ()


def test_without_its_function_an_index_has_no_keys() -> None:
    index = index_of(None)
    assert isinstance(index, DisabledIndex)
    assert not isinstance(index, FunctionalTreeIndex)
    raw = pack([1, "a"])
    assert index.keys_of(raw, unpack(raw)) == ()
    with pytest.raises(BoxError, match="does not support read view"):
        index.select(0, ["a"], 0, 1)
