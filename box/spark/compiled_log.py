"""Reads blocks of a log by compiled code: a summary of a whole block, and the changes of one space in it."""

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
"""The rows for which there is room at first; it doubles when a block has more."""
_SCHEMA: Final = np.array([SPACE_ID, INDEX_ID, TRUNCATE_ID], np.int64)
"""The spaces whose rows change definitions or empty a space."""
_DML: Final = np.array(sorted(DML_TYPES), np.int64)
_CHANGES: Final = np.array(sorted(DML_TYPES - {RequestType.NOP, RequestType.SELECT}), np.int64)
"""The requests that change data: DML without NOP and SELECT."""
_NO_FIELDS: Final = np.empty(0, np.int64)


class _LogRows(NamedTuple):
    """The rows of a block as found by `find_log_rows`: its bytes, an array of numbers by line and row, and
    timestamps."""

    block: NDArray[np.uint8]
    numbers: NDArray[np.int64]
    times: NDArray[np.float64]


def _find(rows: bytes, key_fields: NDArray[np.int64]) -> _LogRows | None:
    """Find the rows of a block; None if it has an unusual form."""
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
    """Return a mask of the rows that are later than the vclock `since`."""
    known = np.zeros(VCLOCK_MAX, np.int64)
    for replica_id, lsn in since.items():
        known[replica_id] = lsn
    later: NDArray[np.bool_] = numbers[log.LSN] > known[numbers[log.REPLICA]]
    return later


class BlockSummary(NamedTuple):
    """A summary of a block: the last lsn of each replica, the timestamp of the latest row, and the number of rows."""

    lsns: dict[int, int]
    time: float
    rows: int


def summarize(rows: bytes, since: Mapping[int, int], synchronous: Collection[int] = ()) -> BlockSummary | None:
    """Return a summary of the rows later than `since`; None if the rows have to be read one by one.

    That is necessary for schema changes, for synchronous transactions (known by their flags or by `synchronous`, the
    ids of synchronous spaces), for the rows that confirm or roll them back, and for unusual forms.
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
    """A finder for changes of one space that are later than the vclock `since` and not `left_out`.

    `parts` are the parts of the primary key, None if it is not plain. `left_out` has replica ids and lsns.
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
        """Return the changes in a block, or the bytes of rows that have to be read one by one.

        That is necessary for schema changes, keys that are not plain, rows that may be left out, and unusual forms.
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
        # Cut the block at the start and the end of each body. Every other piece is a body, the pieces between are
        # headers.
        offsets = np.append(numbers[: log.END + 1].T.ravel(), len(rows)).astype(np.int32)
        pieces = pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(rows)])
        return FoundChanges(keys, pa.array(chosen[log.TYPE].astype(np.uint8)), pieces.take(pa.array(wanted * 2)))

    def _all_count(self, numbers: NDArray[np.int64]) -> bool:
        """Return whether all rows are changes of data and none may be left out."""
        is_usual = np.isin(numbers[log.TYPE], _CHANGES).all()
        return bool(is_usual and not (len(self._left_out) and np.isin(numbers[log.LSN], self._left_out).any()))
