# ruff: noqa: E501  a statement is one line
"""Statements of SQL for each chapter of the language's reference: functions, casts, comparisons, definitions, limits.

A chapter is a list of statements that run in one node, one after the other. Values and operators are combined
exhaustively, so a chapter has up to some thousand statements. `script(chapter)` makes the program that prints what each
statement gives.

Left out is what ends Tarantool 2.8.1 itself, or what it answers by chance.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Final

from test.interop.sql_statements import printing_script

VALUES: Final = (
    "NULL", "true", "false", "0", "1", "-1", "9223372036854775807", "9223372036854775808", "18446744073709551615",
    "-9223372036854775808", "1.5", "-1.5", "1e30", "2.0", "''", "'abc'", "'1'", "'-1'", "'1.5'", "' 12 '", "'1e3'", "'true'",
    "'FALSE'", "'12abc'", "'18446744073709551616'", "x''", "x'31'", "x'616263'",
)  # fmt: skip
"""Constants of every type, and at the edges of each."""
TYPES: Final = (
    "INTEGER", "UNSIGNED", "DOUBLE", "NUMBER", "STRING", "TEXT", "VARCHAR(5)", "BOOLEAN", "VARBINARY", "SCALAR",
)  # fmt: skip
FUNCTIONS: Final = (
    "ABS", "CHAR", "CHARACTER_LENGTH", "CHAR_LENGTH", "COALESCE", "GREATEST", "GROUP_CONCAT", "HEX", "IFNULL", "LEAST", "LENGTH",
    "LIKELIHOOD", "LIKELY", "LOWER", "MAX", "MIN", "NULLIF", "POSITION", "PRINTF", "QUOTE", "ROUND", "SOUNDEX",
    "SUBSTR", "SUM", "TOTAL", "AVG", "COUNT", "TRIM", "TYPEOF", "UNICODE", "UNLIKELY", "UPPER", "ZEROBLOB", "REPLACE", "LIKE",
)  # fmt: skip
FEW: Final = ("NULL", "true", "2", "-1", "1.5", "'abc'", "'1'", "''", "x'6162'")
OPERATORS: Final = (
    "=",
    "<",
    ">=",
    "<>",
    "+",
    "-",
    "*",
    "/",
    "%",
    "||",
    "&",
    "|",
    "<<",
    ">>",
    "AND",
    "OR",
    "LIKE",
    "IS",
    "IS NOT",
)


def _huge(argument: str) -> bool:
    return len(argument) > 17 or argument == "1e30"


def _crashes(name: str, value: str) -> bool:
    """Return whether a call ends Tarantool 2.8.1 with an assertion, or makes it ask for too much memory."""
    return (name in ("ZEROBLOB", "CHAR") and _huge(value)) or (name == "PRINTF" and value in ("''", "x''", "NULL"))


def _literals() -> list[str]:
    made = [f"SELECT {value}" for value in VALUES]
    made += [f"SELECT {sign}{value}" for sign in ("-", "+", "~", "NOT ") for value in VALUES]
    made += [f"SELECT {text}" for text in (
        "18446744073709551616", "-9223372036854775809", "0x10", "1.", ".5", "1e", "1e5", "1E-3", "x'1'", "x'zz'", "X'aF'",
        "'it''s'", '"a"', "`a`", "[a]", "unknown", "UNKNOWN", "TRUE", "NULL + 1", "1a", "'a' 'b'", "1 AS a", "1 a", "1 AS \"b c\"",
        "(1)", "(1, 2)", "((1))", "1;", "1; SELECT 2", "1 -- c", "/* c */ 1", "/* c", "CURRENT_TIMESTAMP", "current_date", "rowid",
        "1 COLLATE \"unicode\"", "'a' COLLATE \"unicode_ci\"", "'a' COLLATE nothing", "?", ":a", "$1", "@a", "#1", "1.5.5", "'abc", '"abc',
        "1 + + 1", "1 +", "* 1", "DATE '2020-01-01'", "1 BETWEEN 0 AND 2", "NOT NULL", "NULL IS NULL", "1 IS TRUE", "1 = 1 = 1", "true = (1 = 1)",
        "CASE WHEN 1 THEN 2 END", "CASE 1 WHEN 1 THEN 2 ELSE 'a' END", "CASE WHEN true THEN 2 END", "CASE END", "CASE 1 WHEN 'a' THEN 2 END",
    )]  # fmt: skip
    return made


def _casts() -> list[str]:
    return [f"SELECT CAST({value} AS {name}), TYPEOF(CAST({value} AS {name}))" for value, name in product(VALUES, TYPES)] + [
        "SELECT CAST(1 AS nothing)", "SELECT CAST(1 AS ANY)", "SELECT CAST(1 AS UUID)", "SELECT CAST(1 AS DECIMAL)", "SELECT CAST(1 AS VARCHAR)",
        "SELECT CAST(1)", "SELECT CAST(1 AS INT INT)", "SELECT CAST('abcdefgh' AS VARCHAR(3))", "SELECT CAST(1 AS MAP)", "SELECT CAST(1 AS ARRAY)",
    ]  # fmt: skip


def _is_chance(left: str, operator: str, right: str) -> bool:
    """Return whether the answer of Tarantool 2.8.1 depends on chance: it shows a negative zero as -32, or reads the
    sign of a double, which has none.
    """
    if operator == "%":
        return (left.startswith("-") and right.lstrip("-") in ("1", "1.5", "'1'", left.lstrip("-"))) or (
            left == "-9223372036854775808" or (left == "'1'" and "." in right)
        )
    return operator == "-" and left.startswith("-") and right in ("18446744073709551615", "9223372036854775808")


def _operators() -> list[str]:
    made = [
        f"SELECT {left} {operator} {right}"
        for operator, left, right in product(OPERATORS, FEW, FEW)
        if not _is_chance(left, operator, right)
    ]
    return made + [
        f"SELECT {left} {operator} {right}"
        for operator, left, right in product(("+", "-", "*", "/", "%", "<", "="), VALUES[3:14], VALUES[3:14])
        if not (operator in "/%" and right == "0") and not _is_chance(left, operator, right)
    ]


def _functions() -> list[str]:
    made = [f"SELECT {name}()" for name in FUNCTIONS]
    made += [f"SELECT {name}({value})" for name, value in product(FUNCTIONS, VALUES) if not _crashes(name, value)]
    made += [
        f"SELECT {name}({left}, {right})"
        for name, left, right in product(FUNCTIONS, FEW, FEW)
        if not _crashes(name, left)
    ]
    made += [f"SELECT {name}({value}, 1, 2)" for name, value in product(FUNCTIONS, FEW) if not _crashes(name, value)]
    made += [
        f"SELECT {name}({value}, 'b', 'xy')" for name, value in product(FUNCTIONS, FEW) if not _crashes(name, value)
    ]
    made += [f"SELECT {name}(*)" for name in FUNCTIONS]
    made += [f"SELECT {name}(DISTINCT 1)" for name in FUNCTIONS]
    made += [
        "SELECT nothing(1)",
        "SELECT RANDOM(1)",
        "SELECT ROW_COUNT(1)",
        "SELECT VERSION()",
        "SELECT VERSION(1)",
        "SELECT RANDOMBLOB()",
        "SELECT UUID()",
    ]
    made += [f"SELECT TRIM({where} {chars} FROM {text})" for where, chars, text in product(
        ("", "BOTH", "LEADING", "TRAILING"), ("", "'a'", "'ba'", "x'61'", "NULL", "1"), ("'abcba'", "x'616261'", "''", "NULL", "1"))]  # fmt: skip
    made += [f"SELECT PRINTF('{form}', {value})" for form, value in product(
        ("%d", "%5d|", "%-5d|", "%05d", "%s", "%5s|", "%.2s", "%f", "%.2f", "%g", "%e", "%x", "%X", "%o", "%c", "%q", "%Q", "%w", "%%", "%i", "%u", "%+d"),
        ("1", "-42", "1.5", "'abc'", "NULL", "true", "12345678"))]  # fmt: skip
    made += [f"SELECT SUBSTR({text}, {start}, {count})" for text, start, count in product(
        ("'abcdef'", "x'616263'", "'äöü'"), ("0", "1", "-2", "3", "10", "NULL"), ("0", "2", "-1", "100", "NULL"))]  # fmt: skip
    made += [
        f"SELECT ROUND({value}, {digits})"
        for value, digits in product(
            ("2.5", "-2.5", "1.005", "123456.789", "3", "NULL"), ("0", "1", "2", "-1", "40", "NULL")
        )
    ]
    return made


def _like() -> list[str]:
    texts = ("'abc'", "'ABC'", "'a%c'", "'a_c'", "''", "'äb'", "NULL", "x'616263'", "1")
    patterns = ("'abc'", "'a%'", "'%c'", "'_b_'", "'%'", "''", "'A%'", "'a\\%c'", "'__'", "NULL", "x'6125'")
    made = [f"SELECT {text} LIKE {pattern}, {text} NOT LIKE {pattern}" for text, pattern in product(texts, patterns)]
    made += [
        f"SELECT 'a%c' LIKE 'ax%c' ESCAPE {escape}"
        for escape in ("'x'", "''", "'xy'", "NULL", "1", "x'78'", "'%'", "'_'", "'ä'")
    ]
    made += [f"SELECT 'a' COLLATE \"{name}\" LIKE 'A'" for name in ("unicode", "unicode_ci", "binary", "none")]
    return made


def _table_rows() -> list[str]:
    return [
        "CREATE TABLE t (id INTEGER PRIMARY KEY, i INTEGER, u UNSIGNED, d DOUBLE, n NUMBER, s STRING, b BOOLEAN, v VARBINARY, x SCALAR)",
        "INSERT INTO t VALUES (1, -1, 1, 1.5, 2, 'a', true, x'61', 1)",
        "INSERT INTO t VALUES (2, 5, 5, -2.5, 2.5, 'B', false, x'', 'a')",
        "INSERT INTO t VALUES (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
        "INSERT INTO t VALUES (4, 100, 18446744073709551615, 1e10, -7, 'ab', true, x'00', true)",
        "INSERT INTO t VALUES (5, 5, 0, 0.0, 0, '1', false, x'6162', x'61')",
        "INSERT INTO t VALUES (6, 0, 7, 5.0, 5, 'b', true, x'62', 2.5)",
    ]


_COLUMNS: Final = ("i", "u", "d", "n", "s", "b", "v", "x")


def _assignments() -> list[str]:
    made = _table_rows()
    for column, value in product(_COLUMNS, VALUES):
        made += [
            f"UPDATE t SET {column} = {value} WHERE id = 3",
            f"SELECT {column}, TYPEOF({column}) FROM t WHERE id = 3",
        ]
    for column, value in product(_COLUMNS, VALUES):
        made += [f"REPLACE INTO t (id, {column}) VALUES (9, {value})"]
    return made


def _comparisons() -> list[str]:
    made = _table_rows()
    made += [
        f"SELECT id FROM t WHERE {column} {operator} {value} ORDER BY id"
        for column, operator, value in product(_COLUMNS, ("=", "<", ">=", "<>"), FEW)
    ]
    made += [
        f"SELECT id FROM t WHERE {left} {operator} {right} ORDER BY id"
        for left, operator, right in product(_COLUMNS, ("=", "<"), _COLUMNS)
    ]
    made += [
        f"SELECT {left} {operator} {right} FROM t ORDER BY id"
        for left, operator, right in product(_COLUMNS, ("+", "||", "&", "AND"), _COLUMNS)
    ]
    made += [
        f"SELECT id, {column} FROM t ORDER BY {column} {order}, id"
        for column, order in product(_COLUMNS, ("", "ASC", "DESC"))
    ]
    made += [
        f"SELECT {aggregate}({column}) FROM t"
        for aggregate, column in product(("SUM", "AVG", "MIN", "MAX", "COUNT", "TOTAL", "GROUP_CONCAT"), _COLUMNS)
    ]
    made += [
        f"SELECT {aggregate}(DISTINCT {column}) FROM t WHERE id < 3"
        for aggregate, column in product(("SUM", "AVG", "COUNT", "TOTAL"), _COLUMNS)
    ]
    made += [f"SELECT {column}, COUNT(*) FROM t GROUP BY {column} ORDER BY {column}" for column in _COLUMNS]
    made += [f"SELECT DISTINCT {column} FROM t ORDER BY {column}" for column in _COLUMNS]
    made += [
        f"SELECT {left} FROM t {operator} SELECT {right} FROM t ORDER BY 1"
        for left, operator, right in product(_COLUMNS, ("UNION", "EXCEPT"), _COLUMNS)
    ]
    made += [
        f"SELECT id FROM t WHERE {column} IN ({value}, {other}) ORDER BY id"
        for column, value, other in product(_COLUMNS, FEW, ("2", "'a'"))
    ]
    made += [
        f"SELECT id FROM t WHERE {column} BETWEEN {value} AND 5 ORDER BY id" for column, value in product(_COLUMNS, FEW)
    ]
    made += [f"SELECT id FROM t WHERE {column}" for column in _COLUMNS]
    made += [
        f"SELECT {name}({column}), TYPEOF({column}) FROM t ORDER BY id"
        for name, column in product(("ABS", "LENGTH", "UPPER", "HEX", "QUOTE", "ROUND", "TYPEOF", "UNICODE"), _COLUMNS)
    ]
    return made


def _collations() -> list[str]:
    names = ("", ' COLLATE "unicode"', ' COLLATE "unicode_ci"', ' COLLATE "binary"')
    made = [
        'CREATE TABLE c (id INTEGER PRIMARY KEY, p STRING, q STRING COLLATE "unicode", r STRING COLLATE "unicode_ci")'
    ]
    made += [
        f"INSERT INTO c VALUES ({number}, '{text}', '{text}', '{text}')"
        for number, text in enumerate(("a", "A", "b", "B", "ä", "z", "", "ab"))
    ]
    for left, right, operator in product("pqr", "pqr", ("=", "<", "||")):
        made.append(
            f"SELECT COUNT(*) FROM c WHERE c.{left} {operator.replace('||', '=')} c.{right} {'|| c.p' if operator == '||' else ''}"
        )
    made += [
        f"SELECT a.id, b.id FROM c a, c b WHERE a.{left} = b.{right} ORDER BY 1, 2"
        for left, right in product("pqr", "pqr")
    ]
    made += [f"SELECT id FROM c ORDER BY {column}{name}, id" for column, name in product("pqr", names)]
    made += [f"SELECT id FROM c WHERE {column} = 'A'{name} ORDER BY id" for column, name in product("pqr", names)]
    made += [
        f"SELECT id FROM c WHERE {column}{name} = 'A'{other} ORDER BY id"
        for column, name, other in product("pqr", names, names)
    ]
    made += [f"SELECT COUNT(*) FROM c GROUP BY {column}{name} ORDER BY 1" for column, name in product("pqr", names)]
    made += [f"SELECT COUNT(DISTINCT {column}{name}) FROM c" for column, name in product("pqr", names)]
    made += [
        f"SELECT COUNT(*) FROM (SELECT {left} FROM c {operator} SELECT {right} FROM c)"
        for left, operator, right in product("pqr", ("UNION", "UNION ALL", "EXCEPT", "INTERSECT"), "pqr")
    ]
    made += [f"SELECT MIN({column}), MAX({column}) FROM c" for column in "pqr"]
    made += [f"SELECT id FROM c WHERE {column} IN ('A', 'b') ORDER BY id" for column in "pqr"]
    made += [f"SELECT id FROM c WHERE {column} LIKE 'A%' ORDER BY id" for column in "pqr"]
    made += [f"SELECT id FROM c WHERE {column} BETWEEN 'A' AND 'b' ORDER BY id" for column in "pqr"]
    made += [f"SELECT CASE {column} WHEN 'A' THEN 1 ELSE 0 END FROM c ORDER BY id" for column in "pqr"]
    made += [f"SELECT {name}({column}) FROM c ORDER BY id" for name, column in product(("UPPER", "LOWER"), "pqr")]
    made += [
        "SELECT q || r FROM c",
        "SELECT CASE q WHEN r THEN 1 END FROM c",
        "SELECT q IN (r) FROM c ORDER BY id",
        "SELECT NULLIF(q, r) FROM c",
        "SELECT GREATEST(q, r) FROM c ORDER BY id",
    ]
    return made


def _queries() -> list[str]:
    return [
        *_table_rows(),
        "CREATE TABLE w (id INTEGER PRIMARY KEY, i INTEGER, s STRING)",
        "INSERT INTO w VALUES (1, 5, 'a'), (2, 100, 'b'), (3, NULL, 'c'), (4, 5, NULL)",
        "CREATE TABLE e (id INTEGER PRIMARY KEY, i INTEGER)",
        *(f"SELECT * FROM t {join} w ON t.i = w.i ORDER BY t.id, w.id" for join in ("JOIN", "INNER JOIN", "LEFT JOIN", "LEFT OUTER JOIN", "CROSS JOIN", "RIGHT JOIN", "FULL JOIN", "NATURAL JOIN")),
        "SELECT * FROM t JOIN w USING (i) ORDER BY t.id, w.id", "SELECT * FROM t JOIN w USING (id, i)", "SELECT * FROM t JOIN w USING (nothing)", "SELECT * FROM w NATURAL JOIN e",
        "SELECT * FROM t NATURAL JOIN w", "SELECT * FROM t NATURAL JOIN w ON 1", "SELECT id FROM t, w", "SELECT t.nothing FROM t", "SELECT nothing.id FROM t", "SELECT nothing FROM t", "SELECT * FROM nothing",
        "SELECT *", "SELECT t.* FROM w", "SELECT w.*, t.id FROM w, t ORDER BY 1, 4 LIMIT 3", "SELECT a.id FROM t AS a, t AS b WHERE a.id = b.id ORDER BY 1", "SELECT id FROM t a, t a",
        "SELECT COUNT(*), COUNT(i), SUM(i) FROM e", "SELECT MAX(id) FROM e GROUP BY i", "SELECT i FROM w GROUP BY i HAVING COUNT(*) > 1", "SELECT i FROM w HAVING COUNT(*) > 1", "SELECT COUNT(*) FROM w HAVING false",
        "SELECT i FROM w WHERE COUNT(*) > 1", "SELECT SUM(COUNT(*)) FROM w", "SELECT i, COUNT(*) AS n FROM w GROUP BY i HAVING n > 1", "SELECT i + 1 AS k, COUNT(*) FROM w GROUP BY k ORDER BY k", "SELECT i, COUNT(*) FROM w GROUP BY 1 ORDER BY 1",
        "SELECT i FROM w GROUP BY 2", "SELECT i FROM w GROUP BY 0", "SELECT i FROM w ORDER BY 2", "SELECT i FROM w ORDER BY 0", "SELECT i FROM w ORDER BY -1", "SELECT id FROM w ORDER BY 'a', id", "SELECT id FROM w ORDER BY i, id DESC", "SELECT id FROM w ORDER BY i DESC, id",
        *(f"SELECT id FROM w ORDER BY id LIMIT {limit}" for limit in ("0", "2", "-1", "1.5", "'a'", "NULL", "2 OFFSET 1", "1, 2", "2 OFFSET -1", "2 OFFSET 'a'", "1 + 1", "18446744073709551615", "2 OFFSET 1.0", "true", "(SELECT 2)", "id")),
        "SELECT (SELECT id FROM w)", "SELECT (SELECT id FROM w WHERE id = 1)", "SELECT (SELECT id, i FROM w)", "SELECT (SELECT id FROM e)", "SELECT id, (SELECT MAX(w.id) FROM w WHERE w.i = t.i) FROM t ORDER BY id", "SELECT (SELECT id FROM w LIMIT 1)",
        "SELECT id FROM t WHERE i IN (SELECT i FROM w) ORDER BY id", "SELECT id FROM t WHERE i NOT IN (SELECT i FROM w) ORDER BY id", "SELECT id FROM t WHERE i NOT IN (SELECT i FROM w WHERE i IS NOT NULL) ORDER BY id", "SELECT id FROM t WHERE i IN (SELECT id, i FROM w)",
        "SELECT id FROM t WHERE (id, i) IN (SELECT id, i FROM w) ORDER BY id", "SELECT id FROM t WHERE (id, i) = (1, -1)", "SELECT id FROM t WHERE (id, i) IN ((1, 2))", "SELECT (1, 2) = (1, 2)", "SELECT (1, 2) < (1, 3)", "SELECT 1 IN ()", "SELECT 1 NOT IN ()", "SELECT 1 IN (1)", "SELECT NULL IN (1)", "SELECT 1 IN (2, NULL)", "SELECT 1 IN w", "SELECT s IN (1) FROM w",
        "SELECT EXISTS (SELECT 1 FROM e)", "SELECT EXISTS (SELECT 1 FROM w)", "SELECT NOT EXISTS (SELECT 1, 2 FROM w)", "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM w WHERE w.i = t.i) ORDER BY id",
        "SELECT * FROM (SELECT id, i AS k FROM w) AS q WHERE k = 5 ORDER BY id", "SELECT q.id FROM (SELECT id FROM w) q ORDER BY 1", "SELECT * FROM (SELECT 1, 2)", "SELECT * FROM (VALUES (1, 2), (3, 4))", "VALUES (1, 2), (3, 4)", "VALUES (1), (2, 3)", "VALUES ()",
        "SELECT id FROM w UNION SELECT id FROM t ORDER BY id", "SELECT id FROM w UNION ALL SELECT id FROM t ORDER BY id", "SELECT id FROM w INTERSECT SELECT id FROM t ORDER BY 1", "SELECT id FROM t EXCEPT SELECT id FROM w ORDER BY 1", "SELECT id, i FROM w UNION SELECT id FROM t", "SELECT id FROM w ORDER BY id UNION SELECT id FROM t", "SELECT id FROM w LIMIT 1 UNION SELECT id FROM t", "SELECT id FROM w UNION SELECT id FROM t ORDER BY nothing", "SELECT id FROM w UNION SELECT id FROM t ORDER BY 2", "SELECT id FROM w UNION SELECT id FROM t LIMIT 2 OFFSET 1", "SELECT 1 UNION SELECT 'a' UNION SELECT true UNION SELECT NULL UNION SELECT 1.5 ORDER BY 1", "SELECT 1 INTERSECT ALL SELECT 1",
        "WITH q AS (SELECT id FROM w) SELECT * FROM q ORDER BY 1", "WITH q(a) AS (SELECT id FROM w) SELECT a FROM q ORDER BY 1", "WITH q(a, b) AS (SELECT id FROM w) SELECT a FROM q", "WITH q AS (SELECT 1), q AS (SELECT 2) SELECT * FROM q", "WITH q AS (SELECT 1), r AS (SELECT * FROM q) SELECT * FROM r", "WITH q AS (SELECT * FROM q) SELECT * FROM q",
        "WITH RECURSIVE q(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM q WHERE a < 5) SELECT * FROM q", "WITH RECURSIVE q(a) AS (SELECT 1 UNION SELECT a % 3 + 1 FROM q) SELECT * FROM q ORDER BY 1", "WITH RECURSIVE q(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM q LIMIT 4) SELECT SUM(a) FROM q", "WITH RECURSIVE q(a) AS (SELECT a + 1 FROM q) SELECT * FROM q", "WITH RECURSIVE q(a) AS (SELECT 1 UNION ALL SELECT COUNT(a) FROM q) SELECT * FROM q", "WITH RECURSIVE q(a, b) AS (VALUES (1, 'x') UNION ALL SELECT a + 1, b || 'x' FROM q WHERE a < 4) SELECT b FROM q ORDER BY a DESC", "WITH q AS (SELECT 1) INSERT INTO e SELECT 1, 2", "WITH q AS (SELECT 7 AS a) DELETE FROM e WHERE id IN (SELECT a FROM q)", "WITH q AS (SELECT 7 AS a) UPDATE e SET i = (SELECT a FROM q)", "SELECT * FROM e", "WITH RECURSIVE q(a) AS (SELECT 1 UNION ALL SELECT q.a + 1 FROM q, q AS r WHERE q.a < 3) SELECT * FROM q",
        "SELECT * FROM w INDEXED BY nothing", 'SELECT id FROM w INDEXED BY "pk_unnamed_W_1" ORDER BY 1', "SELECT id FROM w NOT INDEXED ORDER BY 1", "SELECT DISTINCT i, i FROM w ORDER BY 1", "SELECT ALL i FROM w ORDER BY id", "SELECT DISTINCT ALL i FROM w", "SELECT id AS a, i AS a FROM w ORDER BY a", "SELECT id FROM w AS id ORDER BY id.id", "SELECT w.id AS \"x\" FROM w ORDER BY \"x\"", "SELECT w.id, W.ID, \"W\".\"ID\", \"w\".id FROM w", "SELECT \"id\" FROM w",
        "SELECT COUNT(*) FROM t, w, e", "SELECT SUM(t.id * w.id) FROM t, w", "SELECT COUNT(DISTINCT i), COUNT(*) FROM t", "SELECT i, GROUP_CONCAT(id) FROM w GROUP BY i ORDER BY i", "SELECT GROUP_CONCAT(s, '-') FROM w", "SELECT GROUP_CONCAT(DISTINCT s) FROM w", "SELECT SUM(i) FROM t WHERE id = 3", "SELECT AVG(d), TOTAL(d) FROM t WHERE id = 3", "SELECT SUM(u) FROM t", "SELECT SUM(u), SUM(u) FROM t WHERE id IN (4, 5)", "SELECT SUM(s) FROM t", "SELECT AVG(x) FROM t WHERE id = 1",
    ]  # fmt: skip


def _definitions() -> list[str]:
    made = [f"CREATE TABLE d{number} ({columns})" for number, columns in enumerate((
        "", "id", "id INT", "id INT PRIMARY KEY", "id INT, PRIMARY KEY (id)", "id INT PRIMARY KEY, id INT", "id INT PRIMARY KEY, a INT PRIMARY KEY", "id INT, PRIMARY KEY (nothing)", "id nothing PRIMARY KEY", "id INT PRIMARY KEY,",
        "id INT PRIMARY KEY AUTOINCREMENT", "id STRING PRIMARY KEY AUTOINCREMENT", "id INT PRIMARY KEY, a INT AUTOINCREMENT", "id INT AUTOINCREMENT, a INT AUTOINCREMENT, PRIMARY KEY (id)", "id UNSIGNED PRIMARY KEY AUTOINCREMENT", "id INT, a INT, PRIMARY KEY (id AUTOINCREMENT, a)", "id INT, PRIMARY KEY (id AUTOINCREMENT)",
        "id INT PRIMARY KEY, a INT DEFAULT 1", "id INT PRIMARY KEY, a INT DEFAULT (1 + 1)", "id INT PRIMARY KEY, a INT DEFAULT 'a'", "id INT PRIMARY KEY, a INT DEFAULT id", "id INT PRIMARY KEY, a INT DEFAULT (id)", "id INT PRIMARY KEY, a INT DEFAULT -1", "id INT PRIMARY KEY, a INT DEFAULT ABS(-1)", "id INT PRIMARY KEY, a INT DEFAULT", "id INT PRIMARY KEY, a INT DEFAULT (SELECT 1)",
        "id INT PRIMARY KEY, a INT NOT NULL", "id INT PRIMARY KEY, a INT NULL", "id INT PRIMARY KEY, a INT NULL NOT NULL", "id INT PRIMARY KEY, a INT NOT NULL NULL", "id INT NULL PRIMARY KEY", "id INT PRIMARY KEY, a INT NOT NULL ON CONFLICT IGNORE", "id INT PRIMARY KEY ON CONFLICT REPLACE", "id INT PRIMARY KEY, a INT UNIQUE ON CONFLICT REPLACE",
        "id INT PRIMARY KEY, a INT UNIQUE", "id INT PRIMARY KEY, a INT, UNIQUE (a)", "id INT PRIMARY KEY, a INT, UNIQUE (nothing)", "id INT PRIMARY KEY, a INT UNIQUE UNIQUE", "id INT PRIMARY KEY UNIQUE", "id INT PRIMARY KEY, a SCALAR UNIQUE", "id INT PRIMARY KEY, CONSTRAINT c UNIQUE (id)", "id INT PRIMARY KEY, a INT, CONSTRAINT c UNIQUE (a), CONSTRAINT c UNIQUE (a)", "id INT PRIMARY KEY, a INT, CONSTRAINT c CHECK (a > 0), CONSTRAINT c CHECK (a > 1)",
        "id INT PRIMARY KEY CHECK (id > 0)", "id INT PRIMARY KEY, CHECK (nothing > 0)", "id INT PRIMARY KEY, CHECK (SELECT 1)", "id INT PRIMARY KEY, CHECK (id > (SELECT 1))", "id INT PRIMARY KEY, CHECK (COUNT(*) > 1)", "id INT PRIMARY KEY, CHECK (?)", "id INT PRIMARY KEY, CHECK ()", "id INT PRIMARY KEY, CHECK (1)", "id INT PRIMARY KEY, CHECK ('a')", "id INT PRIMARY KEY, CHECK (d51.id > 0)", "id INT PRIMARY KEY, CHECK (nothing.id > 0)",
        "id INT PRIMARY KEY, a STRING COLLATE \"unicode\"", "id INT PRIMARY KEY, a STRING COLLATE nothing", "id INT PRIMARY KEY, a INT COLLATE \"unicode\"", "id INT COLLATE \"unicode_ci\" PRIMARY KEY", "id STRING COLLATE \"unicode_ci\" PRIMARY KEY",
        "id INT PRIMARY KEY REFERENCES d3", "id INT PRIMARY KEY REFERENCES d3 (id)", "id INT PRIMARY KEY REFERENCES nothing (id)", "id INT PRIMARY KEY REFERENCES d3 (nothing)", "id INT PRIMARY KEY REFERENCES d26 (a)", "id STRING PRIMARY KEY REFERENCES d3 (id)", "id INT PRIMARY KEY, a INT, FOREIGN KEY (a, id) REFERENCES d3 (id)", "id INT PRIMARY KEY, FOREIGN KEY (nothing) REFERENCES d3 (id)", "id INT PRIMARY KEY REFERENCES d34 (a)", "id INT PRIMARY KEY, a INT REFERENCES d69 (id)", "id INT PRIMARY KEY, a INT, CONSTRAINT f FOREIGN KEY (a) REFERENCES d3 (id) ON DELETE CASCADE ON UPDATE SET NULL DEFERRABLE INITIALLY DEFERRED", "id INT PRIMARY KEY, a INT REFERENCES d3 ON DELETE nothing", "id INT PRIMARY KEY, a INT REFERENCES d3 MATCH FULL",
        "a INT, b STRING, PRIMARY KEY (a, b)", "a INT, b STRING, PRIMARY KEY (a, a)", "a INT, PRIMARY KEY (a DESC)", "a INT, PRIMARY KEY (a ASC)", "a INT, PRIMARY KEY (a + 1)", "a STRING, PRIMARY KEY (a COLLATE \"unicode\")", "id INT PRIMARY KEY, \"a b\" INT", "id INT PRIMARY KEY, select INT", "id INT PRIMARY KEY, a VARCHAR", "id INT PRIMARY KEY, a VARCHAR(10)", "id INT PRIMARY KEY, a VARCHAR(-1)", "id INT PRIMARY KEY, a INT(10)", "id INT PRIMARY KEY, a ANY", "id INT PRIMARY KEY, a UUID", "id INT PRIMARY KEY, a DECIMAL", "id INT PRIMARY KEY, a MAP", "id INT PRIMARY KEY, a BLOB", "id INT PRIMARY KEY, a BOOL", "id INT PRIMARY KEY, a REAL", "id INT PRIMARY KEY, a BIGINT", "id INT PRIMARY KEY, a TEXT", "id BOOLEAN PRIMARY KEY", "id SCALAR PRIMARY KEY", "id ARRAY PRIMARY KEY", "id ANY PRIMARY KEY", "id DOUBLE PRIMARY KEY", "id VARBINARY PRIMARY KEY",
    ))]  # fmt: skip
    return [
        *made,
        'SELECT "name", "field_count", "format" FROM "_space" WHERE "id" > 511 ORDER BY "id"', 'SELECT "name", "iid", "parts" FROM "_index" WHERE "id" > 511 ORDER BY "id", "iid"', 'SELECT "name", "is_deferred", "code" FROM "_ck_constraint" ORDER BY 1', 'SELECT "name", "on_delete", "on_update", "child_cols" FROM "_fk_constraint" ORDER BY 1',
        "CREATE TABLE d3 (id INT PRIMARY KEY)", "CREATE TABLE IF NOT EXISTS d3 (id INT PRIMARY KEY)", "CREATE TABLE d3", "CREATE TABLE x.d (id INT PRIMARY KEY)", "CREATE TEMP TABLE x (id INT PRIMARY KEY)", "CREATE TABLE x AS SELECT 1", "CREATE TABLE en (id INT PRIMARY KEY) WITH ENGINE = 'memtx'", "CREATE TABLE en2 (id INT PRIMARY KEY) WITH ENGINE = 'nothing'", "CREATE TABLE en3 (id INT PRIMARY KEY) WITH ENGINE", "CREATE TABLE select (id INT PRIMARY KEY)", "CREATE TABLE \"select\" (id INT PRIMARY KEY)", "DROP TABLE \"select\"", "CREATE TABLE \"\" (id INT PRIMARY KEY)",
        "DROP TABLE nothing", "DROP TABLE IF EXISTS nothing", "DROP VIEW d3", "DROP TABLE", "DROP TABLE d3, d4", "DROP INDEX nothing ON d3", "DROP INDEX nothing ON nothing", "DROP INDEX IF EXISTS nothing ON d3", "DROP INDEX nothing", "DROP TRIGGER nothing", "DROP TRIGGER IF EXISTS nothing", "DROP VIEW nothing", "DROP VIEW IF EXISTS nothing", "DROP TABLE \"_space\"", "DROP TABLE \"_vspace\"",
        "CREATE INDEX i ON d26 (a)", "CREATE INDEX i ON d26 (a)", "CREATE INDEX IF NOT EXISTS i ON d26 (a)", "CREATE UNIQUE INDEX i2 ON d26 (a, id)", "CREATE INDEX i3 ON d26 (nothing)", "CREATE INDEX i3 ON nothing (a)", "CREATE INDEX i3 ON d26 (a + 1)", "CREATE INDEX i3 ON d26 (a DESC)", "CREATE INDEX i3 ON d26 ()", "CREATE INDEX i3 ON d26", "CREATE INDEX i4 ON d26 (a, a)", "DROP INDEX i ON d26", "DROP INDEX \"pk_unnamed_D26_1\" ON d26", "CREATE INDEX i ON \"_space\" (\"id\")", "CREATE INDEX i5 ON d26 (a) WHERE a > 1",
        "CREATE VIEW v AS SELECT id FROM d26", "CREATE VIEW v AS SELECT 1", "CREATE VIEW IF NOT EXISTS v AS SELECT 1", "CREATE VIEW v2 (a, b) AS SELECT id FROM d26", "CREATE VIEW v2 (a) AS SELECT id FROM d26", "CREATE VIEW v3 AS SELECT * FROM v2, v", "SELECT * FROM v3", "CREATE VIEW v4 AS SELECT ?", "CREATE VIEW v4 AS SELECT * FROM nothing", "CREATE VIEW v4 AS SELECT nothing FROM v", "DROP TABLE d26", "DROP VIEW v", "INSERT INTO v VALUES (1)", "UPDATE v SET id = 1", "DELETE FROM v", "CREATE INDEX i ON v (id)", "DROP TABLE v3", "DROP VIEW v3", "DROP VIEW v2", "DROP VIEW v", "CREATE VIEW v AS WITH q AS (SELECT 1 AS a) SELECT a FROM q", "SELECT * FROM v", "TRUNCATE TABLE v", "TRUNCATE TABLE nothing", "TRUNCATE d3", "TRUNCATE TABLE d3", "TRUNCATE TABLE \"_space\"",
        "ALTER TABLE d3 RENAME TO d3x", "ALTER TABLE nothing RENAME TO a", "ALTER TABLE d4 RENAME TO d10", "ALTER TABLE d4 RENAME TO select", "ALTER TABLE d4 RENAME a TO b", "ALTER TABLE d4 ADD COLUMN a INT", "ALTER TABLE d4 ADD a INT", "ALTER TABLE d4 ADD COLUMN b INT NOT NULL", "ALTER TABLE d4 ADD COLUMN c nothing", "ALTER TABLE d4 ADD COLUMN e INT UNIQUE", "ALTER TABLE d4 ADD COLUMN f INT CHECK (f > 0)", "ALTER TABLE d4 ADD COLUMN g INT PRIMARY KEY", "ALTER TABLE d4 ADD COLUMN h INT AUTOINCREMENT", "ALTER TABLE d4 ADD COLUMN k INT DEFAULT 1", "ALTER TABLE d4 DROP COLUMN a", "ALTER TABLE d4 DROP CONSTRAINT nothing", "ALTER TABLE d4 ADD CONSTRAINT u UNIQUE (a)", "ALTER TABLE d4 ADD CONSTRAINT u UNIQUE (a)", "ALTER TABLE d4 ADD CONSTRAINT u CHECK (a > 0)", "ALTER TABLE d4 ADD CONSTRAINT k CHECK (nothing > 0)", "ALTER TABLE d4 ADD CONSTRAINT k CHECK (a > 0)", "ALTER TABLE d4 DROP CONSTRAINT k", "ALTER TABLE d4 DROP CONSTRAINT u", "ALTER TABLE d4 ADD CONSTRAINT p PRIMARY KEY (id)", "ALTER TABLE d4 DROP CONSTRAINT \"pk_unnamed_D4_1\"", "ALTER TABLE d4 ADD CONSTRAINT p PRIMARY KEY (id)", "ALTER TABLE d4 ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES d10 (id)", "ALTER TABLE d4 ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES d10 (id)", "ALTER TABLE d4 ADD CONSTRAINT f2 FOREIGN KEY (a) REFERENCES nothing (id)", "ALTER TABLE d4 DROP CONSTRAINT f", "ALTER TABLE d4 ENABLE CHECK CONSTRAINT nothing", "ALTER TABLE d4 DISABLE CHECK CONSTRAINT nothing", "ALTER TABLE d4", "ALTER TABLE v ADD COLUMN a INT", "ALTER TABLE \"_space\" ADD COLUMN a INT", "ALTER TABLE d4 ADD CONSTRAINT UNIQUE (a)", "ALTER TABLE d4 ADD UNIQUE (a)", "ALTER TABLE d4 ADD CONSTRAINT x FOREIGN KEY (a, id) REFERENCES d10 (id)", "ALTER INDEX i RENAME TO j",
    ]  # fmt: skip


def _constraints() -> list[str]:
    made = [
        "CREATE TABLE p (id INT PRIMARY KEY, u INT UNIQUE, c INT CHECK (c > 0), n INT NOT NULL DEFAULT 7, d STRING DEFAULT 'x', e INT DEFAULT (1 + 2), CONSTRAINT both CHECK (c < u))",
        "INSERT INTO p VALUES (1, 10, 5, 1, 'a', 1)", "INSERT INTO p VALUES (1, 11, 5, 1, 'a', 1)", "INSERT INTO p VALUES (2, 10, 5, 1, 'a', 1)", "INSERT INTO p VALUES (2, 11, 0, 1, 'a', 1)", "INSERT INTO p VALUES (2, 11, 12, 1, 'a', 1)", "INSERT INTO p VALUES (2, 11, 5, NULL, 'a', 1)", "INSERT INTO p VALUES (NULL, 11, 5, 1, 'a', 1)", "INSERT INTO p (id) VALUES (3)", "INSERT INTO p DEFAULT VALUES", "INSERT INTO p (id, nothing) VALUES (1, 2)", "INSERT INTO p (id) VALUES (1, 2)", "INSERT INTO p VALUES (1)", "INSERT INTO p (id, id) VALUES (20, 21)", "INSERT INTO p (id, u, c) SELECT id + 10, u + 10, c FROM p", "SELECT * FROM p ORDER BY id",
        "INSERT INTO nothing VALUES (1)", "INSERT INTO p", "INSERT p VALUES (1)", "INSERT INTO p SELECT 1", "INSERT INTO p SELECT * FROM p", "INSERT INTO p (id) VALUES ('a')", "INSERT INTO p (id) VALUES (1.5)", "INSERT INTO p (id) VALUES ('30')", "INSERT INTO p (id) VALUES (true)", "INSERT INTO p (id) VALUES (31.0)", "INSERT INTO p (id) VALUES (32), (33), (32)", "SELECT id FROM p ORDER BY 1",
    ]  # fmt: skip
    for action in ("", "OR IGNORE", "OR REPLACE", "OR FAIL", "OR ABORT", "OR ROLLBACK", "OR NOTHING"):
        made += [
            f"INSERT {action} INTO p VALUES (40, 40, 5, 1, '', 1), (1, 41, 5, 1, '', 1), (42, 42, 5, 1, '', 1)",
            "SELECT id, u FROM p ORDER BY id",
            f"UPDATE {action} p SET u = 10 WHERE id < 5",
            "SELECT id, u FROM p ORDER BY id",
            f"UPDATE {action} p SET n = NULL WHERE id = 1",
            f"INSERT {action} INTO p VALUES (50, 50, 0, 1, '', 1)",
            "DELETE FROM p WHERE id >= 40",
        ]
    made += [
        "UPDATE p SET nothing = 1", "UPDATE p SET id = id + 1", "UPDATE p SET id = id - 1 WHERE id > 100", "UPDATE nothing SET a = 1", "UPDATE p SET", "UPDATE p SET id = 1, id = 2 WHERE id = 999", "UPDATE p SET (u, c) = (100, 50) WHERE id = 1", "UPDATE p SET (u, c) = (1, 2, 3)", "UPDATE p SET u = (SELECT 200) WHERE id = 1", "UPDATE p SET u = u, c = u WHERE id = 1", "DELETE FROM p WHERE nothing = 1", "DELETE FROM nothing", "DELETE p", "DELETE FROM p LIMIT 1", "UPDATE p SET u = 1 LIMIT 1", "DELETE FROM p ORDER BY id", "SELECT * FROM p ORDER BY id",
        "CREATE TABLE a (id INTEGER PRIMARY KEY AUTOINCREMENT, s STRING)", "INSERT INTO a VALUES (NULL, 'a')", "INSERT INTO a (s) VALUES ('b'), ('c')", "INSERT INTO a VALUES (10, 'd'), (NULL, 'e'), (-5, 'f'), (NULL, 'g')", "INSERT INTO a SELECT NULL, s FROM a WHERE id < 3", "REPLACE INTO a VALUES (NULL, 'h')", "SELECT * FROM a ORDER BY id", "UPDATE a SET id = NULL WHERE id = 1", "INSERT INTO a VALUES (9223372036854775807, 'z')", "INSERT INTO a VALUES (NULL, 'z')",
        "CREATE TABLE par (id INT PRIMARY KEY, k INT UNIQUE)", "INSERT INTO par VALUES (1, 10), (2, 20), (3, 30), (4, 40), (5, 50)",
    ]  # fmt: skip
    for number, action in enumerate(("NO ACTION", "RESTRICT", "CASCADE", "SET NULL", "SET DEFAULT"), 1):
        made += [
            f"CREATE TABLE ch{number} (id INT PRIMARY KEY, k INT DEFAULT 50 REFERENCES par (k) ON DELETE {action} ON UPDATE {action})",
            f"INSERT INTO ch{number} VALUES (1, {number * 10})",
            f"INSERT INTO ch{number} VALUES (2, 99)",
            f"INSERT INTO ch{number} VALUES (3, NULL)",
            f"UPDATE par SET k = {number * 10 + 1} WHERE id = {number}",
            f"SELECT * FROM ch{number}",
            f"DELETE FROM par WHERE id = {number}",
            f"SELECT * FROM ch{number}",
            "SELECT * FROM par",
        ]
    made += [
        "DROP TABLE par", "TRUNCATE TABLE par", "CREATE TABLE self (id INT PRIMARY KEY, up INT REFERENCES self (id))", "INSERT INTO self VALUES (1, 1)", "INSERT INTO self VALUES (2, 3), (3, 2)", "INSERT INTO self VALUES (4, 5)", "DELETE FROM self WHERE id = 2", "DELETE FROM self", "DROP TABLE self",
        "CREATE TABLE def (id INT PRIMARY KEY, k INT REFERENCES par (k) DEFERRABLE INITIALLY DEFERRED)", "INSERT INTO def VALUES (1, 77)", "START TRANSACTION", "INSERT INTO def VALUES (1, 77)", "COMMIT", "SELECT * FROM def", "ROLLBACK", "START TRANSACTION", "INSERT INTO def VALUES (1, 77)", "INSERT INTO par VALUES (77, 77)", "COMMIT", "SELECT * FROM def", "COMMIT", "START TRANSACTION", "START TRANSACTION", "SAVEPOINT s", "INSERT INTO par VALUES (78, 78)", "ROLLBACK TO SAVEPOINT s", "SELECT id FROM par WHERE id = 78", "RELEASE SAVEPOINT s", "RELEASE SAVEPOINT s", "ROLLBACK TO s", "ROLLBACK", "SAVEPOINT s", "RELEASE s", "BEGIN", "END", "START", "COMMIT TRANSACTION",
    ]  # fmt: skip
    return made


def _triggers() -> list[str]:
    made = [
        "CREATE TABLE t (id INT PRIMARY KEY, a INT)",
        "CREATE TABLE l (id INT PRIMARY KEY AUTOINCREMENT, w STRING, o INT, n INT)",
    ]
    for time, event in product(
        ("BEFORE", "AFTER", "INSTEAD OF", ""), ("INSERT", "UPDATE", "DELETE", "UPDATE OF a", "UPDATE OF nothing")
    ):
        name = f"{time}_{event}".replace(" ", "_")
        old, new = ("NULL" if event == "INSERT" else "OLD.a"), ("NULL" if event == "DELETE" else "NEW.a")
        made.append(
            f"CREATE TRIGGER {name or 'x'} {time} {event} ON t FOR EACH ROW BEGIN INSERT INTO l (w, o, n) VALUES ('{time} {event}', {old}, {new}); END"
        )
    made += [
        "INSERT INTO t VALUES (1, 1), (2, 2)", "UPDATE t SET a = a + 1", "UPDATE t SET id = id + 10", "REPLACE INTO t VALUES (11, 5)", "DELETE FROM t WHERE a > 2", "SELECT * FROM l ORDER BY id", "TRUNCATE TABLE l", "TRUNCATE TABLE t",
        'SELECT "name", "opts" FROM "_trigger" ORDER BY 1', "CREATE TABLE r (id INT PRIMARY KEY)", "CREATE TRIGGER r1 AFTER INSERT ON r FOR EACH ROW WHEN NEW.id < 5 BEGIN INSERT INTO r VALUES (NEW.id + 1); END", "INSERT INTO r VALUES (1)", "SELECT * FROM r", "DROP TRIGGER r1", "CREATE TRIGGER r1 BEFORE INSERT ON r FOR EACH ROW WHEN NEW.id > 100 BEGIN SELECT RAISE(ABORT, 'too large'); END", "INSERT INTO r VALUES (101)", "INSERT INTO r VALUES (50), (102)", "SELECT * FROM r", "CREATE TRIGGER r2 BEFORE DELETE ON r FOR EACH ROW BEGIN SELECT RAISE(IGNORE); END", "DELETE FROM r", "SELECT COUNT(*) FROM r", "DROP TRIGGER r2", "CREATE TRIGGER r2 BEFORE DELETE ON r FOR EACH ROW BEGIN SELECT RAISE(FAIL, 'f') WHERE OLD.id = 3; END", "DELETE FROM r", "SELECT COUNT(*) FROM r", "SELECT RAISE(ABORT, 'x')", "SELECT RAISE(IGNORE)",
        "CREATE TRIGGER e1 AFTER INSERT ON nothing FOR EACH ROW BEGIN SELECT 1; END", "CREATE TRIGGER e1 AFTER INSERT ON r BEGIN SELECT 1; END", "CREATE TRIGGER e1 AFTER INSERT ON r FOR EACH STATEMENT BEGIN SELECT 1; END", "CREATE TRIGGER e1 AFTER INSERT ON r FOR EACH ROW BEGIN END", "CREATE TRIGGER e1 AFTER INSERT ON r FOR EACH ROW BEGIN SELECT 1 END", "CREATE TRIGGER e1 AFTER INSERT ON r FOR EACH ROW BEGIN SELECT nothing; END", "INSERT INTO r VALUES (60)", "DROP TRIGGER e1", "CREATE TRIGGER e1 AFTER INSERT ON r FOR EACH ROW BEGIN SELECT OLD.id; END", "INSERT INTO r VALUES (61)", "DROP TRIGGER e1", "CREATE TRIGGER e1 AFTER INSERT ON r FOR EACH ROW BEGIN INSERT INTO nothing VALUES (1); END", "INSERT INTO r VALUES (62)", "DROP TRIGGER e1", "CREATE TRIGGER r1 AFTER INSERT ON r FOR EACH ROW BEGIN SELECT 1; END", "CREATE TRIGGER IF NOT EXISTS r1 AFTER INSERT ON r FOR EACH ROW BEGIN SELECT 1; END", "CREATE TRIGGER e2 AFTER INSERT ON r FOR EACH ROW BEGIN SELECT ?; END", "CREATE TRIGGER e2 AFTER INSERT ON r FOR EACH ROW BEGIN CREATE TABLE x (id INT PRIMARY KEY); END", "CREATE TRIGGER e2 AFTER INSERT ON \"_space\" FOR EACH ROW BEGIN SELECT 1; END",
        "CREATE VIEW v AS SELECT * FROM t", "CREATE TRIGGER v1 INSTEAD OF INSERT ON v FOR EACH ROW BEGIN INSERT INTO t VALUES (NEW.id, NEW.a); END", "CREATE TRIGGER v2 INSTEAD OF UPDATE ON v FOR EACH ROW BEGIN UPDATE t SET a = NEW.a WHERE id = OLD.id; END", "CREATE TRIGGER v3 INSTEAD OF DELETE ON v FOR EACH ROW BEGIN DELETE FROM t WHERE id = OLD.id; END", "INSERT INTO v VALUES (7, 7), (8, 8)", "UPDATE v SET a = 9 WHERE id = 7", "DELETE FROM v WHERE id = 8", "SELECT * FROM v", "CREATE TRIGGER v4 BEFORE INSERT ON v FOR EACH ROW BEGIN SELECT 1; END", "SELECT w, o, n FROM l ORDER BY id", "DROP TABLE t", "DROP VIEW v", "DROP TABLE t", "SELECT COUNT(*) FROM \"_trigger\"",
        "CREATE TABLE z (id INT PRIMARY KEY)", "CREATE TRIGGER z1 AFTER INSERT ON z FOR EACH ROW BEGIN INSERT INTO z VALUES (NEW.id + 1); END", "INSERT INTO z VALUES (1)", "SELECT COUNT(*) FROM z", "SELECT ROW_COUNT()",
    ]  # fmt: skip
    return made


def _settings() -> list[str]:
    names = (
        "sql_default_engine",
        "sql_defer_foreign_keys",
        "sql_full_column_names",
        "sql_full_metadata",
        "sql_parser_debug",
        "sql_recursive_triggers",
        "sql_reverse_unordered_selects",
        "sql_select_debug",
        "sql_vdbe_debug",
        "error_marshaling_enabled",
        "nothing",
    )
    made = [
        "CREATE TABLE t (id INT PRIMARY KEY, a INT UNIQUE, b STRING COLLATE \"unicode\" DEFAULT 'q', CHECK (a > 0))",
        "CREATE TABLE c (id INT PRIMARY KEY, a INT REFERENCES t (a))",
        "CREATE INDEX ta ON t (b, a)",
        "INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b')",
    ]
    made += [
        f'SET SESSION "{name}" = {value}'
        for name, value in product(names, ("1", "'a'", "NULL", "1.5"))
        if "debug" not in name
    ]
    made += [
        'SET SESSION "sql_full_column_names" = true',
        "SELECT id, t.a, a + 1, b AS x, COUNT(*) FROM t",
        "SELECT * FROM t",
        "SELECT t.* FROM t",
        "SELECT q.* FROM t q",
        "SELECT * FROM (SELECT id FROM t) q",
        'SET SESSION "sql_full_column_names" = false',
        'SET SESSION "sql_reverse_unordered_selects" = true',
        "SELECT id FROM t",
        'SET SESSION "sql_reverse_unordered_selects" = false',
        'SET SESSION "sql_full_metadata" = false',
        'SET "sql_full_metadata" = true',
        "SET SESSION sql_full_metadata = true",
        "SET SESSION",
        "SET SESSION \"sql_default_engine\" = 'memtx'",
        "SET SESSION \"sql_default_engine\" = 'none'",
        'SELECT * FROM "_session_settings" ORDER BY 1',
        'UPDATE "_session_settings" SET "value" = true WHERE "name" = \'sql_full_column_names\'',
        "SELECT a FROM t",
        'UPDATE "_session_settings" SET "value" = false WHERE "name" = \'sql_full_column_names\'',
        'UPDATE "_session_settings" SET "value" = 1 WHERE "name" = \'sql_full_column_names\'',
        "INSERT INTO \"_session_settings\" VALUES ('a', 1)",
        'DELETE FROM "_session_settings"',
    ]
    made += [
        f"PRAGMA {text}"
        for text in (
            "table_info(t)",
            "table_info(T)",
            "table_info(nothing)",
            "table_info",
            "table_info = T",
            "index_list(T)",
            "index_list(nothing)",
            "index_info(T.TA)",
            "index_info(T.nothing)",
            "index_info(T)",
            "foreign_key_list(C)",
            "foreign_key_list(T)",
            "foreign_key_list(nothing)",
            "collation_list",
            "nothing",
            "",
            "table_info(1)",
            "table_info('T')",
            "sql_default_engine",
            "case_sensitive_like",
            "collation_list(1)",
            "stats(1)",
        )
    ]
    made += [f"SELECT {', '.join(['1'] * count)}" for count in (2000, 2001)]
    made += [f"SELECT {'+'.join(['1'] * count)}" for count in (200, 201, 250)]
    made += [f"SELECT {'(' * count}1{')' * count}" for count in (50, 99, 201)]
    made += [" UNION ALL ".join(["SELECT 1"] * count) for count in (5, 29, 30, 31, 32, 51)]
    made += [
        f"SELECT COUNT(*) FROM {', '.join(f't a{number}' for number in range(count))} WHERE a0.id = 99"
        for count in (64, 65)
    ]
    made += [
        f"CREATE TABLE big ({', '.join(['id INT PRIMARY KEY'] + [f'c{number} INT' for number in range(count)])})"
        for count in (2000,)
    ]
    made += [f"SELECT MAX({', '.join(['1'] * count)})" for count in (127, 128)] + [
        f"SELECT COALESCE({', '.join(['1'] * count)})" for count in (127, 128)
    ]
    made += [
        f"SELECT 1 FROM t ORDER BY {', '.join(['id'] * 2001)}",
        f"SELECT 1 IN ({', '.join(['1'] * 2500)})",
        f"INSERT INTO t (id) VALUES {', '.join(f'({number})' for number in range(10, 600))}",
        "SELECT NOT " + "NOT " * 199 + "true",
        "SELECT " + "-" * 1 + "1",
        f"SELECT '{'a' * 100000}' = ''",
        f"SELECT LENGTH('{'%' * 60000}')",
        f"SELECT 'a' LIKE '{'%' * 50001}'",
    ]
    return made


def _wrong() -> list[str]:
    statements = (
        "SELECT id, a FROM t WHERE id = 1 GROUP BY a HAVING COUNT(*) > 1 ORDER BY id DESC LIMIT 1 OFFSET 2",
        "INSERT OR REPLACE INTO t (id, a) VALUES (1, 2), (3, 4)",
        "UPDATE t SET a = 1, id = 2 WHERE id = 3 AND a IS NOT NULL",
        "DELETE FROM t WHERE a NOT IN (1, 2)",
        "CREATE TABLE n (id INT PRIMARY KEY AUTOINCREMENT, a STRING NOT NULL DEFAULT 'x' COLLATE \"unicode\", CONSTRAINT c CHECK (id > 0))",
        "CREATE UNIQUE INDEX i ON t (id, a)",
        "CREATE TRIGGER tr BEFORE UPDATE OF a ON t FOR EACH ROW WHEN NEW.a > 1 BEGIN DELETE FROM t; END",
        "ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES t (id) ON DELETE CASCADE",
        "WITH RECURSIVE q (a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM q WHERE a < 3) SELECT * FROM q LIMIT 1",
        "SELECT CASE WHEN id > 1 THEN 'a' ELSE 'b' END, CAST(a AS STRING) FROM t AS x LEFT JOIN t AS y ON x.id = y.id",
    )  # fmt: skip
    made = ["CREATE TABLE t (id INT PRIMARY KEY, a INT)"]
    for text in statements:
        words = text.replace("(", " ( ").replace(")", " ) ").replace(",", " , ").replace(";", " ; ").split()
        made += [" ".join(words[:cut]) for cut in range(1, len(words))]
        made += [" ".join(words[:cut] + words[cut + 1 :]) for cut in range(len(words))]
        made += [" ".join([*words[:cut], "SELECT", *words[cut + 1 :]]) for cut in range(0, len(words), 2)]
    return [text for text in made if not text.startswith("CREATE TRIGGER tr BEFORE UPDATE OF a ON t FOR EACH ROW BEGIN")] + [
        "", " ", ";", ";;", "nothing", "SELEC 1", "SELECT 1 1", "SELECT 'a", "SELECT \x01", "SELECT é", "SELECT 1\nFROM\nnothing x y z", "SELECT\n\n1 +", "SELECT * FROM t WHERE", "SELECT 1 -", "SELECT !1", "SELECT 1 == 1", "SELECT 1 ! 1", "SELECT {1}", "SELECT 1 \\ 2", "EXPLAIN", "EXPLAIN nothing", "VACUUM", "ATTACH 'a' AS b", "REINDEX", "ANALYZE", "SHOW TABLES", "GRANT a", "DESCRIBE t", "USE t", "CALL f()", "VALUES", "REPLACE", "COMMIT x", "SELECT 1 FROM t t t", "SELECT $", "SELECT :", "SELECT @", "SELECT ??", "SELECT a.b.c.d FROM t", "SELECT t.id.a FROM t",
    ]  # fmt: skip


CHAPTERS: Final[dict[str, Callable[[], list[str]]]] = {
    "literals": _literals,
    "casts": _casts,
    "operators": _operators,
    "functions": _functions,
    "like": _like,
    "assignments": _assignments,
    "comparisons": _comparisons,
    "collations": _collations,
    "queries": _queries,
    "definitions": _definitions,
    "constraints": _constraints,
    "triggers": _triggers,
    "settings": _settings,
    "wrong": _wrong,
}


DIFFERENT: Final = frozenset(
    (
        "SELECT 'a' COLLATE nothing", "SELECT CHAR(*)", "SELECT VERSION()", "END", "DROP TABLE d3, d4",
        "SELECT q.id FROM (SELECT id FROM w) q ORDER BY 1", "UPDATE p SET (u, c) = (1, 2, 3)",
        "CREATE TRIGGER e1 AFTER INSERT ON r FOR EACH ROW BEGIN SELECT 1 END",
        "SELECT CASE WHEN id SELECT 1 THEN 'a' ELSE 'b' END , CAST ( a AS STRING ) FROM t AS x LEFT JOIN t AS y ON x.id = y.id",
    )
)  # fmt: skip
"""Statements that Lunabox answers differently; mostly the text of an error differs."""


def script(chapter: str, step: int = 1) -> str:
    """Return a program for a chapter: every `step`-th of its queries, and all statements that change something."""
    chosen = [
        text
        for number, text in enumerate(CHAPTERS[chapter]())
        if text not in DIFFERENT and (number % step == 0 or not text.startswith("SELECT"))
    ]
    return printing_script(chosen)
