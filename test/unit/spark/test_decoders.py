"""The compiled decoder equals the one in Python on every block, whole or damaged."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from box.data.codec import Ext, pack, pack_float32
from box.errors import BoxError, ErrorCode
from box.spark.columns import Column, Kind
from box.spark.conditions import Condition
from box.spark.decoder import Decoder, is_compiled, new_decoder

from .files import GOODS, arrow_schema

pytest.importorskip("numba", reason="the extra 'spark' is not installed")


def conditions(*parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Condition]:
    return st.builds(Condition, *parts)


integers = st.integers(-(2**63), 2**64 - 1) | st.integers(-200, 300)
floats = st.floats() | st.sampled_from([0.0, -0.0, math.inf])
texts = st.text(max_size=20) | st.text("ab", min_size=30, max_size=300)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    integers,
    floats,
    texts,
    st.binary(max_size=40),
    st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**9), max_value=10**9),
    st.uuids(),
    st.builds(Ext, st.integers(3, 100), st.binary(max_size=20)),
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
)
USUAL: dict[Kind, st.SearchStrategy[Any]] = {
    Kind.INTEGER: st.integers(-(2**63), 2**63 - 1) | st.integers(-200, 300),
    Kind.BIG_INTEGER: integers,
    Kind.DOUBLE: floats | integers,
    Kind.DECIMAL: st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-999, max_value=999),
    Kind.STRING: texts,
    Kind.UUID: st.uuids(),
    Kind.BOOLEAN: st.booleans(),
    Kind.BINARY: st.binary(max_size=300),
    Kind.MIXED: values,
}
COLUMNS = [Column(kind.value, kind, number) for number, kind in enumerate(USUAL)]
WHOLE = [Column("all", Kind.TUPLE), Column("more", Kind.REST, 3), Column("same", Kind.CONSTANT, text="here")]
usual_tuples = st.tuples(*(st.none() | strategy for strategy in USUAL.values())).map(list)
tuples = st.one_of(usual_tuples, st.builds(lambda row, size: row[:size], usual_tuples, st.integers(0, 9)))
any_tuples = st.lists(values, max_size=12)


def row(space_id: int, tuple_bytes: bytes, form: int = 0) -> bytes:
    """Generate a row, in the usual form or in one that other writers use."""
    space, data = b"\x10" + pack(space_id), b"\x21" + tuple_bytes
    return [
        b"\x83\x00\x02\x03\xce\x00\x00\x10\x00\x04\xcb" + bytes(8) + b"\x82" + space + data,
        b"\x81\x00\x02\x82" + data + space,
        b"\x80\xde\x00\x03\xcc\x10" + pack(space_id) + b"\x30\xc0" + data,
        b"\xc0\x81" + space,
    ][form]


blocks = st.lists(
    st.builds(
        row,
        st.sampled_from([GOODS, GOODS, GOODS, GOODS + 1, 280, 2**63]),
        st.one_of(tuples, any_tuples).map(pack),
        st.sampled_from([0, 0, 0, 1, 2, 3]),
    ),
    max_size=8,
).map(b"".join)
usual_blocks = st.lists(st.builds(row, st.just(GOODS), tuples.map(pack)), max_size=12).map(b"".join)
choices = st.lists(st.sampled_from([*COLUMNS, *WHOLE]), unique=True, max_size=5)


def outcome(decoder: Decoder, block: bytes) -> tuple[str, Any]:
    try:
        batch = decoder.decode(block)
    except BoxError as error:
        return "error", error.message if error.code == ErrorCode.ILLEGAL_PARAMS else error.code
    batch.validate(full=True)
    return "rows", (batch.num_rows, batch.schema, repr(batch.to_pydict()))


def both(columns: list[Column], block: bytes, filters: tuple[Condition, ...] = ()) -> tuple[str, Any]:
    """Run both decoders, assert that they agree, and return the result."""
    schema = arrow_schema(columns)
    python = outcome(new_decoder(GOODS, columns, schema, filters, compiled=False), block)
    compiled = outcome(new_decoder(GOODS, columns, schema, filters, compiled=True), block)
    assert compiled == python
    return python


@settings(max_examples=30, deadline=None)
@given(usual_blocks)
def test_usual_tuples_are_read_column_by_column(block: bytes) -> None:
    for column in COLUMNS:
        both([column], block)
    both([*COLUMNS, *WHOLE], block)


@settings(max_examples=30, deadline=None)
@given(choices, blocks)
def test_any_rows_have_the_same_outcome(columns: list[Column], block: bytes) -> None:
    both(columns, block)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    block = bytearray(draw(st.one_of(blocks, usual_blocks).filter(bool)))
    for _ in range(draw(st.integers(1, 3))):
        match draw(st.integers(0, 3)):
            case 0:
                block[draw(st.integers(0, len(block) - 1))] = draw(st.integers(0, 255))
            case 1:
                del block[draw(st.integers(1, len(block))) :]
            case 2:
                at = draw(st.integers(0, len(block) - 1))
                block[at:at] = draw(st.binary(max_size=6))
            case _:
                at = draw(st.integers(0, len(block) - 1))
                del block[at : at + draw(st.integers(1, 9))]
        block = block or bytearray(1)
    return bytes(block)


@settings(max_examples=80, deadline=None)
@given(choices, damaged())
def test_damaged_blocks_have_the_same_outcome(columns: list[Column], block: bytes) -> None:
    both(columns, block)


@settings(max_examples=25, deadline=None)
@given(choices, st.binary(max_size=60))
def test_noise_has_the_same_outcome(columns: list[Column], block: bytes) -> None:
    both(columns, block)


@settings(max_examples=25, deadline=None)
@given(
    usual_blocks,
    st.lists(
        st.one_of(
            conditions(st.just("integer"), st.sampled_from(["=", "<", ">="]), st.integers(-200, 300)),
            conditions(st.just("double"), st.sampled_from(["=", "<", ">"]), st.floats(allow_nan=False)),
            st.builds(
                Condition, st.just("string"), st.sampled_from(["=", "<", "starts with"]), st.text("ab", max_size=2)
            ),
            conditions(st.just("boolean"), st.just("="), st.booleans(), st.booleans()),
            st.builds(
                Condition, st.just("uuid"), st.sampled_from(["is null", "is not null"]), st.none(), st.booleans()
            ),
            conditions(st.just("integer"), st.just("in"), st.lists(st.integers(-9, 9), min_size=1)),
        ),
        min_size=1,
        max_size=3,
    ),
)
def test_filtered_rows_are_the_same(block: bytes, filters: list[Condition]) -> None:
    kinds = {column.name for column in COLUMNS}
    assert {item.column for item in filters} <= kinds
    both([*COLUMNS, *WHOLE], block, tuple(filters))


def test_values_at_the_edges_of_their_forms() -> None:
    numbers = [0, 127, 128, 255, 256, 65535, 65536, 2**32 - 1, 2**32, 2**63 - 1]
    numbers += [-1, -32, -33, -128, -129, -(2**15), -(2**15) - 1, -(2**31), -(2**31) - 1, -(2**63)]
    block = b"".join(row(GOODS, pack([number])) for number in numbers)
    for kind in (Kind.INTEGER, Kind.BIG_INTEGER, Kind.DOUBLE):
        assert both([Column("n", kind)], block)[0] == "rows"
    raw = [b"\x91" + pack_float32(0.1), b"\x91\xd1\xff\xff", b"\x91\xcf" + bytes(8), b"\x91\xd3" + bytes(8)]
    assert both([Column("n", Kind.DOUBLE)], b"".join(row(GOODS, item) for item in raw))[0] == "rows"


@pytest.mark.parametrize(
    "block", [b"\x80", b"\x80\xde", b"\x80\xde\x00", b"\x80\x81\x10", b"\xc1\x80", b"\x80\x81\x10\xcd\x02"]
)
def test_rows_that_are_cut_off_are_an_error(block: bytes) -> None:
    assert both([], block)[0] == "error"


def test_text_that_is_not_utf8_is_an_error_of_its_column_alone() -> None:
    block = row(GOODS, b"\x92\xa2\xff\xfe\x01")
    assert both([Column("name", Kind.STRING)], block)[0] == "error"
    assert both([Column("id", Kind.INTEGER, 1)], block)[0] == "rows"


def test_an_extension_without_meaning_is_an_error_of_its_column_alone() -> None:
    block = row(GOODS, b"\x92\xd5\x01\x00\xff\x01")
    assert both([Column("d", Kind.DECIMAL)], block)[0] == "error"
    assert both([Column("id", Kind.INTEGER, 1)], block)[0] == "rows"


def test_many_rows_are_more_than_the_first_room_for_them() -> None:
    block = row(GOODS, pack([5, "five"])) * 100_000
    columns = [Column("id", Kind.INTEGER), Column("name", Kind.STRING, 1)]
    decoder = new_decoder(GOODS, columns, arrow_schema(columns), (), compiled=True)
    batch = decoder.decode(block)
    assert batch.num_rows == 100_000
    assert set(batch.column(1).to_pylist()) == {"five"}


def test_a_schema_of_other_types_is_filled_where_no_value_is_lost() -> None:
    block = row(GOODS, pack([5])) + row(GOODS, pack([7]))
    columns = [Column("id", Kind.INTEGER)]
    for compiled in (False, True):
        decoder = new_decoder(GOODS, columns, pa.schema([("id", pa.int32())]), (), compiled=compiled)
        assert decoder.decode(block).column(0).to_pylist() == [5, 7]
        with pytest.raises(BoxError, match="does not fit int32"):
            decoder.decode(row(GOODS, pack([2**40])))


def test_rows_are_counted_without_columns() -> None:
    block = row(GOODS, pack([5])) + row(GOODS + 1, pack([5])) + row(GOODS, pack([7]))
    assert both([], block) == ("rows", (2, pa.schema([]), "{}"))


def test_small_reads_do_without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "box.spark.kernels", raising=False)
    assert not is_compiled("auto", 1000)
    assert is_compiled("auto", 1 << 30)
    assert is_compiled("compiled", 0)
    assert not is_compiled("python", 1 << 30)


def test_without_numba_python_decodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.delitem(sys.modules, "numba", raising=False)
    assert not is_compiled("auto", 1 << 30)
    with pytest.raises(BoxError, match=r"pip install '.\[spark\]' in a clone"):
        is_compiled("compiled", 0)


BOUNDS = """
import random, sys
from test.unit.spark import test_decoders as t
from box.spark.decoder import new_decoder
from box.errors import BoxError
from box.data.codec import pack

