"""Statements on one row by its key take a fast path with the results of the general one."""

from __future__ import annotations

import random
from typing import Any

import pytest

from box.data.codec import unpack
from box.errors import BoxError
from box.sql.engine import Sql
from box.sql.reading import ROW_COUNT
from box.sql.result import Rows

from .conftest import Session, Start

_TABLES = (
    "CREATE TABLE a (id INT PRIMARY KEY, name TEXT, price DOUBLE)",
    "CREATE TABLE b (k1 TEXT, k2 UNSIGNED, flag BOOLEAN NOT NULL, v SCALAR DEFAULT 7, PRIMARY KEY (k2, k1))",
    "CREATE TABLE c (id INT PRIMARY KEY, code TEXT UNIQUE, n NUMBER NOT NULL DEFAULT 5, CHECK (n <> 13))",
    'CREATE TABLE d (id TEXT COLLATE "unicode_ci" PRIMARY KEY, v VARBINARY)',
    "CREATE TABLE e (id INT PRIMARY KEY AUTOINCREMENT, a INT REFERENCES a)",
    "CREATE TABLE f (id UNSIGNED PRIMARY KEY, x INT, y INT NOT NULL ON CONFLICT IGNORE)",
    "CREATE TRIGGER f1 AFTER INSERT ON f FOR EACH ROW BEGIN UPDATE c SET n = n + 1; END",
)
_STATEMENTS = (
    ("SELECT * FROM a WHERE id = ?", 1),
    ("SELECT name, id AS other, a.price FROM a WHERE ? = a.id", 1),
    ("SELECT x.* FROM a AS x WHERE x.id = ?", 1),
    ("SELECT a.id FROM a AS x WHERE x.id = ?", 1),
    ("SELECT nosuch FROM a WHERE id = ?", 1),
    ("SELECT name, ? FROM a WHERE id = ?", 2),
    ("SELECT name FROM a WHERE id = ? AND name = ?", 2),
    ("SELECT name FROM a WHERE id = ? AND id = ?", 2),
    ("SELECT name FROM a WHERE id = ?2", 2),
    ("SELECT name FROM a WHERE id = ? LIMIT 1", 1),
    ("SELECT name FROM a WHERE id = 1", 0),
    ("SELECT * FROM b WHERE k1 = ? AND k2 = ?", 2),
    ("SELECT v, flag FROM b WHERE k2 = ? AND k1 = 'x'", 1),
    ("SELECT * FROM b WHERE k2 = ?", 1),
    ("SELECT * FROM c WHERE id = ?", 1),
    ("SELECT * FROM d WHERE id = ?", 1),
    ("SELECT * FROM e WHERE id = ?", 1),
    ("SELECT * FROM f WHERE id = ?", 1),
    ("INSERT INTO a VALUES (?, ?, ?)", 3),
    ("INSERT INTO a (price, id) VALUES (?, ?)", 2),
    ("INSERT INTO a VALUES (?, ?)", 2),
    ("INSERT INTO a (id, id) VALUES (?, ?)", 2),
    ("INSERT INTO a VALUES (?, 'text', 1.25)", 1),
    ("INSERT OR IGNORE INTO a VALUES (?, ?, ?)", 3),
    ("REPLACE INTO a VALUES (?, ?, ?)", 3),
    ("INSERT OR REPLACE INTO a (id) VALUES (?)", 1),
    ("INSERT INTO b VALUES (?, ?, ?, ?)", 4),
    ("INSERT INTO b (k1, k2, flag) VALUES (?, ?, ?)", 3),
    ("INSERT INTO c VALUES (?, ?, ?)", 3),
    ("INSERT INTO c (id) VALUES (?)", 1),
    ("REPLACE INTO c VALUES (?, ?, ?)", 3),
    ("INSERT INTO d VALUES (?, ?)", 2),
    ("INSERT INTO e VALUES (?, ?)", 2),
    ("INSERT INTO f VALUES (?, ?, ?)", 3),
    ("UPDATE a SET name = ? WHERE id = ?", 2),
    ("UPDATE a SET price = ?, name = ? WHERE id = ?", 3),
    ("UPDATE a SET id = ? WHERE id = ?", 2),
    ("UPDATE a SET price = price + ? WHERE id = ?", 2),
    ("UPDATE a SET name = ?, name = ? WHERE id = ?", 3),
    ("UPDATE b SET flag = ?, v = ? WHERE k1 = ? AND k2 = ?", 4),
    ("UPDATE c SET code = ?, n = ? WHERE id = ?", 3),
    ("UPDATE f SET y = ?, x = ? WHERE id = ?", 3),
    ("DELETE FROM a WHERE id = ?", 1),
    ("DELETE FROM b WHERE k2 = ? AND k1 = ?", 2),
    ("DELETE FROM c WHERE id = ?", 1),
    ("DELETE FROM f WHERE id = ?", 1),
)
_VALUES = (0, 1, 2, 3, 3, 13, -1, 2**63, 2**64 - 1, 1.0, 2.5, float("nan"), float("inf"))
_OTHERS = ("x", "X", "", "1", "\u00e9\u0416", "a\udcff", b"", b"x", True, False, None, {"?": 1}, [1])


