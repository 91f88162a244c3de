"""`executemany` changes rows together, with the outcome of single statements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from box import dbapi
from box.sync.thread_statements import ThreadStatements

CREATE = "CREATE TABLE goods (id INTEGER PRIMARY KEY, name STRING, price NUMBER NOT NULL DEFAULT 1, code STRING UNIQUE)"
ROWS = [(number, f"name {number}", number / 4, f"c{number}") for number in range(200)]


def changed(place: int, row: Any) -> list[Any]:
    """Return `ROWS` with another row at a place."""
    return [*ROWS[:place], row, *ROWS[place + 1 :]]


PROGRAMS: dict[str, tuple[str, Any]] = {
    "plain": ("INSERT INTO goods VALUES (?, ?, ?, ?)", ROWS),
    "lists": ("INSERT INTO goods VALUES (?, ?, ?, ?)", [list(row) for row in ROWS]),
    "an iterator": ("INSERT INTO goods VALUES (?, ?, ?, ?)", iter(ROWS)),
    "columns": ("INSERT INTO goods (code, id) VALUES (?, ?)", [(row[3], row[0]) for row in ROWS]),
    "constants": ("INSERT INTO goods VALUES (?, 'x', 2, ?)", [(row[0], row[3]) for row in ROWS]),
    "nothing": ("INSERT INTO goods VALUES (?, NULL, ?, NULL)", [(row[0], row[2]) for row in ROWS]),
    "names": ("INSERT INTO goods VALUES (:a, :b, 1, :b)", [{"a": row[0], "b": row[1]} for row in ROWS]),
    "replace": ("REPLACE INTO goods VALUES (?, ?, ?, NULL)", [(row[0] % 50, *row[1:3]) for row in ROWS]),
    "update": ("UPDATE goods SET name = ? WHERE id = ?", [("x", row[0]) for row in ROWS]),
    "replace without other keys": ("REPLACE INTO plain VALUES (?, ?, ?)", [(row[0] % 50, *row[1:3]) for row in ROWS]),
    "replace of a wrong row": ("REPLACE INTO plain VALUES (?, ?, ?)", [(1, "x", 1)] * 80 + [(1, "x", None)]),
    "replace of a text": ("REPLACE INTO plain VALUES (?, ?, ?)", [(1, "x", 1)] * 80 + [(1, 5, 2), (2, "y", "z")]),
    "replace of a large row": ("REPLACE INTO plain VALUES (?, ?, ?)", [(1, "x", 1)] * 80 + [(1, "x" * 1100000, 2)]),
    "update of nothing": ("UPDATE plain SET price = ? WHERE id = ?", [(2, row[0] + 9000) for row in ROWS]),
    "update to a text": ("UPDATE plain SET price = ? WHERE id = ?", [(1, 9000)] * 80 + [("2", 9000), ("x", 9000)]),
    "update to nil": ("UPDATE plain SET price = ? WHERE id = ?", [(1, 9000)] * 80 + [(None, 9000)]),
    "update of a code": ("UPDATE goods SET code = ? WHERE id = ?", [("a", 5000)] * 80 + [("before", 5000)]),
    "update by a text": ("UPDATE plain SET price = ? WHERE id = ?", [(1, 9000)] * 80 + [(3, "9000"), (4, "x")]),
    "delete": ("DELETE FROM plain WHERE id = ?", [(row[0] + 8900,) for row in ROWS]),
    "delete by a real": ("DELETE FROM plain WHERE id = ?", [(7,)] * 80 + [(9000.0,), (9001.5,)]),
    "letters": ("UPDATE plain SET name = ? WHERE id = ?", [("\u0436" * 3, 9000)] * 80 + [("a\udcff", 9000)]),
    "a key again": ("INSERT INTO goods VALUES (?, ?, ?, ?)", changed(150, (3, "x", 1, "y"))),
    "a code again": ("INSERT INTO goods VALUES (?, ?, ?, ?)", changed(70, (900, "x", 1, "c5"))),
    "an integer as text": ("INSERT INTO goods VALUES (?, ?, ?, ?)", changed(30, (30, 17, 1, "y"))),
    "a text as number": ("INSERT INTO goods VALUES (?, ?, ?, ?)", changed(30, (30, "x", "text", "y"))),
    "a boolean as key": ("INSERT INTO goods VALUES (?, ?, ?, ?)", changed(90, (True, "x", 1, "y"))),
    "no key": ("INSERT INTO goods VALUES (?, ?, ?, ?)", changed(99, (None, "x", 1, "y"))),
    "no price": ("INSERT INTO goods VALUES (?, ?, ?, ?)", changed(65, (65, "x", None, "y"))),
    "too few": ("INSERT INTO goods VALUES (?, ?, ?, ?)", changed(10, (10, "x", 1))),
    "too many": ("INSERT INTO goods VALUES (?, ?, ?, ?)", changed(10, (10, "x", 1, "y", 5))),
    "a great integer": ("INSERT INTO goods VALUES (?, ?, ?, ?)", changed(120, (2**70, "x", 1, "y"))),
    "an unsigned integer": ("INSERT INTO goods VALUES (?, ?, ?, ?)", changed(120, (2**63, "x", 1, "y"))),
    "not a number": ("INSERT INTO goods VALUES (?, ?, ?, ?)", changed(64, (64, "x", float("nan"), "y"))),
    "an object": ("INSERT INTO goods VALUES (?, ?, ?, ?)", changed(63, (63, object(), 1, "y"))),
    "no sequence": ("INSERT INTO goods VALUES (?, ?, ?, ?)", changed(62, 5)),
}


def run(text: str, given: Any, autocommit: bool, execute: Callable[[Any, str, Any], Any]) -> tuple[Any, ...]:
    """Run statements in a new database, and return everything that they leave behind."""
    with dbapi.connect(None, autocommit=autocommit) as connection:
        cursor = connection.cursor().execute(CREATE)
        cursor.execute("INSERT INTO goods VALUES (5000, 'before', 1, 'before')")
        cursor.execute("CREATE TABLE plain (id INTEGER PRIMARY KEY, name STRING, price NUMBER NOT NULL)")
        cursor.execute("INSERT INTO plain VALUES (9000, 'before', 1), (9001, 'before', 2)")
        error: Any = None
        try:
            execute(cursor, text, given)
        except Exception as caught:
            error = type(caught), str(caught)
        counts = (cursor.rowcount, connection.in_transaction) if error is None else ()
        within = [cursor.execute(f"SELECT * FROM {table}").fetchall() for table in ("goods", "plain")]
        connection.commit()
        after = [cursor.execute(f"SELECT * FROM {table}").fetchall() for table in ("goods", "plain")]
        return error, counts, repr(within), repr(after)


@pytest.mark.parametrize("autocommit", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_rows_together_as_one_by_one(name: str, autocommit: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal rows, counts and errors; the rows before a wrong one are inserted."""
    text, given = PROGRAMS[name]
    given = list(given)
    together = run(text, given, autocommit, dbapi.DatabaseCursor.executemany)
    monkeypatch.setattr(ThreadStatements, "run_together", lambda *_: [])
    assert together == run(text, given, autocommit, dbapi.DatabaseCursor.executemany)


def test_many_rows_are_stored_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hundred rows run no statement by itself, and a trigger makes them run one by one."""
    alone: list[Any] = []
    run_now = ThreadStatements.run_now
    monkeypatch.setattr(ThreadStatements, "run_now", lambda self, *args: alone.append(args) or run_now(self, *args))
    with dbapi.connect(None) as connection:
        cursor = connection.cursor().execute(CREATE)
        alone.clear()
        assert cursor.executemany("INSERT INTO goods VALUES (?, ?, ?, ?)", ROWS).rowcount == 200
        assert not alone
        cursor.execute("CREATE TABLE told (id INTEGER PRIMARY KEY)")
        cursor.execute(
            "CREATE TRIGGER t AFTER INSERT ON goods FOR EACH ROW BEGIN INSERT INTO told VALUES (NEW.id); END"
        )
        alone.clear()
        cursor.executemany("INSERT INTO goods VALUES (?, ?, ?, ?)", [(row[0] + 500, "x", 1, None) for row in ROWS[:70]])
        assert alone
        assert len(cursor.execute("SELECT * FROM told").fetchall()) == 70
