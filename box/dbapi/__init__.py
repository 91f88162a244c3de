"""DB-API 2.0 (PEP 249) in process: SQL over a node that runs in this program.

    from box import dbapi

    with dbapi.connect("data") as connection:
        cursor = connection.cursor()
        cursor.execute("CREATE TABLE goods (id INTEGER PRIMARY KEY, name STRING)")
        cursor.execute("INSERT INTO goods VALUES (?, ?)", (1, "pear"))
        connection.commit()
        print(cursor.execute("SELECT name FROM goods").fetchall())

```
connect()            database_connection.py   connections, transactions
cursor()             database_cursor.py       statements and their rows
exceptions           exceptions.py            the classes of PEP 249, by the codes of Tarantool
STRING, Binary, ...  type_objects.py          types of columns, constructors of values
                     shared_nodes.py          one node for all connections to a directory
```
"""

from __future__ import annotations

from typing import Final

from box.dbapi.database_connection import DatabaseConnection, connect
from box.dbapi.database_cursor import DatabaseCursor
from box.dbapi.exceptions import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,
)
from box.dbapi.type_objects import (
    BINARY,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    Binary,
    Date,
    DateFromTicks,
    Time,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
)

apilevel: Final = "2.0"
threadsafety: Final = 2
"""Threads may share the module and connections, but not cursors."""
paramstyle: Final = "qmark"
"""Parameters are marked with `?`; `:name` works too, with a mapping."""

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "DataError",
    "DatabaseConnection",
    "DatabaseCursor",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]
