"""Of several errors in a statement Tarantool's first one is raised, and what it does not evaluate raises none."""

from __future__ import annotations

import pytest

from .conftest import Session, Start


@pytest.fixture
def table(start: Start) -> Session:
    db = start()
    db.sql("create table t (a int primary key, b boolean, s text, n int unique)")
    db.sql("insert into t values (1, true, 'x', 1), (2, false, 'y', 2), (3, null, 'z', null)")
    return db


@pytest.mark.parametrize(
    ("condition", "wrong"),
    [
        ("true or s", None),
        ("s or true", "x"),
        ("b or s", "y"),
        ("not (b or s)", "y"),
        ("a > 0 or s", None),
        ("(a > 5 and s) or a = 1", None),
        ("4.5 or 1", "4.5"),
    ],
)
def test_conditions_are_evaluated_from_the_left(table: Session, condition: str, wrong: str | None) -> None:
    for query in (
        f"select a from t where {condition}",
        f"select case when {condition} then 1 else 2 end from t",
        f"select a from t group by a, b, s having {condition}",
    ):
        if wrong is None:
            table.sql(query)
        else:
            assert table.error(query) == (
                "SQL_TYPE_MISMATCH",
                f"Type mismatch: can not convert {wrong} to boolean",
            )


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("select n1 from t where n2 limit n3", "N3"),
        ("select n1 from t join t as u on n2 where n3", "N1"),
        ("select 1 from t join t as u on n2 where n3", "N3"),
        ("select 1 from t where n2 group by n3", "N2"),
        ("select case n1 when n2 then n3 end", "N1"),
        ("select n1 + 1, n2 from t", "N1"),
        ("select a as q from t union select n as w from t order by w", "W"),
    ],
)
def test_first_unknown_name(table: Session, query: str, name: str) -> None:
    assert table.error(query) == ("SQL_CANT_RESOLVE_FIELD", f"Can\u2019t resolve field '{name}'")


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("create table t (a int) key", "CREATE_SPACE", "Failed to create space 'T': PRIMARY KEY missing"),
        (
            "create view t (a, b) as select 1 2",
            "CREATE_SPACE",
            "Failed to create space 'T': number of aliases doesn't match provided columns",
        ),
        ("create table t (a text primary key collate nope)", "NO_SUCH_COLLATION", "Collation 'NOPE' does not exist"),
        ("drop table nope nope", "NO_SUCH_SPACE", "Space 'NOPE' does not exist"),
        ("pragma nope = 1", "SQL_NO_SUCH_PRAGMA", "Pragma 'NOPE' does not exist"),
        ("update t set (a, n) = 2, 3)", "SQL_PARSER_GENERIC", "2 columns assigned 1 values"),
        (
            "select a from t where a between '1' and '2'",
            "SQL_TYPE_MISMATCH",
            "Type mismatch: can not convert 1 to integer",
        ),
        (
            "select min(a) as m from t group by a having max(m) < 5",
            "SQL_PARSER_GENERIC",
            "misuse of aliased aggregate M",
        ),
        (
            "select 1 from t limit 18446744073709551615 offset 1",
            "SQL_EXECUTE",
            "Failed to execute SQL statement: sum of LIMIT and OFFSET values should not result in integer overflow",
        ),
        (
            "select 0x10000000000000000",
            "HEX_LITERAL_MAX",
            "Hex literal 0x10000000000000000 length 17 exceeds the supported limit (16)",
        ),
        (
            "with recursive w(x) as (select 1 union all select (select x from w)) select x from w",
            "SQL_PARSER_GENERIC",
            "recursive reference in a subquery: W",
        ),
        (
            "create trigger x before insert on t for each row begin delete from t not indexed; end",
            "SQL_SYNTAX_WITH_POS",
            "Syntax error at line 1 at or near position 81: the NOT INDEXED BY clause is not allowed on UPDATE or"
            " DELETE statements within triggers",
        ),
        ("create table x (a int collate nope, b foo)", "NO_SUCH_COLLATION", "Collation 'NOPE' does not exist"),
        ("create table x (a text collate nope null not null)", "NO_SUCH_COLLATION", "Collation 'NOPE' does not exist"),
        ("create table x (a int collate nope) with engine = 1", "NO_SUCH_COLLATION", "Collation 'NOPE' does not exist"),
        ("create table x (primary key (a) foo", "UNSUPPORTED", "SQL does not support space without format"),
        (
            "create table t (a int default (@x), b foo)",
            "CREATE_SPACE",
            "Failed to create space 'T': default value of column 'A' is not constant",
        ),
        (
            "create table x (a int default ((select 1)))",
            "CREATE_SPACE",
            "Failed to create space 'X': default value of column 'A' is not constant",
        ),
        (
            "alter table t add column a int default (a)",
            "CREATE_SPACE",
            "Failed to create space 'T': default value of column 'A' is not constant",
        ),
        ("create index i on t (a, nope + 1)", "SQL_CANT_RESOLVE_FIELD", "Can\u2019t resolve field 'NOPE'"),
        ("create index i on t (a + 1, nope)", "UNSUPPORTED", "Tarantool does not support functional indexes"),
        ("create index i on t (nope(a))", "NO_SUCH_FUNCTION", "Function 'NOPE' does not exist"),
        (
            "create index i on t (?)",
            "INDEX_DEF_UNSUPPORTED",
            "Parameter markers are prohibited in an index definition",
        ),
        ("create table x (a int, unique (nope(a)))", "NO_SUCH_FUNCTION", "Function 'NOPE' does not exist"),
        (
            'alter table t add constraint "" unique (a)',
            "IDENTIFIER",
            "Invalid identifier '' (expected printable symbols only or it is too long)",
        ),
        (
            'create view v ("") as select 1',
            "IDENTIFIER",
            "Invalid identifier '' (expected printable symbols only or it is too long)",
        ),
        *(
            (text, "HEX_LITERAL_MAX", "Hex literal 0x10000000000000000 length 17 exceeds the supported limit (16)")
            for text in (
                "insert into t values (0x10000000000000000, 1, 'x')",
                "update t set a = 0x10000000000000000 where a = 1",
                "delete from t where a = 0x10000000000000000",
            )
        ),
        ("select 1 union all values (1, 2)", "SQL_PARSER_GENERIC", "all VALUES must have the same number of terms"),
        (
            "values (1, 2) union all select 1 union select 1, 2",
            "SQL_PARSER_GENERIC",
            "SELECTs to the left and right of UNION do not have the same number of result columns",
        ),
        ("select 1 from t where n1 + 1 = n2", "SQL_CANT_RESOLVE_FIELD", "Can\u2019t resolve field 'N1'"),
        ("select (1, nope)", "SQL_CANT_RESOLVE_FIELD", "Can\u2019t resolve field 'NOPE'"),
        (
            "select 1 = (nope, 2)",
            "SQL_COLUMN_COUNT",
            "Unequal number of entries in row expression: left side has 1, but right side - 2",
        ),
        (
            "select a from t having count(nope) > 0",
            "SQL_EXECUTE",
            "Failed to execute SQL statement: HAVING argument must appear in the GROUP BY clause or be used in an"
            " aggregate function",
        ),
        (
            "create table x (a int, b int, primary key (a autoincrement, b autoincrement))",
            "SQL_SYNTAX_WITH_POS",
            "Syntax error at line 1 at or near position 76: table must feature at most one AUTOINCREMENT field",
        ),
        (
            "create table x (a int primary key check (? > 0))",
            "CREATE_CK_CONSTRAINT",
            "Failed to create check constraint 'ck_unnamed_X_1': At line 1 at or near position 3: bindings are not"
            " allowed in DDL",
        ),
    ],
)
def test_errors_before_others(table: Session, text: str, code: str, message: str) -> None:
    assert table.error(text) == (code, message)


