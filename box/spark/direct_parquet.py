"""Writes a whole space as Parquet in the tasks of a Spark job, without Spark's writer.

Between a data source in Python and Spark's own writer, every value passes through a socket and becomes a row of the
JVM, which takes most of the time. When the whole table is written to a local directory, without a condition and
without partitions by value, the tasks convert blocks to Arrow columns and write these as Parquet. The files of a task
become visible when the job is done:

```
OUT/_temporary/<job>/<number>-<random>.parquet      written by each attempt of a task
OUT/part-<number>-<job>.<codec>.parquet, _SUCCESS   the files of the attempts that Spark accepted, renamed by the driver
```
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from box.errors import BoxError, illegal_params
from box.spark.columns import Column
from box.spark.reference import arrow_type
from box.spark.skips import SkipCount
from box.spark.source_options import prefixed
from box.spark.table import Share, Table

CODECS: Final = {"none": "none", "snappy": "snappy", "gzip": "gzip", "zstd": "zstd", "lz4": "lz4"}
"""The codecs, by their names in Spark, with their names in pyarrow."""
_GROUP_BYTES: Final = 8 << 20
"""The bytes of columns in a row group, which a task holds in memory."""
_DICTIONARY_BYTES: Final = 1 << 18
"""The bytes of distinct values above which a column is written without a dictionary, which would take much memory."""
_TEMPORARY: Final = "_temporary"


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file written by one attempt of a task: its number and path, its rows, and the number of skipped blocks."""

    number: int
    path: str
    rows: int
    skipped: int


def can_write(output: str, compression: str | None) -> bool:
    """Return whether the output is a local directory, and pyarrow has the codec."""
    return "://" not in output and (compression or "snappy") in CODECS


def schema_of(columns: Sequence[Column]) -> pa.Schema:
    """Return the Arrow schema of the files."""
    return pa.schema([pa.field(column.name, arrow_type(column), column.is_nullable) for column in columns])


def write_share(table: Table, share: Share, number: int, directory: str, compression: str) -> WrittenFile:
    """Write one share into a file; a failed attempt leaves a file that is never published.

    Raises:
        BoxError: the share cannot be read.
    """
    import pyarrow.parquet as pq

    schema = schema_of(table.columns)
    path = os.path.join(directory, f"{number:05d}-{uuid.uuid4().hex}.parquet")
    rows, skips = 0, table.new_skips()
    try:
        with pq.ParquetWriter(
            path, schema, compression=CODECS[compression], dictionary_pagesize_limit=_DICTIONARY_BYTES
        ) as writer:
            for group in _groups(table.read(share, table.columns, schema, (), skips=skips)):
                found = pa.Table.from_batches(group, schema)
                writer.write_table(found, row_group_size=max(1, found.num_rows))
                rows += found.num_rows
    except BoxError as error:
        raise prefixed(error) from None
    return WrittenFile(number, path, rows, 0 if skips is None else skips.blocks)


def _groups(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    group: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        group.append(batch)
        size += batch.nbytes
        if size >= _GROUP_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def write_table(
    spark: Any,
    table: Table,
    output: str,
    *,
    compression: str | None,
    overwrite: bool,
    skips: SkipCount | None = None,
) -> int:
    """Write all rows of a table into a directory; return their number.

    The number of blocks that the tasks have skipped is added to `skips`.

    Raises:
        BoxError: ILLEGAL_PARAMS, the directory exists and `overwrite` is false.
        Exception: Spark's error, if a task has failed.
    """
    output = os.path.abspath(output.removeprefix("file://").removeprefix("file:"))
    if os.path.exists(output) and not overwrite:
        raise illegal_params(f"path {output} already exists: take another one, or --overwrite")
    job, codec = uuid.uuid4().hex, compression or "snappy"
    directory = os.path.join(output, _TEMPORARY, job)
    os.makedirs(directory)
    try:
        shares = list(enumerate(table.shares(())))
        tasks = spark.sparkContext.parallelize(shares, max(1, len(shares)))
        files = tasks.map(lambda item: write_share(table, item[1], item[0], directory, codec)).collect()
        _publish(files, output, job, codec)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        _remove_if_empty(os.path.join(output, _TEMPORARY))
        _remove_if_empty(output)
    if skips is not None:
        skips.blocks += sum(file.skipped for file in files)
    return sum(file.rows for file in files)


def _publish(files: Sequence[WrittenFile], output: str, job: str, codec: str) -> None:
    """Replace the content of the output directory by the files of the job."""
    for name in os.listdir(output):
        path = os.path.join(output, name)
        if name == _TEMPORARY:
            continue
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)
    suffix = "" if codec == "none" else f".{codec}"
    for file in files:
        os.rename(file.path, os.path.join(output, f"part-{file.number:05d}-{job}{suffix}.parquet"))
    with open(os.path.join(output, "_SUCCESS"), "wb"):
        pass


def _remove_if_empty(directory: str) -> None:
    if os.path.isdir(directory) and not os.listdir(directory):
        os.rmdir(directory)
