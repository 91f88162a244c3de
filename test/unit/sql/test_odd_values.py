"""Values for which Tarantool 2.8.1 has rules of its own."""

from __future__ import annotations

import pytest

from .conftest import Session, Start


@pytest.fixture
def db(start: Start) -> Session:
    return start()


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("-4 % 2", -32),
        ("-4 % 2 = 0", False),
        ("-4 % 2 < 0", True),
        ("(-4 % 2) + 5", 5),
        ("abs(-4 % 2)", 0),
        ("cast(-4 % 2 as text)", "0"),
        ("coalesce(-4 % 2, 1)", -32),
        ("cast(-0.5 as integer)", -32),
        ("cast(-0.5 as unsigned)", -32),
        ("cast(-0.5 as integer) + 1", 1),
        ("cast(cast(-0.5 as integer) as string)", "0"),
        ("cast(-0.5 as integer) = 0", False),
        ("cast(-1.0 as integer)", -1),
        ("cast('-0' as integer)", 0),
        ("-3 % 2", -1),
        ("replace('abc', '', null)", "abc"),
        ("unicode(x'ff')", 0xFFFD),
    ],
)
def test_value(db: Session, expression: str, value: object) -> None:
    assert db.value(f"select {expression}") == value


def test_bad_argument_of_randomblob(db: Session) -> None:
    assert db.error("select randomblob(x'31')") == (
        "SQL_TYPE_MISMATCH",
        "Type mismatch: can not convert varbinary to numeric",
    )
    assert db.error("select randomblob(9223372036854775807)")[1].endswith("string or blob too big")


def test_great_integers_sort_among_doubles(db: Session) -> None:
    db.sql("create table t (id int primary key, v scalar)")
    db.sql("insert into t values (1, 1e300), (2, 18446744073709551615), (3, 'a'), (4, 9.3e18), (5, 5)")
    assert db.sql("select id from t order by v") == [[5], [4], [2], [1], [3]]


def test_check_that_is_no_boolean(db: Session) -> None:
    db.sql("create table t (a int primary key check (a))")
    assert db.error("insert into t values (1)") == (
        "SQL_TYPE_MISMATCH",
        "Type mismatch: can not convert 1 to boolean",
    )


def test_brackets_with_an_alias(db: Session) -> None:
    db.sql("create table t (a int primary key)")
    db.sql("insert into t values (1), (2)")
    assert db.sql("select z.a from (t) as z") == [[1], [2]]
    assert db.names("select * from (t x join t y) as z") == ["A", "A_1"]


def test_stats_list_views_of_the_dictionary(db: Session) -> None:
    rows = {(row[0], row[1]): row[2:] for row in db.sql("pragma stats")}
    assert rows["_vspace", None] == [0, 639]
    assert rows["_vspace", "owner"] == [0, 200]


def test_name_of_a_numbered_parameter(db: Session) -> None:
    prepared = db.node.sql.prepare(db.ctx, "select ?, $3, :a")
    assert prepared.parameters == [None, None, "$3", ":a"]


def test_default_with_a_plus(db: Session) -> None:
    db.sql("create table t (a int primary key default +5)")
    assert db.sql("pragma table_info(t)")[0][4] == "5"


def test_great_numbers_sort_with_doubles(start: Start) -> None:
    """Integers of 2^63 and more stand among the doubles, and are equal to those of their size."""
    db = start()
    db.sql("create table t (id int primary key, n number)")
    numbers = (
        "(1, 9223372036854775808), (2, 1e19), (3, 18446744073709551615), (4, 9.3e18), (5, 1e20), (6, -1e19), (7, 5)"
    )
    db.sql(f"insert into t values {numbers}, (8, 9.223372036854775808e18), (9, null)")
    order = [9, 6, 7, 1, 8, 4, 2, 3, 5]
    assert [row[0] for row in db.sql("select id from t order by n, id")] == order
    assert [row[0] for row in db.sql("select id from t order by n desc, id desc")] == order[::-1]
    assert [row[0] for row in db.sql("select count(*) from t group by n")] == [1, 1, 1, 2, 1, 1, 1, 1]


