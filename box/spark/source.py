"""The Spark data source `box`: the interface that Spark calls; `source_options` lists the options."""

from __future__ import annotations

import gc
import math
from collections.abc import Iterable, Iterator
from functools import cache
from inspect import signature
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import datasource as spark_filters
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from box.errors import BoxError, illegal_params
from box.spark.columns import Column, Kind, adopted, choose_columns
from box.spark.conditions import Condition
from box.spark.source_options import SourceOptions, prefixed
from box.spark.stream.change_rows import CHANGE_SCHEMA
from box.spark.stream.stream_options import StreamOptions
from box.spark.table import Share, Table
from box.spark.write.write_options import WriteOptions

_OPERATORS: Final = {
    "EqualTo": "=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "In": "in",
    "IsNull": "is null",
    "IsNotNull": "is not null",
    "StringStartsWith": "starts with",
    "StringEndsWith": "ends with",
    "StringContains": "contains",
}
_INEXACT: Final = frozenset(
    {Kind.DECIMAL, Kind.BIG_INTEGER, Kind.DATETIME, Kind.INTERVAL, Kind.RAW, Kind.TYPED, Kind.REJECTS}
)
"""Kinds of columns whose conditions Spark evaluates itself, because their values in a condition may have another form
than in the column."""


_ZONE: Final[dict[str, Any]] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
"""Spark 4.3 wants to know the zone of timestamps in Arrow; earlier versions take UTC."""


def _arrow_schema(schema: StructType) -> pa.Schema:
    return to_arrow_schema(schema, **_ZONE)


class _Partition(InputPartition):
    """One share of the table, as Spark hands it to a task."""

    def __init__(self, share: Share) -> None:
        super().__init__(share)
        self.share = share


class _PushFilters:
    """The method `pushFilters` of a reader, as an object.

    If `spark.sql.python.filterPushdown.enabled` is off, Spark refuses readers whose `pushFilters` is not that of its
    base class, which it recognizes by `__func__`. It does not call the method then, and evaluates all conditions
    itself. If the option is on, Spark calls this object.
    """

    def __init__(self, reader: _Reader) -> None:
        self._reader = reader
        self.__func__ = getattr(DataSourceReader, "pushFilters", None)

    def __call__(self, filters: list[Any]) -> Iterable[Any]:
        return self._reader.take_conditions(filters)


class _Reader(DataSourceReader):
    def __init__(self, table: Table, schema: StructType) -> None:
        self._table = table
        self._schema = schema
        arrow = _arrow_schema(schema)
        self._columns = [
            adopted(column, field.dataType.simpleString(), arrow.field(place).type)
            for place, (column, field) in enumerate(
                zip(choose_columns(table.columns, schema.names), schema, strict=True)
            )
        ]
        self._conditions: list[Condition] = []

    @property
    def pushFilters(self) -> _PushFilters:  # the name that Spark requires
        return _PushFilters(self)

    def take_conditions(self, filters: list[Any]) -> Iterator[Any]:
        """Keep the conditions that this reader evaluates; return the others to Spark."""
        if any(column.kind is Kind.REJECTS for column in self._columns):
            yield from filters  # Misfits are noted by row number, before conditions drop rows
            return
        columns = {
            column.name: column
            for column, field in zip(self._columns, self._schema, strict=True)
            if field.dataType.simpleString() == column.type
        }
        for item in filters:
            known = _condition_of(item, columns)
            if known is None:
                yield item
            else:
                self._conditions.append(known)

    def partitions(self) -> list[InputPartition]:
        try:
            return [_Partition(share) for share in self._table.shares(self._conditions)]
        except BoxError as error:
            raise prefixed(error) from None

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, _Partition):  # Spark's substitute if there are no partitions
            return
        try:
            yield from self._table.read(partition.share, self._columns, _arrow_schema(self._schema), self._conditions)
        except BoxError as error:
            raise prefixed(error) from None
        _freeze_modules()


@cache
def _freeze_modules() -> None:
    """Take what the first share has imported out of garbage collection, once in a process.

    A worker of Spark collects garbage after each task. With numba loaded that takes 60 ms.
    """
    gc.freeze()


