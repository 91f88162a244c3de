"""Scans that decode many rows at once: unusual values among them, ends of ranges, sums of doubles and of integers."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from box import Node
from box.errors import BoxError

from .conftest import Session, Start

_COUNT = 1000
"""More rows than are decoded at once."""


@pytest.fixture
def filled(start: Start) -> Session:
    """Create a table with a row of unusual values among many."""
    db = start()
    db.sql("create table t (id int primary key, u unsigned, s text, f boolean, d double, n number, v varbinary)")
    db.sql("create index by_u on t (u)")
    db.sql(
        f"insert into t with recursive r (n) as (values (0) union all select n + 1 from r where n + 1 < {_COUNT}) "
        "select n, n / 10, 'row', n % 2 = 0, 0.5, n, x'01' from r"
    )
    return db


def test_unusual_values_among_many(filled: Session) -> None:
    filled.sql("update t set u = 18446744073709551615, s = 'é', f = null, n = 1.5 where id = 700")
    filled.sql("update t set u = null, s = null, d = null, v = null where id = 701")
    rows = filled.sql("select * from t")
    assert rows[699] == [699, 69, "row", False, 0.5, 699, b"\x01"]
    assert rows[700] == [700, 2**64 - 1, "é", None, 0.5, 1.5, b"\x01"]
    assert rows[701] == [701, None, None, False, None, 701, None]
    assert [row[0] for row in rows] == list(range(_COUNT))


def test_texts_that_are_not_utf8(filled: Session) -> None:
    filled.sql("update t set s = ?, v = x'02', f = true where id = 700", "\udcff")
    assert filled.sql("select s, v, f from t where id between 699 and 701") == [
        ["row", b"\x01", False],
        ["\udcff", b"\x02", True],
        ["row", b"\x01", False],
    ]
    assert filled.value("select count(*) from t where s = 'row'") == _COUNT - 1


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        ("id > 10 and id <= 300", range(11, 301)),
        ("id < 9", range(9)),
        ("id >= 998", (998, 999)),
        ("u = 42", range(420, 430)),
        ("u > 97 and u < 99", range(980, 990)),
        ("id = 5.0", (5,)),
        ("id = 5.5", ()),
        ("id = null", ()),
        ("u = 42 and id > 425", range(426, 430)),
    ],
)
def test_ranges_end_where_they_should(filled: Session, condition: str, ids: range) -> None:
    assert filled.sql(f"select id from t where {condition} order by id") == [[id] for id in ids]
    assert filled.sql(f"select id from t where {condition} order by id desc") == [[id] for id in reversed(ids)]


def test_a_row_is_found_again_after_it_has_changed(filled: Session) -> None:
    join = "select t.s from t as a join t on t.id = a.id - a.id + 3 where a.id < 5"
    assert filled.sql(join) == [["row"]] * 5
    filled.sql("update t set s = 'new' where id = 3")
    assert filled.sql(join) == [["new"]] * 5


def test_sums_of_one_kind(filled: Session) -> None:
    assert filled.sql("select sum(d), avg(d), sum(id), sum(u) from t") == [[500.0, 0.5, 499_500, 49_500]]
    assert filled.sql("select sum(d), avg(d), sum(id) from t where id < 0") == [[None, None, None]]
    filled.sql("update t set u = 18446744073709551615 where id < 2")
    assert filled.value("select sum(u) from t where id = 1") == 2**64 - 1
    with pytest.raises(BoxError, match="integer overflow"):
        filled.sql("select sum(u) from t where id < 2")


def test_moments_are_ordered_by_time() -> None:
    """Datetimes are ordered by time, not by their bytes, also far apart and with fractions of a second."""

    async def main() -> list[Any]:
        async with Node() as node:
            space = await node.schema.create_space(
                "T", format=[{"name": "ID", "type": "unsigned"}, {"name": "D", "type": "datetime"}]
            )
            await space.create_index("pk")
            for number, year in enumerate((2030, 1960, 2001, 1969)):
                await space.insert((number, datetime(year, 1, 2, 3, 4, 5, number, tzinfo=UTC)))
            return [row[0] for row in (await node.execute("SELECT id FROM t ORDER BY d"))]

    assert asyncio.run(main()) == [1, 3, 2, 0]
