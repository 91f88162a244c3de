"""The requirements of PEP 249 for every module: names, connections, cursors, rows, exceptions."""

from __future__ import annotations

import datetime
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import box
from box import dbapi
from box.dbapi import DatabaseConnection, DatabaseCursor
from box.sync import Node as BlockingNode

CREATE = "CREATE TABLE booze (name STRING PRIMARY KEY, price INTEGER)"
NAMES = ["Boag's", "Carlton Cold", "Coopers Sparkling", "Pure Blonde", "Victoria Bitter"]


@pytest.fixture
def connection() -> Iterator[DatabaseConnection]:
    """A connection to a new node in memory."""
    with dbapi.connect(wal_mode="none") as made:
        yield made


@pytest.fixture
def cursor(connection: DatabaseConnection) -> DatabaseCursor:
    """A cursor on a database with the table `booze`."""
    return connection.cursor().execute(CREATE)


def fill(cursor: DatabaseCursor) -> None:
    cursor.executemany("INSERT INTO booze VALUES (?, ?)", [(name, len(name)) for name in NAMES])


def test_the_module_tells_what_it_is() -> None:
    assert (dbapi.apilevel, dbapi.threadsafety, dbapi.paramstyle) == ("2.0", 2, "qmark")
    assert box.dbapi is dbapi
    for name in ("apilevel", "threadsafety", "paramstyle", "connect", *dbapi.__all__):
        assert hasattr(dbapi, name), name


def test_the_exceptions_form_the_tree_of_the_standard() -> None:
    assert issubclass(dbapi.Warning, Exception)
    assert issubclass(dbapi.Error, Exception)
    for kind in (dbapi.InterfaceError, dbapi.DatabaseError):
        assert kind.__bases__ == (dbapi.Error,)
    for name in "DataError OperationalError IntegrityError InternalError ProgrammingError NotSupportedError".split():
        assert getattr(dbapi, name).__bases__ == (dbapi.DatabaseError,)
        assert getattr(DatabaseConnection, name) is getattr(dbapi, name)
    assert DatabaseConnection.Error is dbapi.Error
    assert DatabaseConnection.Warning is dbapi.Warning


def test_types_and_constructors() -> None:
    ticks = time.mktime((2002, 12, 25, 13, 45, 30, 0, 0, 0))
    assert dbapi.Date(2002, 12, 25) == dbapi.DateFromTicks(ticks) == datetime.date(2002, 12, 25)
    assert dbapi.Time(13, 45, 30) == dbapi.TimeFromTicks(ticks)
    assert dbapi.Timestamp(2002, 12, 25, 13, 45, 30) == dbapi.TimestampFromTicks(ticks)
    assert dbapi.Binary(b"x") == b"x"
    assert dbapi.STRING == "string"
    assert dbapi.NUMBER == "integer" != dbapi.STRING
    assert dbapi.BINARY == "varbinary"
    assert dbapi.DATETIME == "datetime" != dbapi.STRING
    assert dbapi.STRING == dbapi.STRING != dbapi.NUMBER
    assert (repr(dbapi.ROWID), len({dbapi.DATETIME, dbapi.ROWID, dbapi.STRING})) == ("ROWID", 3)


def test_description_and_rowcount(cursor: DatabaseCursor) -> None:
    assert (cursor.description, cursor.rowcount, cursor.rownumber) == (None, -1, None)
    cursor.execute("INSERT INTO booze VALUES ('Victoria Bitter', 3)")
    assert (cursor.description, cursor.rowcount) == (None, 1)
    cursor.execute("SELECT name, price, price + 1 AS more FROM booze")
    assert cursor.description is not None
    assert [column[0] for column in cursor.description] == ["NAME", "PRICE", "MORE"]
    assert [len(column) for column in cursor.description] == [7, 7, 7]
    assert cursor.description[0][1] == dbapi.STRING
    assert cursor.description[1][1] == dbapi.NUMBER
    assert [column[6] for column in cursor.description] == [False, True, None]
    assert cursor.rowcount == 1
    cursor.execute("SELECT name FROM booze WHERE price = 99")
    assert cursor.description is not None
    assert (cursor.rowcount, cursor.fetchall()) == (0, [])
    cursor.execute("CREATE TABLE barflys (name STRING PRIMARY KEY)")
    assert (cursor.description, cursor.rowcount) == (None, -1)


def test_lastrowid_is_the_last_generated_value(cursor: DatabaseCursor) -> None:
    cursor.execute("CREATE TABLE numbered (id INTEGER PRIMARY KEY AUTOINCREMENT, name STRING)")
    assert cursor.execute("INSERT INTO numbered VALUES (NULL, 'a'), (NULL, 'b')").lastrowid == 2
    assert cursor.execute("INSERT INTO numbered VALUES (7, 'c')").lastrowid is None


