"""Queries on copies of spaces: they give what they give on the spaces; when copies are made, used and removed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from box.data.codec import pack
from box.errors import BoxError
from box.index.ordered import OrderedIndex
from box.sql import copies, pauses, reading
from box.sql.copies import Copies
from box.sql.sqlite_connection import Connection
from box.wire.change import Request
from test.interop.sql_tables import Generator

from .conftest import Session, Start

ROWS = 1200
_FILL = (
    f"insert into t with recursive r (n) as (values (0) union all select n + 1 from r where n + 1 < {ROWS}) "
    "select n, n % 10, 'row ' || cast(n % 7 as string), n + 0.5 from r"
)
_SUMS = "select a, count(*), sum(d), max(s) from t group by a"


class Watched:
    """Counts how often a node has used copies, and can forbid or force it."""

    def __init__(self, db: Session, monkeypatch: pytest.MonkeyPatch) -> None:
        self.copies: Copies = db.node.sql._queries._copies
        self.uses = 0
        self.is_forced: bool | None = None
        self.own_reads = 0.0
        """What the last query had read when it was asked whether it should run on copies."""
        worthwhile, lend = self.copies.are_worthwhile, self.copies.lend

        def are_worthwhile(spaces: Any, *reads: float) -> bool:
            if self.is_forced is None:
                self.own_reads = reads[0] if reads else 0
                return worthwhile(spaces, *reads)
            return self.is_forced and not self.copies._is_busy

        def counted(*args: Any) -> Any:
            self.uses += 1
            return lend(*args)

        monkeypatch.setattr(self.copies, "are_worthwhile", are_worthwhile)
        monkeypatch.setattr(self.copies, "lend", counted)

    @property
    def copied(self) -> set[int]:
        """The ids of the spaces that have a copy."""
        return {number for number, known in self.copies._known.items() if known.is_copied}


@pytest.fixture
def db(start: Start, monkeypatch: pytest.MonkeyPatch) -> Session:
    """A table of some rows, in a node that copies after few reads, and whose queries pause as often as they can."""
    monkeypatch.setattr(pauses, "_TURN", 0.0)
    monkeypatch.setattr(copies, "_LEAST_READS", 0)
    monkeypatch.setattr(reading, "_SMALL", 0)
    session = start()
    fill(session)
    return session


def fill(session: Session) -> None:
    """Create the table T with an index on A, and ROWS rows."""
    session.sql("create table t (id int primary key, a int, s text, d double)")
    session.sql("create index by_a on t (a)")
    session.sql(_FILL)


@pytest.fixture
def watched(db: Session, monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(db, monkeypatch)


def _outcome(db: Session, text: str) -> Any:
    try:
        return db.sql(text)
    except BoxError as error:
        return error.code, error.message


def _listeners(db: Session) -> int:
    """Return how many follow the changes of the indexes of the table: a copy is one."""
    return sum(len(index.listeners) for index in db.node.schema.space_by_name("T").indexes.values())  # type: ignore[attr-defined]


@pytest.mark.parametrize("seed", range(1, 7))
def test_generated_queries_give_the_same(start: Start, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(reading, "_SMALL", 0)
    db, made = start(memtx_use_mvcc_engine=seed > 3), Generator(seed)
    watched = Watched(db, monkeypatch)
    statements = [*made.statements, *(made.change() if number % 3 == 0 else made.query() for number in range(120))]
    for text in statements:
        watched.is_forced = False
        first = _outcome(db, text)
        if text.startswith(("SELECT", "WITH", "VALUES")):
            watched.is_forced = True
            second = _outcome(db, text)
            # Whether a row that LIMIT or OFFSET leaves out raises an error is a matter of the plan.
            assert second == first or (" LIMIT " in text and isinstance(first, tuple) != isinstance(second, tuple)), (
                text
            )
    assert watched.uses > 10


def test_values_that_sqlite_has_not(db: Session, watched: Watched) -> None:
    db.sql("create table v (id int primary key, n number, u unsigned, b boolean, x varbinary, y scalar, s string)")
    db.sql("create index by_n on v (n)")
    db.sql("create unique index by_u on v (u)")
    db.sql("create index by_b on v (b, x)")
    for row in (
        "1, 1, 18446744073709551615, true, x'00', true, 'a'",
        "2, 1.0, 9223372036854775807, false, x'', 'b', 'a\u00e4'",
        "3, 18446744073709551615, 0, true, x'03', 7, ''",
        "4, -2.5, null, null, null, null, null",
    ):
        db.sql(f"insert into v values ({row})")
    for text in (
        "select * from v order by id",
        "select id from v where u > 9223372036854775807 order by id",
        "select id from v where u = 18446744073709551615 order by id",
        "select id, n from v where n = 1 order by n, id",
        "select n, id from v order by n desc, id",
        "select max(u), min(n), sum(n), count(b), max(y), min(y), max(x) from v",
        "select b, count(*) from v group by b",
        "select x, y from v where b = true order by y, x",
        "select p.id, q.id from v as p join v as q on q.n = p.n order by 1, 2",
    ):
        watched.is_forced = False
        first = db.sql(text)
        watched.is_forced = True
        assert db.sql(text) == first
    assert watched.uses == 9


def test_a_copy_is_made_after_some_reads_and_ends_with_many_changes(db: Session, watched: Watched) -> None:
    first = db.sql(_SUMS)
    assert [db.sql(_SUMS) for _ in range(3)] == [first] * 3
    assert watched.uses
    uses = watched.uses
    assert _listeners(db)
    db.sql(f"update t set d = d + 1 where id < {ROWS // 4}")
    assert _listeners(db)
    db.sql(f"update t set d = d + 1 where id = {ROWS // 4}")
    assert not _listeners(db)
    db.sql(f"update t set d = d - 1 where id <= {ROWS // 4}")
    assert db.sql(_SUMS) == first
    assert watched.uses == uses
    assert not watched.copied


@pytest.mark.parametrize(
    "changes",
    [
        ["update t set a = 11 where id = 5"],
        ["update t set a = a + 1, s = s || '!' where id % 50 = 0"],
        ["update t set s = null, d = null where id in (0, 77, 1199)", "replace into t values (77, 1, 'new', 1)"],
        ["insert into t values (-5, 1, 'x', 0.5), (9999, null, null, null)", "delete from t where id = 9999"],
        ["delete from t where id between 100 and 120", "insert into t values (110, 3, 'back', null)"],
        ["start transaction", "delete from t where a = 3", "insert into t values (3, 5, 'no', 1)", "rollback"],
        ["start transaction", "update t set s = 'kept' where id < 20", "savepoint p", "delete from t where id < 30",
         "rollback to savepoint p", "commit"],
    ],
)  # fmt: skip
def test_changed_rows_are_replaced(db: Session, watched: Watched, changes: list[str]) -> None:
    """Neither a change nor its rollback ends a copy: the next query sees the rows as they are."""
    watched.is_forced = True
    db.sql("create unique index by_s on t (id, s)")
    queries = _SUMS, "select * from t where a = 5 order by id", "select * from t order by id desc"
    for text in queries:
        db.sql(text)
    made = watched.copies._known[db.node.schema.space_by_name("T").id]
    for change in changes:
        db.sql(change)
    uses = watched.uses
    on_copies = [db.sql(text) for text in queries]
    assert watched.uses == uses + 3
    assert watched.copies._known[db.node.schema.space_by_name("T").id] is made
    watched.is_forced = False
    assert [db.sql(text) for text in queries] == on_copies


def _text(number: int) -> str:
    return chr(97 + number) if number % 3 else f"\xff{number}"


@pytest.mark.parametrize(
    ("kind", "key", "survives"),
    [
        ("string", _text, True),
        ("varbinary", lambda number: bytes([number]) * (number % 3 + 1), True),
        ("unsigned", lambda number: 2**63 - 5 + number, True),
        ("uuid", lambda number: UUID(int=number), True),
        ("number", lambda number: number / 2, False),
        ("scalar", lambda number: number % 2 == 0 if number < 2 else number, False),
    ],
)
def test_keys_by_which_a_changed_row_is_found(
    db: Session, watched: Watched, kind: str, key: Callable[[int], Any], survives: bool
) -> None:
    fields = [{"name": "K", "type": kind}, {"name": "V", "type": "integer"}]
    db.write("_space", Request.insert(pack([600, 1, "K", "memtx", 0, {}, fields])))
    db.write("_index", Request.insert(pack([600, 0, "pk", "tree", {"unique": True}, [[0, kind]]])))
    for number in range(10):
        db.write("K", Request.insert(pack([key(number), number])))
    watched.is_forced = True
    assert db.value("select sum(v) from k") == 45
    made = watched.copies._known[600]
    db.write("K", Request.replace(pack([key(1), 11, "one more field"])))
    db.write("K", Request.delete([key(9)]))
    assert db.value("select sum(v) from k") == 46
    assert (watched.copies._known[600] is made) == survives


def test_changes_that_exchange_values_of_a_unique_index(db: Session, watched: Watched) -> None:
    db.sql("create table u (id int primary key, v int unique)")
    db.sql("insert into u select id, id from t where id < 20")
    watched.is_forced = True
    assert db.value("select sum(id) from u where v > 16") == 17 + 18 + 19
    made = watched.copies._known[db.node.schema.space_by_name("U").id]
    for change in "v = null where id = 1", "v = 1 where id = 19", "v = 19 where id = 1":
        db.sql(f"update u set {change}")
    assert db.value("select sum(id) from u where v > 16") == 17 + 18 + 1
    assert watched.copies._known[db.node.schema.space_by_name("U").id] is made


@pytest.mark.parametrize("how", ["drop table t", "truncate table t", "create index by_d on t (d)", "end"])
def test_nothing_is_kept_of_a_space_whose_indexes_are_gone(db: Session, watched: Watched, how: str) -> None:
    watched.is_forced = True
    db.sql(_SUMS)
    db.sql("update t set a = 11 where id = 5")
    index = db.node.schema.space_by_name("T").primary
    assert isinstance(index, OrderedIndex)
    assert index.listeners
    if how == "end":
        db.wait(db.node.close())
    else:
        db.sql(how)
    assert not index.listeners


def test_a_query_that_reads_many_rows_begins_anew(db: Session, watched: Watched) -> None:
    text = "select count(*), sum(y.d) from t as x join t as y on y.id = x.id + 1 join t as z on z.id = y.id + 1"
    watched.is_forced = False
    first = db.sql(text)
    watched.is_forced = None
    db.sql("update t set a = a")
    assert db.sql(text) == first
    assert watched.uses == 1


def test_a_query_that_will_read_many_rows_begins_anew_soon(db: Session, watched: Watched) -> None:
    """The progress of the outermost loop tells it."""
    text = "select count(*), sum(y.d) from t as x join t as y on y.id = x.id + 1 join t as z on z.id = y.id + 1"
    watched.is_forced = False
    first = db.sql(text)
    watched.is_forced = None
    db.sql("update t set a = a")
    assert db.sql(text) == first
    assert 0 < watched.own_reads < ROWS // 2
    assert watched.uses == 1


@pytest.mark.parametrize(
    "text",
    [
        "select a, d from t where a > 3",
        "select a from t order by a",
        "select * from t limit 3",
        "select group_concat(s) from t",
        "select count(*), s from t",
        "select count(*) from (select * from t limit 7)",
        "select count(*) from t where exists (select 1 from t as x where x.id = t.a limit 1)",
    ],
)
def test_only_queries_that_do_not_show_the_order_of_a_scan(db: Session, watched: Watched, text: str) -> None:
    watched.is_forced = True
    db.sql(text)
    assert watched.uses == int("order by" in text or "exists" in text)


def test_not_for_keys_that_are_an_error(db: Session, watched: Watched) -> None:
    """A negative number as the key of an index of unsigned numbers is an error, which only the space gives."""
    db.sql("create table u (id unsigned primary key, i int)")
    db.sql("insert into u values (1, -1), (2, 2)")
    watched.is_forced = True
    error = "SQL_TYPE_MISMATCH", "Type mismatch: can not convert -1 to unsigned"
    assert db.error("select count(*) from u where id > -1") == error
    assert db.error("select count(*) from u where id > ?", -1) == error
    assert db.error("select count(*) from (select id from u) where id > -1") == error
    wrong = "Supplied key type of part 0 does not match index part type: expected unsigned"
    assert db.error("select count(*) from u where id in (5, -1, 2)") == ("KEY_PART_TYPE", wrong)
    assert watched.uses == 0
    assert db.value("select count(*) from u where id > ?", 1) == 1
    assert db.value("select count(*) from u as x join u as y on x.id = y.id where x.i > -1") == 1
    assert watched.uses == 2


def test_not_with_collations_or_backwards(db: Session, watched: Watched) -> None:
    watched.is_forced = True
    db.sql('create table c (id int primary key, s text collate "unicode_ci", unique (s))')
    db.sql("insert into c values (1, 'A')")
    assert db.value("select count(*) from c where s = 'a'") == 1
    db.sql('set session "sql_reverse_unordered_selects" = true')
    assert db.value("select count(*) from t") == ROWS
    assert watched.uses == 0


def test_a_text_that_is_not_utf8_is_never_copied(db: Session, watched: Watched) -> None:
    watched.is_forced = True
    text = "select count(*) from t where s > 'row 6'"
    assert (db.value(text), watched.uses) == (0, 1)
    db.sql("update t set s = ? where id = 5", "row \udcff")
    for _ in range(2):
        assert db.value(text) == 1
    assert not watched.copied
    db.sql("update t set s = 'row 5' where id = 5")
    assert db.value("select count(s) from t where s > 'row 6'") == 0
    assert watched.copied


@pytest.mark.parametrize("is_copied", [False, True])
def test_a_change_while_a_copy_is_made_or_read(db: Session, watched: Watched, is_copied: bool) -> None:
    """The query sees one moment. Meanwhile others read the space, and the next query sees the change."""
    other, text = db.another(), "select count(*), sum(x.a) from t as x, (select * from t where a < 3) as y"
    watched.is_forced = False
    first = db.sql(text)
    watched.is_forced = True
    if is_copied:
        db.sql(_SUMS)

    async def beside() -> Any:
        task, turn = asyncio.create_task(db.node.sql.execute(db.ctx, text, ())), 0
        while not task.done():
            await asyncio.sleep(0)
            turn += 1
            if turn == 2:
                assert not task.done()
                await other.node.sql.execute(other.ctx, "delete from t where id = 11", ())
                found = await other.node.sql.execute(other.ctx, "select count(*) from t", ())
                assert found.rows == [[ROWS - 1]]
        return (await task).rows

    assert db.wait(beside()) == first
    assert watched.uses == 1 + is_copied
    assert db.value("select count(id) from t") == ROWS - 1
    assert watched.uses == 2 + is_copied


@pytest.mark.parametrize("is_copied", [False, True])
def test_a_query_on_copies_is_cancelled(db: Session, watched: Watched, is_copied: bool) -> None:
    watched.is_forced = True
    if is_copied:
        db.sql(_SUMS)

    async def run() -> None:
        query = "select count(*) from t as x, t as y, t as z where x.d + y.d < z.d"
        task = asyncio.create_task(db.node.sql.execute(db.ctx, query, ()))
        for _ in range(3):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    db.wait(run())
    assert bool(watched.copied) == is_copied
    assert _listeners(db) == is_copied
    assert db.value("select count(*) from t where d > 0") == ROWS
    db.sql("delete from t where id = 1")
    assert db.value("select count(*) from t where d > 0") == ROWS - 1
    assert watched.uses == 3 + is_copied


def test_an_error_on_copies(db: Session, watched: Watched) -> None:
    watched.is_forced = True
    error = "SQL_EXECUTE", "Failed to execute SQL statement: division by zero"
    assert db.error("select sum(id) from t where 10 / (1000 - id) > -100") == error
    assert watched.copied
    db.sql("drop index by_a on t")
    assert db.value("select count(*) from t where a = 3") == ROWS // 10
    db.sql("truncate table t")
    assert db.value("select count(*) from t") == 0


def test_copies_take_a_part_of_the_memory(db: Session, watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those used least recently go; a space too large for the part is never copied."""
    for name in ("p", "q"):
        db.sql(f"create table {name} (id int primary key, s text)")
        db.sql(f"insert into {name} select id, 'a text that takes some memory ' || s from t")
    ids = {name: db.node.schema.space_by_name(name).id for name in ("T", "P", "Q")}

    def run(name: str) -> None:
        for _ in range(3):
            assert db.value(f"select count(s) from {name}") == ROWS

    run("p")
    run("q")
    assert watched.copied == {ids["P"], ids["Q"]}
    size = watched.copies._known[ids["P"]].size
    assert size < copies._estimate(db.node.schema.space_by_name("P")) + 20_000
    needed = copies._estimate(db.node.schema.space_by_name("T"))
    monkeypatch.setattr(watched.copies, "_limit", lambda: size + needed)
    run("p")
    run("t")
    assert watched.copied == {ids["P"], ids["T"]}
    monkeypatch.setattr(watched.copies, "_limit", lambda: size // 2)
    uses = watched.uses
    run("q")
    assert watched.uses == uses


def test_a_row_with_more_fields_than_columns(db: Session, watched: Watched) -> None:
    fields = [{"name": "A", "type": "unsigned"}, {"name": "B", "type": "any", "is_nullable": True}]
    db.write("_space", Request.insert(pack([600, 1, "L", "memtx", 0, {}, fields])))
    db.write("_index", Request.insert(pack([600, 0, "pk", "tree", {"unique": True}, [[0, "unsigned"]]])))
    for row in [1, "s", 1.5, {"a": 1}], [2], [3, None, "more"]:
        db.write("L", Request.insert(pack(row)))
    watched.is_forced = True
    assert db.sql("select * from l order by a") == [[1, "s"], [2, None], [3, None]]
    assert watched.uses == 1


def test_unique_index_of_parts_of_a_column(db: Session, watched: Watched) -> None:
    """A multikey index allows equal columns."""
    fields = [{"name": "A", "type": "unsigned"}, {"name": "B", "type": "any"}, {"name": "C", "type": "unsigned"}]
    db.write("_space", Request.insert(pack([600, 1, "M", "memtx", 0, {}, fields])))
    db.write("_index", Request.insert(pack([600, 0, "pk", "tree", {"unique": True}, [[0, "unsigned"]]])))
    part = {"field": 1, "type": "unsigned", "path": "[*]"}
    db.write("_index", Request.insert(pack([600, 1, "many", "tree", {"unique": True}, [part]])))
    for number in range(4):
        db.write("M", Request.insert(pack([number, [], 7])))
    watched.is_forced = True
    assert db.sql("select a, c from m order by a") == [[number, 7] for number in range(4)]
    assert watched.uses == 1


@pytest.mark.parametrize(
    ("changes", "is_quick"),
    [
        ([], True),
        (["update t set a = null where id % 3 = 0"], True),
        (["update t set a = 9223372036854775808 where id = 7"], False),
        (["update t set a = 9223372036854770000 where id in (7, 14)"], False),
        (["update t set a = 9223372036854775807 where id in (7, 14, 21)"], False),
        (["update t set a = -9223372036854775807 where id in (7, 14)"], False),
    ],
)
def test_sums_of_integers(
    db: Session, watched: Watched, monkeypatch: pytest.MonkeyPatch, changes: list[str], is_quick: bool
) -> None:
    """SQLite adds them itself; where one, or a sum, has more than 63 bits the query runs once more with our sums."""
    for change in changes:
        db.sql(change)
    ran: list[str] = []
    rows = Connection.rows

    def noted(self: Connection, env: Any, sql: str, *args: Any) -> Any:
        ran.append(sql)
        return rows(self, env, sql, *args)

    monkeypatch.setattr(Connection, "rows", noted)
    for query in ("select sum(a) from t", "select s, sum(a), count(*) from t group by s having sum(a) > 5"):
        watched.is_forced = False
        expected = _outcome(db, query)
        watched.is_forced = True
        ran.clear()
        assert _outcome(db, query) == expected
        assert "else sum(s1.c1)" in ran[0].lower()
        assert len(ran) == (1 if is_quick else 2)
        assert _outcome(db, query) == expected
        assert len(ran) == (2 if is_quick else 3)
