"""The interface of engines: the methods that a space calls to store and read its tuples.

```
definition    check_space, prepare_space           refuse or complete a space
              index_rules, make_index              refuse or make an index
              installed, exchanged                 react to a new layout
transaction   is_transactional, allows_yield       whether a transaction binds itself to the engine, and may wait
              change, undo                         INSERT, REPLACE, UPDATE, UPSERT, DELETE of one tuple
              prepare, commit, forget              the way of a transaction to its end
reading       find, select, rows, count, view_of,  by a key that a user gave
              least, greatest, random, size
              source                               the index that holds the tuples, for pages and long reads
checkpoint    keeps_tuples, open_view              the rows of a snapshot
join          is_joined, open_view                 the rows that a replica gets with a join
recovery      load                                 takes the rows of a snapshot or a join
Spark         SNAPSHOT_ENGINES (box.wire)          the engines whose rows are in snapshots
```

One object of each engine serves all spaces of a node. `box.txn.engines` has the engines. If an engine keeps its tuples
in indexes (`keeps_tuples`), fast paths of reading and writing use the indexes directly.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from box.index.base import Entry, Index, IndexDef
from box.index.iterator_type import IteratorType
from box.index.view import ListView, TupleView
from box.wire.constants import SNAPSHOT_ENGINES

if TYPE_CHECKING:
    from box.data.keydef import KeyDef
    from box.log import Log
    from box.schema.schema import Schema
    from box.schema.space import Space, SpaceDef
    from box.session import Context
    from box.wire.change import Request


class TupleChange(Protocol):
    """A statement in progress; the engine fills in its outcome.

    `old` and `new` are the tuples before and after the change, or None. `applied` is the number of the change in its
    transaction, counted from 1; 0 means that there is nothing to undo.
    """

    old: bytes | None
    new: bytes | None
    applied: int

    @property
    def space(self) -> Space | None: ...


class EngineTransaction(Protocol):
    """The part of a transaction that engines use. `changes` is the number of its changes so far, which the engine
    counts.
    """

    id: int
    changes: int


class TupleLoad(Protocol):
    """Fills one space with tuples that come in the order of a snapshot."""

    def add(self, tuples: list[bytes]) -> None:
        """Add tuples. Raises an error for the first tuple that cannot be stored."""

    def steps(self, log: Log) -> Iterator[None]:
        """Finish the load; each step is one turn of the loop. Raises TUPLE_FOUND if two tuples have the same key."""


IndexRules = Callable[[IndexDef, str], None]
"""Checks the definition of an index; the second argument is the name of its space. The outcome depends on nothing else.
"""


class Engine(ABC):
    """An engine. This base class behaves as an engine that keeps no tuples."""

    name: ClassVar[str]
    is_transactional: ClassVar[bool] = False
    """True if a transaction is bound to the engine by its first statement: it may not use another engine of this kind.
    """
    index_rules: ClassVar[IndexRules | None] = None
    """The rules for indexes in addition to the rules of all engines."""

    @property
    def keeps_tuples(self) -> bool:
        """True if the tuples of a space are the entries of its indexes, and rows of snapshots."""
        return self.name in SNAPSHOT_ENGINES

    @property
    def is_joined(self) -> bool:
        """True if a replica gets the tuples of `open_view` with a join."""
        return self.keeps_tuples

    @property
    def allows_yield(self) -> bool:
        """True if a transaction may wait, because others do not see its changes."""
        return False

    def __repr__(self) -> str:
        return f"<engine {self.name}>"

    # -- definition

    def check_space(self, definition: SpaceDef) -> None:  # noqa: B027 the usual engine accepts all
        """Check the definition of a space. Raises UNSUPPORTED if the engine refuses it."""

    def prepare_space(self, schema: Schema, space: Space) -> None:  # noqa: B027 a hook
        """Complete a new space before it is added to the dictionary."""

    @abstractmethod
    def make_index(self, schema: Schema, space: Space, definition: IndexDef, primary: KeyDef | None) -> Index:
        """Make an empty index. `primary` is the key definition of the primary index, or None to make the primary index
        itself.

        Raises:
            ClientError: UNSUPPORTED, MODIFY_INDEX, INDEX_TYPE or UNSUPPORTED_INDEX_FEATURE.
        """

    def installed(self, space: Space) -> None:  # noqa: B027 a hook
        """React to new or changed indexes of a space."""

    def exchanged(self, schema: Schema, former: Index | None, primary: Index | None) -> None:  # noqa: B027 a hook
        """React to the exchange of a space's primary index; `former` is the old index."""

    # -- transaction

    @abstractmethod
    def change(self, ctx: Context, space: Space, change: TupleChange, request: Request) -> bytes | None:
        """Execute a request in the open transaction of `ctx`. Returns its result.

        A request by a secondary key may be changed to a request by the primary key.

        Raises:
            BoxError: see `Dml.write`; nothing is changed.
        """

    def undo(self, txn: EngineTransaction, change: TupleChange) -> None:
        """Undo a change whose `applied` is not 0. Later changes of the transaction are undone already."""
        raise NotImplementedError

    def prepare(self, txn: EngineTransaction) -> None:  # noqa: B027 a hook
        """Give a transaction its place in the order of commits, before its rows are written to the log."""

    def commit(self, txn: EngineTransaction) -> None:  # noqa: B027 a hook
        """Commit the changes of a transaction that is in the log, and confirmed if it is synchronous."""

    def forget(self, txn: EngineTransaction) -> None:  # noqa: B027 a hook
        """Forget a transaction that was undone."""

    # -- reading

    def source(self, index: Index) -> Index | None:
        """Return the index that holds the tuples of the given index, or None if no index holds them."""
        return None

    def find(self, ctx: Context, space: Space, index: Index, key: list[Any]) -> bytes | None:
        """Return the tuple with a full key of a unique index. Raises EXACT_MATCH or KEY_PART_TYPE."""
        return next(self.rows(ctx, space, index, IteratorType.EQ, key), None)

    @abstractmethod
    def rows(self, ctx: Context, space: Space, index: Index, iterator: int, key: list[Any]) -> Iterator[bytes]:
        """Return an iterator over the tuples of an iteration that the reader may see.

        Raises:
            BoxError: see `Index.cursor`; it is raised before the first step.
        """

    def select(
        self, ctx: Context, space: Space, index: Index, iterator: int, key: list[Any], offset: int, limit: int
    ) -> list[bytes]:
        """Return at most `limit` tuples of `rows`, after the first `offset`. Raises the errors of `rows`."""
        return list(islice(self.rows(ctx, space, index, iterator, key), offset, offset + limit))

    def count(self, ctx: Context, space: Space, index: Index, iterator: int, key: list[Any]) -> int:
        """Return the number of tuples of `rows`. Raises the errors of `rows`."""
        return sum(1 for _ in self.rows(ctx, space, index, iterator, key))

    def least(self, ctx: Context, space: Space, index: Index, key: list[Any]) -> bytes | None:
        """Return the first tuple in a TREE index whose key begins with `key`, or None."""
        return next(self.rows(ctx, space, index, IteratorType.EQ, key), None)

    def greatest(self, ctx: Context, space: Space, index: Index, key: list[Any]) -> bytes | None:
        """Return the last tuple in a TREE index whose key begins with `key`, or None."""
        return next(self.rows(ctx, space, index, IteratorType.REQ, key), None)

    def random(self, ctx: Context, index: Index, seed: int) -> bytes | None:
        """Return a tuple chosen by `seed`, or None if there is none. Raises UNSUPPORTED_INDEX_FEATURE."""
        raise index.unsupported_feature("random()")

    def size(self, ctx: Context, index: Index) -> int:
        """Return the number of visible tuples. Raises UNSUPPORTED_INDEX_FEATURE."""
        raise index.unsupported_feature("size()")

    def view_of(self, ctx: Context, space: Space, index: Index, iterator: int, key: list[Any]) -> TupleView:
        """Open a view of the tuples of `rows` as readers outside of transactions see them now. Raises the errors of
        `rows`.
        """
        return ListView(self.rows(ctx, space, index, iterator, key))

    def value_of(self, entry: Entry | None) -> bytes | None:
        """Return the tuple that an index entry stands for, including a change on its way to the log."""
        found: bytes | None = entry
        return found

    def tuples(self, space: Space) -> Iterable[bytes]:
        """Return all present tuples in the order of the primary index, including changes on their way to the log."""
        return ()

    # -- checkpoint, join, recovery

    def open_view(self, space: Space) -> TupleView:
        """Open a view of `tuples` for a checkpoint or a join, to be read in slices."""
        return ListView(self.tuples(space))

    def load(self, space: Space) -> TupleLoad | None:
        """Return an object that fills an empty space with the rows of a snapshot or a join; None if the engine takes no
        rows.
        """
        return None