def test_fetchone_gives_rows_and_then_none(cursor: DatabaseCursor) -> None:
    with pytest.raises(dbapi.Error):
        cursor.fetchone()
    assert cursor.execute("SELECT name FROM booze").fetchone() is None
    fill(cursor)
    cursor.execute("SELECT name, price FROM booze ORDER BY name")
    row = cursor.fetchone()
    assert row is not None
    assert (row, row.NAME, row["PRICE"]) == (("Boag's", 6), "Boag's", 6)
    assert cursor.rownumber == 1
    assert [item[0] for item in cursor] == NAMES[1:]
    assert cursor.fetchone() is None
    assert cursor.rownumber == len(NAMES)


def test_fetchmany_and_fetchall(cursor: DatabaseCursor) -> None:
    for method in (cursor.fetchmany, cursor.fetchall):
        with pytest.raises(dbapi.Error):
            method()
    fill(cursor)
    assert cursor.rowcount == len(NAMES)
    query = "SELECT name FROM booze ORDER BY name"
    assert cursor.execute(query).fetchmany() == [(NAMES[0],)]
    assert cursor.fetchmany(10) == [(name,) for name in NAMES[1:]]
    assert cursor.fetchmany(4) == []
    cursor.arraysize = 3
    assert len(cursor.execute(query).fetchmany()) == 3
    assert len(cursor.fetchmany(1)) == 1
    assert [row[0] for row in cursor.fetchall()] == NAMES[4:]
    assert cursor.fetchall() == []
    with pytest.raises(dbapi.ProgrammingError):
        cursor.execute("DELETE FROM booze").fetchall()


def test_parameters_by_place_and_by_name(cursor: DatabaseCursor) -> None:
    cursor.execute("INSERT INTO booze VALUES (?, :price)", ("O'Doul's", {":price": 5}))
    cursor.execute("INSERT INTO booze VALUES (:name, :price)", {"price": None, "name": "x\0y"})
    cursor.executemany("INSERT INTO booze VALUES (:name, 1)", [{"name": "a"}, {"name": "b"}])
    assert cursor.rowcount == 2
    assert cursor.execute("SELECT name, price FROM booze ORDER BY name").fetchall() == [
        ("O'Doul's", 5),
        ("a", 1),
        ("b", 1),
        ("x\0y", None),
    ]
    cursor.execute("SELECT ?, ?, ?", (dbapi.Binary(b"\0\1"), 2.5, True))
    assert cursor.fetchone() == (b"\0\1", 2.5, True)
    assert cursor.executemany("INSERT INTO booze VALUES (?, ?)", []).rowcount == 0
    with pytest.raises(dbapi.ProgrammingError):
        cursor.executemany("SELECT ?", [(1,), (2,)])


def test_sizes_are_accepted_and_ignored(cursor: DatabaseCursor) -> None:
    cursor.setinputsizes((25,))
    cursor.setoutputsize(1000)
    cursor.setoutputsize(2000, 0)
    assert cursor.execute("SELECT ?", ("x" * 5000,)).fetchone() == ("x" * 5000,)


def test_closed_cursors_and_connections_refuse_everything(connection: DatabaseConnection) -> None:
    cursor, other = connection.cursor(), connection.cursor()
    with cursor:
        pass
    cursor.close()
    for call in (lambda: cursor.execute("SELECT 1"), cursor.fetchall, lambda: cursor.setinputsizes(())):
        with pytest.raises(dbapi.InterfaceError):
            call()
    connection.close()
    connection.close()
    for refused in (
        connection.cursor,
        connection.commit,
        connection.rollback,
        lambda: other.execute("SELECT 1"),
        lambda: other.executemany("DELETE FROM t", [()]),
        other.fetchone,
        connection.__enter__,
    ):
        with pytest.raises(dbapi.InterfaceError):
            refused()
    assert "closed" in repr(connection)


ERRORS: list[tuple[str, tuple[Any, ...], type[Exception]]] = [
    ("INSERT INTO booze VALUES ('a', 1)", (), dbapi.IntegrityError),
    ("INSERT INTO strict VALUES (1, NULL, NULL)", (), dbapi.IntegrityError),
    ("INSERT INTO strict VALUES (1, -1, NULL)", (), dbapi.IntegrityError),
    ("INSERT INTO strict VALUES (1, 1, 'absent')", (), dbapi.IntegrityError),
    ("SELEC 1", (), dbapi.ProgrammingError),
    ("", (), dbapi.ProgrammingError),
    ("SELECT * FROM absent", (), dbapi.ProgrammingError),
    ("SELECT absent FROM booze", (), dbapi.ProgrammingError),
    ("CREATE TABLE booze (id INT PRIMARY KEY)", (), dbapi.ProgrammingError),
    ("SELECT ?", (1, 2), dbapi.ProgrammingError),
    ("SELECT ?", (2**64,), dbapi.ProgrammingError),
    ("SELECT ?", 5, dbapi.ProgrammingError),  # type: ignore[list-item]
    ("SELECT ?", (datetime.date.today(),), dbapi.NotSupportedError),
    ("INSERT INTO booze VALUES (?, ?)", ("b", "x"), dbapi.DataError),
    ("SELECT 1 / 0", (), dbapi.DataError),
    ("SELECT 18446744073709551615 + 1", (), dbapi.DataError),
    ("COMMIT", (), dbapi.OperationalError),
    ("SELECT broken()", (), dbapi.DatabaseError),
]


