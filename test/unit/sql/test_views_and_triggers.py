# ruff: noqa: E501  a message is one line
"""Views are named queries; triggers run statements for each changed row."""

from __future__ import annotations

import pytest

from box.data.codec import pack
from box.wire.change import Request

from .conftest import Session, Start


@pytest.fixture
def filled(db: Session) -> Session:
    db.sql("create table t (id int primary key, a int)")
    db.sql("insert into t values (1, 10), (2, 20)")
    return db


def test_a_view_is_a_space_without_tuples(filled: Session) -> None:
    text = "create view v (x, y) as select id, a + 1 from t"
    assert filled.sql(text) == 1
    (row,) = filled.rows_of("_space", [513])
    assert row[2:6] == ["V", "memtx", 2, {"sql": text, "view": True}]
    assert [item["name"] for item in row[6]] == ["X", "Y"]
    filled.sql("insert into t values (3, 30)")
    assert filled.sql("select * from v where y > 11") == [[2, 21], [3, 31]]
    assert filled.sql("drop view v") == 1


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("insert into v values (1)", "ALTER_SPACE", "Can't modify space 'V': space is a view"),
        ("update v set n = 1", "ALTER_SPACE", "Can't modify space 'V': space is a view"),
        ("delete from v", "ALTER_SPACE", "Can't modify space 'V': space is a view"),
        ("drop table v", "DROP_SPACE", "Can't drop space 'V': use DROP VIEW"),
        ("drop view t", "DROP_SPACE", "Can't drop space 'T': use DROP TABLE"),
        ("drop table t", "DROP_SPACE", "Can't drop space 'T': other views depend on this space"),
        ("alter table t rename to u", "ALTER_SPACE", "Can't modify space 'T': can not rename space which is referenced by view"),
        ("alter table v rename to u", "ALTER_SPACE", "Can't modify space 'V': view can not be altered"),
        ("create index i on v (n)", "MODIFY_INDEX", "Can't create or modify index 'I' in space 'V': views can not be indexed"),
        ("create view v as select 1", "SPACE_EXISTS", "Space 'V' already exists"),
        ("create view w as select * from nosuch", "NO_SUCH_SPACE", "Space 'NOSUCH' does not exist"),
        ("create view w as select ?", "CREATE_SPACE", "Failed to create space 'W': parameters are not allowed in views"),
        ("create view w (a) as select 1, 2", "CREATE_SPACE", "Failed to create space 'W': number of aliases doesn't match provided columns"),
        ("truncate table v", "SQL_EXECUTE", "Failed to execute SQL statement: can not truncate space 'V' because space is a view"),
    ],
)  # fmt: skip
def test_what_a_view_cannot(filled: Session, text: str, code: str, message: str) -> None:
    filled.sql("create view v as select id as n from t")
    assert filled.error(text) == (code, message)


def test_a_trigger_sees_the_row_before_and_after(filled: Session) -> None:
    filled.sql("create table log (id int primary key autoincrement, was int, now int)")
    filled.sql(
        "create trigger u after update of a on t for each row when new.a > 10"
        " begin insert into log (was, now) values (old.a, new.a); end"
    )
    assert filled.sql("update t set a = a + 1") == 2
    assert filled.sql("select was, now from log") == [[10, 11], [20, 21]]
    filled.sql("drop trigger u")
    filled.sql("update t set a = 0")
    assert filled.value("select count(*) from log") == 2


def test_a_trigger_may_refuse(filled: Session) -> None:
    """RAISE in a trigger fails the statement, or skips the row."""
    filled.sql(
        "create trigger b before insert on t for each row when new.a = 13 begin select raise(abort, 'no 13'); end"
    )
    filled.sql("create trigger i before insert on t for each row when new.a = 14 begin select raise(ignore); end")
    assert filled.error("insert into t values (5, 1), (6, 13)") == (
        "SQL_EXECUTE",
        "Failed to execute SQL statement: no 13",
    )
    assert filled.sql("insert into t values (7, 14), (8, 1)") == 1
    assert filled.sql("select id from t") == [[1], [2], [8]]


