"""The content of a directory in figures; profiles of its parts can be joined."""

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
    """The figures of a column: nulls, the least and the greatest value, distinct values, and a sample of numbers.

    For text and binary values the sample has their lengths.
    """

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
        """True if the sample has lengths of values."""
        return self.type in ("string", "binary")

    def add(self, array: pa.Array) -> None:
        """Add the values of a batch."""
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
        """Add the profile of another part of the directory."""
        self.rows += other.rows
        self.nulls += other.nulls
        self._widen(other.low, other.high)
        self.distinct.join(other.distinct)
        self.sample.join(other.sample)


@dataclass
class SpaceProfile:
    """The figures of a space in the snapshot: rows, bytes of tuples, columns by name, and rows that do not fit
    these."""

    name: str
    is_system: bool = False
    rows: int = 0
    bytes: int = 0
    misfits: int = 0
    columns: dict[str, ColumnProfile] = field(default_factory=dict)

    def column(self, column: Column) -> ColumnProfile:
        """Return the profile of a column, which is created if necessary."""
        return self.columns.setdefault(column.name, ColumnProfile(column.name, column.type))

    def join(self, other: SpaceProfile) -> None:
        """Add the profile of another part of the directory."""
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
    """The figures of a snapshot and a log.

    `log` has the number of rows by second since 1970, `log_bytes` their bytes, `operations` the number of rows by space
    and operation. `skipped` has the errors of files that could not be read.
    """

    spaces: dict[str, SpaceProfile] = field(default_factory=dict)
    largest: Largest = field(default_factory=Largest)
    log: Counter[int] = field(default_factory=Counter)
    log_bytes: Counter[int] = field(default_factory=Counter)
    operations: Counter[tuple[str, str]] = field(default_factory=Counter)
    skipped: list[str] = field(default_factory=list)

    def space(self, name: str, *, is_system: bool) -> SpaceProfile:
        """Return the profile of a space, which is created if necessary."""
        return self.spaces.setdefault(name, SpaceProfile(name, is_system))

    def join(self, other: DirectoryProfile) -> DirectoryProfile:
        """Add the profile of another part of the directory; returns this object."""
        for name, space in other.spaces.items():
            self.space(name, is_system=space.is_system).join(space)
        self.largest.join(other.largest)
        self.log.update(other.log)
        self.log_bytes.update(other.log_bytes)
        self.operations.update(other.operations)
        self.skipped += other.skipped
        return self
