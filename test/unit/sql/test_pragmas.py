"""PRAGMA shows facts of the dictionary as rows; EXPLAIN shows how a statement finds its rows."""

from __future__ import annotations

import pytest

from box.sql.pragmas import log_estimate

from .conftest import Session


@pytest.fixture
def tables(db: Session) -> Session:
    db.sql('create table t (id int primary key, a int default 5, s text not null collate "unicode", unique (s, a))')
    db.sql("create index ta on t (a, id)")
    db.sql(
        "create table u (id int primary key, r int references t on delete cascade,"
        " constraint k foreign key (id) references t)"
    )
    return db


def test_columns_of_a_table(tables: Session) -> None:
    assert tables.sql("pragma table_info(t)") == [
        [0, "ID", "integer", 1, None, 1],
        [1, "A", "integer", 0, "5", 0],
        [2, "S", "string", 1, None, 0],
    ]
    assert tables.names("pragma table_info(t)") == ["cid", "name", "type", "notnull", "dflt_value", "pk"]
    assert tables.types("pragma table_info") == ["integer", "text", "text", "integer", "text", "integer"]
    tables.sql("create view v as select a from t")
    assert tables.sql("pragma table_info(v)") == [[0, "A", "integer", 0, None, 1]]


def test_indexes_of_a_table(tables: Session) -> None:
    assert tables.sql("pragma index_list(t)") == [[0, "pk_unnamed_T_1", 1], [1, "unique_unnamed_T_2", 1], [2, "TA", 0]]
    assert tables.sql("pragma index_info(t.ta)") == [
        [0, 1, "A", 0, "BINARY", "integer"],
        [1, 0, "ID", 0, "BINARY", "integer"],
    ]
    assert tables.sql('pragma index_info(t."unique_unnamed_T_2")')[0] == [0, 2, "S", 0, "unicode", "string"]


def test_foreign_keys_of_a_table(tables: Session) -> None:
    """The foreign keys of CREATE TABLE come in their order, after one that ALTER TABLE adds. The two action columns are
    swapped, as in Tarantool.
    """
    tables.sql("alter table u add constraint late foreign key (r) references t")
    assert tables.sql("pragma foreign_key_list(u)") == [
        [0, 0, "T", "R", "ID", "no_action", "no_action", "NONE"],
        [1, 0, "T", "R", "ID", "cascade", "no_action", "NONE"],
        [2, 0, "T", "ID", "ID", "no_action", "no_action", "NONE"],
    ]


def test_collations_and_sizes(tables: Session) -> None:
    assert tables.sql("pragma collation_list")[:4] == [[0, "none"], [1, "unicode"], [2, "unicode_ci"], [3, "binary"]]
    tables.sql("insert into t values (1, 2, 'a'), (2, 3, 'b')")
    rows = [row for row in tables.sql("pragma stats") if row[0] == "T"]
    assert rows == [
        ["T", None, 5, 10],
        ["T", "pk_unnamed_T_1", 5, 200],
        ["T", "unique_unnamed_T_2", 5, 200],
        ["T", "TA", 5, 200],
    ]
    assert [log_estimate(count) for count in (0, 1, 2, 10, 1000, 1048576)] == [0, 0, 10, 33, 99, 200]


@pytest.mark.parametrize(
    "text",
    ["table_info", "table_info(nosuch)", "index_info(t)", "index_info(t.nosuch)", "index_list", "foreign_key_list"],
)
def test_what_is_missing_has_no_rows(tables: Session, text: str) -> None:
    assert tables.sql(f"pragma {text}") == []


def test_an_unknown_pragma(db: Session) -> None:
    error = ("SQL_NO_SUCH_PRAGMA", "Pragma 'NOSUCH' does not exist")
    assert db.error("pragma nosuch") == error
    assert db.error('pragma "TABLE_INFOS"') == ("SQL_NO_SUCH_PRAGMA", "Pragma 'TABLE_INFOS' does not exist")


def test_a_prepared_pragma_has_columns(tables: Session) -> None:
    prepared = tables.node.sql.prepare(tables.ctx, "pragma index_list(t)")
    assert prepared.fields is not None
    assert [field.name for field in prepared.fields] == ["seq", "name", "unique"]


@pytest.mark.parametrize(
    ("text", "details"),
    [
        ("select * from t where id > 3 and id <= 5", ["SEARCH TABLE T USING PRIMARY KEY (ID>? AND ID<=?)"]),
        ("select * from t order by s", ["SCAN TABLE T", "USE TEMP B-TREE FOR ORDER BY"]),
        ("select * from t where a = 1 and id = ?", ["SEARCH TABLE T USING PRIMARY KEY (ID=?)"]),
        ("update t set a = a + 1 where id = 3", ["SEARCH TABLE T USING PRIMARY KEY (ID=?)"]),
        ("delete from t", ["SCAN TABLE T"]),
        ("insert into t select id, a, s from t", ["SCAN TABLE T"]),
        ("drop index if exists nothing on t", []),
    ],
)  # fmt: skip
def test_the_plan_of_a_statement(tables: Session, text: str, details: list[str]) -> None:
    rows = tables.sql(f"explain query plan {text}")
    assert [row[3] for row in rows] == details
    assert tables.names(f"explain query plan {text}") == ["selectid", "order", "from", "detail"]


def test_a_step_names_the_step_around_it(tables: Session) -> None:
    rows = tables.sql("explain query plan select * from t left join (select id from u limit 3) as x on x.id = t.id")
    assert rows == [
        [1, 0, 0, "MATERIALIZE SUBQUERY"],
        [2, 0, 1, "SCAN TABLE U"],
        [3, 1, 0, "SCAN TABLE T"],
        [4, 2, 0, "SCAN SUBQUERY LEFT-JOIN"],
    ]


def test_the_program_of_a_statement(tables: Session) -> None:
    rows = tables.sql("explain select 1")
    assert rows[0][1] == "Init"
    assert tables.names("explain select 1") == ["addr", "opcode", "p1", "p2", "p3", "p4", "p5", "comment"]
    assert tables.types("explain select 1") == [
        "integer",
        "text",
        "integer",
        "integer",
        "integer",
        "text",
        "text",
        "text",
    ]
    assert tables.sql("select * from t") == []


def test_explain_changes_nothing(tables: Session) -> None:
    tables.sql("explain insert into t values (1, 2, 'a')")
    assert tables.sql("select * from t") == []
    assert tables.error("explain select nosuch from t")[0] == "SQL_CANT_RESOLVE_FIELD"