def test_a_view_is_changed_by_its_triggers(filled: Session) -> None:
    filled.sql("create view v as select id, a from t")
    filled.sql("create trigger vi instead of insert on v for each row begin insert into t values (new.id, -new.a); end")
    filled.sql("create trigger vd instead of delete on v for each row begin delete from t where id = old.id; end")
    filled.sql("insert into v values (3, 30)")
    filled.sql("delete from v where a = 10")
    assert filled.sql("select * from t") == [[2, 20], [3, -30]]


def test_triggers_in_triggers_have_an_end(filled: Session) -> None:
    filled.sql("create trigger r after insert on t for each row begin insert into t values (new.id + 1, 0); end")
    code, message = filled.error("insert into t values (10, 0)")
    assert (code, message) == ("SQL_EXECUTE", "Failed to execute SQL statement: too many levels of trigger recursion")
    assert filled.value("select count(*) from t") == 2
    filled.sql('set session "sql_recursive_triggers" = false')
    filled.sql("insert into t values (10, 0)")
    assert filled.value("select count(*) from t") == 4


def test_a_trigger_follows_its_table(filled: Session) -> None:
    """A rename of the table changes the trigger's text."""
    filled.sql("create trigger g before insert on t for each row begin select 1; end")
    filled.sql("alter table t rename to u")
    text = 'CREATE TRIGGER g before insert on "U" for each row begin select 1; end'
    assert filled.rows_of("_trigger") == [["G", 512, {"sql": text}]]
    filled.sql("drop table u")
    assert filled.rows_of("_trigger") == []


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("create trigger g after insert on nosuch for each row begin select 1; end", "NO_SUCH_SPACE", "Space 'NOSUCH' does not exist"),
        ("create trigger g instead of insert on t for each row begin select 1; end", "SQL_EXECUTE", "Failed to execute SQL statement: cannot create INSTEAD OF trigger on space: T"),
        ("drop trigger g", "NO_SUCH_TRIGGER", "Trigger 'G' doesn't exist"),
        ("create trigger g after insert on t for each row begin select ?; end", "SQL_PARSER_GENERIC_WITH_POS", "At line 1 at or near position 63: bindings are not allowed in DDL"),
    ],
)  # fmt: skip
def test_a_wrong_trigger_is_refused(filled: Session, text: str, code: str, message: str) -> None:
    assert filled.error(text) == (code, message)


def test_triggers_may_be_a_thousand_deep(filled: Session) -> None:
    filled.sql("create table d (id int primary key)")
    filled.sql(
        "create trigger n after insert on d for each row when new.id < 1000"
        " begin insert into d values (new.id + 1); end"
    )
    filled.sql("insert into d values (1)")
    assert filled.value("select count(*) from d") == 1000
    filled.sql("delete from d")
    assert filled.error("insert into d values (-1)") == (
        "SQL_EXECUTE",
        "Failed to execute SQL statement: too many levels of trigger recursion",
    )
    assert filled.value("select count(*) from d") == 0


def test_actions_of_foreign_keys_count_as_triggers(filled: Session) -> None:
    filled.sql("create table f (id int primary key, up int references f on delete cascade)")
    filled.sql("insert into f values (0, null)")
    numbers = (
        "with n as (select 1 as n union all select n + 1 from n where n < {}) insert into f select n, n - 1 from n"
    )
    filled.sql(numbers.format(900))
    assert filled.sql("delete from f where id = 0") == 1
    assert filled.value("select count(*) from f") == 0
    filled.sql("insert into f values (0, null)")
    filled.sql(numbers.format(1002))
    assert filled.error("delete from f where id = 0")[1].endswith("too many levels of trigger recursion")


def test_a_view_is_not_changed_without_sql(filled: Session) -> None:
    filled.sql("create view v as select id as n from t")
    (row,) = [row for row in filled.rows_of("_space") if row[2] == "V"]
    text = "Can't modify space 'V': view can not be altered"
    assert filled.write_error("_space", Request.replace(pack(row))) == ("ALTER_SPACE", text)
    row[5] = {"view": True}
    assert filled.write_error("_space", Request.replace(pack(row))) == ("ALTER_SPACE", text)
    index = [row[0], 0, "pk", "tree", {"unique": True}, [[0, "integer"]]]
    text = "Can't modify space 'V': can not add index on a view"
    assert filled.write_error("_index", Request.insert(pack(index))) == ("ALTER_SPACE", text)


