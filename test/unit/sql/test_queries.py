# ruff: noqa: E501  a message is one line
"""Queries have Tarantool's rows, names and types of columns."""

from __future__ import annotations

import pytest

from .conftest import Session


@pytest.fixture
def filled(db: Session) -> Session:
    db.sql("create table t (id int primary key, a int, s text)")
    db.sql("insert into t values (1, 10, 'one'), (2, 20, 'two'), (3, 10, 'three'), (4, null, null)")
    return db


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("select id from t where a = 10 order by id desc", [[3], [1]]),
        ("select id from t where id > 1 and id <= 3", [[2], [3]]),
        ("select id from t where id between 2 and 3", [[2], [3]]),
        ("select id from t where a is null", [[4]]),
        ("select id from t where s like 't%'", [[2], [3]]),
        ("select id from t where id in (1, 4, 9)", [[1], [4]]),
        ("select id from t where a in (select a from t where id = 1)", [[1], [3]]),
        ("select a, count(*) from t group by a order by a", [[None, 1], [10, 2], [20, 1]]),
        ("select a from t group by a having count(*) > 1", [[10]]),
        ("select distinct a from t order by a desc", [[20], [10], [None]]),
        ("select x.id, y.id from t as x join t as y on x.a = y.a and x.id < y.id", [[1, 3]]),
        ("select x.id, y.id from t as x left join t as y on x.id = y.id + 3 order by 1", [[1, None], [2, None], [3, None], [4, 1]]),
        ("select id from t order by id limit 2 offset 1", [[2], [3]]),
        ("select 1 union select 1 union all select 2", [[1], [2]]),
        ("select 1 union select 'a' union select true", [[True], [1], ["a"]]),
        ("select 1 except select 1", []),
        ("with c as (select 1 as x) select x + 1 from c", [[2]]),
        ("with recursive c(x) as (values (1) union all select x + 1 from c where x < 5) select sum(x) from c", [[15]]),
        (
            "with recursive o(n) as (with i as (select 1 as x) select x from i union all select n * 9 from o, i"
            " where n < 80) select n from o",
            [[1], [9], [81]],
        ),
        ("select (select max(id) from t), exists (select 1 from t where id = 9)", [[4, False]]),
        ("values (1, 'a'), (2, 'b')", [[1, "a"], [2, "b"]]),
        ("select case a when 10 then 'x' else 'y' end from t where id < 3", [["x"], ["y"]]),
        ("select sum(a), avg(a), count(a), min(s), total(a), group_concat(id) from t", [[40, 40 / 3, 3, "one", 40.0, "1,2,3,4"]]),
    ],
)  # fmt: skip
def test_a_query_gives_its_rows(filled: Session, text: str, rows: list[list[object]]) -> None:
    assert filled.sql(text) == rows


def test_columns_without_a_name_are_numbered(filled: Session) -> None:
    assert filled.names('select id, a as "x", a + 1, 5, count(*) from t') == [
        "ID",
        "x",
        "COLUMN_1",
        "COLUMN_2",
        "COLUMN_3",
    ]


def test_names_have_their_table_on_demand(filled: Session) -> None:
    """With full_column_names names begin with the table's own name, not its alias."""
    filled.sql('set session "sql_full_column_names" = true')
    assert filled.names("select y.id, a as x from t as y") == ["T.ID", "X"]
    assert filled.names("select * from t") == ["T.ID", "T.A", "T.S"]


def test_types_are_those_of_the_analysis(filled: Session) -> None:
    text = "select id, id + 0.5, s || 'x', id = 1, null, x'00', max(id), cast(id as string), 'a' like 'b' from t"
    expected = ["integer", "double", "string", "boolean", "scalar", "varbinary", "scalar", "string", "integer"]
    assert filled.types(text) == expected


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("select * from nosuch", "NO_SUCH_SPACE", "Space 'NOSUCH' does not exist"),
        ("select nosuch from t", "SQL_CANT_RESOLVE_FIELD", "Can\u2019t resolve field 'NOSUCH'"),
        ("select id from t as a, t as b", "SQL_PARSER_GENERIC", "ambiguous column name: ID"),
        ("select * from t, t", "SQL_PARSER_GENERIC", "ambiguous column name: T.ID"),
        ("select *", "SQL_SELECT_WILDCARD", "Failed to expand '*' in SELECT statement without FROM clause"),
        ("select nosuch(1)", "NO_SUCH_FUNCTION", "Function 'NOSUCH' does not exist"),
        ("select 1 = true", "SQL_TYPE_MISMATCH", "Type mismatch: can not convert unsigned to boolean"),
        ("select 1 where 1", "SQL_TYPE_MISMATCH", "Type mismatch: can not convert 1 to boolean"),
        ("select (1, 2) = 1", "SQL_COLUMN_COUNT", "Unequal number of entries in row expression: left side has 2, but right side - 1"),
        ("select id from t limit -1", "SQL_EXECUTE", "Failed to execute SQL statement: Only positive integers are allowed in the LIMIT clause"),
        ("select id from t indexed by nosuch", "NO_SUCH_INDEX_NAME", "No index 'NOSUCH' is defined in space 'T'"),
        ("explain select nosuch from t", "SQL_CANT_RESOLVE_FIELD", "Can\u2019t resolve field 'NOSUCH'"),
        ("pragma nosuch(t)", "SQL_NO_SUCH_PRAGMA", "Pragma 'NOSUCH' does not exist"),
    ],
)  # fmt: skip
def test_a_wrong_query_says_what_is_wrong(filled: Session, text: str, code: str, message: str) -> None:
    assert filled.error(text) == (code, message)


