"""Short ways of statements that concern many rows: they cost little, and their results are the usual ones."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from box.data import collation
from box.data.codec import pack
from box.sql import children_by_value
from box.sql.number_comparisons import as_double, as_whole
from box.sql.reading import QueryRunner
from box.sql.row_changes import ChangeRunner
from box.sql.row_expressions import RowExpressions
from box.sql.stored_values import store
from box.wire.change import Request

from .conftest import Session

ROWS = 40


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts the queries of SQLite with an environment, and the rows that are changed the general way."""
    counts: Counter[str] = Counter()

    def counting(owner: Any, name: str) -> None:
        method = getattr(owner, name)

        def call(*args: Any, **named: Any) -> Any:
            counts[name] += 1
            return method(*args, **named)

        monkeypatch.setattr(owner, name, call)

    counting(QueryRunner, "fetch")
    counting(ChangeRunner, "_update_row")
    counting(ChangeRunner, "_delete_row")
    return counts


def _fill(db: Session, table: str, count: int = ROWS) -> None:
    db.sql(f"insert into {table} values " + ", ".join(f"({number}, {number})" for number in range(count)))


def test_checks_and_values_of_triggers_need_no_environment(db: Session, calls: Counter[str]) -> None:
    """A check, the WHEN and the values of a trigger are computed for each row by one cursor."""
    db.sql("create table log (id int primary key autoincrement, a int)")
    db.sql("create table t (id int primary key, a int check (a >= 0), check (a < id + 100))")
    db.sql(
        "create trigger r after insert on t for each row when new.a > 3"
        " begin insert into log (a) values (new.a * 2); end"
    )
    calls.clear()
    _fill(db, "t")
    assert calls["fetch"] == 0
    assert db.sql("select a from log order by id limit 2") == [[8], [10]]
    assert db.error("insert into t values (500, -1)")[0] == "CK_CONSTRAINT_FAILED"
    assert db.error("insert into t values (501, 700)")[0] == "CK_CONSTRAINT_FAILED"
    assert db.sql("insert into t values (502, null)") == 1  # an error before it leaves the cursor usable


def test_an_expression_follows_its_definition(db: Session) -> None:
    """A check and a trigger that are made anew under the same name are not taken for the former ones."""
    db.sql("create table t (id int primary key, a int, constraint c check (a > 0))")
    db.sql("create table log (id int primary key autoincrement, a int)")
    db.sql("create trigger r after insert on t for each row begin insert into log (a) values (new.a); end")
    db.sql("insert into t values (1, 1)")
    db.sql("drop trigger r")
    db.sql("create trigger r after insert on t for each row begin insert into log (a) values (new.a + 10); end")
    db.sql("delete from t")
    db.sql("alter table t drop constraint c")
    db.sql("alter table t add constraint c check (a < 0)")
    db.sql("insert into t values (1, -1)")
    assert db.error("insert into t values (2, 1)")[0] == "CK_CONSTRAINT_FAILED"
    assert db.sql("select a from log order by id") == [[1], [9]]


def test_an_expression_may_ask_for_the_environment(db: Session) -> None:
    db.sql("create table t (id int primary key, a int, v string default (version()))")
    db.sql("create table log (id int primary key autoincrement, a int)")
    db.sql(
        "create trigger r after insert on t for each row begin insert into log (a) values (row_count() + new.a); end"
    )
    db.sql("insert into t (id, a) values (1, 5)")
    assert db.value("select v from t") == db.value("select version()")
    assert db.sql("select a from log") == [[6]]  # CREATE TRIGGER counts as one row


