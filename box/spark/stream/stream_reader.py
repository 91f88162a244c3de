"""Spark's interface to a stream of changes.

Spark keeps the reader in its own process while a query runs, and sends copies of it to the workers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from box.errors import BoxError, illegal_params
from box.spark.source_options import prefixed
from box.spark.stream.change_rows import CHANGE_TYPES
from box.spark.stream.log_stream import DirectoryLog
from box.spark.stream.replica_stream import NodeLog
from box.spark.stream.stream_offset import StreamOffset
from box.spark.stream.stream_options import StreamOptions
from box.spark.stream.stream_parts import StreamPart
from box.wire.vclock import VClock


class _StreamPartition(InputPartition):
    """One part of a batch, as Spark hands it to a task."""

    def __init__(self, part: StreamPart) -> None:
        super().__init__(None)
        self.part = part


class ChangeStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of a stream; `names` are the columns of the query.

    Raises:
        BoxError: ILLEGAL_PARAMS, a stream has no such column.
    """

    def __init__(self, options: StreamOptions, names: list[str]) -> None:
        for name in names:
            if name not in CHANGE_TYPES:
                raise illegal_params(f"a stream has no column '{name}'; it has: {', '.join(CHANGE_TYPES)}")
        self._options = options
        self._names = names
        self._log: DirectoryLog | NodeLog | None = None
        self._ends_with_what_is_there = False
        self._target: VClock | None = None

    def __getstate__(self) -> dict[str, Any]:
        # A worker only reads its part, for which it needs neither open files nor a connection.
        return self.__dict__ | {"_log": None}

    def _source(self) -> DirectoryLog | NodeLog:
        if self._log is None:
            options = self._options
            if options.path is not None:
                self._log = DirectoryLog(options.path)
            else:
                self._log = NodeLog(str(options.uri), options.timeout)
        return self._log

    def initialOffset(self) -> dict[str, str]:  # the names of this and the following methods are Spark's
        try:
            return self._source().begin(self._options.start).to_json()
        except BoxError as error:
            raise prefixed(error) from None

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self._options.max_rows
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:
        self._ends_with_what_is_there = True
        self._target = None

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, str]:
        try:
            return self._latest(StreamOffset.of_json(start), limit).to_json()
        except BoxError as error:
            raise prefixed(error) from None

    def _latest(self, since: StreamOffset, limit: ReadLimit) -> StreamOffset:
        source = self._source()
        if self._ends_with_what_is_there:
            if self._target is None:
                self._target = source.newest(since)
            if since.vclock.covers(self._target):
                return since
        return source.next(since, limit.max_rows if isinstance(limit, ReadMaxRows) else None)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        since, until = StreamOffset.of_json(start), StreamOffset.of_json(end)
        if since == until:
            return []
        try:
            return [_StreamPartition(part) for part in self._source().parts(since, until)]
        except BoxError as error:
            raise prefixed(error) from None

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, _StreamPartition):  # Spark's substitute if there are no partitions
            return
        try:
            yield from partition.part.read(self._options, self._names)
        except BoxError as error:
            raise prefixed(error) from None

    def stop(self) -> None:
        if self._log is not None:
            self._log.close()
