"""Complete metadata (`sql_full_metadata`) of columns and expressions, and the limits of a statement."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import Session, Start


@pytest.fixture
def db(start: Start) -> Session:
    found = start()
    found.sql('set session "sql_full_metadata" = true')
    found.sql('create table t (id int primary key autoincrement, a int not null, s text collate "unicode_ci")')
    found.sql("insert into t values (1, 1, 'a')")
    return found


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("select s from t", ("unicode_ci", True)),
        ("select a from t", (None, False)),
        ("select a + 1 from t", (None, None)),
        ('select s collate "unicode" from t', ("unicode", None)),
        ("select max(s) from t", (None, None)),
        ("select (select s from t limit 1)", (None, None)),
        ("select likely(s) from t", (None, None)),
        ("select y.a from t as x left join t as y on x.id = y.a", (None, False)),
        ("with w as (select s from t) select * from w", ("unicode_ci", True)),
        ("with w (z) as (select a from t) select z from w", (None, False)),
        ("select q.s from (select s from t) as q", ("unicode_ci", True)),
    ],
)
def test_collation_and_nullability(db: Session, query: str, expected: tuple[Any, Any]) -> None:
    (field,) = db.execute(query).fields
    assert (field.collation, field.is_nullable) == expected


_TOO_MANY = ", ".join(["1"] * 2001)


@pytest.mark.parametrize(
    ("query", "what", "count", "limit"),
    [
        (f"select length({' || '.join(['s'] * 200)}) from t", "Number of nodes in expression tree", 201, 200),
        (f"values ({_TOO_MANY})", "The number of columns in result set", 2001, 2000),
        (f"select 1 from t group by {_TOO_MANY}", "The number of terms in GROUP BY clause", 2001, 2000),
    ],
)
def test_limits(db: Session, query: str, what: str, count: int, limit: int) -> None:
    assert db.error(query)[1] == f"{what} {count} exceeds the limit ({limit})"


def test_values_of_other_types_are_their_bytes(start: Start) -> None:
    """For functions of 2.8.1 a map, an array, a decimal or a UUID is the varbinary of its MessagePack."""
    from decimal import Decimal

    from box.data.codec import pack
    from box.wire.change import Request

    db = start()
    names = ("unsigned", "array", "map", "decimal", "uuid", "any")
    fields = [{"name": f"F{place}", "type": name, "is_nullable": place > 0} for place, name in enumerate(names)]
    db.write("_space", Request.insert(pack([600, 1, "O", "memtx", 0, {}, fields])))
    db.write("_index", Request.insert(pack([600, 0, "pk", "tree", {"unique": True}, [[0, "unsigned"]]])))
    db.write("O", Request.insert(pack([1, [1, 2], {"a": 1}, Decimal("1.25"), None, [1]])))
    assert db.sql("select hex(f1), length(f2), quote(f3), length(f4) from o") == [
        ["920102", 4, "X'C7030102125C'", None]
    ]
    assert db.sql("select typeof(f1), typeof(f2), typeof(f3), typeof(f4), typeof(f5) from o") == [
        ["array", "map", "decimal", "uuid", "any"]
    ]
    assert db.sql("select f1 = f1, f1 = f5, f1 in (f1, f2) from o") == [[True, False, True]]
    assert db.value("select f1 || f1 from o") == bytes.fromhex("920102920102")
    assert db.error("select f1 || 'x' from o")[1] == "Inconsistent types: expected varbinary got text"
    assert db.error("select upper(f1) from o")[1] == "Inconsistent types: expected text got varbinary"
    assert db.error("update o set f3 = 1")[1] == "Type mismatch: can not convert 1 to decimal"
    assert db.error("update o set f4 = 'x'")[1] == "Type mismatch: can not convert x to uuid"


def test_half_of_a_surrogate_pair(db: Session) -> None:
    assert db.value("select hex(char(55296, 66))") == "EDA08042"


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("SELECT * FROM a JOIN (b, c)", "ID, X, ID, Y, ID_1, Z"),
        ("SELECT * FROM a LEFT JOIN (b, c) ON a.id = c.z", "ID, X, ID, Y, ID_1, Z"),
        ("SELECT c.* FROM a JOIN (b, c)", "ID_1, Z"),
        ("SELECT b.y, z, a.id FROM a JOIN (b, c)", "B.Y, Z, A.ID"),
        ("SELECT b.y, z FROM a LEFT JOIN (b, c) ON a.id = c.z", "Y, Z"),
        ("SELECT b.y, z, a.id FROM (b, c) JOIN a", "Y, Z, ID"),
        ("SELECT * FROM a JOIN (b)", "ID, X, ID, Y"),
        ("SELECT * FROM a JOIN (b JOIN c USING (id))", "ID, X, ID, Y, Z"),
        ("SELECT * FROM a JOIN (b, b AS e, b AS f)", "ID, X, ID, Y, ID_1, Y_1, ID_2, Y_2"),
        ("SELECT * FROM (SELECT * FROM a JOIN (b, c))", "ID, X, ID_1, Y, ID_2, Z"),
    ],
)
def test_columns_of_a_join_in_parentheses(db: Session, query: str, names: str) -> None:
    """As in Tarantool, `*` numbers repeated names of a join in parentheses behind another table, and names of columns
    are as they are written, unless it is behind LEFT JOIN.
    """
    for table, column in zip("abc", "xyz", strict=True):
        db.sql(f"CREATE TABLE {table} (id INT PRIMARY KEY, {column} INT)")
        db.sql(f"INSERT INTO {table} VALUES (1, 1)")
    assert ", ".join(db.names(query)) == names
    assert len(db.sql(query)) == 1


@pytest.mark.parametrize("join", ["join", "left join"])
def test_queries_in_on_are_named_after_the_result_columns(db: Session, join: str) -> None:
    db.sql("create table u (id int primary key)")
    text = (
        f"select a.id + 1, b.id + 1 from u as a {join} u as b on b.id = (select max(id) from u as c where c.id < a.id)"
    )
    assert db.names(text) == ["COLUMN_1", "COLUMN_2"]
    db.sql(f"create view w as {text}")
    assert db.names("select * from w") == ["COLUMN_1", "COLUMN_2"]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("a + 1 from t", 1),
        ("(select a + 1) as x from t", 1),
        ("(select a + 1) from t", 2),
        ("x from (select a + 1 as x from t)", 0),
        ("(select a + 1) as x from t union all select (select a + 2) as x from t", 2),
        ("t.a from t join (select a + 1 as b from t) q on q.b = (select t.a + 1)", 1),
        ("t.a from t join (t as u join t as v on u.a = (select v.a + 1)) on 1 = 1", 1),
        ("a from t where a in (select a + 1 from t)", 1),
        ("* from (values ((select min(a) from t), 2), (3, (select a from t)))", 5),
    ],
)
def test_views_and_queries_in_from_use_names(db: Session, query: str, names: int) -> None:
    """Each of their columns without a name takes the next number."""
    db.sql(f"create view v as select {query}")
    assert db.names("select 7 + 7 from v") == [f"COLUMN_{names + 1}"]
    assert db.names(f"select 7 + 7 from (select {query})") == [f"COLUMN_{names + 1}"]
    assert db.names("select 7 + 7 from v as x, t, v as y") == [f"COLUMN_{2 * names + 1}"]


def test_names_of_joins_in_brackets(db: Session) -> None:
    """Tarantool names the columns after it has merged the inner join."""
    joined = "(t join (t as v left join t as w on v.id = w.id) on t.id = v.id) join t as x on 1 = 1"
    assert db.names(f"select t.id, v.id from {joined}") == ["T.ID", "V.ID"]
