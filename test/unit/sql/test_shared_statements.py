"""Texts that differ only in constants share a parsed statement, and nothing of that is visible."""

from __future__ import annotations

import random
from typing import Any

import pytest

from box.errors import BoxError
from box.sql import engine, shared_statements
from box.sql.result import Rows
from box.sql.shared_statements import parsed_text, shared_statement

from .conftest import Session, Start

_TABLES = (
    "CREATE TABLE t (id INT PRIMARY KEY, n NUMBER, d DOUBLE, s TEXT, u UNSIGNED, x SCALAR)",
    "CREATE INDEX tn ON t (n)",
    "CREATE INDEX ts ON t (s)",
    "CREATE INDEX tu ON t (u)",
    "CREATE INDEX tx ON t (x)",
    "CREATE TABLE p (a INT PRIMARY KEY, b TEXT)",
    "CREATE TABLE log (id INT PRIMARY KEY AUTOINCREMENT, b SCALAR)",
    "CREATE TABLE g (a INT PRIMARY KEY, b SCALAR)",
    "CREATE TRIGGER g1 AFTER INSERT ON g FOR EACH ROW BEGIN INSERT INTO log VALUES (NULL, NEW.b); END",
)
_STATEMENTS = """
SELECT *, * FROM p WHERE a = *
SELECT - *, + *, ~ *, - - * FROM t WHERE id = 2
SELECT * * 'name', typeof(*), typeof(- *)
SELECT id, * AS q FROM t WHERE * >= COLUMN AND COLUMN < *
SELECT id FROM t WHERE COLUMN BETWEEN * AND * OR COLUMN = *
SELECT id FROM t WHERE COLUMN IN (*) OR COLUMN IN (*, *) OR COLUMN IN (*, *, *)
SELECT id FROM t WHERE (id, COLUMN) < (*, *)
SELECT id FROM t WHERE COLUMN
SELECT id FROM t WHERE s LIKE * OR s LIKE * ESCAPE *
SELECT id, n FROM t ORDER BY *
SELECT id, n FROM t ORDER BY - *, * DESC
SELECT id, s FROM t ORDER BY * COLLATE "unicode_ci" LIMIT *
SELECT id FROM t LIMIT * OFFSET *
SELECT n, count(*) + * FROM t GROUP BY *
SELECT id % 3 + *, max(n) FROM t GROUP BY id % 3 + * HAVING count(id) > *
SELECT id + * FROM t UNION SELECT id + * FROM t ORDER BY id + *
SELECT DISTINCT id % 3, * FROM t ORDER BY id % 3
SELECT count(id), sum(n + *), max(u + *), min(u + *), * FROM t WHERE u <> *
VALUES (*, *), (*, *)
SELECT CAST(* AS INTEGER), CAST(* AS VARCHAR(5)), CAST(* AS BOOLEAN)
SELECT substr(*, *, *), round(*, *), printf(*, *), likelihood(*, 0.5), likelihood(*, *)
SELECT CASE id WHEN * THEN * ELSE * END, (SELECT *), EXISTS (SELECT 1 FROM p WHERE a = *) FROM t
SELECT a.id FROM t AS a JOIN t AS b ON a.id = b.id + * WHERE b.u < * AND a.s = *
WITH w(a) AS (VALUES (*), (*)) SELECT a, * FROM w
SELECT id FROM t WHERE id = * nosuch t
SELECT nosuch, * FROM t WHERE id = *
SELECT t.*.id FROM t
SELECT "S" FROM "T" WHERE "ID" = * AND "S" = *
SELECT id FROM t WHERE id = * -- comment *
INSERT INTO p VALUES (*, *)
INSERT INTO p VALUES (*, *), (- *, *)
INSERT INTO t (id, COLUMN) VALUES (*, *)
INSERT OR IGNORE INTO p (b, a) VALUES (*, *)
INSERT INTO p SELECT id + *, * FROM t WHERE id = *
INSERT INTO g VALUES (*, *)
REPLACE INTO p VALUES (*, *)
UPDATE p SET b = * WHERE a = *
UPDATE t SET COLUMN = * WHERE id = *
UPDATE t SET n = n + *, s = * || s WHERE u > *
DELETE FROM p WHERE a = *
DELETE FROM t WHERE COLUMN = * AND id > *
""".strip().splitlines()
_CONSTANTS: tuple[tuple[str, ...], ...] = (
    ("0", "1", "2", "3", "7", "42", "999999999999999"),
    ("0", "1", "2", "3", "7", "42", "999999999999999"),
    ("1.5", "2.0", "0.25", ".5", "3.", "1e3"),
    ("'a'", "'s1'", "'s%'", "'it''s'", "'2'", "''", "'-- ?'", "'\u00e9'"),
    ("0.0", "1e300", "9007199254740993", "18446744073709551615", "18446744073709551616", "0x1F", "x'61'"),
    ("NULL", "true", "false", "-1", "-2.5", "-9223372036854775808", "(4)"),
)


