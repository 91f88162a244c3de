"""The Spark data source `box`.

    spark.read.format("box").option("path", DIRECTORY).option("space", NAME).load()

| option | meaning | default |
|---|---|---|
| path | directory with snapshots, or one `.snap` file | required |
| space | name or id | required |
| partitions | how many parts the file is read in, at most | one for 8 MiB, at least 4 |
| unsigned | `long` or `decimal`: column type of unsigned and integer fields | long |
| rest | name of a column for fields that the format does not name | none: they are left out |
| onCorrupt | `fail` or `skip` blocks that cannot be read | fail |
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from box.errors import BoxError, illegal_params
from box.spark.columns import Column, columns_of, conversion_error, decode_extension, values_by_column
from box.spark.snapshot import BlockRange, Snapshot, newest_snapshot

_BYTES_A_PARTITION: Final = 8 * 1024 * 1024
_PARTITIONS_MIN: Final = 4
_BATCH_ROWS: Final = 10_000

_SPARK_TYPES: Final[dict[str, DataType]] = {
    "bigint": LongType(),
    "double": DoubleType(),
    "string": StringType(),
    "boolean": BooleanType(),
    "binary": BinaryType(),
    "decimal(20,0)": DecimalType(20, 0),
    "decimal(38,18)": DecimalType(38, 18),
}


@dataclass(frozen=True, slots=True)
class _Settings:
    """The checked options. Data source options arrive with names in lower case."""

    path: Path
    space: str
    partitions: int | None
    unsigned: str
    rest: str | None
    skip_corrupt: bool

    @classmethod
    def of(cls, options: Mapping[str, str]) -> _Settings:
        values = {name.lower(): value for name, value in options.items()}
        known = {"path", "space", "partitions", "unsigned", "rest", "oncorrupt"}
        for name in values:
            if name not in known:
                raise illegal_params(f"unexpected option '{name}'")
        for name in ("path", "space"):
            if not values.get(name):
                raise illegal_params(f"option '{name}' is required")
        partitions = values.get("partitions")
        if partitions is not None and not (partitions.isdigit() and int(partitions) > 0):
            raise illegal_params("option 'partitions' must be a positive integer")
        unsigned = _one_of(values, "unsigned", "long", "decimal")
        on_corrupt = _one_of(values, "oncorrupt", "fail", "skip")
        path = Path(values["path"])
        file = path if path.suffix == ".snap" else newest_snapshot(path)
        count = None if partitions is None else int(partitions)
        return cls(file, values["space"], count, unsigned, values.get("rest"), on_corrupt == "skip")

    @property
    def partition_count(self) -> int:
        if self.partitions is not None:
            return self.partitions
        return max(_PARTITIONS_MIN, os.path.getsize(self.path) // _BYTES_A_PARTITION)


def _one_of(values: Mapping[str, str], name: str, *allowed: str) -> str:
    value = values.get(name, allowed[0])
    if value not in allowed:
        raise illegal_params(f"option '{name}' must be one of: {', '.join(allowed)}")
    return value


class _Partition(InputPartition):
    """A range of blocks of one file."""

    def __init__(self, path: str, blocks: BlockRange) -> None:
        super().__init__(blocks)
        self.path = path
        self.blocks = blocks


class _Reader(DataSourceReader):
    def __init__(self, settings: _Settings, schema: StructType) -> None:
        self._settings = settings
        self._schema = schema

    def _snapshot(self) -> Snapshot:
        return Snapshot(self._settings.path, skip_corrupt=self._settings.skip_corrupt)

    def partitions(self) -> list[InputPartition]:
        ranges = self._snapshot().partitions(self._settings.partition_count)
        return [_Partition(str(self._settings.path), blocks) for blocks in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, _Partition):
            raise illegal_params("this partition does not belong to the data source box")
        snapshot, settings = self._snapshot(), self._settings
        space = snapshot.space(settings.space)
        every = columns_of(space, unsigned=settings.unsigned, rest=settings.rest)
        columns = _chosen(every, self._schema)
        arrow = to_arrow_schema(self._schema)
        batch: list[list[Any]] = []
        for fields in snapshot.tuples(space.id, partition.blocks, decode_extension):
            batch.append(fields)
            if len(batch) >= _BATCH_ROWS:
                yield _record_batch(columns, batch, arrow)
                batch = []
        if batch:
            yield _record_batch(columns, batch, arrow)


def _chosen(columns: list[Column], schema: StructType) -> list[Column]:
    """The columns of a schema that the user may have given, in its order."""
    by_name = {column.name: column for column in columns}
    missing = [name for name in schema.names if name not in by_name]
    if missing:
        raise illegal_params(f"the space has no column '{missing[0]}'")
    return [by_name[name] for name in schema.names]


def _record_batch(columns: list[Column], tuples: list[list[Any]], schema: pa.Schema) -> pa.RecordBatch:
    arrays = []
    for column, values, field in zip(columns, values_by_column(columns, tuples), schema, strict=True):
        try:
            arrays.append(pa.array(values, type=field.type))
        except (pa.ArrowException, UnicodeError, TypeError, ValueError) as error:
            raise conversion_error(column.name, str(error), f"a value does not fit {field.type}") from None
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


class BoxDataSource(DataSource):
    """Registered as `box`; see the module's text for its options."""

    @classmethod
    def name(cls) -> str:
        return "box"

    def schema(self) -> StructType:
        """Columns and types of the space, from the snapshot."""
        try:
            settings = _Settings.of(self.options)
            space = Snapshot(settings.path, skip_corrupt=settings.skip_corrupt).space(settings.space)
            columns = columns_of(space, unsigned=settings.unsigned, rest=settings.rest)
        except BoxError as error:
            # Spark shows the text of the exception alone.
            raise type(error)(error.code, f"box: {error.message}", type=error.type) from error
        return StructType([StructField(c.name, _SPARK_TYPES[c.type], c.is_nullable) for c in columns])

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Reader(_Settings.of(self.options), schema)