def _value(rng: random.Random) -> Any:
    return rng.choice(_VALUES if rng.random() < 0.7 else _OTHERS)


def _outcome(db: Session, text: str, params: list[Any]) -> Any:
    """Return everything visible of a statement, and ROW_COUNT() after it."""
    try:
        result = db.execute(text, *params)
    except BoxError as error:
        found: Any = (error.code, error.message)
    else:
        found = (result.fields, result.rows) if isinstance(result, Rows) else result
    return repr(found), db.ctx.session.storage.get(ROW_COUNT)


def _contents(db: Session) -> dict[str, list[Any]]:
    spaces = [space for space in db.node.schema.spaces.values() if space.id > 511]
    reads = db.node.dml.reads
    return {
        space.name: [repr(unpack(raw)) for raw in reads.select(db.ctx, space, 0, 0, 0, 1000, [])] for space in spaces
    }


_STEPS = ("START TRANSACTION", "COMMIT", "ROLLBACK", "SAVEPOINT s", "ROLLBACK TO SAVEPOINT s")


@pytest.mark.parametrize("share", [0.0, 0.2], ids=["alone", "in transactions"])
@pytest.mark.parametrize("seed", range(3))
def test_both_ways_are_alike(start: Start, monkeypatch: pytest.MonkeyPatch, seed: int, share: float) -> None:
    """Generated statements give equal results, errors and rows on a node with and one without the fast path. `share` is
    that of steps of transactions.
    """
    rng, fast, general = random.Random(seed), start(), start()
    point, ways = Sql._point, [0, 0]

    def only_fast(self: Sql, ctx: Any, parsed: Any) -> Any:
        found = point(self, ctx, parsed) if self is fast.node.sql else None
        ways[found is not None] += 1
        return found

    monkeypatch.setattr(Sql, "_point", only_fast)
    for table in _TABLES:
        for db in (fast, general):
            db.sql(table)
    for _ in range(250):
        text, count = (rng.choice(_STEPS), 0) if rng.random() < share else rng.choice(_STATEMENTS)
        params = [_value(rng) for _ in range(count if rng.random() < 0.97 else max(count - 1, 0))]
        assert _outcome(fast, text, params) == _outcome(general, text, params), (text, params)
    assert _contents(fast) == _contents(general)
    assert ways[True] > 60


def _has_point(db: Session, text: str) -> bool:
    return db.node.sql.point(db.ctx, text)[0] is not None


def test_what_the_dictionary_tells_decides(db: Session) -> None:
    """A trigger, a foreign key or a view stops the fast path of a statement, and dropping it restores it."""
    db.sql(_TABLES[0])
    insert, select = "INSERT INTO a VALUES (?, ?, ?)", "SELECT * FROM a WHERE id = ?"
    assert _has_point(db, insert)
    db.sql("CREATE TRIGGER t BEFORE INSERT ON a FOR EACH ROW BEGIN SELECT 1; END")
    assert not _has_point(db, insert)
    assert _has_point(db, select)
    db.sql("DROP TRIGGER t")
    assert _has_point(db, insert)
    db.sql("DROP TABLE a")
    db.sql("CREATE VIEW a AS SELECT 1 AS id")
    assert not _has_point(db, select)


def test_complete_metadata_takes_the_general_path(db: Session) -> None:
    db.sql(_TABLES[0])
    select = "SELECT * FROM a WHERE id = ?"
    assert _has_point(db, select)
    db.sql('SET SESSION "sql_full_metadata" = true')
    assert not _has_point(db, select)


def test_a_lua_trigger_takes_the_general_path(db: Session) -> None:
    """A statement on a space with a Lua trigger, which may wait, takes the general path."""
    db.sql(_TABLES[0])
    found, _ = db.node.sql.point(db.ctx, "INSERT INTO a VALUES (?, ?, ?)")
    assert found is not None
    space = db.node.schema.space_by_name("A")
    space.on_replace.append(lambda *args: None)  # type: ignore[arg-type]
    try:
        assert found.run(db.ctx, [1, "x", 1.5]) is None  # type: ignore[union-attr]
    finally:
        space.on_replace.clear()
