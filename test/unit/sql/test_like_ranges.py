"""LIKE with a prefix reads a range of an index: it finds the rows that a scan finds."""

from __future__ import annotations

import re
from typing import Any, Final

import pytest

from box.sql.scan_keys import after_prefix, prefix_of
from box.sql.stored_values import Texts

from .conftest import Session, Start

_TEXTS: Final = (
    *("", "a", "ab", "abc", "abd", "abc1", "abc\udcff", "abcé", "ab%", "ab_c", "b", "B", "é", "éa", "z"),
    *("\ud7ff", "\ud7ffx", "\ue000", "\U0010ffff", "\U0010ffffx", "a\U0010ffff", "a\U0010ffffb", "\udcff"),
)
_PATTERNS: Final = (
    *("abc%", "ab%", "a%", "a_c%", "ab", "abc", "", "%", "%c", "_b%", "é%", "B%", "zz%", "ab\\%", "ab_c%"),
    *("\ud7ff%", "\U0010ffff%", "a\U0010ffff%"),
)


@pytest.fixture
def texts(start: Start) -> Session:
    """Create a table with an index of texts, and one of numbers and texts."""
    db = start()
    db.sql('create table t (id int primary key, s text, n int, c text collate "unicode_ci")')
    for number, text in enumerate((*_TEXTS, None)):
        db.sql("insert into t values (?, ?, ?, ?)", number, text, number % 3, text)
    db.sql("create index by_s on t (s)")
    db.sql("create index by_n on t (n, s)")
    db.sql("create index by_c on t (c)")
    return db


def _matches(pattern: str, text: str) -> bool:
    parts = (".*" if part == "%" else "." if part == "_" else re.escape(part) for part in pattern)
    return re.fullmatch("".join(parts), text, re.DOTALL) is not None


def _found(pattern: str) -> list[int]:
    return [number for number, text in enumerate(_TEXTS) if _matches(pattern, text)]


@pytest.mark.parametrize("pattern", _PATTERNS)
def test_the_same_rows(texts: Session, pattern: str) -> None:
    found = [[number] for number in _found(pattern)]
    quoted = pattern.replace("'", "''")
    assert sorted(texts.sql(f"select id from t where s like '{quoted}'")) == found
    assert sorted(texts.sql("select id from t where s like ?", pattern)) == found
    assert texts.sql("select id from t where s like ? order by id", pattern) == found
    in_order = sorted(found, key=lambda row: _TEXTS[row[0]].encode("utf-8", "surrogateescape"))
    assert texts.sql("select id from t where s like ? order by s", pattern) == in_order
    assert texts.sql("select id from t where s like ? order by s desc", pattern) == in_order[::-1]
    some = [row for row in in_order if row[0] % 3 == 1]
    assert texts.sql("select id from t where n = 1 and s like ? order by s", pattern) == some
    assert texts.sql("select id from t where n = 1 and s like ? order by s desc", pattern) == some[::-1]
    others = [[number] for number in range(len(_TEXTS)) if [number] not in found]
    assert sorted(texts.sql("select id from t where s not like ?", pattern)) == others


def test_reversed_scans(texts: Session) -> None:
    forward = texts.sql("select id from t where s like 'ab%'")
    texts.sql('set session "sql_reverse_unordered_selects" = true')
    assert texts.sql("select id from t where s like 'ab%'") == forward[::-1]
    assert texts.sql("select id from t where s like '\U0010ffff%'") == [[19], [18]]


def test_without_a_prefix_the_order_is_that_of_the_primary_key(texts: Session) -> None:
    assert texts.sql("select id from t where s like '%b%'") == [[number] for number in _found("%b%")]


def test_patterns_that_are_no_texts(texts: Session) -> None:
    assert texts.sql("select id from t where s like null") == []
    assert texts.error("select id from t where s like ?", 5) == (
        "INCONSISTENT_TYPES",
        "Inconsistent types: expected text got unsigned",
    )


def test_a_few_rows_are_read(start: Start) -> None:
    db = start()
    db.sql("create table t (id int primary key, s text)")
    db.sql("create index by_s on t (s)")
    for number in range(500):
        db.sql("insert into t values (?, ?)", number, f"name {number}")

    def reads(text: str) -> int:
        (table,) = (
            table for connection in db.node.sql._queries._free[Texts.UTF8] for table in connection.tables.values()
        )
        before = table.reads
        db.sql(text)
        return int(table.reads - before)

    db.sql("select id from t where s like '%'")
    assert reads("select id from t where s like 'name 12%'") < 60
    assert reads("select id from t where s like '%12'") >= 500
    plan: Any = db.sql("explain query plan select id from t where s like 'name 12%'")
    assert plan[0][3] == "SEARCH TABLE T USING INDEX BY_S (S>? AND S<?)"


def test_other_collations_look_at_all_rows(texts: Session) -> None:
    assert sorted(texts.sql("select id from t where c like 'AB%'")) == [[number] for number in _found("ab%")]


def test_joins(texts: Session) -> None:
    texts.sql("create table p (id int primary key, pattern text)")
    texts.sql("insert into p values (1, 'ab%'), (2, 'z'), (3, null), (4, '%c')")
    found = sorted([1, number] for number in _found("ab%"))
    found += sorted([2, number] for number in _found("z")) + sorted([4, number] for number in _found("%c"))
    assert sorted(texts.sql("select p.id, t.id from p, t where t.s like p.pattern")) == found


def test_prefixes() -> None:
    assert [prefix_of(pattern) for pattern in ("ab%", "a_b", "ab", "%a", "", None, b"\x03a", 5, "x" * 2000)] == [
        "ab",
        "a",
        "ab",
        *[""] * 6,
    ]


def test_what_follows_a_prefix() -> None:
    assert after_prefix("ab") == "ac"
    assert after_prefix("a\u00e9") == "a\u00ea"
    for prefix in ("a\x7f", "a\ud7ff", "a\U0010ffff"):
        after = after_prefix(prefix).encode("utf-8", "surrogateescape")
        assert prefix.encode() + b"\xff" < after
        assert after[:-1] == prefix.encode()[:-1]
