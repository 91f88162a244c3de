"""The word SEQSCAN of Tarantool 2.11 before a table, and its setting."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from box import BoxError
from box.sync import Node


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as node:
        node.execute("CREATE TABLE t (a INT PRIMARY KEY, b INT)")
        node.execute("INSERT INTO t VALUES (1, 2), (3, 4)")
        yield node


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("SELECT * FROM SEQSCAN t", [(1, 2), (3, 4)]),
        ("SELECT * FROM seqscan t WHERE a = 1", [(1, 2)]),
        ("SELECT x.b FROM SEQSCAN t AS x", [(2,), (4,)]),
        ("SELECT x.b FROM SEQSCAN t x, SEQSCAN t y WHERE x.a = y.a AND x.a > 1", [(4,)]),
    ],
)
def test_the_word_changes_nothing(node: Node, text: str, rows: list[tuple[int, ...]]) -> None:
    assert [tuple(row) for row in node.execute(text)] == rows


@pytest.mark.parametrize("text", ["SELECT * FROM SEQSCAN", "SELECT * FROM t SEQSCAN a"])
def test_it_is_no_other_word(node: Node, text: str) -> None:
    with pytest.raises(BoxError):
        node.execute(text)


def test_a_table_may_have_this_name() -> None:
    """Then the next name is its alias, as in 2.8.1."""
    with Node() as node:
        node.execute("CREATE TABLE seqscan (a INT PRIMARY KEY)")
        node.execute("CREATE TABLE t (b INT PRIMARY KEY)")
        node.execute("INSERT INTO seqscan VALUES (7)")
        assert [tuple(row) for row in node.execute("SELECT t.a FROM SEQSCAN t")] == [(7,)]


def test_the_setting_is_always_true(node: Node) -> None:
    """It can be read and set by its name, and no list shows it."""
    node.execute('SET SESSION "sql_seq_scan" = true')
    node.eval("box.session.settings.sql_seq_scan = true")
    assert node.eval("return box.session.settings.sql_seq_scan") is True
    assert len(node.eval("return box.space._session_settings:select{}")) == 10
    assert "sql_seq_scan" not in node.eval("return getmetatable(box.session.settings).__serialize()")
    for statement in ('SET SESSION "sql_seq_scan" = false', 'SET SESSION "sql_seq_scan" = 1'):
        with pytest.raises(BoxError):
            node.execute(statement)
    with pytest.raises(BoxError, match="does not support sql_seq_scan = false"):
        node.eval("box.session.settings.sql_seq_scan = false")
