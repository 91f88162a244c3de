# ruff: noqa: E501  a message is one line
"""Check constraints apply to all changes, foreign keys to changes by SQL; both are rows of system spaces."""

from __future__ import annotations

from pathlib import Path

import pytest

from box.data.codec import pack
from box.errors import BoxError
from box.wire.change import Request

from .conftest import Session, Start


def test_a_check_holds_for_all_changes(db: Session) -> None:
    """A check applies to changes by SQL and by box; nil satisfies it."""
    db.sql("create table t (id int primary key, a int check (a > 1 and a < 10))")
    assert db.rows_of("_ck_constraint") == [[512, "ck_unnamed_T_1", False, "SQL", "a > 1 and a < 10", True]]
    failed = ("CK_CONSTRAINT_FAILED", "Check constraint failed 'ck_unnamed_T_1': a > 1 and a < 10")
    assert db.error("insert into t values (1, 1)") == failed
    db.sql("insert into t values (1, 5), (2, null)")
    assert db.error("update t set a = 20") == failed
    assert db.write_error("T", Request.replace(pack([1, 20]))) == failed
    assert db.write_error("T", Request.update([1], [["=", 2, 20]])) == failed
    assert db.write_error("T", Request.upsert(pack([1, 5]), [["=", 2, 20]])) == failed
    assert db.sql("select * from t") == [[1, 5], [2, None]]


def test_a_check_can_be_disabled(db: Session) -> None:
    db.sql("create table t (id int primary key, constraint c check (id > 1))")
    assert db.sql("alter table t disable check constraint c") == 0
    db.sql("insert into t values (1)")
    db.sql("alter table t enable check constraint c")
    assert db.error("insert into t values (0)")[0] == "CK_CONSTRAINT_FAILED"
    db.sql("delete from t")
    assert db.sql("alter table t drop constraint c") == 1
    db.sql("insert into t values (0)")


def test_a_check_follows_the_names_of_columns(db: Session) -> None:
    """A check follows renames of columns; a format without its column is refused."""
    db.sql("create table t (id int primary key, a boolean, check (a))")
    (row,) = db.rows_of("_space", [512])
    row[6][1]["name"] = "B"
    text = "Failed to create check constraint 'ck_unnamed_T_1': Can\u2019t resolve field 'A'"
    assert db.write_error("_space", Request.replace(pack(row))) == ("CREATE_CK_CONSTRAINT", text)
    assert db.error("insert into t values (1, false)")[0] == "CK_CONSTRAINT_FAILED"
    assert db.sql("insert into t values (1, true)") == 1


@pytest.mark.parametrize(
    ("check", "reason"),
    [
        ("id > (select 1)", "Subqueries are prohibited in a ck constraint definition"),
        ("id > ?", "At line 1 at or near position 7: bindings are not allowed in DDL"),
        ("x > 1", "Can\u2019t resolve field 'X'"),
        ("count(id) > 1", "misuse of aggregate function COUNT()"),
        ("nosuch(id)", "Function 'NOSUCH' does not exist"),
    ],
)
def test_a_wrong_check_is_refused(db: Session, check: str, reason: str) -> None:
    message = f"Failed to create check constraint 'ck_unnamed_T_1': {reason}"
    assert db.error(f"create table t (id int primary key, check ({check}))") == ("CREATE_CK_CONSTRAINT", message)
    assert db.rows_of("_space", [512]) == []


def test_a_table_with_rows_gets_no_check(db: Session) -> None:
    db.sql("create table t (id int primary key)")
    db.sql("insert into t values (1)")
    message = "Failed to create check constraint 'C': referencing space must be empty"
    assert db.error("alter table t add constraint c check (id > 0)") == ("CREATE_CK_CONSTRAINT", message)


@pytest.fixture
def family(db: Session) -> Session:
    db.sql("create table p (id int primary key, u int unique)")
    db.sql(
        "create table c (id int primary key, p int references p on delete cascade on update cascade,"
        " q int default 7 references p (u) on delete set null on update set default)"
    )
    db.sql("insert into p values (1, 10), (2, 20), (7, 7)")
    return db


FAILED = ("SQL_EXECUTE", "Failed to execute SQL statement: FOREIGN KEY constraint failed")


def test_a_child_needs_its_parent(family: Session) -> None:
    """A child needs its parent at the end of the statement, unless nil; changes without SQL are not checked, as in
    Tarantool.
    """
    assert family.error("insert into c values (1, 5, null)") == FAILED
    assert family.sql("select * from c") == []
    assert family.sql("insert into c values (1, 1, 10), (2, null, null)") == 2
    assert family.error("update c set p = 9 where id = 1") == FAILED
    family.write("C", Request.replace(pack([5, 50, 60])))
    family.sql("create table s (id int primary key, up int references s)")
    assert family.sql("insert into s values (1, 2), (2, 1)") == 2


