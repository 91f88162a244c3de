"""Spark's interface to the writers.

Spark creates a writer on the driver, sends copies of it to the tasks, and calls `commit` on the driver when all tasks
are done.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from box.errors import BoxError, illegal_params
from box.spark.definitions import SpaceInfo, primary_key
from box.spark.node_facts import look_at
from box.spark.source_options import prefixed
from box.spark.write.bulk_load import LOAD, begin_load, check_is_local, drop_load, finish_load, space_setup
from box.spark.write.node_client import NodeClient
from box.spark.write.run_file import SortedRun, write_runs
from box.spark.write.target_fields import TargetFields, kind_of
from box.spark.write.upsert_marks import Upserts, forget_batches_row, forget_job_row, prepare_row
from box.spark.write.write_options import WriteOptions
from box.wire.row import Row

_TYPES = {
    "integer": "integer",
    "double": "double",
    "decimal": "decimal",
    "string": "string",
    "boolean": "boolean",
    "binary": "varbinary",
    "array": "array",
    "map": "map",
}
"""The field types of a new space, by the kinds of columns."""


class RowsWritten(WriterCommitMessage):
    """The result of a task: the number of rows, the id of the job, and the sorted runs of a bulk load."""

    def __init__(self, count: int, job: str = "", runs: tuple[SortedRun, ...] = ()) -> None:
        self.count = count
        self.job = job
        self.runs = runs


class _NodeTarget:
    """A space of a node, which is looked up and checked before the first row."""

    def __init__(self, options: WriteOptions, schema: pa.Schema) -> None:
        self.options = options
        self.job = uuid.uuid4().hex
        facts = asyncio.run(look_at(str(options.uri), options.timeout))
        self.space: SpaceInfo = facts.definitions.space(options.space)
        is_delete = options.operation == "delete"
        self.fields = TargetFields.of(self.space, schema, options.json, key_only=is_delete)
        primary_key(self.space)
        if options.operation == "upsert":
            self._upserts()
            self.ask(prepare_row())

    def _upserts(self) -> Upserts:
        columns = [(field.number, field.column) for field in self.fields.fields]
        return Upserts(self.space, columns, self.options.operators)

    def ask(self, row: Row) -> None:
        """Send one request from the driver."""

        async def run() -> None:
            client = self._client()
            try:
                await client.call(row)
            finally:
                client.close()

        asyncio.run(run())

    def _client(self) -> NodeClient:
        return NodeClient(str(self.options.uri), self.options.batch, self.options.timeout)

    async def write(self, batches: Iterator[pa.RecordBatch], job: str, task: int) -> int:
        """Write the rows of one task; return their number."""
        client = self._client()
        try:
            if self.options.operation == "upsert":
                count = 0
                tuples = itertools.chain.from_iterable(map(self.fields.rows, batches))
                for size, row in self._upserts().rows(job, task, tuples, self.options.batch):
                    await client.call(row)
                    count += size
                return count
            packed = itertools.chain.from_iterable(map(self.fields.packed, batches))
            return await client.write(self.options.operation, self.space.id, primary_key(self.space), packed)
        finally:
            client.close()


def _run_task(target: _NodeTarget, batches: Iterator[pa.RecordBatch], job: str) -> RowsWritten:
    context = TaskContext.get()
    task = context.partitionId() if context is not None else 0
    return RowsWritten(_told(lambda: asyncio.run(target.write(batches, job, task))), job)


def _told(action: Callable[[], Any]) -> Any:
    """Run the action; errors get the form in which Spark shows them to users."""
    try:
        return action()
    except BoxError as error:
        raise prefixed(error) from None


class NodeWriter(DataSourceArrowWriter):
    """The writer of a frame into a node."""

    def __init__(self, options: WriteOptions, schema: pa.Schema) -> None:
        self._target: _NodeTarget = _told(lambda: _NodeTarget(options, schema))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _run_task(self._target, iterator, self._target.job)

    def commit(self, messages: list[Any]) -> None:
        self._forget()

    def abort(self, messages: list[Any]) -> None:
        self._forget()

    def _forget(self) -> None:
        if self._target.options.operation == "upsert":
            _told(lambda: self._target.ask(forget_job_row(self._target.job)))


class NodeStreamWriter(DataSourceStreamArrowWriter):
    """The writer of the batches of a stream into a node."""

    def __init__(self, options: WriteOptions, schema: pa.Schema) -> None:
        self._target: _NodeTarget = _told(lambda: _NodeTarget(options, schema))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        query, batch = (
            str(context.getLocalProperty(name)) if context is not None else ""
            for name in ("sql.streaming.queryId", "streaming.sql.batchId")
        )
        return _run_task(self._target, iterator, f"{query}/{batch}")

    def commit(self, messages: list[Any], batchId: int) -> None:
        jobs = {message.job for message in messages if message is not None}
        if self._target.options.operation == "upsert" and jobs:
            query = jobs.pop().rpartition("/")[0]
            _told(lambda: self._target.ask(forget_batches_row(f"{query}/", batchId)))

    def abort(self, messages: list[Any], batchId: int) -> None:
        """Do nothing: Spark repeats the batch, and the marks tell which rows are already written."""


class BulkWriter(DataSourceArrowWriter):
    """The writer of a frame into a new directory."""

    def __init__(self, options: WriteOptions, schema: pa.Schema) -> None:
        self._directory = os.path.abspath(str(options.path))
        _told(lambda: check_is_local(str(options.path)))
        setup = options.setup or _told(lambda: space_setup(options.space, _new_fields(options, schema), options.key))
        self._space: SpaceInfo = _told(lambda: begin_load(self._directory, options.space, setup))
        try:
            self._fields = TargetFields.of(self._space, schema, options.json)
        except BoxError as error:
            drop_load(self._directory)
            raise prefixed(error) from None

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        packed = itertools.chain.from_iterable(map(self._fields.packed, iterator))
        runs: list[SortedRun] = _told(lambda: write_runs(self._space, packed, os.path.join(self._directory, LOAD)))
        return RowsWritten(sum(run.count for run in runs), runs=tuple(runs))

    def commit(self, messages: list[Any]) -> None:
        runs = [run for message in messages if message is not None for run in message.runs]
        try:
            _told(lambda: finish_load(self._directory, self._space, runs))
        except BaseException:
            drop_load(self._directory)
            raise

    def abort(self, messages: list[Any]) -> None:
        drop_load(self._directory)


def _new_fields(options: WriteOptions, schema: pa.Schema) -> list[tuple[str, str, bool]]:
    """Return name, type and whether null is allowed, for each field of a new space.

    Raises:
        BoxError: ILLEGAL_PARAMS, there is no field type for a column, or `types` names a column that does not exist.
    """
    for name in options.types:
        if name not in schema.names:
            raise illegal_params(f"option 'types': the frame has no column '{name}'")
    found = []
    for column in schema:
        kind = kind_of(column.type)
        if kind not in _TYPES and column.name not in options.types:
            raise illegal_params(
                f"column '{column.name}': no field type for {column.type}; cast it, or use option 'types'"
            )
        found.append((column.name, options.types.get(column.name) or _TYPES[str(kind)], column.nullable))
    return found
