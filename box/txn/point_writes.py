"""Changes of single rows by code that has their fields decoded already, each in a transaction of its own.

A `PointWriter` is valid for one turn of the loop: what `Dml.store` checks for every change is checked when it is made.
Effects, errors and rows of the log are those of `Dml.store` and `Dml.write`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from box.data.codec import pack
from box.data.update import updated
from box.errors import BoxError
from box.txn.fast_path import FastWrite, insert, put_changed, remove, replace, undo
from box.wire.change import DELETE, INSERT, REPLACE, UPDATE, Request
from box.wire.row import Row

if TYPE_CHECKING:
    from box.data.keydef import SortKey
    from box.schema.space import Space
    from box.txn.pending import Outcome
    from box.txn.write_plan import WritePlan
    from box.wire.entry import JournalSink

ROWS_MAX: Final = 2
"""The number of rows that one change writes to the log at most."""


class PointWriter:
    """Writes rows of one space: nothing but the indexes and the log takes part.

    Each method returns None if the change is complete, otherwise a `Pending`. Each raises the errors of `Dml.write`
    that concern the row; then nothing is changed. `find` and `parse` are those of the primary index.
    """

    __slots__ = ("_counters", "_is_void", "_journal", "_plan", "_space", "find", "parse")

    def __init__(self, plan: WritePlan, space: Space, journal: JournalSink, counters: list[int]) -> None:
        self._plan = plan
        self._space = space
        self._journal = journal
        self._is_void = journal.is_void
        self._counters = counters
        self.find = plan.find
        self.parse = plan.parse

    def insert(self, raw: bytes, fields: list[Any]) -> Outcome:
        """Insert the tuple `raw`, whose fields are given."""
        self._counters[INSERT] += 1
        insert(self._plan, self._space, raw, fields)
        if self._is_void:
            return self._passed(1, None, raw)
        return self._log(INSERT, self._space.tuple_prefix + raw, None, raw)

    def replace(self, raw: bytes, fields: list[Any], is_new: bool) -> Outcome:
        """Store the tuple `raw`, whose fields are given. Unless `is_new`, it replaces a tuple, and the log gets a
        DELETE and a REPLACE, as Tarantool's SQL writes them.
        """
        space, counters = self._space, self._counters
        counters[REPLACE] += 1
        if is_new:
            insert(self._plan, space, raw, fields)
            if self._is_void:
                return self._passed(1, None, raw)
            return self._log(REPLACE, space.tuple_prefix + raw, None, raw)
        counters[DELETE] += 1
        old, _ = replace(self._plan, space, raw, fields)
        if self._is_void:
            return self._passed(2, old, raw)
        key = space.index(0).key_def.extract_values(fields)
        rows = [Row(DELETE, body=space.key_prefix + pack(key)), Row(REPLACE, body=space.tuple_prefix + raw)]
        return FastWrite(REPLACE, b"", rows, space, old, raw, None).submit(self._journal)

    def update(self, key: list[Any], sort_key: SortKey, old: bytes, operations: list[list[Any]]) -> Outcome:
        """Update the tuple `old`, which has the primary key `key`; operations count fields from 1."""
        plan, space = self._plan, self._space
        self._counters[UPDATE] += 1
        new, fields = updated(old, operations, plan.format, 1)
        put_changed(
            plan, space, old, new, sort_key, plan.validate(new) if fields is None else plan.validate_fields(new, fields)
        )
        if self._is_void:
            return self._passed(1, old, new)
        return self._log(UPDATE, Request.update(key, operations).body(space.id), old, new)

    def delete(self, key: list[Any], sort_key: SortKey, old: bytes) -> Outcome:
        """Delete the tuple `old`, which has the primary key `key`."""
        self._counters[DELETE] += 1
        remove(self._plan, self._space, sort_key, old)
        if self._is_void:
            return self._passed(1, old, None)
        return self._log(DELETE, self._space.key_prefix + pack(key), old, None)

    def _passed(self, rows: int, old: bytes | None, new: bytes | None) -> Outcome:
        """Count rows of a log that keeps none."""
        try:
            self._journal.pass_rows(rows)
        except BoxError:
            undo(self._space, old, new)
            raise
        return None

    def _log(self, kind: int, body: bytes, old: bytes | None, new: bytes | None) -> Outcome:
        return FastWrite(kind, body, None, self._space, old, new, None).submit(self._journal)