def test_the_row_of_a_trigger_names_the_table_of_its_text(filled: Session) -> None:
    filled.sql("create table other (id int primary key)")
    (number,) = [row[0] for row in filled.rows_of("_space") if row[2] == "OTHER"]
    row = ["G", number, {"sql": "create trigger g after insert on t for each row begin select 1; end"}]
    text = "trigger space_id does not match the value resolved on AST building from SQL"
    expected = ("SQL_EXECUTE", f"Failed to execute SQL statement: {text}")
    assert filled.write_error("_trigger", Request.insert(pack(row))) == expected


def test_the_text_of_a_trigger_is_kept_to_its_end(filled: Session) -> None:
    for number, end in enumerate(("", "  ", ";", "  ; ", " /* c */ ; -- x")):
        filled.sql(f"create trigger g{number} after insert on t for each row begin select 1; end{end}")
        text = f"CREATE TRIGGER g{number} after insert on t for each row begin select 1; end{end}"
        assert filled.rows_of("_trigger", [f"G{number}"]) == [[f"G{number}", 512, {"sql": text}]]


def test_a_row_of_triggers_is_checked_as_a_statement(filled: Session) -> None:
    filled.sql("create view v as select id from t")
    wrong = "Failed to execute SQL statement: "
    for time, table, space_id, reason in (
        ("instead of", "t", 512, "cannot create INSTEAD OF trigger on space: T"),
        ("before", "v", 513, "cannot create BEFORE trigger on view: V"),
        ("before", '"_space"', 280, "cannot create trigger on system table"),
        ("before", "t", 513, "trigger space_id does not match the value resolved on AST building from SQL"),
    ):
        text = f"create trigger g {time} insert on {table} for each row begin select 1; end"
        row = Request.insert(pack(["G", space_id, {"sql": text}]))
        assert filled.write_error("_trigger", row) == ("SQL_EXECUTE", wrong + reason)
    text = 'create trigger g after insert on "_space" for each row begin select 1; end'
    assert filled.error(text) == ("SQL_EXECUTE", wrong + "cannot create trigger on system table")


def test_changes_of_a_view_count_nothing(filled: Session) -> None:
    filled.sql("create view v as select id from t")
    filled.sql("create trigger u instead of update on v for each row begin select 1; end")
    filled.sql("create trigger d instead of delete on v for each row begin select 1; end")
    assert filled.sql("update v set id = 1") == 0
    assert filled.sql("delete from v") == 0


def test_a_view_is_a_create_view(filled: Session) -> None:
    for text in ("SELECT 1", "SELECT id FROM t"):
        fields = [{"name": "A", "type": "integer"}]
        row = Request.insert(pack([600, 1, "W", "memtx", 1, {"sql": text, "view": True}, fields]))
        assert filled.write_error("_space", row) == ("SQL_EXECUTE", f"Failed to execute SQL statement: {text}")


def test_columns_of_a_query_in_from_have_different_names(filled: Session) -> None:
    assert filled.names("select * from (select id, id, 1, id from t)") == ["ID", "ID_1", "COLUMN_1", "ID_2"]
    assert filled.names("with q as (select id, id from t) select * from q") == ["ID", "ID_1"]


def test_the_action_of_a_statement_is_that_of_the_steps(db: Session) -> None:
    db.sql("create table t (id int primary key, a int)")
    db.sql("create table l (id int primary key, a int)")
    db.sql("insert into l values (1, 0)")
    db.sql("create trigger r after insert on t for each row begin insert into l values (1, new.a); end")
    assert db.error("insert into t values (1, 5)")[0] == "TUPLE_FOUND"
    assert db.sql("insert or ignore into t values (2, 6)") == 1
    assert db.sql("select a from l") == [[0]]
    db.sql("replace into t values (3, 7)")
    assert db.sql("select a from l") == [[7]]


