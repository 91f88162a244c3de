"""The content of a directory in figures; profiles of its parts are joined to one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from box.spark.columns import Column
from box.spark.report.sketches import DistinctCount, Largest, Sample


@dataclass
class ColumnProfile:
    """One column: how many values are null, the smallest and the largest, distinct ones, and a sample of numbers (of
    text and binary values: their lengths)."""

    name: str
    type: str
    rows: int = 0
    nulls: int = 0
    low: Any = None
    high: Any = None
    distinct: DistinctCount = field(default_factory=DistinctCount)
    sample: Sample = field(default_factory=Sample)

    @property
    def shows_lengths(self) -> bool:
        """The sample has lengths."""
        return self.type in ("string", "binary")

    def add(self, array: pa.Array) -> None:
        """The values of a batch."""
        self.rows += len(array)
        self.nulls += array.null_count
        values = array.drop_null()
        if not len(values):
            return
        if self.type != "boolean":
            found = pc.min_max(values).as_py()
            self._widen(found["min"], found["max"])
        self.distinct.add(pc.unique(values).to_pylist())
        if self.shows_lengths:
            self.sample.add(pc.binary_length(values).to_pylist())
        elif self.type != "boolean":
            self.sample.add(map(float, values.to_pylist()))

    def _widen(self, low: Any, high: Any) -> None:
        if low is not None:
            self.low = low if self.low is None else min(self.low, low)
            self.high = high if self.high is None else max(self.high, high)

    def join(self, other: ColumnProfile) -> None:
        """Take over the profile of another part."""
        self.rows += other.rows
        self.nulls += other.nulls
        self._widen(other.low, other.high)
        self.distinct.join(other.distinct)
        self.sample.join(other.sample)


@dataclass
class SpaceProfile:
    """One space in the snapshot: rows, bytes of tuples, columns by name; rows that do not fit them are counted."""

    name: str
    is_system: bool = False
    rows: int = 0
    bytes: int = 0
    misfits: int = 0
    columns: dict[str, ColumnProfile] = field(default_factory=dict)

    def column(self, column: Column) -> ColumnProfile:
        """The profile of a column."""
        return self.columns.setdefault(column.name, ColumnProfile(column.name, column.type))

    def join(self, other: SpaceProfile) -> None:
        """Take over the profile of another part."""
        self.rows += other.rows
        self.bytes += other.bytes
        self.misfits += other.misfits
        for name, column in other.columns.items():
            if name in self.columns:
                self.columns[name].join(column)
            else:
                self.columns[name] = column


@dataclass
class DirectoryProfile:
    """A snapshot and a log. `log` counts rows by second (since 1970), `log_bytes` their bytes; `operations`
    rows of the log by space and operation. `skipped` names what could not be read."""

    spaces: dict[str, SpaceProfile] = field(default_factory=dict)
    largest: Largest = field(default_factory=Largest)
    log: Counter[int] = field(default_factory=Counter)
    log_bytes: Counter[int] = field(default_factory=Counter)
    operations: Counter[tuple[str, str]] = field(default_factory=Counter)
    skipped: list[str] = field(default_factory=list)

    def space(self, name: str, *, is_system: bool) -> SpaceProfile:
        """The profile of a space."""
        return self.spaces.setdefault(name, SpaceProfile(name, is_system))

    def join(self, other: DirectoryProfile) -> DirectoryProfile:
        """Take over the profile of another part; returns itself."""
        for name, space in other.spaces.items():
            self.space(name, is_system=space.is_system).join(space)
        self.largest.join(other.largest)
        self.log.update(other.log)
        self.log_bytes.update(other.log_bytes)
        self.operations.update(other.operations)
        self.skipped += other.skipped
        return self