def test_errors_have_the_classes_of_the_standard(connection: DatabaseConnection) -> None:
    connection.autocommit = True
    cursor = connection.cursor().execute(CREATE)
    cursor.execute("INSERT INTO booze VALUES ('a', 1)")
    cursor.execute(
        "CREATE TABLE strict (id INT PRIMARY KEY, n INT NOT NULL CHECK (n > 0), booze STRING REFERENCES booze (name))"
    )
    for text, params, kind in ERRORS:
        with pytest.raises(dbapi.Error) as caught:
            cursor.execute(text, params)
        assert type(caught.value) is kind or kind is dbapi.DatabaseError, (text, caught.value)
        if caught.value.code:
            assert isinstance(caught.value.__cause__, box.BoxError)
            assert caught.value.code == caught.value.__cause__.code
    assert cursor.execute("SELECT name FROM booze").fetchall() == [("a",)]


def test_nothing_warns(connection: DatabaseConnection, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        connection.cursor().execute("SELECT 1").close()


def test_arguments_of_a_wrong_type_are_named(cursor: DatabaseCursor) -> None:
    wrong: Any
    for wrong in (5, None, b"SELECT 1"):
        with pytest.raises(dbapi.ProgrammingError, match="a statement is a str, not"):
            cursor.execute(wrong)
        with pytest.raises(dbapi.ProgrammingError, match="a statement is a str, not"):
            cursor.executemany(wrong, [()])
    for wrong in (5, box.Node()):
        with pytest.raises(dbapi.ProgrammingError, match=r"a database is a path, a box\.sync\.Node or None, not"):
            dbapi.connect(wrong)
    with pytest.raises(dbapi.OperationalError, match="The node is not started"):
        dbapi.connect(BlockingNode())


def test_an_error_has_the_number_of_tarantool(cursor: DatabaseCursor) -> None:
    with pytest.raises(dbapi.ProgrammingError) as caught:
        cursor.execute("SELEC 1")
    assert caught.value.code == box.ErrorCode.SQL_SYNTAX_NEAR_TOKEN


def test_a_later_connection_need_not_repeat_the_options(tmp_path: Path) -> None:
    with dbapi.connect(tmp_path, wal_mode="none"), dbapi.connect(tmp_path) as second:
        assert second.cursor().execute("SELECT 1").fetchone() == (1,)


def test_wrong_arguments_are_named() -> None:
    with dbapi.connect() as connection:
        cursor = connection.cursor()
        wrong: list[tuple[Callable[[], Any], str]] = [
            (lambda: cursor.execute("SELECT 1").fetchmany("x"), "size of fetchmany.. is a number of rows, not 'x'"),  # type: ignore[arg-type]
            (lambda: cursor.execute("SELECT 1").fetchmany(-1), "a number of rows, not -1"),
            (lambda: cursor.execute((1,)), r"a statement is a str, not tuple: \(1,\)"),  # type: ignore[arg-type]
            (lambda: cursor.execute("\ud800"), "a statement is not valid Unicode"),
            (lambda: cursor.executemany("SELECT 1", 5), "takes a sequence of parameters for each run, not 5"),  # type: ignore[arg-type]
            (lambda: setattr(connection, "autocommit", 1), "autocommit is True or False, not int: 1"),
            (lambda: dbapi.connect(autocommit="x"), "autocommit is True or False, not str: 'x'"),  # type: ignore[arg-type]
            (lambda: dbapi.connect("a\0b"), "a database is no possible path"),
        ]
        for call, text in wrong:
            with pytest.raises(dbapi.ProgrammingError, match=text):
                call()
        assert cursor.execute("SELECT 1").fetchall() == [(1,)]


def test_values_that_are_too_big_are_data_errors(connection: DatabaseConnection) -> None:
    for query in ("SELECT ZEROBLOB(2000000000)", "SELECT HEX(ZEROBLOB(900000000))"):
        with pytest.raises(dbapi.DataError, match="too big"):
            connection.cursor().execute(query)
