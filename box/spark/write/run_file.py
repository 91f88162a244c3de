"""Sorted runs of tuples: the files that the tasks of a bulk load leave for its last step.

```
run    MP_BIN tuple, MP_BIN tuple, ...     in the order of the primary key
```
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgpack

from box.data.codec import unpack
from box.data.format import FieldDef, TupleFormat
from box.data.keydef import KeyDef
from box.data.types import FieldType
from box.errors import ErrorCode, client_error
from box.spark.definitions import SpaceInfo, primary_key

_RUN_ROWS: Final = 200_000
"""The most tuples of a run."""
_RUN_BYTES: Final = 32 << 20
"""The most bytes of a run, which are sorted in memory."""
_CHUNK: Final = 1 << 20
"""The bytes that are read from a run at a time."""


@dataclass(frozen=True, slots=True)
class SortedRun:
    """A file of sorted tuples: its path, the number of tuples, and the first and the last tuple."""

    path: str
    count: int
    first: bytes
    last: bytes

    def tuples(self) -> Iterator[bytes]:
        """Return all tuples in their order."""
        with open(self.path, "rb") as file:
            yield from msgpack.Unpacker(file, raw=True, max_buffer_size=0, read_size=_CHUNK)


def format_of(space: SpaceInfo) -> TupleFormat:
    """Return the tuple format with all its checks, as a node applies it."""
    fields = [
        FieldDef(
            str(field["name"]) if "name" in field else None,
            FieldType.by_name(str(field.get("type", "any"))) or FieldType.ANY,
            bool(field.get("is_nullable", False)),
        )
        for field in space.format
    ]
    return TupleFormat(fields, [index.key_def() for index in space.indexes])


def write_runs(space: SpaceInfo, tuples: Iterable[bytes], directory: str) -> list[SortedRun]:
    """Check the tuples, sort them, and write them in runs of limited size.

    Raises:
        BoxError: a tuple is wrong; the error is that of a node.
    """
    validate, extract = format_of(space).validate, primary_key(space).extract
    runs: list[SortedRun] = []
    some: list[tuple[Any, bytes]] = []
    size = 0
    for raw in tuples:
        some.append((extract(validate(raw)), raw))
        size += len(raw)
        if len(some) >= _RUN_ROWS or size >= _RUN_BYTES:
            runs.append(_write_run(some, directory))
            some, size = [], 0
    if some:
        runs.append(_write_run(some, directory))
    return runs


def _write_run(items: list[tuple[Any, bytes]], directory: str) -> SortedRun:
    items.sort(key=lambda item: item[0])
    path = os.path.join(directory, f"{uuid.uuid4().hex}.run")
    pack = msgpack.Packer().pack
    with open(path, "wb") as file:
        file.writelines(pack(raw) for _, raw in items)
    return SortedRun(path, len(items), items[0][1], items[-1][1])


def merged(runs: Iterable[SortedRun], key: KeyDef, space: str) -> Iterator[bytes]:
    """Return the tuples of all runs in order.

    Runs that do not overlap, as those of a frame that Spark has sorted, are read one after another; others are merged.

    Raises:
        BoxError: TUPLE_FOUND, two tuples have the same key.
    """
    import heapq

    groups: list[list[SortedRun]] = []
    highest: Any = None
    for run in sorted(runs, key=lambda run: key.extract(unpack(run.first))):
        if not groups or highest < key.extract(unpack(run.first)):
            groups.append([])
        groups[-1].append(run)
        last = key.extract(unpack(run.last))
        highest = last if highest is None or highest < last else highest
    before: Any = None
    for group in groups:
        streams = [((key.extract(unpack(raw)), raw) for raw in run.tuples()) for run in group]
        for this, raw in streams[0] if len(streams) == 1 else heapq.merge(*streams, key=lambda item: item[0]):
            if before is not None and not before < this:
                shown = unpack(raw)
                raise client_error(
                    ErrorCode.TUPLE_FOUND, "primary", space, key.extract_values(shown), key.extract_values(shown)
                )
            before = this
            yield raw
