"""The Spark data source `box`; `source_options` lists what it can be told."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
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
"""Kinds whose values Spark hands over in a form that need not be the column's: Spark compares them itself."""


class _Partition(InputPartition):
    """A share of the table."""

    def __init__(self, share: Share) -> None:
        super().__init__(share)
        self.share = share


class _PushFilters:
    """The method `pushFilters` of a reader, as an object.

    With `spark.sql.python.filterPushdown.enabled` off, Spark refuses a reader whose `pushFilters` is not the one of
    its base class, which it tells by `__func__`; it does not call it then, and compares all values itself. With the
    option on it calls what stands here.
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
        arrow = to_arrow_schema(schema)
        self._columns = [
            adopted(column, field.dataType.simpleString(), arrow.field(place).type)
            for place, (column, field) in enumerate(
                zip(choose_columns(table.columns, schema.names), schema, strict=True)
            )
        ]
        self._conditions: list[Condition] = []

    @property
    def pushFilters(self) -> _PushFilters:  # Spark's name
        return _PushFilters(self)

    def take_conditions(self, filters: list[Any]) -> Iterator[Any]:
        """Keep the conditions that are understood; the others go back to Spark."""
        if any(column.kind is Kind.REJECTS for column in self._columns):
            yield from filters  # Rows are numbered before conditions drop any.
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
        if not isinstance(partition, _Partition):  # Spark's substitute for no partitions at all.
            return
        try:
            yield from self._table.read(partition.share, self._columns, to_arrow_schema(self._schema), self._conditions)
        except BoxError as error:
            raise prefixed(error) from None


def _declared(column: Column) -> str:
    """A column in the words of Spark's SQL."""
    name = column.name.replace("`", "``")
    return f"`{name}` {column.type}{'' if column.is_nullable else ' not null'}"


def _condition_of(item: Any, columns: dict[str, Column]) -> Condition | None:
    """A condition of Spark's as ours; None for one that is Spark's to check."""
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
    """Values that compare here as in Spark: neither null nor NaN."""
    if not values:
        return False
    return all(value is not None and not (isinstance(value, float) and math.isnan(value)) for value in values)


class BoxDataSource(DataSource):
    """Registered as `box`; `source_options` lists what it can be told.

    The files are looked at when the frame is made: Spark keeps this object, so that every query of a frame sees the
    same snapshot and the same cut of the log.
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
        """Columns and types of the space, or of a stream: Spark does not tell which of the two is made, and only a
        table has the option `space`."""
        if not self.options.get("space"):
            return CHANGE_SCHEMA
        columns = self._table().columns
        # No columns have no words.
        return ", ".join(map(_declared, columns)) if columns else StructType([])

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # Spark's name
        """Changes of the log; `stream.stream_options` lists what it can be told."""
        from box.spark.stream.stream_reader import ChangeStreamReader

        try:
            return ChangeStreamReader(StreamOptions.of(self.options), schema.names)
        except BoxError as error:
            raise prefixed(error) from None

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Into a node, or into a new directory; `write.write_options` lists what it can be told."""
        options = self._write_options(overwrite)
        from box.spark.write.data_writer import BulkWriter, NodeWriter

        arrow = to_arrow_schema(schema)
        return BulkWriter(options, arrow) if options.path is not None else NodeWriter(options, arrow)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # Spark's name
        """Into a node, batch after batch."""
        options = self._write_options(overwrite)
        if options.path is not None:
            raise prefixed(illegal_params("a stream is written into a node (option 'uri'), not into a directory"))
        from box.spark.write.data_writer import NodeStreamWriter

        return NodeStreamWriter(options, to_arrow_schema(schema))

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