def test_count_of_two_arguments_is_refused_by_the_first_row(table: Session) -> None:
    assert table.value("select count(a, n) from t where a < 0") == 0
    assert table.error("select count(a, n) from t") == (
        "FUNC_WRONG_ARG_COUNT",
        "Wrong number of arguments is passed to COUNT(): expected 0 or 1, got 2",
    )


def test_a_collation_is_looked_up_when_it_is_used(table: Session) -> None:
    assert table.value("select s collate \"nope\" || '!' from t where a = 1") == "x!"
    assert table.value('select length(s collate "nope") from t where a = 1') == 1
    for query in ("select s = s {} from t", "select upper(s {}) from t", "select distinct s {} from t"):
        assert table.error(query.format('collate "nope"'))[0] == "NO_SUCH_COLLATION"


def test_rows_before_one_that_fails(table: Session) -> None:
    """NOT NULL ON CONFLICT FAIL keeps them; a foreign key undoes the whole statement, whatever the OR clause says."""
    table.sql("create table f (a int primary key, b int not null on conflict fail)")
    table.error("insert into f values (1, 1), (2, null)")
    assert table.sql("select a from f") == [[1]]
    table.sql("create table c (a int primary key, t int references t)")
    table.error("insert or fail into c values (1, 1), (2, 9)")
    assert table.sql("select a from c") == []


