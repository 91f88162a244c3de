"""Parameters as other libraries give them: numbers of numpy, and NaN for a missing value."""

from __future__ import annotations

from typing import Any

import pytest

from box import dbapi
from box.sync import Node

NAN = float("nan")


@pytest.fixture
def node() -> Any:
    with Node(log_level=1, wal_mode="none", memtx_use_mvcc_engine=True) as node:
        yield node


@pytest.fixture
def cursor(node: Node) -> Any:
    with dbapi.connect(node) as connection:
        cursor = connection.cursor()
        cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, name TEXT, price DOUBLE, n SCALAR, ok BOOLEAN)")
        yield cursor


def test_numbers_of_numpy_are_those_of_python(cursor: Any) -> None:
    np = pytest.importorskip("numpy")
    row = (np.int64(7), "x", np.float32(2.5), np.uint8(3), np.bool_(True))
    cursor.execute("INSERT INTO t VALUES (?, ?, ?, ?, ?)", row)
    cursor.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", [(np.int32(8), *row[1:])])
    assert cursor.execute("SELECT * FROM t WHERE id = :id", {"id": np.int16(7)}).fetchall() == [(7, "x", 2.5, 3, True)]
    assert cursor.execute("SELECT count(*) FROM t WHERE id IN (?, ?)", np.array([7, 8]).tolist()).fetchone() == (2,)
    with pytest.raises(dbapi.ProgrammingError):
        cursor.execute("SELECT ?", (np.array([1, 2]),))


@pytest.mark.parametrize("is_many", [False, True])
@pytest.mark.parametrize("verb", ["INSERT", "REPLACE"])
def test_nan_is_stored_as_null(node: Node, cursor: Any, verb: str, is_many: bool) -> None:
    """A parameter NaN is NULL in a column of any type, as in Tarantool."""
    text = f"{verb} INTO t VALUES (?, ?, ?, ?, ?)"
    rows = [(1, NAN, NAN, NAN, NAN), (2, "x", 1.5, NAN, NAN)]
    if is_many:
        cursor.executemany(text, rows)
    else:
        for row in rows:
            cursor.execute(text, row)
    cursor.execute("INSERT INTO t VALUES (3, 'y', ?, ?, ?)", (1.5, 1, True))
    cursor.execute("UPDATE t SET price = ? WHERE id = 3", (NAN,))
    cursor.execute("INSERT INTO t SELECT id + 1, name, ?, n, ok FROM t WHERE id = 3", (NAN,))
    cursor.connection.commit()
    inserted = [(1, None, None, None, None), (2, "x", 1.5, None, None)]
    changed = [(3, "y", None, 1, True), (4, "y", None, 1, True)]
    assert [tuple(row) for row in node.space["T"].select()] == inserted + changed
    with pytest.raises(dbapi.Error, match="NOT NULL"):
        cursor.execute(text, (NAN, "y", 1.5, 1, True))
