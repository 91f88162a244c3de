"""Blocks of a log, looked at by compiled code: what a whole block says, and the rows of it that concern one space."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from box.spark import log_kernels as log
from box.spark.columns import Kind
from box.spark.compiled import READERS
from box.spark.definitions import INDEX_ID, SPACE_ID, TRUNCATE_ID
from box.wire.constants import DML_TYPES, Flag
from box.wire.vclock import VCLOCK_MAX

_ROWS: Final = 1 << 13
_SCHEMA: Final = np.array([SPACE_ID, INDEX_ID, TRUNCATE_ID], np.int64)
_DML: Final = np.array(sorted(DML_TYPES), np.int64)


class _LogRows(NamedTuple):
    """The findings of `find_log_rows` about a block."""

    block: NDArray[np.uint8]
    numbers: NDArray[np.int64]
    times: NDArray[np.float64]


def _find(rows: bytes, key_field: int) -> _LogRows | None:
    """None for a block that is not usual."""
    block = np.frombuffer(rows, np.uint8)
    numbers, times = np.empty((log.LINES, _ROWS), np.int64), np.empty(_ROWS, np.uint64)
    found = position = 0
    while True:
        count, position = log.find_log_rows(block, position, key_field, numbers[:, found:], times[found:])
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
    found = _find(rows, 0)
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


class RowSelector:
    """Picks the rows of one space, and those that change definitions, out of blocks.

    With `kind` only rows whose first part of the key is from `low` to `high` (None: no bound), in field `key_field`.
    """

    def __init__(
        self, space_id: int, since: Mapping[int, int], key_field: int, kind: Kind | None, low: Any, high: Any
    ) -> None:
        self._space_id = space_id
        self._since = since
        self._key_field = key_field
        self._kind = kind if low is not None or high is not None else None
        self._low, self._high = low, high

    def select(self, rows: bytes) -> bytes:
        """The wanted rows of a block, one after another; all rows of a block that is not usual."""
        found = _find(rows, self._key_field)
        if found is None:
            return rows
        numbers = found.numbers
        is_own = numbers[log.SPACE] == self._space_id
        if self._kind is not None:
            is_own[is_own] = self._in_range(found.block, np.ascontiguousarray(numbers[log.KEY_PART][is_own]))
        wanted = np.flatnonzero((is_own | np.isin(numbers[log.SPACE], _SCHEMA)) & _later(numbers, self._since))
        spans = numbers[:2, wanted].T.tolist()
        return b"".join([rows[start:end] for start, end in spans])

    def _in_range(self, block: NDArray[np.uint8], starts: NDArray[np.int64]) -> NDArray[np.bool_]:
        assert self._kind is not None
        array = READERS[self._kind](block, starts, self._kind)
        mask = np.ones(len(starts), np.bool_)
        if array is None or array.null_count:
            return mask
        for bound, compare in ((self._low, pc.greater_equal), (self._high, pc.less_equal)):
            if bound is not None:
                mask &= compare(array, pa.scalar(bound, array.type)).to_numpy(zero_copy_only=False)
        return mask