def test_a_negative_fraction_in_a_column_of_integers(start: Start) -> None:
    """As with 2.8.1 it is stored as -32."""
    db = start()
    db.sql("create table t (id int primary key, a int)")
    db.sql("insert into t values (1, -0.5), (2, -1.5)")
    assert db.sql("select * from t") == [[1, -32], [2, -1]]


def test_texts_that_are_not_utf8(db: Session) -> None:
    """They can be constants; a pattern of LIKE is refused at such a byte only if the text matches so far."""
    assert db.value("select '\udcff'") == "\udcff"
    assert db.value("select '\udcff' || 'a'") == "\udcffa"
    assert db.value("select '\udcff' = '\udcfe'") is False
    assert db.value("select 'b' like 'a\udcff'") is False
    assert db.error("select 'ab' like 'a\udcff'")[1].endswith("LIKE pattern can only contain UTF-8 characters")


def test_the_name_of_a_parameter_may_begin_with_a_hash(db: Session) -> None:
    assert db.value("select #a", {"#a": 5}) == 5
    assert db.error("select #1") == ("SQL_SYNTAX_NEAR_TOKEN", "Syntax error at line 1 near '#1'")


def test_create_index_if_not_exists_without_its_table(db: Session) -> None:
    assert db.sql("create index if not exists i on nope (a)") == 0


def test_queries_in_limit_leave_the_names_of_columns(db: Session) -> None:
    assert db.names("select 1, 2 limit (select 1)") == ["COLUMN_1", "COLUMN_2"]


def test_foreign_keys_compare_by_the_collation_of_their_column(db: Session) -> None:
    db.sql('create table p (id int primary key, s text collate "unicode_ci" unique)')
    db.sql('create table c (id int primary key, s text collate "unicode_ci" references p (s) on delete cascade)')
    db.sql("insert into p values (1, 'Abc'), (2, 'b')")
    db.sql("insert into c values (1, 'aBC'), (2, 'B')")
    db.sql("delete from p where id = 1")
    assert db.sql("select * from c") == [[2, "B"]]


def test_update_or_ignore_leaves_rows_whose_new_key_is_there(db: Session) -> None:
    """As in Tarantool, the key of the row itself counts, and so does nil."""
    db.sql("create table t (id int primary key, n int unique, k int)")
    db.sql("insert into t values (1, 1, 1), (2, 2, 2), (3, null, 3)")
    assert db.sql("update or ignore t set n = 9 where id > 1") == 1
    assert db.sql("update or ignore t set n = n, k = 0") == 0
    assert db.sql("select * from t") == [[1, 1, 1], [2, 9, 2], [3, None, 3]]


def test_sorted_parts_of_a_compound_query_need_texts_for_a_collation(db: Session) -> None:
    db.sql('create table t (id int primary key, s text collate "unicode_ci")')
    text = "COLLATE clause can't be used with non-string arguments"
    assert db.error("select s from t union select id from t order by 1") == ("SQL_PARSER_GENERIC", text)
    assert db.sql("select s from t union select id from t") == []
    assert db.sql('select s from t union select id from t order by 1 collate "unicode"') == []
    assert db.sql("select s, id from t union all select id, id from t order by 2") == []


def test_a_view_gets_no_unique_constraint(db: Session) -> None:
    db.sql("create view v as select 1 as a")
    assert db.error("alter table v add constraint u unique (a)")[1].endswith("views can not be indexed")


@pytest.mark.parametrize(
    ("text", "pattern", "escape", "is_alike"),
    [
        ("%", "%", "%", True),
        ("a", "%%", "%", True),
        ("bcd", "b%", "%", True),
        ("a", "_", "_", False),
        ("_", "__", "_", True),
        ("a%", "ax%", "x", True),
        ("ab", "ax%", "x", False),
    ],
)
def test_the_escape_of_like(db: Session, text: str, pattern: str, escape: str, is_alike: bool) -> None:
    """A % stands for any text even if it is the escape."""
    assert db.value("select ? like ? escape ?", text, pattern, escape) is is_alike