def test_a_query_uses_the_index_of_its_condition(filled: Session) -> None:
    """A query has the same rows with any index, and uses the one of its condition."""
    filled.sql("create index by_a on t (a, id)")
    filled.sql("create index by_s on t (s)")
    assert filled.sql("select id from t where a = 10 and id > 1") == [[3]]
    assert filled.sql("select id from t where a = 10 order by a desc, id desc") == [[3], [1]]
    assert filled.sql("select id from t where s >= 'three' and s < 'u' order by s") == [[3], [2]]
    assert filled.sql("select id from t where a > 10.5") == [[2]]
    assert filled.sql("select id from t where a < 20 or id = 4 order by id") == [[1], [3], [4]]


def test_spaces_of_lua_are_tables_by_their_quoted_names(db: Session) -> None:
    assert db.value('select count(*) from "_space" where "name" = \'_index\'') == 1


def test_a_space_without_a_format_is_no_table(db: Session) -> None:
    from box.data.codec import pack
    from box.wire.change import Request

    db.write("_space", Request.insert(pack([600, 1, "bare", "memtx", 0, {}, []])))
    assert db.error('select * from "bare"') == ("UNSUPPORTED", "SQL does not support space without format")


def test_a_user_reads_what_he_may(db: Session) -> None:
    db.sql("create table t (id int primary key)")
    guest = db.another()
    guest.ctx.credentials = db.node.schema.guest
    message = "access to space 'T' is denied for user 'guest'"
    assert db.sql("select * from t") == []
    assert guest.error("select * from t") == ("ACCESS_DENIED", f"Read {message}")
    assert guest.error("insert into t values (1)") == ("ACCESS_DENIED", f"Write {message}")
    assert guest.error("create table u (id int primary key)")[0] == "ACCESS_DENIED"


def test_values_of_unlike_types_are_unlike_in_a_set(db: Session) -> None:
    db.sql("create table sc (id int primary key, s scalar)")
    db.sql("insert into sc values (1, true), (2, 1), (3, 'abcd'), (4, '1'), (5, false), (6, null)")
    assert db.sql("select id from sc where s in (true, 1, 'abcd')") == [[1], [2], [3]]
    assert db.sql("select id from sc where s not in (true, 1, 2)") == [[3], [4], [5]]
    assert db.error("select id from sc where s in (1)")[0] == "SQL_TYPE_MISMATCH"


@pytest.mark.parametrize("number", ["-4", "+4", "7", "- -7"])
def test_a_constant_that_is_sorted_is_no_place_of_a_column(db: Session, number: str) -> None:
    db.sql("create table q (id int primary key)")
    db.sql("insert into q values (1), (2)")
    value = db.value(f"select {number}")
    assert db.sql(f"select {number} as z from q order by z") == [[value], [value]]
    assert db.sql(f"select distinct {number} from q order by 1") == [[value]]
    assert db.sql(f"select count(*), {number} as z from q group by z") == [[2, value]]


def test_a_negative_number_is_no_key_of_an_index_of_unsigned_values(db: Session) -> None:
    db.sql("create table q (id int primary key, a unsigned, b unsigned)")
    db.sql("create index q_a on q (a)")
    db.sql("insert into q values (1, 1, 1)")
    assert db.sql("select id from q where b > -3") == [[1]]
    for operator in (">", ">=", "<", "<="):
        problem = db.error(f"select id from q where a {operator} -3")
        assert problem == ("SQL_TYPE_MISMATCH", "Type mismatch: can not convert -3 to unsigned")
    problem = db.error("select id from q where a = -3")
    assert problem[1] == "Supplied key type of part 0 does not match index part type: expected unsigned"


def test_views_of_system_spaces_are_read_by_their_indexes(db: Session) -> None:
    assert db.sql("""select "name" from "_vspace" where "id" = 281""") == [["_vspace"]]
    assert db.sql("""select "id" from "_vspace" where "name" = '_vspace'""") == [[281]]
    assert db.value("""select count(*) from "_vspace" """) == db.value("""select count(*) from "_space" """)


def test_numbers_of_columns_have_signs_and_31_bits(db: Session) -> None:
    """A number in ORDER BY or GROUP BY is that of a column with any signs. One of more than 31 bits is a value, which
    sorts nothing.
    """
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
    db.sql("INSERT INTO t VALUES (1, 8), (2, 7), (3, 9)")
    assert db.sql("SELECT id, n FROM t ORDER BY +2") == [[2, 7], [1, 8], [3, 9]]
    assert db.sql("SELECT id, n FROM t ORDER BY - -2 DESC") == [[3, 9], [1, 8], [2, 7]]
    assert db.sql("SELECT id, n FROM t ORDER BY 2147483648") == [[1, 8], [2, 7], [3, 9]]
    assert db.sql("SELECT count(*), n FROM t GROUP BY +2") == [[1, 7], [1, 8], [1, 9]]
    text = "Error at ORDER BY in place 1: term out of range - should be between 1 and 2"
    for number in ("+3", "-(+1)", "2147483647"):
        assert db.error(f"SELECT id, n FROM t ORDER BY {number}")[1] == text


def test_two_signs_are_no_comment(db: Session) -> None:
    assert db.sql("SELECT - -2.5, - - 2.5, -(-1e300), 1 - -2.5") == [[2.5, 2.5, 1e300, 3.5]]
