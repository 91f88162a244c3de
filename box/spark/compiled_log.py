"""Blocks of a log, looked at by compiled code: what a whole block says, and the rows of it that concern one space."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from box.spark import log_kernels as log
from box.spark.changes import FoundChanges
from box.spark.compiled_tuples import encoded_keys
from box.spark.definitions import INDEX_ID, SPACE_ID, TRUNCATE_ID
from box.spark.primary_keys import PlainParts
from box.wire.constants import DML_TYPES, Flag, RequestType
from box.wire.vclock import VCLOCK_MAX

_ROWS: Final = 1 << 13
_SCHEMA: Final = np.array([SPACE_ID, INDEX_ID, TRUNCATE_ID], np.int64)
_DML: Final = np.array(sorted(DML_TYPES), np.int64)
_CHANGES: Final = np.array(sorted(DML_TYPES - {RequestType.NOP, RequestType.SELECT}), np.int64)
_NO_FIELDS: Final = np.empty(0, np.int64)


class _LogRows(NamedTuple):
    """The findings of `find_log_rows` about a block."""

    block: NDArray[np.uint8]
    numbers: NDArray[np.int64]
    times: NDArray[np.float64]


def _find(rows: bytes, key_fields: NDArray[np.int64]) -> _LogRows | None:
    """None for a block that is not usual."""
    block = np.frombuffer(rows, np.uint8)
    numbers, times = np.empty((log.KEY + len(key_fields), _ROWS), np.int64), np.empty(_ROWS, np.uint64)
    found = position = 0
    while True:
        count, position = log.find_log_rows(block, position, key_fields, numbers[:, found:], times[found:])
        found += count
        if position < 0 or (found and numbers[log.REPLICA, :found].max() >= VCLOCK_MAX):
            return None
        if position == len(block):
            return _LogRows(block, numbers[:, :found], times[:found].view(np.float64))
        numbers = np.concatenate((numbers, np.empty_like(numbers)), axis=1)
        times = np.concatenate((times, np.empty_like(times)))


def _later(numbers: NDArray[np.int64], since: Mapping[int, int]) -> NDArray[np.bool_]:
    """A mask of the rows that are later than a vclock."""
    known = np.zeros(VCLOCK_MAX, np.int64)
    for replica_id, lsn in since.items():
        known[replica_id] = lsn
    later: NDArray[np.bool_] = numbers[log.LSN] > known[numbers[log.REPLICA]]
    return later


class BlockSummary(NamedTuple):
    """The last lsn of each replica in a block, the time of its latest row, and the number of its rows."""

    lsns: dict[int, int]
    time: float
    rows: int


def summarize(rows: bytes, since: Mapping[int, int], synchronous: Collection[int] = ()) -> BlockSummary | None:
    """A summary of the rows later than `since`; None where a block has to be looked at row by row.

    That is so for schema changes, for synchronous transactions (by their flags, and by the ids of synchronous spaces)
    and what decides about them, and for unusual forms.
    """
    found = _find(rows, _NO_FIELDS)
    if found is None:
        return None
    later = _later(found.numbers, since)
    numbers = found.numbers[:, later]
    is_special = (
        ((numbers[log.FLAGS] & int(Flag.WAIT_SYNC | Flag.WAIT_ACK)) != 0).any()
        or np.isin(numbers[log.SPACE], [*_SCHEMA, *synchronous]).any()
        or not np.isin(numbers[log.TYPE], _DML).all()
    )
    if is_special:
        return None
    replicas = np.unique(numbers[log.REPLICA]).tolist()
    lsns = {replica: int(numbers[log.LSN][numbers[log.REPLICA] == replica].max()) for replica in replicas}
    return BlockSummary(lsns, float(found.times[later].max()) if len(replicas) else 0.0, int(later.sum()))


class ChangeFinder:
    """Finds the changes of one space that are later than a vclock, and not among those that are `left_out`.

    `parts` are those of its primary key where they are plain.
    """

    def __init__(
        self, space_id: int, parts: PlainParts | None, since: Mapping[int, int], left_out: Collection[tuple[int, int]]
    ) -> None:
        self._space_id = space_id
        self.parts = parts
        self._since = since
        self._fields = np.array([field for field, _ in parts or ()], np.int64)
        self._left_out = np.array(sorted({lsn for _, lsn in left_out}), np.int64)

    def find(self, rows: bytes) -> FoundChanges | bytes:
        """The changes of a block; where it has to be looked at row by row, the rows that matter, or all of them.

        That is so for schema changes, keys without plain parts, rows that may be left out, and unusual forms.
        """
        found = _find(rows, self._fields)
        if found is None:
            return rows
        numbers = found.numbers
        is_own, is_schema = numbers[log.SPACE] == self._space_id, np.isin(numbers[log.SPACE], _SCHEMA)
        wanted = np.flatnonzero((is_own | is_schema) & _later(numbers, self._since))
        chosen = numbers[:, wanted]
        keys = None
        if self.parts is not None and not is_schema[wanted].any() and self._all_count(chosen):
            keys = encoded_keys(found.block, np.ascontiguousarray(chosen[log.KEY :]), self.parts)
        if keys is None:
            return b"".join([rows[start:end] for start, end in chosen[[log.START, log.END]].T.tolist()])
        # The body of each row and what is between two bodies, of which every other value is taken.
        offsets = np.append(numbers[: log.END + 1].T.ravel(), len(rows)).astype(np.int32)
        pieces = pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(rows)])
        return FoundChanges(keys, pa.array(chosen[log.TYPE].astype(np.uint8)), pieces.take(pa.array(wanted * 2)))

    def _all_count(self, numbers: NDArray[np.int64]) -> bool:
        """All are changes of data that take effect."""
        is_usual = np.isin(numbers[log.TYPE], _CHANGES).all()
        return bool(is_usual and not (len(self._left_out) and np.isin(numbers[log.LSN], self._left_out).any()))