def test_plain_rows_are_changed_by_a_writer(db: Session, calls: Counter[str]) -> None:
    """UPDATE and DELETE of many rows take the general way only for rows in which more than the indexes takes part."""
    db.sql("create table t (id int primary key, a int not null)")
    _fill(db, "t")
    assert db.sql("update t set a = a + 1 where id < 30") == 30
    assert db.sql("delete from t where a > 35") == 4
    assert calls["_update_row"] == calls["_delete_row"] == 0
    assert db.sql("select sum(a), count(*) from t") == [[sum(range(1, 31)) + sum(range(30, 36)), 36]]
    assert db.error("update t set a = null")[1] == "Failed to execute SQL statement: NOT NULL constraint failed: T.A"
    assert db.error("update t set a = 'x' where a = 5") == (
        "SQL_TYPE_MISMATCH",
        "Type mismatch: can not convert x to integer",
    )
    assert db.sql("select count(*) from t where a is null") == [[0]]


# --- foreign keys ---


def test_an_update_checks_only_the_foreign_keys_that_it_sets(db: Session) -> None:
    """As in Tarantool, other columns of a row without a parent may be changed."""
    db.sql("create table p (id int primary key)")
    db.sql("create table c (id int primary key, p int references p (id), x int)")
    db.write("C", Request.replace(pack([1, 5, 7])))
    db.write("C", Request.replace(pack([2, 5, 7])))
    failed = ("SQL_EXECUTE", "Failed to execute SQL statement: FOREIGN KEY constraint failed")
    assert db.sql("update c set x = 8") == 2
    assert db.sql("update c set x = 9 where id = 1") == 1
    assert db.sql("update c set id = id") == 2
    assert db.error("update c set p = p") == failed
    assert db.error("update c set p = 5 where id = 1") == failed


def test_an_action_that_changes_nothing_is_checked(db: Session) -> None:
    """SET DEFAULT to the value that a child has already: its parent goes, too."""
    db.sql("create table p (id int primary key)")
    db.sql("create table c (id int primary key, p int default 3 references p (id) on delete set default)")
    db.sql("insert into p values (1), (2), (3)")
    db.sql("insert into c values (1, 1), (2, 3)")
    assert db.error("delete from p")[1] == "Failed to execute SQL statement: FOREIGN KEY constraint failed"
    assert db.sql("delete from p where id < 3") == 2
    assert db.sql("select * from c") == [[1, 3], [2, 3]]


def test_rows_of_an_insert_are_checked_together(db: Session, calls: Counter[str]) -> None:
    db.sql("create table p (id int primary key)")
    db.sql("create table c (id int primary key, p int references c (id), q int references p (id))")
    db.sql("insert into p values (1), (2)")
    assert db.sql("insert into c values (1, 2, 1), (2, 3, null), (3, 1, 2)") == 3
    assert db.error("insert into c values (4, 1, 1), (5, 1, 9)")[1].endswith("FOREIGN KEY constraint failed")
    assert db.sql("select id from c") == [[1], [2], [3]]


@pytest.mark.parametrize("action", ["cascade", "set null", "set default", "no action"])
def test_children_without_an_index_are_noted(db: Session, monkeypatch: pytest.MonkeyPatch, action: str) -> None:
    """A statement that changes many parents reads the children a few times, with the results of many searches."""
    scans = []
    reads_all = children_by_value.ChildrenByValue._all

    def counting(self: Any, *args: Any) -> Any:
        scans.append(args)
        return reads_all(self, *args)

    monkeypatch.setattr(children_by_value.ChildrenByValue, "_all", counting)
    db.sql("create table p (id int primary key, u int unique)")
    db.sql(
        f"create table c (id int primary key, p int default 7 references p (u) on delete {action} on update {action})"
    )
    _fill(db, "p")
    db.sql("insert into c select id, u from p")
    db.sql("insert into c select id + 100, u from p")
    scans.clear()
    if action == "no action":
        assert db.error("delete from p where id < 20")[1].endswith("FOREIGN KEY constraint failed")
    elif action == "set default":
        assert db.error("delete from p where id < 20")[1].endswith("FOREIGN KEY constraint failed")
        assert db.sql("delete from p where id > 20") == 19
        assert db.sql("select count(*) from c where p = 7") == [[40]]
    else:
        assert db.sql("delete from p where id < 20") == 20
        left = [[40 if action == "cascade" else 80]]
        assert db.sql("select count(*) from c") == left
        assert db.sql("update p set u = u + 1000") == 20
        if action == "cascade":
            assert db.sql("select min(p), max(p), count(*) from c") == [[1020, 1039, 40]]
        assert len(scans) <= 8