def test_a_parent_acts_on_its_children(family: Session) -> None:
    family.sql("insert into c values (1, 1, 10), (2, 2, 20), (3, null, 10)")
    assert family.sql("update p set u = 11 where u = 10") == 1
    assert family.sql("select * from c") == [[1, 1, 7], [2, 2, 20], [3, None, 7]]
    assert family.sql("delete from p where id = 2") == 1
    assert family.sql("select id from c") == [[1], [3]]


def test_a_parent_with_children_stays(db: Session) -> None:
    db.sql("create table p (id int primary key)")
    db.sql("create table c (id int primary key references p)")
    db.sql("insert into p values (1)")
    db.sql("insert into c values (1)")
    assert db.error("delete from p") == FAILED
    assert db.error("drop table p") == ("DROP_SPACE", "Can't drop space 'P': other objects depend on it")
    dropped = ("ALTER_SPACE", "Can't modify space 'P': can not drop a referenced index")
    assert db.error('drop index "pk_unnamed_P_1" on p') == dropped
    assert db.write_error("_index", Request.delete([512, 0])) == dropped
    assert db.sql("select * from p") == [[1]]


@pytest.mark.parametrize(
    ("clause", "code", "message"),
    [
        ("b text references p", "CREATE_FK_CONSTRAINT", "Failed to create foreign key constraint 'fk_unnamed_C_1': field type mismatch"),
        ("b int references nosuch", "NO_SUCH_SPACE", "Space 'NOSUCH' does not exist"),
        ("b int references p (x)", "CREATE_FK_CONSTRAINT", "Failed to create foreign key constraint 'fk_unnamed_C_1': foreign key refers to nonexistent field X"),
        ("foreign key (x) references p", "CREATE_FK_CONSTRAINT", "Failed to create foreign key constraint 'fk_unnamed_C_1': unknown column X in foreign key definition"),
    ],
)  # fmt: skip
def test_a_wrong_foreign_key_is_refused(db: Session, clause: str, code: str, message: str) -> None:
    db.sql("create table p (id int primary key)")
    assert db.error(f"create table c (id int primary key, {clause})") == (code, message)


DEFERRED = (
    "FOREIGN_KEY_CONSTRAINT",
    "Can not commit transaction: deferred foreign keys violations are not resolved",
)


@pytest.fixture
def deferred(db: Session) -> Session:
    db.sql("create table p (id int primary key)")
    db.sql("create table c (id int primary key, p int references p deferrable initially deferred)")
    return db


def test_a_deferred_foreign_key_holds_at_the_commit(deferred: Session) -> None:
    """A deferred foreign key is checked at the commit: in a transaction a parent may come after its child."""
    deferred.sql("start transaction")
    deferred.sql("insert into c values (1, 1)")
    deferred.sql("insert into p values (1)")
    deferred.sql("commit")
    deferred.sql("start transaction")
    deferred.sql("delete from p")
    deferred.sql("delete from c")
    deferred.sql("commit")
    assert deferred.sql("select * from c") == []


def test_a_broken_deferred_foreign_key_rolls_back(deferred: Session) -> None:
    deferred.sql("start transaction")
    deferred.sql("insert into c values (1, 1)")
    assert deferred.error("commit") == DEFERRED
    assert deferred.sql("select * from c") == []
    assert deferred.error("commit")[1].endswith("cannot commit - no transaction is active")
    deferred.node.txns.begin(deferred.ctx)
    deferred.sql("insert into c values (1, 1)")
    with pytest.raises(BoxError, match="deferred foreign keys"):
        deferred.node.txns.commit(deferred.ctx)


def test_a_savepoint_mends_a_deferred_foreign_key(deferred: Session) -> None:
    deferred.sql("start transaction")
    deferred.sql("savepoint s")
    deferred.sql("insert into c values (1, 1)")
    deferred.sql("rollback to s")
    deferred.sql("commit")


def test_a_statement_alone_defers_nothing(deferred: Session) -> None:
    assert deferred.error("insert into c values (1, 1)") == FAILED


def test_a_session_defers_all_foreign_keys(family: Session) -> None:
    family.sql('set session "sql_defer_foreign_keys" = true')
    family.sql("start transaction")
    family.sql("insert into c values (1, 5, null)")
    family.sql("insert into p values (5, 50)")
    family.sql("commit")
    family.sql("start transaction")
    family.sql("insert into c values (2, 6, null)")
    assert family.error("commit") == DEFERRED