def test_raise_undoes_what_its_action_says(db: Session) -> None:
    db.sql("create table t (id int primary key)")
    for number, action in enumerate(("abort", "fail", "rollback")):
        db.sql("delete from t")
        db.sql("insert into t values (1), (2), (3)")
        db.sql(
            f"create trigger r{number} before delete on t for each row begin "
            f"select raise({action}, 'no') where old.id = 3; end"
        )
        db.sql("start transaction")
        db.sql("insert into t values (0)")
        assert db.error("delete from t") == ("SQL_EXECUTE", "Failed to execute SQL statement: no")
        assert (db.ctx.txn is None) == (action == "rollback")
        if action != "rollback":
            db.sql("commit")
        wanted = {"abort": [0, 1, 2, 3], "fail": [3], "rollback": [1, 2, 3]}[action]
        assert db.sql("select id from t") == [[number] for number in wanted]
        db.sql(f"drop trigger r{number}")


@pytest.fixture
def logged(db: Session) -> Session:
    """A table whose triggers note each row before and after a change."""
    db.sql("CREATE TABLE log (id INTEGER PRIMARY KEY AUTOINCREMENT, m TEXT)")
    db.sql("CREATE TABLE p (id INT PRIMARY KEY, n INT UNIQUE, z INT NOT NULL DEFAULT 7, k INT CHECK (k < 100))")
    for moment in ("BEFORE", "AFTER"):
        for event in ("INSERT", "UPDATE"):
            note = f"INSERT INTO log VALUES (NULL, '{moment[0]}' || CAST(new.id AS TEXT))"
            db.sql(f"CREATE TRIGGER {moment}{event} {moment} {event} ON p FOR EACH ROW BEGIN {note}; END")
    db.sql("INSERT INTO p VALUES (1, 1, 1, 1)")
    db.sql("DELETE FROM log")
    return db


def _notes(db: Session) -> list[str]:
    return [note for (note,) in db.sql("SELECT m FROM log ORDER BY id")]


def test_an_update_to_null_takes_effect_though_there_are_triggers(logged: Session) -> None:
    assert logged.sql("UPDATE p SET n = NULL, k = ? WHERE id = 1", None) == 1
    assert logged.sql("SELECT * FROM p") == [[1, None, 1, None]]
    assert logged.error("UPDATE p SET z = NULL WHERE id = 1")[1].endswith("NOT NULL constraint failed: P.Z")
    assert logged.sql("UPDATE OR IGNORE p SET z = NULL WHERE id = 1") == 0
    assert logged.sql("SELECT * FROM p") == [[1, None, 1, None]]


@pytest.mark.parametrize(
    ("values", "notes"),
    [
        ("(1, 5, 5, 5)", ["B1", "A1"]),
        ("(5, 1, 5, 5)", ["B5", "A5"]),
        ("(5, 5, 5, 500)", ["B5", "A5"]),
        ("(5, 5, NULL, 5)", ["B5"]),
    ],
)
def test_triggers_see_a_row_that_ignore_leaves_out(logged: Session, values: str, notes: list[str]) -> None:
    """As in Tarantool, AFTER triggers run for a row that OR IGNORE does not insert, unless a NOT NULL column lacks a
    value.
    """
    assert logged.sql(f"INSERT OR IGNORE INTO p VALUES {values}") == 0
    assert _notes(logged) == notes


def test_gathered_rows_are_inserted_in_their_order(logged: Session) -> None:
    """As in Tarantool, rows are sorted by their values if triggers run, or if the query reads the table."""
    logged.sql("INSERT INTO p (n, id) VALUES (27, 4), (29, 2), (28, 3)")
    assert _notes(logged) == ["B4", "A4", "B3", "A3", "B2", "A2"]
    logged.sql("CREATE TABLE q (id INT PRIMARY KEY, s SCALAR)")
    logged.sql("INSERT INTO q VALUES (1, 'b'), (2, 1.5), (3, TRUE)")
    logged.sql("INSERT OR IGNORE INTO q SELECT 10, s FROM q")
    logged.sql("INSERT OR IGNORE INTO q SELECT 11, n FROM p ORDER BY n DESC")
    assert logged.sql("SELECT s FROM q WHERE id > 9") == [[True], [29]]
    logged.sql("CREATE TRIGGER qi AFTER INSERT ON q FOR EACH ROW BEGIN SELECT 1; END")
    logged.sql("INSERT OR IGNORE INTO q VALUES (12, 'z'), (12, NULL), (12, 0)")
    assert logged.sql("SELECT s FROM q WHERE id = 12") == [[None]]