@pytest.mark.parametrize(
    ("event", "step", "statement", "message"),
    [
        ("insert", "insert into nope values (1)", "insert into t values (9, 9)", "Space 'NOPE' does not exist"),
        ("update", "update t set n = nope", "update t set n = 1 where false", "resolve field 'NOPE'"),
        ("delete", "select new.a", "delete from t where false", "Field 'A' was not found in space 'NEW' format"),
        (
            "delete",
            "delete from t where old.x = 1",
            "replace into t values (9, 9)",
            "Field 'X' was not found in space 'OLD'",
        ),
    ],
)
def test_steps_of_triggers_are_checked_though_no_row_fires_them(
    start: Start, event: str, step: str, statement: str, message: str
) -> None:
    db = start()
    db.sql("create table t (a int primary key, n int)")
    db.sql(f"create trigger x after {event} on t for each row when false begin {step}; end")
    assert message in db.error(statement)[1]
    db.sql("drop trigger x")
    db.sql(f"create trigger x after {event} on t for each row begin select 1; end")
    db.sql(statement)


def test_triggers_that_fire_each_other_are_checked_once(start: Start) -> None:
    db = start()
    db.sql("create table t (a int primary key)")
    db.sql("create table u (a int primary key)")
    db.sql("create trigger x after delete on t for each row begin delete from u; end")
    db.sql("create trigger y after delete on u for each row begin delete from t; delete from nope; end")
    for _ in range(2):
        assert db.error("delete from t where false") == ("NO_SUCH_SPACE", "Space 'NOPE' does not exist")


@pytest.mark.parametrize(
    ("text", "params", "message"),
    [
        ("SELECT * FROM nosuch WHERE a = ?", (1, 2), "Space 'NOSUCH' does not exist"),
        ("SELECT nosuch FROM t WHERE a = :b", ({":a": 1},), "resolve field 'NOSUCH'"),
        ("UPDATE nosuch SET a = ?", ({"@a": 1},), "Space 'NOSUCH' does not exist"),
        ("INSERT INTO t VALUES (?)", (1, 2), "table T has 2 columns but 1 values were supplied"),
        ("EXPLAIN SELECT nosuch FROM t", (1,), "resolve field 'NOSUCH'"),
        ("DROP TABLE nosuch", (1,), "Space 'NOSUCH' does not exist"),
        ("PRAGMA nosuch", (1,), "Pragma 'NOSUCH' does not exist"),
        ("DROP INDEX nosuch ON t", (1,), "The number of parameters is too large"),
        ("SELECT a FROM t", ({":a": 1},), "Parameter ':a' was not found in the statement"),
        ("SELECT nosuch FROM t", ([1],), "Bind value type ARRAY for parameter 1 is not supported"),
    ],
)
def test_parameters_without_a_place_are_errors_after_those_of_the_statement(
    start: Start, text: str, params: tuple[object, ...], message: str
) -> None:
    db = start()
    db.sql("create table t (a int primary key, n int)")
    assert message in db.error(text, *params)[1]


@pytest.mark.parametrize(
    ("call", "expected", "count"),
    [
        ("round(a, 0, 1)", "1 or 2", 3),
        ("substr(s)", "1 or 2", 1),
        ("greatest(a)", "at least two", 1),
        ("least()", "at least two", 0),
    ],
)
def test_some_functions_count_their_arguments_when_they_are_called(
    db: Session, call: str, expected: str, count: int
) -> None:
    db.sql("create table u (a int primary key, s text)")
    assert db.sql(f"select {call} from u") == []
    db.sql("insert into u values (1, 'x')")
    assert db.sql(f"select {call} from u where a > 1") == []
    name = call.partition("(")[0].upper()
    text = f"Wrong number of arguments is passed to {name}(): expected {expected}, got {count}"
    assert db.error(f"select {call} from u") == ("FUNC_WRONG_ARG_COUNT", text)


def test_constant_calls_of_a_condition_run_before_there_is_a_row(db: Session) -> None:
    db.sql("create table u (a int primary key, s text)")
    text = "Wrong number of arguments is passed to SUBSTR(): expected 1 or 2, got 0"
    for query in (
        "select a from u where s = substr()",
        "select a from u where a > 1 and (s = 'x' or substr() is null)",
    ):
        assert db.error(query) == ("FUNC_WRONG_ARG_COUNT", text)
    assert db.sql("select substr() from u where s = 'x'") == []


