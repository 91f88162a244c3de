"""Prepared statements.

Each is kept once for all sessions under an id. A session may use it only after it has prepared it itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import mmh3

from box.errors import ErrorCode, client_error
from box.sql.result import ResultField
from box.sql.stored_values import execute_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from box.session import Session

_SEED: Final = 13
"""The seed of the hash of a statement's text, which is its id in Tarantool."""
_STORAGE_KEY: Final = "sql_prepared"
_STATEMENT_SIZE: Final = 600
"""The estimated bytes of an analysed statement without its text, for `box.info.sql()`."""


@dataclass(slots=True)
class Prepared:
    """A prepared statement. `fields` are the result columns, None if it gives no rows."""

    id: int
    text: str
    parameters: list[str | None]
    fields: list[ResultField] | None
    is_full: bool
    version: int
    """The version of the dictionary for which the statement was analysed."""
    users: int = 0
    """The number of sessions that have prepared it."""


class PreparedStatements:
    """All prepared statements of one node."""

    def __init__(self) -> None:
        self._by_id: dict[int, Prepared] = {}
        self.size_limit = 5242880
        """`sql_cache_size`, in bytes."""

    @property
    def count(self) -> int:
        """The number of statements."""
        return len(self._by_id)

    @property
    def size(self) -> int:
        """The memory that the statements take, estimated, in bytes."""
        return sum(len(item.text) + _STATEMENT_SIZE for item in self._by_id.values())

    def set_limit(self, size: int) -> None:
        """Set `sql_cache_size`, in bytes.

        Raises:
            ClientError: SQL_PREPARE, the statements take more.
        """
        if size < self.size:
            reason = "Can't reduce memory limit for SQL prepared statements: please, deallocate active statements"
            raise client_error(ErrorCode.SQL_PREPARE, reason)
        self.size_limit = size

    def add(
        self,
        session: Session,
        text: str,
        parameters: Sequence[str | None],
        fields: list[ResultField] | None,
        is_full: bool,
        version: int,
    ) -> Prepared:
        """Keep a statement for a session.

        Raises:
            ClientError: SQL_PREPARE, there is no room.
        """
        statement_id = mmh3.hash(text.encode("utf-8", "surrogateescape"), _SEED, signed=False)
        found = self._by_id.get(statement_id)
        if found is None:
            if self.size + len(text) + _STATEMENT_SIZE > self.size_limit:
                reason = (
                    "Memory limit for SQL prepared statements has been reached. Please, deallocate active "
                    "statements or increase SQL cache size."
                )
                raise client_error(ErrorCode.SQL_PREPARE, reason)
            found = self._by_id[statement_id] = Prepared(statement_id, text, list(parameters), fields, is_full, version)
        elif found.version != version:
            found.fields, found.version = fields, version
        self._use(session, found)
        return found

    def _use(self, session: Session, prepared: Prepared) -> None:
        own = session.storage.get(_STORAGE_KEY)
        if own is None:
            own = session.storage[_STORAGE_KEY] = set()
            session.on_disconnect.append(lambda: self._let_go(own))
        if prepared.id not in own:
            own.add(prepared.id)
            prepared.users += 1

    def _let_go(self, ids: set[int]) -> None:
        for statement_id in list(ids):
            self._release(statement_id)
        ids.clear()

    def _release(self, statement_id: int) -> None:
        prepared = self._by_id[statement_id]
        prepared.users -= 1
        if not prepared.users:
            del self._by_id[statement_id]

    @staticmethod
    def has(session: Session, statement_id: int) -> bool:
        """Return whether a session has prepared a statement."""
        return statement_id in session.storage.get(_STORAGE_KEY, ())

    def find(self, session: Session, statement_id: int) -> Prepared:
        """Return a statement that the session has prepared.

        Raises:
            ClientError: WRONG_QUERY_ID.
        """
        if statement_id not in session.storage.get(_STORAGE_KEY, ()):
            raise client_error(ErrorCode.WRONG_QUERY_ID, statement_id)
        return self._by_id[statement_id]

    @staticmethod
    def check_fresh(prepared: Prepared, version: int) -> None:
        """Check that the dictionary has not changed since the statement was analysed.

        Raises:
            ClientError: SQL_EXECUTE.
        """
        if prepared.version != version:
            raise execute_error("statement has expired")

    def remove(self, session: Session, statement_id: int) -> None:
        """Forget a statement for a session; the last session removes it.

        Raises:
            ClientError: WRONG_QUERY_ID.
        """
        self.find(session, statement_id)
        session.storage[_STORAGE_KEY].discard(statement_id)
        self._release(statement_id)