rng = random.Random(5)
tuples = [
    [1, 2, 2.5, None, "text" * 9, None, True, b"x" * 40, [1, {"a": 2}]],
    [-70000, 2**63, 1, None, "", None, False, b"", None],
    [],
]
whole = b"".join(t.row(t.GOODS, pack(item), form) for item in tuples for form in range(4))
columns = t.COLUMNS + t.WHOLE
decoder = new_decoder(t.GOODS, columns, t.arrow_schema(columns), (), compiled=True)
seen = set()
for number in range(1000):
    block = bytearray(whole[: rng.randrange(1, len(whole) + 1)])
    for _ in range(rng.randrange(3)):
        block[rng.randrange(len(block))] = rng.choice((rng.randrange(256), 0xDB, 0xDD, 0xC6, 0xDF, 0xD8, 0xCF))
    try:
        decoder.decode(bytes(block))
        seen.add("rows")
    except BoxError:
        seen.add("error")
print(sorted(seen))
"""


def test_no_damaged_block_is_read_outside_its_bounds(tmp_path: Path) -> None:
    """No read leaves a damaged block: numba checks every index, and a bad one would raise IndexError."""
    environment = os.environ | {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-c", BOUNDS], env=environment, capture_output=True, text=True, check=False, timeout=200
    )
    assert (ran.returncode, ran.stdout) == (0, "['error', 'rows']\n"), ran.stderr


def test_the_values_of_every_kind_come_through() -> None:
    uuid = UUID("12345678-1234-5678-1234-567812345678")
    fields = [-5, 2**64 - 1, 0.5, Decimal("1.5"), "text", uuid, True, b"\x00\xff", [1, "two", b"\x00"]]
    kind, (count, _, shown) = both([*COLUMNS, *WHOLE], row(GOODS, pack(fields)))
    assert (kind, count) == ("rows", 1)
    assert "'integer': [-5]" in shown
    assert "'big integer': [Decimal('18446744073709551615')]" in shown
    assert f"'uuid': ['{uuid}']" in shown
    assert "'mixed': ['[1, \"two\", \"AA==\"]']" in shown
    assert "'same': ['here']" in shown
