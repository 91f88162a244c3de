"""The short way of rows of system spaces while an instance starts: runs of a snapshot, its own or another instance's.

Such a row is on disk, and nobody undoes it: a start that fails makes the dictionary anew. So there is no transaction,
and what a rollback would need is dropped. What is left of the general way: the checks of the tuple, the indexes, the
system trigger, and what that wants to have done at the commit. Spaces with triggers of users take the general way, and
all spaces while there are versions of tuples: the user has an open transaction.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from box.eager import run_through
from box.txn.short import CHANGES
from box.wire.change import INSERT

if TYPE_CHECKING:
    from collections.abc import Callable

    from box.schema.access import Credentials
    from box.schema.schema import Schema
    from box.schema.space import Space
    from box.txn.plan import Planner
    from box.txn.storage import TupleStorage
    from box.wire.row import Row


class _Alone:
    """The transaction of one statement, as far as system triggers ask for it."""

    def check_single_statement(self, what: str) -> None:
        """It is."""


class _NoHooks(list[Any]):
    """Hooks of a rollback, which are forgotten."""

    def append(self, hook: object) -> None:
        """Nobody rolls back."""


_NO_ROLLBACK: Final[list[Callable[[], None]]] = _NoHooks()


class _LoadedRow:
    """The statement that inserts one row, as far as system triggers ask for it."""

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
    """See the module's text. `credentials` are admin's."""

    def __init__(self, schema: Schema, storage: TupleStorage, planner: Planner) -> None:
        self._schema = schema
        self._storage = storage
        self._planner = planner
        self._alone = _Alone()

    def takes(self, space: Space) -> bool:
        """Whether rows of the space can go this way, now."""
        return not (space.has_triggers or self._storage.has_versions)

    def add(self, credentials: Credentials, space: Space, tuples: Iterable[bytes]) -> None:
        """Insert tuples; what the format, an index or the trigger raises ends the run there."""
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