def test_a_deferred_foreign_key_is_one_after_a_start(start: Start, tmp_path: Path) -> None:
    db = start(tmp_path)
    db.sql("create table p (id int primary key)")
    db.sql("create table c (id int primary key, p int, foreign key (p) references p deferrable initially deferred)")
    db.wait(db.node.close())
    db = start(tmp_path)
    db.sql("start transaction")
    db.sql("insert into c values (1, 1)")
    assert db.error("commit") == DEFERRED


def test_constraints_survive_log_and_snapshot(start: Start, tmp_path: Path) -> None:
    """Constraints still apply after a start from the log and from a snapshot."""
    db = start(tmp_path)
    db.sql("create table p (id int primary key)")
    db.sql("create table t (id int primary key, a int references p, check (id > 0))")
    db.sql("create view v as select id + 1 as n from t")
    db.sql("create trigger g after insert on t for each row begin insert into p values (new.id + 100); end")
    for _ in range(2):
        db.wait(db.node.close())
        db = start(tmp_path)
        assert db.error("insert into t values (0, null)")[0] == "CK_CONSTRAINT_FAILED"
        assert db.error("insert into t values (1, 55)") == FAILED
        db.sql("insert into t values (1, null)")
        assert db.sql("select * from v") == [[2]]
        assert db.sql("select * from p") == [[101]]
        db.sql("delete from t")
        db.sql("delete from p")
        db.wait(db.node.checkpoints.make())


@pytest.mark.parametrize(
    ("items", "kind"),
    [
        ("constraint c check (i > 0), constraint c primary key (i)", "PRIMARY KEY"),
        ("constraint c references p, constraint c primary key (i)", "PRIMARY KEY"),
        ("primary key, constraint c check (i > 0), constraint c unique (i)", "UNIQUE"),
        ("primary key, constraint c check (i > 0), constraint c check (i < 0)", "CHECK"),
        ("primary key, constraint c check (i > 0), constraint c foreign key (i) references p", "FOREIGN KEY"),
        ("primary key constraint c references p, constraint c foreign key (i) references p", "FOREIGN KEY"),
    ],
)
def test_a_name_that_a_table_has_twice_is_told_with_the_kind_of_the_first(db: Session, items: str, kind: str) -> None:
    """The error of a duplicate name in CREATE TABLE names the first kind: keys, then foreign keys, then checks."""
    db.sql("create table p (i int primary key)")
    exists = ("CONSTRAINT_EXISTS", f"{kind} constraint 'C' already exists in space 'T'")
    assert db.error(f"create table t (i int {items})") == exists
    assert db.value('select count(*) from "_space" where "name" = \'T\'') == 0


def test_two_columns_of_a_foreign_key_may_not_refer_to_one(db: Session) -> None:
    db.sql("create table p (i int primary key)")
    db.sql("create table t (i int primary key, j int)")
    row = ["F", 513, 512, False, "simple", "restrict", "restrict", [0, 1], [0, 0]]
    text = "Failed to create foreign key constraint 'F': referenced fields can not contain duplicates"
    assert db.write_error("_fk_constraint", Request.insert(pack(row))) == ("CREATE_FK_CONSTRAINT", text)


@pytest.mark.parametrize(
    ("actions", "position", "word"),
    [
        ("on delete cascade on delete restrict", 70, "delete"),
        ("on delete cascade on update restrict on delete restrict", 86, "on"),
    ],
)
def test_a_foreign_key_has_one_action_for_an_event(db: Session, actions: str, position: int, word: str) -> None:
    text = f"keyword '{word}' is reserved. Please use double quotes if '{word}' is an identifier."
    found = db.error(f"create table t (id int primary key references t {actions})")[1]
    assert found == f"At line 1 at or near position {position}: {text}"


def test_names_of_constraints_are_those_of_a_table(db: Session) -> None:
    """Unique indexes, checks and foreign keys of a table share one set of names."""
    db.sql("create table t (id int primary key, a int, constraint c check (a > 0), constraint u unique (a))")
    exists = "CHECK constraint 'C' already exists in space 'T'"
    assert db.error("create unique index c on t (a)") == ("CONSTRAINT_EXISTS", exists)
    assert db.error("alter table t add constraint c unique (a)") == ("CONSTRAINT_EXISTS", exists)
    assert db.sql("create index c on t (a)") == 1
    parts = [{"field": 1, "type": "integer", "is_nullable": True}]
    renamed = Request.replace(pack([512, 1, "C2", "tree", {"unique": True}, parts]))
    db.write("_index", renamed)
    assert db.sql("alter table t add constraint u check (a > 1)") == 1
    back = Request.replace(pack([512, 1, "U", "tree", {"unique": True}, parts]))
    assert db.write_error("_index", back) == ("CONSTRAINT_EXISTS", "CHECK constraint 'U' already exists in space 'T'")