# --- numbers of unlike kinds ---

NUMBERS = [
    1,
    2.5,
    3.0,
    -5,
    -5.0,
    2**53 + 1,
    2.0**53,
    2**63,
    2.0**63,
    2**63 - 1,
    -(2**63),
    -(2.0**63),
    2**64 - 1,
    2.0**64,
    None,
]


@pytest.mark.parametrize("op", ["=", "<", "<=", ">", ">=", "<>"])
@pytest.mark.parametrize("kinds", [("i", "n"), ("n", "i"), ("d", "n"), ("n", "d"), ("i", "d"), ("d", "i"), ("n", "n")])
def test_numbers_of_unlike_kinds_are_compared_exactly(db: Session, op: str, kinds: tuple[str, str]) -> None:
    db.sql("create table t (id int primary key, i int, d double, n number)")
    rows = {}
    for number, value in enumerate(NUMBERS):
        whole = value if isinstance(value, int) else None
        rows[number] = {"i": whole, "d": value if isinstance(value, float) else None, "n": value}
        db.write("T", Request.replace(pack([number, whole, rows[number]["d"], value])))
    tests = {"=": "__eq__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__", "<>": "__ne__"}
    left, right = kinds
    wanted = []
    for a, one in rows.items():
        for b, other in rows.items():
            x, y = one[left], other[right]
            if x is not None and y is not None:
                order = (x > y) - (x < y)
                if getattr(order, tests[op])(0):
                    wanted.append([a, b])
    query = f"select a.id, b.id from t as a join t as b on a.{left} {op} b.{right} order by 1, 2"
    assert db.sql(query) == wanted


