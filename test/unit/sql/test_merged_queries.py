"""Names of result columns where Tarantool 2.8.1 merges a query in FROM into the query that reads it."""

from __future__ import annotations

import pytest

from box.sql.merged_queries import name_of
from test.unit.sql.conftest import Session


@pytest.fixture
def a(db: Session) -> Session:
    """A session with a table and views of all kinds."""
    db.sql("create table a (i int primary key, x int, s text)")
    db.sql("insert into a values (1, 1, 'A'), (2, 2, 'b')")
    db.sql("create view va as select i, x as xx from a")
    db.sql("create view vd as select distinct i from a")
    db.sql("create view vg as select x, count(*) as n from a group by x")
    db.sql("create view vl as select i from a limit 1")
    db.sql("create view vu as select i from a union all select x from a")
    db.sql("create view vo as select i from a order by x")
    return db


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("select va.i, xx from va", ["VA.I", "XX"]),
        ("select va.i as k, va.xx + 1, (va.i), va . xx from va", ["K", "COLUMN_1", "(VA.I)", "VA . XX"]),
        ('select "VA"."I" from va', ["VA"]),
        ("select * from va", ["I", "XX"]),
        ("select va.* from va", ["I", "XX"]),
        ("select a.i, va.i from a, va", ["A.I", "VA.I"]),
        ("select a.i, b.i from a, a as b", ["I", "I"]),
        ("select va.i from a left join va on va.i = a.i", ["I"]),
        ("select va.i from va left join a on va.i = a.i", ["VA.I"]),
        ("select vd.i from vd", ["I"]),
        ("select vl.i from vl", ["VL.I"]),
        ("select vl.i from vl limit 1", ["I"]),
        ("select vl.i from vl where vl.i = 1", ["I"]),
        ("select vl.i from vl, a", ["I"]),
        ("select vo.i from vo", ["VO.I"]),
        ("select vo.i from vo order by vo.i", ["I"]),
        ("select vg.n from vg", ["VG.N"]),
        ("select vg.n from vg, a", ["N"]),
        ("select vg.n, (select 1) from vg", ["N", "COLUMN_1"]),
        ("select distinct vg.n from vg", ["N"]),
        ("select q.n from (select max(i) as n from a group by s) as q", ["N"]),
        ("select vu.i from vu", ["VU.I"]),
        ("select vu.i from vu order by vu.i", ["VU.I"]),
        ("select vu.i from vu order by vu.i + 1", ["I"]),
        ("select q.i from (select i from a union select 1) as q", ["I"]),
        ("select q.c from (select 1 as c) as q", ["C"]),
        ("select q.i from (select i from a limit 1 offset 1) as q", ["I"]),
        ("with w as (select i from a) select w.i from w", ["W.I"]),
        ("with recursive w(k) as (select 1 union all select k + 1 from w where k < 3) select w.k from w", ["K"]),
        ("select va.i from va union select 5", ["VA.I"]),
        ("select * from (select va.i from va) as q", ["I"]),
        ("select va.i from (va join a as r on va.i = r.i)", ["VA.I"]),
        ("select q.i from (a as q join a as r on q.i = r.i)", ["I"]),
        ("select q.x from (a as q join a as r on q.i = r.i), a", ["X"]),
    ],
)  # fmt: skip
def test_columns_are_named_after_merging(a: Session, text: str, names: list[str]) -> None:
    assert a.names(text) == names


def test_a_view_names_its_columns_before_merging(a: Session) -> None:
    a.sql("create view vv as select va.i, va.xx from va")
    assert a.names("select * from vv") == ["I", "XX"]
    assert a.sql("select vv.i from vv where vv.xx = 2") == [[2]]


def test_full_names(a: Session) -> None:
    """Columns of views and of tables of WITH have full names, too."""
    a.sql('set session "sql_full_column_names" = true')
    assert a.names("select v.i from vd as v") == ["VD.I"]
    assert a.names("with w as (select distinct i from a) select z.i from w as z") == ["W.I"]


@pytest.mark.parametrize(
    ("span", "name"),
    [
        ("q.i", "Q.I"),
        ("(q.i)", "(Q.I)"),
        ('"q"."i"', "q"),
        ('"a""b".i', 'a"b'),
        ("'it''s'", "it's"),
        ('q."i"', 'Q."I"'),
    ],
)
def test_a_text_as_a_name(span: str, name: str) -> None:
    assert name_of(span) == name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("select count(*) from a group by 1", "aggregate functions are not allowed in the GROUP BY clause"),
        ("select i from a group by sum(i) + 1", "aggregate functions are not allowed in the GROUP BY clause"),
        ("select sum(i) as k from a group by k", "aggregate functions are not allowed in the GROUP BY clause"),
        ("select i from a order by count(*)", "misuse of aggregate: COUNT()"),
        ("select i from a order by sum(i) + max(i)", "misuse of aggregate: MAX()"),
        ("select count(distinct i, x) from a", "DISTINCT aggregates must have exactly one argument"),
        ('select 1 collate "nope"', "COLLATE clause can't be used with non-string arguments"),
    ],
)
def test_aggregates_where_none_may_be(a: Session, text: str, message: str) -> None:
    assert a.error(text)[1] == message


def test_aggregates_in_order_by(a: Session) -> None:
    assert a.sql("select max(i) from a order by count(*)") == [[2]]
    assert a.sql("select i from a group by i order by count(*), i desc") == [[2], [1]]


def test_a_shift_by_the_width_of_an_integer(db: Session) -> None:
    """As in Tarantool on x86-64, it does nothing; a greater one, or one the other way, takes all bits."""
    assert db.sql("select 5 << 64, 8 >> 64, -8 >> 64, 5 << 65, -8 >> 65, 8 << -64, -8 << -64, 8 >> -64") == [
        [5, 8, -8, 0, -1, 0, -1, 0]
    ]
