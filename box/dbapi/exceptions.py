"""The exceptions of PEP 249.

```
Error
  InterfaceError          a closed connection or cursor, or a call in a wrong place
  DatabaseError
    DataError             a value: out of range, of a wrong type, division by zero
    OperationalError      the node: files, memory, conflicts, read-only mode, time limits
    IntegrityError        PRIMARY KEY, UNIQUE, NOT NULL, CHECK, FOREIGN KEY
    InternalError         Lua code of the database has failed
    ProgrammingError      the statement: syntax, unknown names, wrong parameters
    NotSupportedError     something that the node does not do
Warning                   never raised
```
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from box import errors
from box.errors import BoxError, ErrorCode


class Warning(Exception):
    """An important warning. PEP 249 asks for the class; nothing raises it."""


class Error(Exception):
    """The base of all errors. `code` is the number of Tarantool's error, or 0; `__cause__` is the `BoxError`."""

    code: int = 0


class InterfaceError(Error):
    """The interface was used in a wrong way: a closed connection or cursor, or a call in the thread of the node."""


class DatabaseError(Error):
    """An error of the database."""


class DataError(DatabaseError):
    """A value is out of range or has a wrong type."""


class OperationalError(DatabaseError):
    """The node cannot run the statement now: files, memory, conflicts of transactions, read-only mode, time limits."""


class IntegrityError(DatabaseError):
    """A constraint is violated."""


class InternalError(DatabaseError):
    """Lua code of the database has failed."""


class ProgrammingError(DatabaseError):
    """The statement or its parameters are wrong."""


class NotSupportedError(DatabaseError):
    """The statement needs something that the node does not support."""


_NAMES: Final[dict[type[DatabaseError], str]] = {
    IntegrityError: """
        TUPLE_FOUND CK_CONSTRAINT_FAILED FOREIGN_KEY_CONSTRAINT FIELD_CONSTRAINT_FAILED TUPLE_CONSTRAINT_FAILED
        FOREIGN_KEY_INTEGRITY FIELD_FOREIGN_KEY_FAILED COMPLEX_FOREIGN_KEY_FAILED
    """,
    DataError: "SQL_TYPE_MISMATCH SQL_BIND_VALUE SEQUENCE_OVERFLOW",
    ProgrammingError: """
        ILLEGAL_PARAMS ACCESS_DENIED WRONG_QUERY_ID SQL_BIND_TYPE SQL_BIND_NOT_FOUND SQL_BIND_PARAMETER_MAX
        SQL_CANT_RESOLVE_FIELD SQL_SYNTAX_WITH_POS SQL_STACK_OVERFLOW SQL_SELECT_WILDCARD SQL_STATEMENT_EMPTY
        SQL_KEYWORD_IS_RESERVED SQL_SYNTAX_NEAR_TOKEN SQL_UNKNOWN_TOKEN SQL_PARSER_GENERIC SQL_ANALYZE_ARGUMENT
        SQL_COLUMN_COUNT_MAX SQL_PARSER_LIMIT SQL_COLUMN_COUNT SQL_PARSER_GENERIC_WITH_POS SQL_CANT_ADD_AUTOINC
        SQL_NO_SUCH_PRAGMA CREATE_FK_CONSTRAINT DROP_FK_CONSTRAINT CREATE_CK_CONSTRAINT CK_DEF_UNSUPPORTED
        NO_SUCH_TRIGGER SQL_FUNC_WRONG_RET_COUNT NO_SUCH_FIELD_NAME_IN_SPACE
    """,
}
_BY_CODE: Final = {int(ErrorCode[name]): kind for kind, names in _NAMES.items() for name in names.split()}
_FAMILIES: Final[tuple[tuple[type[BoxError], type[DatabaseError]], ...]] = (
    (errors.DataError, DataError),
    (errors.SchemaError, ProgrammingError),
    (errors.UnsupportedError, NotSupportedError),
    (errors.LuajitError, InternalError),
)
_TEXTS: Final = (
    ("constraint failed", IntegrityError),
    ("overflow", DataError),
    ("division by zero", DataError),
    ("too big", DataError),
    ("number of parameters", ProgrammingError),
)
"""Parts of error texts that decide about the exception's class, because SQL_EXECUTE is the code of many different
errors.
"""


def mapped(error: BoxError) -> Error:
    """Return the exception of PEP 249 that corresponds to an error of the node."""
    made = _class_of(error)(error.message)
    made.code = int(error.code)
    for note in getattr(error, "__notes__", ()):
        made.add_note(note)
    return made


def _class_of(error: BoxError) -> type[DatabaseError]:
    if error.code == ErrorCode.SQL_EXECUTE:
        return next((kind for text, kind in _TEXTS if text in error.message), OperationalError)
    if error.code in _BY_CODE:
        return _BY_CODE[error.code]
    return next((kind for family, kind in _FAMILIES if isinstance(error, family)), OperationalError)


def translation(error: BoxError | TypeError | RuntimeError) -> Error:
    """Return the exception of PEP 249 for an error of the node, or of its misuse."""
    if isinstance(error, BoxError):
        return mapped(error)
    return ProgrammingError(str(error)) if isinstance(error, TypeError) else InterfaceError(str(error))


@contextmanager
def translated() -> Iterator[None]:
    """Convert errors of the node, and errors of its misuse, to exceptions of PEP 249."""
    try:
        yield
    except (BoxError, TypeError, RuntimeError) as error:
        raise translation(error) from error
