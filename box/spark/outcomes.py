"""Applies the changes of a log to tuples, with as little work in Python as possible.

```
the last change that overrides all before it      the changes after it      the result
INSERT, REPLACE                                   none                      the tuple of the request, copied by Arrow
DELETE                                            none                      no tuple
any of them, or none (the snapshot's tuple)       UPDATE, UPSERT            the tuple after these requests, in Python
```
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from box.data.codec import pack
from box.data.format import TupleFormat
from box.data.update import apply_update, apply_upsert
from box.spark.base_tuples import BaseTuples
from box.spark.change_runs import CHANGES, KeyGroups, key_groups
from box.spark.primary_keys import PrimaryKeys
from box.wire.change import Request, decode_change
from box.wire.constants import RequestType

_PUTS: Final = np.array([RequestType.INSERT, RequestType.REPLACE], np.uint8)
_DEFINITE: Final = (int(RequestType.INSERT), int(RequestType.REPLACE), int(RequestType.DELETE))
_HEADER: Final = b"\xc0"
"""A value in place of the header of a row, because readers of tuples skip any value there; 0xC0 is nil."""


class Outcomes(NamedTuple):
    """The tuples after changes, and the rows of the snapshot that are no longer valid.

    `bodies` are request bodies with a tuple, `tuples` are tuples alone, and `taken` has row numbers.
    """

    bodies: pa.Array
    tuples: list[bytes]
    taken: NDArray[np.int64]


class Folder:
    """Applies the changes of one space."""

    def __init__(self, space_id: int, keys: PrimaryKeys, formats: Sequence[TupleFormat]) -> None:
        self._space_id = space_id
        self._keys = keys
        self._formats = formats
        # The body of an INSERT: a map of two pairs (0x82) with the space id (0x10) and the tuple (0x21).
        self._head = _HEADER + b"\x82\x10" + pack(space_id) + b"\x21"

    def fold(self, changes: pa.RecordBatch, base: pa.Array | None, tuple_at: Callable[[int], bytes]) -> Outcomes:
        """Apply sorted changes and return the results.

        `base` has the encoded keys of some tuples of the snapshot, or is None if there are none. `tuple_at` returns
        the tuple for the key at an index of `base`.
        """
        groups = key_groups(changes)
        rows = np.full(len(groups.starts), -1, np.int64)
        taken = np.empty(0, np.int64)
        if base is not None:
            found = pc.index_in(base, value_set=changes.column(0).take(pa.array(groups.starts)))
            taken = np.flatnonzero(found.is_valid().to_numpy(zero_copy_only=False))
            rows[found.drop_null().to_numpy()] = taken
        is_settled = groups.definite == groups.ends - 1
        settled = groups.definite[is_settled]
        puts = settled[np.isin(changes.column(1).to_numpy()[settled], _PUTS)]
        bodies = changes.column(3).take(pa.array(puts))
        return Outcomes(bodies, self._modified(changes, groups, np.flatnonzero(~is_settled), rows, tuple_at), taken)

    def _modified(
        self,
        changes: pa.RecordBatch,
        groups: KeyGroups,
        wanted: NDArray[np.int64],
        rows: NDArray[np.int64],
        tuple_at: Callable[[int], bytes],
    ) -> list[bytes]:
        """Return the tuples of the groups whose last change is an UPDATE or an UPSERT."""
        firsts = np.maximum(groups.starts, groups.definite)[wanted]
        counts = groups.ends[wanted] - firsts
        # The row numbers of all changes of these groups from `firsts` on, group by group.
        places = np.arange(counts.sum()) + np.repeat(firsts - np.append(0, np.cumsum(counts)[:-1]), counts)
        steps = zip(*(column.take(pa.array(places)).to_pylist() for column in changes.columns[1:]), strict=True)
        keys = changes.column(0).take(pa.array(firsts)).to_pylist()
        lines = zip(keys, counts.tolist(), groups.definite[wanted].tolist(), rows[wanted].tolist(), strict=True)
        tuples: list[bytes] = []
        for key, count, definite, row in lines:
            raw = tuple_at(row) if row >= 0 and definite < 0 else None
            for kind, number, body in islice(steps, count):
                _, request = decode_change(kind, body) if body else (0, Request.delete([]))
                raw = self._step(key, raw, request, self._formats[number])
            if raw is not None:
                tuples.append(raw)
        return tuples

    def _step(self, key: bytes, raw: bytes | None, request: Request, fmt: TupleFormat) -> bytes | None:
        if request.type in _DEFINITE:
            return request.tuple or None
        if request.type == RequestType.UPDATE:
            return None if raw is None else apply_update(raw, request.ops, fmt=fmt, index_base=request.index_base)
        if raw is None:
            return request.tuple
        new = apply_upsert(raw, request.ops, fmt=fmt, index_base=request.index_base)
        # An upsert that would change the primary key is in the log, but has no effect.
        return new if self._keys.of_tuple(new) == key else raw

    def rows(self, outcomes: Outcomes) -> bytes:
        """Return the tuples as rows for a decoder of blocks."""
        parts = []
        if len(outcomes.bodies):
            joined = pc.binary_join_element_wise(pa.scalar(_HEADER), outcomes.bodies, pa.scalar(b""))
            parts.append(joined.buffers()[2].to_pybytes())
        parts += [self._head + raw for raw in outcomes.tuples]
        return b"".join(parts)

    def as_changes(self, tuples: BaseTuples) -> pa.RecordBatch:
        """Return tuples of a snapshot as INSERT changes."""
        count = len(tuples)
        columns = [
            tuples.keys(),
            pa.repeat(pa.scalar(int(RequestType.INSERT), pa.uint8()), count),
            pa.repeat(pa.scalar(0, pa.int32()), count),
            pa.array([Request.insert(tuples.tuple_at(row)).body(self._space_id) for row in range(count)], pa.binary()),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=CHANGES)

    def carried(self, key: bytes, outcomes: Outcomes) -> pa.RecordBatch:
        """Return the result for one key as a change, to which further changes of this key can be applied."""
        kind, body = RequestType.DELETE, b""
        if len(outcomes.bodies):
            kind, body = RequestType.REPLACE, outcomes.bodies[0].as_py()
        elif outcomes.tuples:
            kind, body = RequestType.REPLACE, Request.replace(outcomes.tuples[0]).body(self._space_id)
        return pa.RecordBatch.from_pydict({"key": [key], "kind": [kind], "format": [0], "body": [body]}, CHANGES)