def test_a_join_with_a_number_uses_the_index(db: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Integers are looked up by a NUMBER, and by what WITH RECURSIVE counts."""
    db.sql("create table t (id int primary key, n number)")
    _fill(db, "t", 3)
    db.sql("insert into t values (10, 2.0), (11, 2.5), (12, null)")
    assert db.sql("select a.id, b.id from t as a join t as b on a.n = b.id order by 1") == [
        [0, 0],
        [1, 1],
        [2, 2],
        [10, 2],
    ]
    plan = db.sql("explain query plan select a.id from t as a join t as b on a.n = b.id")
    assert any("SEARCH" in row[-1] for row in plan)
    recursive = "with recursive r(i) as (select 0 union all select i + 1 from r where i < 20) "
    plan = db.sql(f"explain query plan {recursive} select t.id from r join t on t.id = r.i")
    assert any("SEARCH" in row[-1] for row in plan)
    assert db.sql(f"{recursive} select t.id from r join t on t.id = r.i order by 1") == [
        [0],
        [1],
        [2],
        [10],
        [11],
        [12],
    ]


def test_numbers_become_those_of_the_other_side() -> None:
    assert as_whole(2.0**63, 1) == store(2**63)
    assert as_whole(-(2.0**63), 1) == -(2**63)
    assert as_whole(2.5, 1) == 2.5
    assert as_double(store(2**63), 1) == 2.0**63
    assert as_double(store(2**63 + 1), 1) == store(2**63 + 1)


# --- collations ---


@pytest.mark.parametrize("order", [1, 2, 4, 5])
def test_comparison_and_sort_keys_agree(order: int) -> None:
    compare, key = collation.compare_function(order), collation.sort_key_function(order)
    texts = ["", "a", "A", "\xe4", "b", "B", "ss", "\xdf", "\u65e5\u672c", "a b", "ab", "\U0001f600", "\ud800"]
    for left in texts:
        for right in texts:
            assert compare(left, right) == (key(left) > key(right)) - (key(left) < key(right)), (left, right)


def test_an_error_undoes_the_rows_before_it(db: Session) -> None:
    db.sql("create table t (id int primary key, a int unique)")
    _fill(db, "t")
    assert db.error("update t set a = 39 - a where id < 2")[0] == "TUPLE_FOUND"
    assert db.sql("select a from t order by id limit 2") == [[0], [1]]


def test_a_step_with_plain_values_asks_sqlite_nothing(
    db: Session, calls: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Columns of NEW and OLD, and constants, are inserted as they are; those of NUMBER as doubles, as ever."""
    db.sql("create table t (id int primary key, n number, b boolean, s text)")
    db.sql("create table log (id int primary key autoincrement, n number, b boolean, s text, c int, d int default 7)")
    step = "insert into log (c, s, b, n) values (-3, new.s, new.b, new.n)"
    db.sql(f"create trigger g after insert on t for each row begin {step}; end")
    monkeypatch.setattr(RowExpressions, "rows", lambda *_: pytest.fail("a query"))
    db.sql("insert into t values (1, 5, true, 'x'), (2, null, false, null), (3, 0.5, null, 'é')")
    logged = [[1, 5.0, True, "x", -3, 7], [2, None, False, None, -3, 7], [3, 0.5, None, "é", -3, 7]]
    assert [list(map(type, row)) for row in db.rows_of("LOG")] == [list(map(type, row)) for row in logged]
    assert db.rows_of("LOG") == logged
    assert not calls


def test_what_is_known_of_a_step_ends_with_the_dictionary(db: Session) -> None:
    """A step that names no columns gives values for those that the table has when it runs."""
    db.sql("create table t (id int primary key)")
    db.sql("create table log (id int primary key, d int default 7)")
    db.sql("create trigger g after insert on t for each row begin insert into log (id) values (new.id); end")
    db.sql("insert into t values (1)")
    db.sql("delete from log")
    db.sql("alter table log add column e int default 8")
    db.sql("insert into t values (2)")
    db.sql("create trigger h after insert on log for each row when new.id > 2 begin delete from t where id < 3; end")
    db.sql("insert into t values (3)")
    assert db.rows_of("LOG") == [[2, 7, 8], [3, 7, 8]]
    assert db.rows_of("T") == [[3]]


def test_the_or_clause_of_a_statement_applies_to_each_of_its_runs(db: Session) -> None:
    """What is known of a step under one OR clause is not used under another."""
    db.sql("create table t (id int primary key)")
    db.sql("create table log (id int primary key, n int)")
    db.sql("create trigger g after insert on t for each row begin insert into log values (1, new.id); end")
    db.sql("insert into t values (1)")
    assert db.error("insert into t values (2)")[0] == "TUPLE_FOUND"
    db.sql("replace into t values (3)")
    db.sql("insert or ignore into t values (4)")
    assert db.rows_of("LOG") == [[1, 3]]
    assert db.rows_of("T") == [[1], [3], [4]]


# --- changes by key ---


def test_a_change_by_a_computed_key_asks_for_no_rows(db: Session, calls: Counter[str]) -> None:
    """UPDATE and DELETE whose WHERE gives the whole primary key read the row at once, also in triggers."""
    db.sql("create table counts (id int primary key, n int, b boolean, s text)")
    db.sql("insert into counts values (0, 0, true, 'a'), (1, 0, null, null), (2, 0, false, 'é')")
    db.sql("create table gone (a int, b text, primary key (b, a))")
    db.sql("insert into gone values (1, 'x'), (2, 'x'), (3, 'y')")
    db.sql("create table t (id int primary key, s text)")
    db.sql(
        "create trigger g after insert on t for each row begin"
        " update counts set n = n + new.id, b = not b, s = s || new.s where id = new.id % 3;"
        " delete from gone where a = new.id and b = new.s; end"
    )
    calls.clear()
    db.sql("insert into t values (1, 'x'), (3, 'x'), (5, 'z'), (6, 'w')")
    assert db.sql("update counts set n = -n, s = null where id = 1 + 0") == 1
    assert db.sql("update counts set n = n + 1 where id = 7 + 0") == 0
    assert calls["fetch"] == 0
    assert db.rows_of("COUNTS") == [[0, 9, True, "axw"], [1, -1, None, None], [2, 5, True, "éz"]]
    assert db.rows_of("GONE") == [[2, "x"], [3, "y"]]


@pytest.mark.parametrize(
    ("condition", "changed"),
    [
        ("id = 2.0 + 0", 1),
        ("id = a", 1),
        ("id = a + 1", 1),
        ("id = (select max(id) from t)", 1),
        ("id = 1 + 0 and a = 1", 1),
        ("id = 1 + 0 and id = 2", 0),
        ("id = null", 0),
        ("id = 1 + 0 or id = 2", 2),
        ("id + 0 = 1", 1),
    ],
)
def test_other_conditions_than_a_key_are_computed_for_each_row(db: Session, condition: str, changed: int) -> None:
    db.sql("create table t (id int primary key, a int)")
    db.sql("insert into t values (1, 1), (2, 1)")
    for _ in range(2):
        assert db.sql(f"update t set a = a where {condition}") == changed
    assert db.sql(f"delete from t where {condition}") == changed


def test_a_key_is_compared_by_the_collation_of_its_value(db: Session) -> None:
    db.sql("create table t (id text primary key, n int)")
    db.sql("insert into t values ('a', 0), ('A', 0), ('b', 0)")
    assert db.sql("""update t set n = 1 where id = 'a' || ''""") == 1
    assert db.sql("""update t set n = 2 where id = 'a' collate "unicode_ci" """) == 2
    db.sql("""create table c (id int primary key, s text collate "unicode_ci")""")
    db.sql("create trigger g after insert on c for each row begin update t set n = n + 10 where id = new.s; end")
    db.sql("insert into c values (1, 'B')")
    db.sql("insert into c values (2, 'a')")
    assert db.rows_of("T") == [["A", 12], ["a", 12], ["b", 10]]


def test_the_row_of_a_key_may_lack_fields(db: Session) -> None:
    fields = [{"name": "ID", "type": "unsigned"}]
    fields += [{"name": name, "type": "integer", "is_nullable": True} for name in "AB"]
    db.write("_space", Request.insert(pack([600, 1, "T", "memtx", 0, {}, fields])))
    db.write("_index", Request.insert(pack([600, 0, "pk", "tree", {"unique": True}, [[0, "unsigned"]]])))
    db.write("T", Request.replace(pack([1])))
    assert db.sql("update t set b = coalesce(a, 5) where id = 1 + 0") == 1
    assert db.rows_of("T") == [[1, None, 5]]


def test_the_errors_of_a_change_by_key_are_those_of_its_query(db: Session) -> None:
    db.sql("create table t (id int primary key, a int, s text)")
    db.sql("insert into t values (1, 9223372036854775807, 'x')")
    assert db.error("update t set a = a / 0 where id = 1 + 0")[1].endswith("division by zero")
    assert db.sql("update t set a = a / 0 where id = 2 + 0") == 0
    assert db.error("update t set a = s + 1 where id = 1 + 0")[0] == "SQL_TYPE_MISMATCH"
    assert db.error("update t set a = 1 where id = 1 / 0")[1].endswith("division by zero")
    assert db.error("delete from t where id = nosuch")[0] == "SQL_CANT_RESOLVE_FIELD"


def test_a_query_without_a_table_may_have_no_row(db: Session) -> None:
    db.sql("create table t (id int primary key, a int)")
    db.sql("create table l (id int primary key autoincrement, a int)")
    assert db.sql("insert into t select 1, 2 where 1 > 2") == 0
    db.sql("create trigger g after insert on t for each row begin insert into l (a) select new.a where new.a > 1; end")
    db.sql("insert into t values (1, 1), (2, 2), (3, 0), (4, 4)")
    assert db.sql("select a from l") == [[2], [4]]