def _declared(column: Column) -> str:
    """Return the definition of a column in Spark's SQL."""
    name = column.name.replace("`", "``")
    return f"`{name}` {column.type}{'' if column.is_nullable else ' not null'}"


def _condition_of(item: Any, columns: dict[str, Column]) -> Condition | None:
    """Convert a condition of Spark; None for one that Spark has to evaluate."""
    is_negated = isinstance(item, spark_filters.Not)
    if is_negated:
        item = item.child
    operator = _OPERATORS.get(type(item).__name__)
    if operator is None or len(item.attribute) != 1:
        return None
    column = columns.get(item.attribute[0])
    if column is None:
        return None
    value = getattr(item, "value", None)
    if operator in ("is null", "is not null"):
        return Condition(column.name, operator, None, is_negated)
    if operator == "in":
        value = list(value) if isinstance(value, list | tuple | set | frozenset) else None
    if column.kind in _INEXACT or not _is_usual(value if operator == "in" else [value]):
        return None
    return Condition(column.name, operator, value, is_negated)


def _is_usual(values: Any) -> bool:
    """Return whether comparisons with these values have the same result here as in Spark, which excludes null and
    NaN."""
    if not values:
        return False
    return all(value is not None and not (isinstance(value, float) and math.isnan(value)) for value in values)


class BoxDataSource(DataSource):
    """The data source `box`: `spark.read.format("box")`, `spark.readStream.format("box")`, `frame.write.format("box")`.

    `source_options` lists the options of a read. The files are opened when the frame is created, and all queries of the
    frame see the same snapshot and the same cut of the log.
    """

    _opened: Table | None = None

    @classmethod
    def name(cls) -> str:
        return "box"

    def _table(self) -> Table:
        if self._opened is None:
            try:
                self._opened = Table.open(SourceOptions.of(self.options))
            except BoxError as error:
                raise prefixed(error) from error
        return self._opened

    def schema(self) -> str | StructType:
        """Return the columns with their types, of a space or of a stream.

        Spark does not say which of the two it is; only a table has the option `space`.

        Raises:
            BoxError: the files cannot be read.
        """
        if not self.options.get("space"):
            return CHANGE_SCHEMA
        columns = self._table().columns
        # Spark does not parse an empty list of columns.
        return ", ".join(map(_declared, columns)) if columns else StructType([])

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # the name that Spark requires
        """Return a reader for a stream of the log's changes; `stream.stream_options` lists the options.

        Raises:
            BoxError: ILLEGAL_PARAMS, an option is wrong or missing.
        """
        from box.spark.stream.stream_reader import ChangeStreamReader

        try:
            return ChangeStreamReader(StreamOptions.of(self.options), schema.names)
        except BoxError as error:
            raise prefixed(error) from None

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return a writer into a node or into a new directory; `write.write_options` lists the options.

        Raises:
            BoxError: an option is wrong or missing, or the node or the directory cannot be used.
        """
        options = self._write_options(overwrite)
        from box.spark.write.data_writer import BulkWriter, NodeWriter

        arrow = _arrow_schema(schema)
        return BulkWriter(options, arrow) if options.path is not None else NodeWriter(options, arrow)

    # The name that Spark requires.
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return a writer that writes each batch of a stream into a node.

        Raises:
            BoxError: an option is wrong or missing, or the node cannot be used.
        """
        options = self._write_options(overwrite)
        if options.path is not None:
            raise prefixed(illegal_params("a stream is written into a node (option 'uri'), not into a directory"))
        from box.spark.write.data_writer import NodeStreamWriter

        return NodeStreamWriter(options, _arrow_schema(schema))

    def _write_options(self, overwrite: bool) -> WriteOptions:
        try:
            if overwrite:
                raise illegal_params(
                    "mode 'overwrite' is not supported: truncate the space, or load into a new directory, and 'append'"
                )
            return WriteOptions.of(self.options)
        except BoxError as error:
            raise prefixed(error) from None

    def reader(self, schema: StructType) -> DataSourceReader:
        table = self._table()
        try:
            return _Reader(table, schema)
        except BoxError as error:
            raise prefixed(illegal_params(error.message.removeprefix("Illegal parameters, "))) from None