@pytest.mark.parametrize(
    ("clauses", "name"),
    [
        ("where n2 group by n4 having n5 order by n3", "N5"),
        ("where n2 group by n4 having count(n5) > 1", "N5"),
        ("where n2 group by n4 order by n3", "N2"),
        ("where n2 order by count(*)", "N2"),
        ("where count(*) > 1 group by a having n5", "N5"),
        ("group by n4 order by n3", "N3"),
        ("group by 7 order by n3", "N3"),
        ("group by count(*) order by n3", "N3"),
    ],
)
def test_clauses_are_looked_at_in_one_order(table: Session, clauses: str, name: str) -> None:
    """After the result columns HAVING is looked at, then WHERE, ORDER BY and GROUP BY."""
    assert table.error(f"select a from t {clauses}")[1] == f"Can\u2019t resolve field '{name}'"


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("select n1(1) from nosuch", "NOSUCH"),
        ("select n1((select 1 from nosuch))", "NOSUCH"),
        ("select n1, (select 1 from nosuch) from t", "NOSUCH"),
        ("select n1 from t where exists (select 1 from nosuch)", "NOSUCH"),
        ("select n1 from t order by (select 1 from nosuch)", "NOSUCH"),
        ("select * from nosuch limit (select 1 from other)", "NOSUCH"),
        ("select n1 from t where n2 in (select 1 from nosuch)", "NOSUCH"),
        ("select n1 from t union select 1 from nosuch", "NOSUCH"),
        ("select 1 from nosuch union select 1 from other", "OTHER"),
        ("with q as (select n1 from nosuch) select n2 from q", "NOSUCH"),
        ("with q as (select 1 from nosuch) select n2, (select 1 from q) from t", "NOSUCH"),
        ("select position('h' in nosuch) from t", "NOSUCH"),
        ("insert into t select n1 from t where 1 in (select 1 from nosuch)", "NOSUCH"),
        ("select * from (values (1, 2), (3)), nosuch", "NOSUCH"),
        ("insert into nosuch values (1, 2), (3)", "NOSUCH"),
        ("select * from nosuch(1)", "NOSUCH"),
        ("select 1 in nosuch(1, 2)", "NOSUCH"),
        ("with p as (select 1 from other), q as (select 1 from nosuch) select 1 from p, q", "NOSUCH"),
        ("with p as (select 1 from other) select 1, (select 1 from nosuch) from p", "NOSUCH"),
        ("with p as (select 1 from other) select 1 from (select 1 from p), nosuch", "NOSUCH"),
        ("with p (x) as (select * from nosuch) select 1 from p", "NOSUCH"),
        ("create trigger g after insert on nosuch for each row begin garbage", "NOSUCH"),
        ("create trigger g after insert on nosuch for each row", "NOSUCH"),
        ("create trigger g after insert on nosuch for each row when a = 1 begin select 1 end", "NOSUCH"),
    ],
)
def test_tables_are_looked_up_before_other_names(table: Session, query: str, name: str) -> None:
    assert table.error(query) == ("NO_SUCH_SPACE", f"Space '{name}' does not exist")


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("with q as (select 1 from nosuch) select n1 from t", "Can\u2019t resolve field 'N1'"),
        ("with t as (select 1) select * from t(1)", "'T' is not a function"),
        ("select 1 in t(1)", "'T' is not a function"),
        ("with p (x, y) as (select * from nosuch) select 1 from p", "table P has 1 values for 2 columns"),
        ("with p (x, y) as (select 1) select 1 from p, nosuch", "table P has 1 values for 2 columns"),
        ("values (n1), (n2)", "Can\u2019t resolve field 'N2'"),
        ("select count(distinct a, b), n1 from t", "Can\u2019t resolve field 'N1'"),
        ("select count(distinct a, b) from t order by n1", "Can\u2019t resolve field 'N1'"),
        ("select count(distinct a, b) from t", "DISTINCT aggregates must have exactly one argument"),
        ("select a from t group by a having count(distinct) > 1", "DISTINCT aggregates must have exactly one argument"),
        ("select n0 from t left join (t x join t y on n1 = 1) on n2 = 1", "Can\u2019t resolve field 'N1'"),
        ("select n0 from (t x join t y on n1 = 1) join t on n2 = 1", "Can\u2019t resolve field 'N0'"),
        ("create trigger g after insert on t for each row begin garbage", "Syntax error at line 1 near 'garbage'"),
        ("create trigger g after insert on nosuch for each row when garbage(", "Syntax error at line 1 near '('"),
        ("create table t (id int primary key, id int)", "Space 'T' already exists"),
        ("select n1 from t where exists (select 1 from t(n2))", "'T' is not a function"),
        ("select n1 in (select n2 from t) from t", "Can\u2019t resolve field 'N2'"),
        ("values (n1(1)), (1, 2)", "Function 'N1' does not exist"),
        ("values (1, 2), (n1)", "Can\u2019t resolve field 'N1'"),
        ("values (1, 2), (3)", "all VALUES must have the same number of terms"),
        ("insert into t(a) values (1, 2), (3)", "all VALUES must have the same number of terms"),
        ("insert into t (a, n) default values", "0 values for 2 columns"),
        ("insert into t values (1), (2, 3)", "all VALUES must have the same number of terms"),
        ("insert into t values (5, 6), (n1())", "Function 'N1' does not exist"),
        (
            "values (1, 2), (3), (default)",
            "At line 1 at or near position 22: keyword 'default' is reserved. Please use double quotes if 'default' "
            "is an identifier.",
        ),
    ],
)
def test_first_errors(table: Session, query: str, text: str) -> None:
    assert table.error(query)[1] == text


