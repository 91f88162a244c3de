"""Primary keys as bytes: equal for equal keys, in the index's order, and equal from compiled code."""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from box.data.codec import pack
from box.spark.definitions import SpaceInfo, index_of
from box.spark.primary_keys import PrimaryKeys

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "unsigned": st.integers(0, 2**64 - 1) | st.integers(0, 300),
    "integer": st.integers(-(2**63), 2**64 - 1) | st.integers(-300, 300),
    "string": st.text() | st.text("\0a\u00ff", max_size=5) | st.text("ab", min_size=30, max_size=300),
    "varbinary": st.binary() | st.binary(min_size=250, max_size=300),
    "uuid": st.uuids(),
}
NUMBERS = st.integers(-5, 5) | st.sampled_from([float("nan"), float("inf"), -float("inf"), 2.0, Decimal("2.00"), 2.5])


def keys_of(kinds: list[str], index: str = "tree", **options: Any) -> PrimaryKeys:
    parts = [{"field": place, "type": kind, **options} for place, kind in enumerate(kinds)]
    return PrimaryKeys(SpaceInfo(512, "goods", "memtx", (), (index_of([512, 0, "pk", index, {}, parts]),)))


@settings(max_examples=120, deadline=None)
@given(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3), st.data())
def test_bytes_of_plain_keys_have_the_order_of_the_index(kinds: list[str], data: st.DataObject) -> None:
    keys = keys_of(kinds)
    assert keys.is_ordered
    one, two = ([data.draw(VALUES[kind]) for kind in kinds] for _ in range(2))
    if data.draw(st.booleans()):
        two[0] = one[0]
    first, second = keys.of_tuple(pack(one)), keys.of_tuple(pack(two))
    ordered = keys.key_def.extract(one), keys.key_def.extract(two)
    assert (first < second, first == second) == (ordered[0] < ordered[1], ordered[0] == ordered[1])


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(["number", "scalar"]), NUMBERS, NUMBERS)
def test_equal_numbers_of_several_types_have_equal_bytes(kind: str, one: Any, two: Any) -> None:
    keys = keys_of([kind])
    assert not keys.is_ordered
    same = keys.key_def.extract([one]) == keys.key_def.extract([two])
    assert (keys.of_tuple(pack([one])) == keys.of_tuple(pack([two]))) == same


def test_a_collation_makes_texts_equal() -> None:
    keys = keys_of(["string"], collation=2)  # unicode_ci
    assert keys.plain is None
    assert keys.of_tuple(pack(["One"])) == keys.of_tuple(pack(["oNE"])) != keys.of_tuple(pack(["two"]))


def test_a_hash_index_has_bytes_but_no_order_of_tuples() -> None:
    keys = keys_of(["unsigned"], "hash")
    assert keys.plain is not None
    assert not keys.is_ordered


@settings(max_examples=120, deadline=None)
@given(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3), st.data())
def test_compiled_code_makes_the_same_bytes(kinds: list[str], data: st.DataObject) -> None:
    pytest.importorskip("numba", reason="the extra 'spark' is not installed")
    from box.spark.compiled_tuples import CompiledFinder

    keys = keys_of(kinds)
    tuples = data.draw(st.lists(st.tuples(*(VALUES[kind] for kind in kinds)).map(lambda row: pack(list(row)))))
    rows = b"".join(b"\xc0\x82\x10\xcd\x02\x00\x21" + raw for raw in tuples)
    found = CompiledFinder(512, keys).find(rows)
    assert [found.tuple_at(row) for row in range(len(found))] == tuples
    assert found.keys().to_pylist() == [keys.of_tuple(raw) for raw in tuples]


WIDTHS = [
    (0xD0, ">b"),
    (0xD1, ">h"),
    (0xD2, ">i"),
    (0xD3, ">q"),
    (0xCC, ">B"),
    (0xCD, ">H"),
    (0xCE, ">I"),
    (0xCF, ">Q"),
]


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(WIDTHS), st.integers(-(2**63), 2**64 - 1) | st.integers(-300, 300))
def test_a_number_has_the_same_bytes_in_every_width(width: tuple[int, str], number: int) -> None:
    """A number has the same bytes from every width of its encoding; other writers do not always take the shortest."""
    pytest.importorskip("numba", reason="the extra 'spark' is not installed")
    from box.spark.compiled_tuples import encoded_keys

    code, form = width
    try:
        raw = bytes([code]) + struct.pack(form, number)
    except struct.error:
        assume(False)
    keys = keys_of(["integer"])
    assert keys.plain is not None
    array = encoded_keys(np.frombuffer(raw, np.uint8), np.zeros((1, 1), np.int64), keys.plain)
    assert array is not None
    assert array.to_pylist() == [keys.of_tuple(pack([number]))]


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(sorted(VALUES)), st.binary(min_size=1, max_size=24))
def test_compiled_code_stays_in_the_block(kind: str, block: bytes) -> None:
    """Compiled code gives a key or none from every offset of random bytes, without a read outside."""
    pytest.importorskip("numba", reason="the extra 'spark' is not installed")
    from box.spark.compiled_tuples import encoded_keys

    plain = keys_of([kind]).plain
    assert plain is not None
    for start in range(len(block)):
        array = encoded_keys(np.frombuffer(block, np.uint8), np.full((1, 1), start, np.int64), plain)
        assert array is None or len(array[0].as_py()) <= 2 * len(block) + 9


def test_a_uuid_is_its_bytes() -> None:
    value = UUID("64d22e4d-ac92-4a23-899a-e59f34af5479")
    assert keys_of(["uuid"]).of_tuple(pack([value])) == value.bytes