def test_the_newest_check_is_first(db: Session) -> None:
    """Of several violated checks the newest one is reported; of those of one CREATE TABLE, the first one."""
    db.sql("create table t (id int primary key, constraint one check (id > 5), constraint two check (id > 6))")
    assert db.error("insert into t values (1)")[1] == "Check constraint failed 'ONE': id > 5"
    db.sql("alter table t add constraint three check (id > 7)")
    assert db.error("insert into t values (1)")[1] == "Check constraint failed 'THREE': id > 7"


def test_the_text_of_a_check_has_single_spaces(db: Session) -> None:
    db.sql("create table t (id int primary key, s text check ( s  like\n '1  a'   or \"S\"  = 'b '' c'))")
    assert db.rows_of("_ck_constraint")[0][4] == "s like '1  a' or \"S\" = 'b '' c'"


def test_a_check_needs_a_format(db: Session) -> None:
    db.write("_space", Request.insert(pack([600, 1, "S", "memtx", 0, {}, []])))
    db.write("_index", Request.insert(pack([600, 0, "pk", "tree", {"unique": True}, [[0, "unsigned"]]])))
    text = "Tarantool does not support CK constraint for space without format"
    check = Request.insert(pack([600, "C", False, "SQL", "a > 1", True]))
    assert db.write_error("_ck_constraint", check) == ("UNSUPPORTED", text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("create table c (id int primary key, x int, foreign key (y) references p (zz))", "foreign key refers to nonexistent field ZZ"),
        ("create table c (id int primary key, x int, foreign key (y) references p)", "unknown column Y in foreign key definition"),
        ("create table c (id int primary key, x int references c (zz))", "unknown column ZZ in foreign key definition"),
        ("create table c (id int primary key, x int references v (id))", "referenced space can't be VIEW"),
        ("create table c (id int, x int references c, primary key (id, x))", "number of columns in foreign key does not match the number of columns in the primary index of referenced table"),
        ("alter table o add constraint f foreign key (z) references p", "foreign key refers to nonexistent field Z"),
    ],
)  # fmt: skip
def test_the_parent_of_a_foreign_key_is_checked_first(db: Session, text: str, reason: str) -> None:
    db.sql("create table p (id int primary key)")
    db.sql("create table o (id int primary key)")
    db.sql("create view v as select id from p")
    code, message = db.error(text)
    name = "F" if text.startswith("alter") else "fk_unnamed_C_1"
    assert (code, message) == ("CREATE_FK_CONSTRAINT", f"Failed to create foreign key constraint '{name}': {reason}")


def test_a_referenced_index_keeps_its_fields(db: Session) -> None:
    db.sql("create table p (id int primary key, a int unique)")
    db.sql("create table c (id int primary key, x int references p (a))")
    moved = Request.replace(pack([512, 1, "I", "tree", {"unique": True}, [{"field": 0, "type": "integer"}]]))
    text = "Can't modify space 'P': can not alter a referenced index"
    assert db.write_error("_index", moved) == ("ALTER_SPACE", text)


def test_nil_is_looked_for_before_types_are(db: Session) -> None:
    db.sql("create table x (id int primary key, s string, n int not null, m int)")
    missing = ("SQL_EXECUTE", "Failed to execute SQL statement: NOT NULL constraint failed: X.N")
    assert db.error("insert into x (id, s, n) values (1, 1, null)") == missing
    assert db.error("insert into x (id, s) values ('a', 1)") == missing
    db.sql("insert into x values (1, 'a', 1, 1)")
    assert db.error("update x set s = 1, n = null") == missing
    assert db.sql("insert or ignore into x values (2, 1, null, 3)") == 0


