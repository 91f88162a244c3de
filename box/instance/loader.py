"""Taking in rows that are on disk somewhere: of a snapshot, be it a file's or another instance's, and of the log.

Rows of system spaces go through their triggers one by one, because they define what comes after them. Tuples of the
other spaces are collected and put into the indexes in bulk: a snapshot is in the order of the primary key. Secondary
indexes are built from sorted pairs at the end of each space.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from box.errors import BoxError, ErrorCode, client_error
from box.journal.rows import TupleRun, decode_tuples
from box.schema.ids import is_system_id
from box.txn.storage import duplicate
from box.wire.change import INSERT, Request, decode_row
from box.wire.constants import DML_TYPES, SYNCHRO_TYPES, RequestType
from box.wire.row import Row

if TYPE_CHECKING:
    from box.index import Index
    from box.log import Log
    from box.schema.schema import Schema
    from box.schema.space import Space
    from box.session import Context
    from box.txn.dml import Dml
    from box.txn.lifecycle import TransactionManager
    from box.txn.synchro import LimboDriver


_INSERT_HEADER = bytes((0x81, 0x00, RequestType.INSERT))


class SnapshotLoader:
    """Feed it runs of tuples in the order of the file, then call `finish`. `ctx` is of the user admin."""

    def __init__(self, schema: Schema, dml: Dml, ctx: Context, log: Log) -> None:
        self._schema = schema
        self._dml = dml
        self._ctx = ctx
        self._log = log
        self._space: Space | None = None
        self._tuples: list[bytes] = []

    def add(self, space_id: int, tuples: list[bytes]) -> None:
        """Tuples of one space. NO_SUCH_SPACE, and what the space's format or its trigger raises."""
        if is_system_id(space_id):
            self._flush()
            space = self._schema.space(space_id)
            for raw in tuples:
                self._insert(space, raw)
            return
        if self._space is None or self._space.id != space_id:
            self._flush()
            self._space = self._schema.space(space_id)
        self._tuples += tuples

    def add_run(self, run: TupleRun, *, force: bool = False) -> None:
        """As `add`. With `force` a tuple of a user's space that cannot be taken is logged and passed over."""
        if force and not is_system_id(run.space_id):
            self._add_one_by_one(run)
        else:
            self.add(run.space_id, run.tuples)

    def _add_one_by_one(self, run: TupleRun) -> None:
        """Slow, with all indexes enabled: finds every wrong tuple and every repeated key."""
        for raw in run.tuples:
            try:
                space = self._schema.space(run.space_id)
                self._insert(space, raw)
            except BoxError as error:
                self._log.error(f"can't apply row: {error.message}")

    def _insert(self, space: Space, raw: bytes) -> None:
        """As the row that the snapshot has of it: the instance may be read-only."""
        row = Row(RequestType.INSERT, body=space.tuple_prefix + raw)
        self._dml.write_at_once(self._ctx, space, Request(INSERT, raw, row=row))

    def add_rows(self, rows: Iterable[Row]) -> None:
        """Rows as another instance sends them."""
        block = b"".join([_INSERT_HEADER + row.body for row in rows if row.type == RequestType.INSERT])
        for run in decode_tuples(block)[0]:
            self.add_run(run)

    @contextmanager
    def joining(self) -> Iterator[None]:
        """While rows come from another instance, the own record in `_cluster` may still change."""
        self._schema.is_joining = True
        try:
            yield
        finally:
            self._schema.is_joining = False

    def finish(self) -> None:
        """Everything has been added."""
        self._flush()

    def _flush(self) -> None:
        space, self._space = self._space, None
        tuples, self._tuples = self._tuples, []
        if space is not None and tuples and space.is_plain:
            load_space(space, tuples)


class LogLoader:
    """Executes the transactions of the log. Their changes are on disk, so each is complete at once, unless it waits in
    the limbo. `ctx` is of the user admin."""

    def __init__(self, schema: Schema, dml: Dml, txns: TransactionManager, synchro: LimboDriver, ctx: Context) -> None:
        self._schema = schema
        self._dml = dml
        self._txns = txns
        self._synchro = synchro
        self._ctx = ctx

    def add(self, rows: list[Row]) -> None:
        """One transaction. Raises what its requests raise; then nothing of it is left."""
        if rows[0].type in SYNCHRO_TYPES:
            self._synchro.recover(rows[0])
            return
        txn = self._txns.begin(self._ctx)
        try:
            for row in rows:
                self._run(row)
        except BoxError:
            self._txns.rollback_open(self._ctx, txn)
            raise
        self._txns.commit_open(self._ctx, txn, waits=False)

    def _run(self, row: Row) -> None:
        if row.type == RequestType.NOP:
            self._dml.run_nop(self._ctx, row)
        elif row.type in DML_TYPES:
            space_id, request = decode_row(row)
            self._dml.write_at_once(self._ctx, self._schema.space(space_id), request)


@contextmanager
def paused_collector() -> Iterator[None]:
    """Without the cyclic garbage collector: millions of new objects would set it off again and again, for nothing."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def load_space(space: Space, tuples: list[bytes]) -> None:
    """Fill the empty indexes of a space. Raises what a wrong tuple raises, TUPLE_FOUND for a repeated unique key."""
    if space.primary is None:
        raise client_error(ErrorCode.NO_SUCH_INDEX_ID, 0, space.name)
    validate = space.format.validate
    pairs: list[list[tuple[Any, bytes]]] = [[] for _ in space.indexes]
    adders = [
        (index.key_of, index_pairs.append) for index, index_pairs in zip(space.indexes.values(), pairs, strict=True)
    ]
    if len(adders) == 1:
        key_of = space.primary.key_of
        pairs[0] = [(key_of(validate(raw)), raw) for raw in tuples]
    else:
        for raw in tuples:
            fields = validate(raw)
            for key_of, add in adders:
                add((key_of(fields), raw))
    for index, index_pairs in zip(space.indexes.values(), pairs, strict=True):
        _load_index(space, index, index_pairs)


def _load_index(space: Space, index: Index, pairs: list[tuple[Any, bytes]]) -> None:
    if any(part.exclude_null for part in index.definition.parts):
        pairs = [pair for pair in pairs if pair[0] is not None]  # None: the tuple does not belong to the index
    if index is not space.primary and index.definition.type == "TREE":
        pairs.sort(key=_key_of_pair)
    index.load_sorted(pairs)
    if len(index) != len(pairs):
        raise _repeated(space, index, pairs)


def _key_of_pair(pair: tuple[Any, bytes]) -> Any:
    return pair[0]


def _repeated(space: Space, index: Index, pairs: list[tuple[Any, bytes]]) -> BoxError:
    seen: dict[Any, bytes] = {}
    for key, raw in pairs:
        if key in seen:
            return duplicate(index, space, seen[key], raw)
        seen[key] = raw
    raise AssertionError(f"{index!r} lost entries")
