"""The fast path for rows of system spaces during a start: runs of a snapshot, local or sent by another instance.

Such rows are on disk already and are never undone: if the start fails, the dictionary is made anew. So they need no
transaction, and the hooks of a rollback are dropped. What remains of the general path are the checks of the tuple, the
indexes, the system trigger and its commit hooks. The general path is used for spaces with user triggers. It is also
used for all spaces while tuples have versions, which happens if the user has a transaction open.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from box.eager import run_through
from box.txn.fast_path import CHANGES
from box.wire.change import INSERT

if TYPE_CHECKING:
    from collections.abc import Callable

    from box.schema.access import Credentials
    from box.schema.schema import Schema
    from box.schema.space import Space
    from box.txn.storage import TupleStorage
    from box.txn.write_plan import Planner
    from box.wire.row import Row


class _Alone:
    """A stand-in for a transaction of one statement, with the methods that system triggers use."""

    def check_single_statement(self, what: str) -> None:
        """Accept every operation: the transaction has one statement."""


class _NoHooks(list[Any]):
    """A list of rollback hooks that drops what is appended."""

    def append(self, hook: object) -> None:
        """Drop the hook, because these rows are never rolled back."""


_NO_ROLLBACK: Final[list[Callable[[], None]]] = _NoHooks()


class _LoadedRow:
    """A stand-in for the statement that inserts one row, with the attributes that system triggers use."""

    __slots__ = ("first", "last", "new", "old", "on_commit", "on_rollback", "row", "type")

    def __init__(self, raw: bytes) -> None:
        self.type = INSERT
        self.new: bytes | None = raw
        self.first = self.last = raw
        self.old: bytes | None = None
        self.row: Row | None = None
        self.on_commit: list[Callable[[], None]] = []
        self.on_rollback = _NO_ROLLBACK


class DictionaryLoad:
    """Inserts rows into system spaces on the fast path. The `credentials` are those of admin."""

    def __init__(self, schema: Schema, storage: TupleStorage, planner: Planner) -> None:
        self._schema = schema
        self._storage = storage
        self._planner = planner
        self._alone = _Alone()

    def takes(self, space: Space) -> bool:
        """Return True if rows of the space can be inserted on the fast path now."""
        return not (space.has_triggers or self._storage.has_versions)

    def add(self, credentials: Credentials, space: Space, tuples: Iterable[bytes]) -> None:
        """Insert tuples in their order; the first error ends the run.

        Raises:
            BoxError: the error of the format, of an index or of the system trigger.
        """
        with self._schema.loading():
            for raw in tuples:
                self._insert(credentials, space, raw)

    def _insert(self, credentials: Credentials, space: Space, raw: bytes) -> None:
        # A row of `_index` may just have changed `_index` itself.
        CHANGES[INSERT](self._planner.plan(space), space, raw)
        trigger = space.system_trigger
        if trigger is None:
            return
        statement = _LoadedRow(raw)
        work = trigger(credentials, self._alone, statement)
        if work is not None:
            run_through(work)()
        for hook in statement.on_commit:
            hook()