@pytest.mark.parametrize(
    ("statement", "is_foreign_key_first"),
    [
        ("insert into q values (1, 7, 200)", True),
        ("insert into q (id, b, a) values (1, 7, 200)", True),
        ("insert or ignore into q values (1, 7, 200)", True),
        ("insert into q values (0, 7, 1)", True),
        ("insert into q select 1, 7, 200", False),
        ("insert into q values (1, 1, 1), (2, 7, 200)", False),
        ("replace into q values (1, 7, 200)", False),
        ("update q set b = 7, a = 200", False),
        ("insert into q values (1, 1, 200)", False),
    ],
)
def test_an_insert_of_one_row_checks_foreign_keys_first(
    db: Session, statement: str, *, is_foreign_key_first: bool
) -> None:
    """Nothing later in such a statement can give the row a parent. Expected texts are those of 2.8.1."""
    db.sql("create table p (id int primary key)")
    db.sql("create table q (id int primary key, b int references p (id), a int, check (a < 100))")
    db.sql("insert into p values (1)")
    db.sql("insert into q values (0, 1, 1)")
    check = ("CK_CONSTRAINT_FAILED", "Check constraint failed 'ck_unnamed_Q_1': a < 100")
    assert db.error(statement) == (FAILED if is_foreign_key_first else check)


def test_a_row_that_is_its_own_parent_may_be_inserted_alone(db: Session) -> None:
    db.sql("create table s (id int primary key, b int references s (id))")
    assert db.sql("insert into s values (1, 1)") == 1
    assert db.error("insert into s values (2, 3)") == FAILED


@pytest.mark.parametrize(
    ("actions", "change", "children"),
    [
        ("on delete cascade", "update or replace p set n = 5 where id = 3", [[1, 1], [4, None]]),
        ("on delete cascade on update set null", "update or replace p set id = 7 where id = 3", [[1, 1], [4, None]]),
        ("on delete cascade", "update or replace p set v = 'a' where id = 3", [[4, None]]),
        ("on delete set null on update cascade", "update or replace p set id = 1 where id = 3",
         [[1, None], [3, None], [4, None]]),
        ("on update cascade", "update or replace p set n = 5 where id = 3", None),
        ("on delete restrict", "update or replace p set n = 5 where id = 3", None),
        ("deferrable initially deferred", "update or replace p set n = 5 where id = 3", None),
    ],
)  # fmt: skip
def test_update_or_replace_removes_the_old_row_for_its_children(
    db: Session, actions: str, change: str, children: list[list[object]] | None
) -> None:
    db.sql("create table p (id int primary key, v text unique, n int)")
    db.sql(f"create table c (id int primary key, pid int references p {actions})")
    db.sql("insert into p values (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)")
    db.sql("insert into c values (1, 1), (3, 3), (4, null)")
    if children is None:
        assert db.error(change)[1].endswith("FOREIGN KEY constraint failed")
        children = [[1, 1], [3, 3], [4, None]]
    else:
        db.sql(change)
    assert db.sql("select * from c") == children


def test_a_failed_foreign_key_takes_no_number_of_a_sequence(db: Session) -> None:
    """An INSERT of one row checks it before the sequence gives the key, even in a table that refers to itself."""
    db.sql("create table s (id int primary key autoincrement, pid int references s)")
    assert db.error("insert into s values (null, 1)")[1].endswith("FOREIGN KEY constraint failed")
    assert db.execute("insert into s values (null, null)").autoincrement_ids == [1]
    assert db.execute("insert into s values (null, 1)").autoincrement_ids == [2]
    assert db.error("insert into s values (null, 1), (null, 9)")[1].endswith("FOREIGN KEY constraint failed")
    assert db.execute("insert into s values (null, 1)").autoincrement_ids == [5]


def test_an_index_may_be_dropped_if_foreign_keys_use_another_one(db: Session) -> None:
    """A foreign key finds its parents with the first unique index of its columns."""
    db.sql("CREATE TABLE p (id INT PRIMARY KEY, n INT, CONSTRAINT u1 UNIQUE (n))")
    db.sql("CREATE UNIQUE INDEX u2 ON p (n)")
    db.sql("CREATE TABLE c (id INT PRIMARY KEY, n INT REFERENCES p (n))")
    assert db.sql("DROP INDEX u2 ON p") == 1
    assert db.error("ALTER TABLE p DROP CONSTRAINT u1")[1].endswith("can not drop a referenced index")
    assert db.error("INSERT INTO c VALUES (1, 1)")[1].endswith("FOREIGN KEY constraint failed")


@pytest.mark.parametrize("change", ["id = 12 where id = 11", "id = id + 1 where id > 10"])
def test_update_or_replace_of_a_row_that_is_its_own_parent(db: Session, change: str) -> None:
    db.sql("create table own (id int primary key, a int references own(id))")
    db.sql("insert into own values (11, 11)")
    assert db.error(f"update or replace own set {change}") == (
        "SQL_EXECUTE",
        "Failed to execute SQL statement: FOREIGN KEY constraint failed",
    )
    assert db.sql("select * from own") == [[11, 11]]