def _texts(rng: random.Random, count: int) -> list[str]:
    """Return some texts of one statement, whose constants have the same types."""
    kinds: list[tuple[str, ...]] = []
    parts = rng.choice(_STATEMENTS).replace("COLUMN", rng.choice(("id", "n", "d", "s", "u", "x"))).split("*")
    for _ in parts[1:]:
        kinds.append(rng.choice(_CONSTANTS))
    found = []
    for _ in range(count):
        constants = [rng.choice(kind) for kind in kinds]
        found.append(parts[0] + "".join(constant + part for constant, part in zip(constants, parts[1:], strict=True)))
    return found


def _outcome(db: Session, text: str) -> Any:
    """Return what is visible of a statement without complete metadata."""
    try:
        result = db.execute(text)
    except BoxError as error:
        return error.code, error.message
    if isinstance(result, Rows):
        return repr(([(field.name, field.type) for field in result.fields], result.rows))
    return repr(result)


@pytest.mark.parametrize("seed", range(4))
def test_generated_texts(start: Start, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Generated statements, each run with several constants of the same types, give equal results, errors and rows on a
    node that shares statements and one that does not.
    """
    rng, shared, alone = random.Random(seed), start(), start()
    setup = list(_TABLES)
    for number in range(12):
        setup.append(
            f"INSERT INTO t VALUES ({number}, {number}.5, {number}.25, 's{number % 4}', {number % 5}, {number})"
        )
        setup.append(f"INSERT INTO p VALUES ({number}, 'p{number}')")
    texts = [text for _ in range(150) for text in _texts(rng, 4)]
    outcomes = []
    for db in (shared, alone):
        if db is alone:
            monkeypatch.setattr(engine, "shared_statement", lambda text: (parsed_text(text), ()))
        outcomes.append([_outcome(db, text) for text in [*setup, *texts]])
        outcomes.append([_outcome(db, f"SELECT * FROM {table}") for table in ("t", "p", "log", "g")])
    for text, first, second in zip([*setup, *texts], outcomes[0], outcomes[2], strict=True):
        assert first == second, text
    assert outcomes[1] == outcomes[3]


def _share(first: str, second: str) -> bool:
    return shared_statement(first)[0] is shared_statement(second)[0]


@pytest.mark.parametrize(
    ("first", "second", "values"),
    [
        ("SELECT a FROM t WHERE b = 17", "SELECT a FROM t WHERE b = 18", [18]),
        ("INSERT INTO t VALUES (1, 'x', 2.5)", "INSERT INTO t VALUES (007, 'it''s', 1e3)", [7, "it's", 1000.0]),
        ('UPDATE "t1" SET a2 = -5', 'UPDATE "t1" SET a2 = -6', [6]),
        ("DELETE FROM t WHERE a IN (1, 2)", "DELETE FROM t WHERE a IN (3, 3)", [3, 3]),
        ("SELECT a FROM t LIMIT 5", "SELECT a FROM t LIMIT 6", [6]),
        ("SELECT 'a--b', '?'", "SELECT ':c', '/*'", [":c", "/*"]),
        ("SELECT a + 1 FROM t GROUP BY a + 1, b + 2", "SELECT a + 2 FROM t GROUP BY a + 2, b + 3", [2, 3]),
        ("SELECT a FROM t WHERE b = 4 ORDER BY 1", "SELECT a FROM t WHERE b = 5 ORDER BY 1", [5, 1]),
    ],
)
def test_shapes(first: str, second: str, values: list[Any]) -> None:
    """Texts with constants of the same types share a statement, which the values of the constants are given to."""
    assert _share(first, second)
    assert list(shared_statement(second)[1]) == values


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("SELECT a FROM t WHERE b = 1", "SELECT a FROM t WHERE b = 1.0"),
        ("SELECT a FROM t WHERE b = 1", "SELECT a FROM t WHERE b = '1'"),
        ("SELECT a FROM t WHERE b = 1", "SELECT a FROM t WHERE b = 9007199254740993"),
        ("SELECT a FROM t WHERE b = 1.5", "SELECT a FROM t WHERE b = 0.0"),
        ("SELECT a FROM t WHERE b = 0x01", "SELECT a FROM t WHERE b = 0x02"),
        ("SELECT a FROM t WHERE b = x'01'", "SELECT a FROM t WHERE b = x'02'"),
        ("SELECT a FROM t WHERE b IN (1)", "SELECT a FROM t WHERE b IN (1, 2)"),
        ("SELECT a, b FROM t ORDER BY 1", "SELECT a, b FROM t ORDER BY 2"),
        ("SELECT a, b FROM t GROUP BY 1", "SELECT a, b FROM t GROUP BY 2"),
        ("SELECT a, b FROM t ORDER BY -1 COLLATE c", "SELECT a, b FROM t ORDER BY -2 COLLATE c"),
        ("SELECT a 'x' FROM t", "SELECT a 'y' FROM t"),
        ("SELECT a + 1 FROM t GROUP BY a + 1", "SELECT a + 1 FROM t GROUP BY a + 2"),
        ("SELECT a + 1 FROM t UNION SELECT 2 ORDER BY a + 1", "SELECT a + 1 FROM t UNION SELECT 2 ORDER BY a + 2"),
        ("SELECT likelihood(a, 0.5) FROM t", "SELECT likelihood(a, 2.5) FROM t"),
        ("SELECT CAST(a AS VARCHAR(5)) FROM t", "SELECT CAST(a AS VARCHAR(6)) FROM t"),
        ("SELECT a.5 FROM t", "SELECT a.6 FROM t"),
        ("CREATE TABLE t (a INT PRIMARY KEY DEFAULT 1)", "CREATE TABLE t (a INT PRIMARY KEY DEFAULT 2)"),
        ("SELECT a FROM t WHERE b = 1 -- x", "SELECT a FROM t WHERE b = 2 -- x"),
        ("SELECT a FROM t WHERE b = ? AND c = 1", "SELECT a FROM t WHERE b = ? AND c = 2"),
    ],
)
def test_what_is_not_shared(first: str, second: str) -> None:
    """Texts do not share a statement if more than the types of their constants matters."""
    statements = []
    for text in (first, second):
        try:
            statements.append(shared_statement(text)[0])
        except BoxError as error:
            statements.append(error)  # type: ignore[arg-type]
    assert statements[0] is not statements[1]


def test_errors_tell_positions(db: Session) -> None:
    """A wrong text is parsed by itself, however often its shape was wrong before."""
    for number in (1, 10, 100):
        near = db.error(f"SELECT {number} FROM t WHERE\nWHERE {number}")[1]
        assert near.startswith("At line 2 at or near position 1: keyword 'WHERE' is reserved.")
    assert db.error("SELECT 12345 'x' 5")[1] == "Syntax error at line 1 near '5'"
    assert db.error("SELECT 12345 'x' 6")[1] == "Syntax error at line 1 near '6'"


def test_a_change_of_the_dictionary_counts(db: Session) -> None:
    """A shared statement is analysed anew after its table has changed."""
    for kind, shown in (("INT", "integer"), ("DOUBLE", "double")):
        db.sql(f"CREATE TABLE t (id INT PRIMARY KEY, v {kind})")
        db.sql("INSERT INTO t VALUES (1, 5)")
        assert db.types("SELECT v FROM t WHERE v > 1") == [shown]
        assert db.sql("SELECT v FROM t WHERE v > 2") == [[5]]
        db.sql("DROP TABLE t")
        assert db.error("SELECT v FROM t WHERE v > 3")[0] == "NO_SUCH_SPACE"


def test_complete_metadata_has_the_own_text(db: Session) -> None:
    """With complete metadata a result column has the text of its own statement."""
    assert db.sql("SELECT 1 + 2") == [[3]]
    db.sql('SET SESSION "sql_full_metadata" = true')
    assert db.execute("SELECT 3 + 4").fields[0].span == "3 + 4"


def test_parameters_with_a_shared_text(db: Session) -> None:
    """A text without parameters refuses them, also if its constants could be given."""
    assert db.sql("SELECT 1, 2") == [[1, 2]]
    assert db.error("SELECT 1, 2", 5)[1] == "Failed to execute SQL statement: The number of parameters is too large"


def test_the_cache_is_bounded() -> None:
    """However many shapes there are, a limited number is kept."""
    for number in range(1100):
        shared_statement(f"SELECT a{number} FROM t WHERE b = 1")
    assert len(shared_statements._statements) <= 1000
    assert len(shared_statements._shapes) <= 1000