def test_tables_with_one_alias(start: Start) -> None:
    """Only a name that both have is ambiguous."""
    db = start()
    assert db.sql("select * from (select 42 x) t, (select 84 y) t") == [[42, 84]]
    assert db.sql("select t.*, t.x from (select 42 x) t, (select 84 y) t") == [[42, 84, 42]]
    error = "SQL_PARSER_GENERIC", "ambiguous column name: T.B"
    assert db.error("select * from (select 1 a, 2 b) t, (select 3 c, 4 b) t") == error


def test_order_by_a_name_of_a_star(start: Start) -> None:
    db = start()
    db.sql("create table t (id int primary key, a int)")
    db.sql("create table u (id int primary key, b int)")
    assert db.error("select * from t union select * from u order by b")[1] == "Can\u2019t resolve field 'B'"
    assert db.sql("select * from t union select * from u order by a") == []


@pytest.mark.parametrize(
    ("query", "is_advised"),
    [
        ("select 1, current", True),
        ("select a x, current", True),
        ("select *, current", True),
        ("select 'a' x, current", True),
        ("select 1 x from t, current", True),
        ("select 1 x, current", False),
        ("select 1 as x, current", False),
        ("select null 'x', 2 y, current", False),
        ("select 1 x, -current", False),
        ("select 1 x, f(current", False),
        ("select 1 x, f(1) + current", True),
        ("select 1 x, cast(2 as current", False),
    ],
)
def test_advice_to_quote(table: Session, query: str, is_advised: bool) -> None:
    """An alias after a constant is nothing optional for Tarantool's parser."""
    text = table.error(query)[1]
    assert text.endswith("keyword 'current' is reserved. Please use double quotes if 'current' is an identifier.") is (
        is_advised
    )
    assert is_advised or text == "Syntax error at line 1 near 'current'"


def test_a_hexadecimal_number_ends_before_other_letters(table: Session) -> None:
    assert table.names("select 0x1L, 0xfg") == ["L", "G"]
    assert table.sql("select 0x1L, 0xfg") == [[1, 15]]
    for text in ("0x", "0xg", "1L", "1.5L"):
        assert table.error(f"select {text}") == (
            "SQL_UNKNOWN_TOKEN",
            f"At line 1 at or near position 8: unrecognized token '{text}'",
        )


def test_the_first_integer_that_is_too_large(table: Session) -> None:
    text = "exceeds the supported range [-9223372036854775808, 18446744073709551615]"
    for query in "values (99999999999999999999), (99999999999999999998)", "select 99999999999999999999, 2e1":
        assert table.error(query) == ("INT_LITERAL_MAX", f"Integer literal 99999999999999999999 {text}")


@pytest.mark.parametrize(
    ("comparison", "expected"),
    [
        ("(n, s) > (0, 2)", [[True], [True], [None]]),
        ("(n, s) < (9, 2)", [[True], [True], [None]]),
        ("(a, n, s) <= (1, 0, 2)", [[False], [False], [False]]),
        ("(a, b, n, s) > (3, true, 1, 2)", [[False], [False], [None]]),
    ],
)
def test_only_equal_values_lead_to_the_next_ones_of_a_row(
    table: Session, comparison: str, expected: list[list[bool | None]]
) -> None:
    assert table.sql(f"select {comparison} from t") == expected
    error = "SQL_TYPE_MISMATCH", "Type mismatch: can not convert y to numeric"
    assert table.error("select (n, s) > (2, 2) from t where a = 2") == error