def test_numbers_are_doubles_in_triggers_and_actions(db: Session) -> None:
    """NEW and OLD have doubles for integers in columns of type NUMBER, and so has a child that follows its parent."""
    db.sql("create table p (id int primary key, n number unique)")
    db.sql("create table c (id int primary key, n number references p (n) on update cascade)")
    db.sql("create table log (id integer primary key autoincrement, v scalar)")
    db.sql("create trigger i after insert on p for each row begin insert into log (v) values (new.n); end")
    db.sql("create trigger u after update on p for each row begin insert into log (v) values (old.n), (new.id); end")
    db.sql("insert into p values (1, 10), (2, 2.5), (3, null)")
    db.sql("insert into c values (1, 10)")
    db.sql("update p set n = 11 where id = 1")
    found = [value for (value,) in db.sql("select v from log order by id")]
    assert list(map(repr, found)) == ["10.0", "2.5", "None", "10.0", "1"]
    assert repr(db.sql("select p.n, c.n from p, c where p.id = 1")) == "[[11, 11.0]]"


def test_each_run_of_a_trigger_counts_its_own_rows(db: Session) -> None:
    """ROW_COUNT() in a trigger is that of its last change, and first that of the statement before; a SELECT leaves it."""
    db.sql("create table t (id int primary key)")
    db.sql("create table log (n integer primary key autoincrement, place text, c int)")
    db.sql(
        "create trigger b before delete on t for each row begin "
        "insert into log values (null, 'b1', row_count()), (null, 'b1', row_count()); "
        "insert into log values (null, 'b2', row_count()); "
        "update log set c = c; insert into log values (null, 'b3', row_count()); end"
    )
    db.sql(
        "create trigger a after delete on t for each row begin "
        "insert into log values (null, 'a1', row_count()); select 1; insert into log values (null, 'a2', row_count()); end"
    )
    db.sql("insert into t values (1), (2), (3)")
    db.sql("delete from t where id < 3")
    assert db.sql("select row_count()") == [[2]]
    row = [["b1", 3], ["b1", 3], ["b2", 2]]
    assert db.sql("select place, c from log order by n") == [
        *(*row, ["b3", 3], ["a1", 3], ["a2", 1]),
        *(*row, ["b3", 9], ["a1", 3], ["a2", 1]),
    ]


def test_a_view_of_a_table_that_has_got_a_column(start: Start) -> None:
    db = start()
    db.sql("create table t (id int primary key, a int)")
    db.sql("create view w as select * from t")
    db.sql("create view v as select a from t")
    db.sql("alter table t add column b int")
    text = "Failed to create space 'W': number of aliases doesn't match provided columns"
    assert db.error("select 1 from w") == ("CREATE_SPACE", text)
    assert db.sql("select * from v") == []


@pytest.mark.parametrize(
    ("kind", "value", "changed"),
    [("text", "'1'", 1), ("text", "'a'", 0), ("number", "1.5", 0), ("scalar", "1", 1), ("scalar", "'1'", 1)],
)
@pytest.mark.parametrize("condition", ["new.x = id", "id = (new.x)"])
def test_a_column_of_new_as_a_key_of_another_type(
    start: Start, kind: str, value: str, changed: int, condition: str
) -> None:
    """It is a key of the index, as a column of an earlier table is in a join."""
    db = start()
    db.sql("create table t (id int primary key, a int)")
    db.sql("insert into t values (1, 0)")
    db.sql(f"create table n (id int primary key, x {kind})")
    db.sql(f"create trigger g after insert on n for each row begin update t set a = a + 1 where {condition}; end")
    assert db.sql(f"insert into n values (1, {value})") == 1
    assert db.value("select a from t") == changed
