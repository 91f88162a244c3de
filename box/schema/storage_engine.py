"""The place where an engine plugs in: what a space asks of whoever keeps its tuples.

```
definition    check_space, prepare_space           refuse or complete a space
              index_rules, make_index              refuse or make an index
              installed, exchanged                 hear of another layout
transaction   is_transactional, allows_yield       whether a transaction binds itself to the engine, and may wait
              change, undo                         INSERT, REPLACE, UPDATE, UPSERT, DELETE of one tuple
              prepare, commit, forget              the way of a transaction to its end
reading       find, select, rows, count, view_of,  by a key that a user gave
              least, greatest, random, size
              source                               the index that holds the tuples, for pages and long reads
checkpoint    keeps_tuples, open_view              a snapshot's rows
join          is_joined, open_view                 those that a replica gets with a join
recovery      load                                 takes the rows of a snapshot or a join
Spark         SNAPSHOT_ENGINES (box.wire)          whose rows a snapshot has
```

One object of each engine serves all spaces of a node. `box.txn.engines` has the engines. Where tuples are kept in
indexes (`keeps_tuples`), fast paths of reading and writing go to the indexes themselves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from box.index.base import Entry, Index, IndexDef, IteratorType
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
    """A statement in progress, which the engine fills in.

    `old` and `new` are the tuples before and after, None stands for none. `applied` is what number this change has in
    its transaction, counted from 1; 0 if there is nothing to undo.
    """

    old: bytes | None
    new: bytes | None
    applied: int

    @property
    def space(self) -> Space | None: ...


class EngineTransaction(Protocol):
    """What an engine sees of a transaction. `changes` is the number of its changes so far, which the engine counts."""

    id: int
    changes: int


class TupleLoad(Protocol):
    """Fills one space with tuples that come in the order of a snapshot."""

    def add(self, tuples: list[bytes]) -> None:
        """Add tuples. Raises the error of the first one that cannot be stored."""

    def steps(self, log: Log) -> Iterator[None]:
        """Finish in steps, each a turn of the loop. Raises TUPLE_FOUND, two tuples have the same key."""


IndexRules = Callable[[IndexDef, str], None]
"""Checks the definition of an index of the space with a name; the outcome depends on nothing else."""


class Engine(ABC):
    """An engine; the base has what an engine does that keeps no tuples."""

    name: ClassVar[str]
    is_transactional: ClassVar[bool] = False
    """The first statement of a transaction binds it to the engine: it may use no other one of this kind."""
    index_rules: ClassVar[IndexRules | None] = None
    """The rules for indexes in addition to those of all engines."""

    @property
    def keeps_tuples(self) -> bool:
        """The tuples of a space are entries of its indexes, and rows of snapshots."""
        return self.name in SNAPSHOT_ENGINES

    @property
    def is_joined(self) -> bool:
        """A replica gets the tuples of `open_view` with a join."""
        return self.keeps_tuples

    @property
    def allows_yield(self) -> bool:
        """A transaction may wait, because others do not see its changes."""
        return False

    def __repr__(self) -> str:
        return f"<engine {self.name}>"

    # -- definition

    def check_space(self, definition: SpaceDef) -> None:  # noqa: B027 the usual engine accepts all
        """Refuse the definition of a space. Raises UNSUPPORTED."""

    def prepare_space(self, schema: Schema, space: Space) -> None:  # noqa: B027 a hook
        """Complete a new space, which is not in the dictionary yet."""

    @abstractmethod
    def make_index(self, schema: Schema, space: Space, definition: IndexDef, primary: KeyDef | None) -> Index:
        """Make an empty index; `primary` is the primary index's key definition, None for the primary index itself.

        Raises:
            ClientError: UNSUPPORTED, MODIFY_INDEX, INDEX_TYPE or UNSUPPORTED_INDEX_FEATURE.
        """

    def installed(self, space: Space) -> None:  # noqa: B027 a hook
        """Take notice of the space's indexes, which are new or others than before."""

    def exchanged(self, schema: Schema, former: Index | None, primary: Index | None) -> None:  # noqa: B027 a hook
        """Take notice that a space of the dictionary has another primary index."""

    # -- transaction

    @abstractmethod
    def change(self, ctx: Context, space: Space, change: TupleChange, request: Request) -> bytes | None:
        """Execute a request in the open transaction of `ctx`. Returns its result.

        A request by a secondary key may be rewritten as one by the primary key.

        Raises:
            BoxError: as `Dml.write`; nothing is changed.
        """

    def undo(self, txn: EngineTransaction, change: TupleChange) -> None:
        """Undo a change whose `applied` is set. Later changes of the transaction are undone already."""
        raise NotImplementedError

    def prepare(self, txn: EngineTransaction) -> None:  # noqa: B027 a hook
        """Give a transaction its place in the order of commits, before its rows go to the log."""

    def commit(self, txn: EngineTransaction) -> None:  # noqa: B027 a hook
        """Commit the changes of a transaction that is in the log, and confirmed if it is synchronous."""

    def forget(self, txn: EngineTransaction) -> None:  # noqa: B027 a hook
        """Drop what is known of a transaction that was undone."""

    # -- reading

    def source(self, index: Index) -> Index | None:
        """Return the index that holds the tuples which an index of a space shows; None if none does."""
        return None

    def find(self, ctx: Context, space: Space, index: Index, key: list[Any]) -> bytes | None:
        """Return the tuple with a full key of a unique index. Raises EXACT_MATCH or KEY_PART_TYPE."""
        return next(self.rows(ctx, space, index, IteratorType.EQ, key), None)

    @abstractmethod
    def rows(self, ctx: Context, space: Space, index: Index, iterator: int, key: list[Any]) -> Iterator[bytes]:
        """Return an iterator over the tuples of an iteration that the reader may see.

        Raises:
            BoxError: as `Index.cursor`, at once.
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
        """Return the least tuple of an index, which is a TREE, whose key begins with `key`; None if there is none."""
        return next(self.rows(ctx, space, index, IteratorType.EQ, key), None)

    def greatest(self, ctx: Context, space: Space, index: Index, key: list[Any]) -> bytes | None:
        """Return the greatest tuple of an index, which is a TREE, whose key begins with `key`."""
        return next(self.rows(ctx, space, index, IteratorType.REQ, key), None)

    def random(self, ctx: Context, index: Index, seed: int) -> bytes | None:
        """Return a tuple chosen by `seed`, or None. Raises UNSUPPORTED_INDEX_FEATURE."""
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
        """Begin to fill an empty space with the rows of a snapshot or a join; None if it takes none."""
        return None
