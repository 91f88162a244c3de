"""A table: one space in one or more snapshot files, its columns, and the shares that workers read."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from box.errors import illegal_params
from box.spark.blocks import Block, BlockFile, BlockRange, SkipLog
from box.spark.columns import Column, choose_columns, columns_of, refill_constants, with_constant
from box.spark.conditions import Condition, key_range
from box.spark.decoder import decode_blocks, is_compiled, new_decoder
from box.spark.paths import expand, newest_snapshot
from box.spark.snapshot import Scope, is_past, narrow, read_definitions, sorted_field
from box.spark.source_options import SourceOptions

_BYTES_A_SHARE: Final = 8 << 20
_SHARES_MIN: Final = 4


@dataclass(frozen=True, slots=True)
class Source:
    """The space in one file: `size` in bytes of the file, `key` the column the file is sorted by, if any."""

    path: str
    size: int
    instance: str
    space_id: int
    key_field: int
    key: str | None


@dataclass(frozen=True, slots=True)
class Share:
    """A range of blocks of one source."""

    source: Source
    blocks: BlockRange


class Table:
    """Opened by `open`; small and picklable, so that every worker gets a copy."""

    def __init__(self, options: SourceOptions, sources: Sequence[Source], columns: Sequence[Column]) -> None:
        self.options = options
        self.sources = list(sources)
        self.columns = list(columns)

    @classmethod
    def open(cls, options: SourceOptions) -> Table:
        """Find the files and read the definitions of the space. Raises BoxError."""
        table: Table | None = None
        for path in expand(options.paths):
            source, columns = _open_source(newest_snapshot(path), options)
            if table is None:
                table = cls(options, [], columns)
            elif [(column.name, column.kind) for column in columns] != [(c.name, c.kind) for c in table.columns]:
                raise illegal_params(
                    f"{source.path}: space '{options.space}' has other columns than in {table.sources[0].path}: "
                    "read the two apart"
                )
            table.columns = [
                column if old.is_nullable is column.is_nullable else _nullable(column)
                for column, old in zip(columns, table.columns, strict=True)
            ]
            table.sources.append(source)
        assert table is not None
        if options.columns is not None:
            table.columns = choose_columns(table.columns, options.columns)
        return table

    @property
    def on_skip(self) -> SkipLog | None:
        """The callback for broken blocks, if the options pass over them."""
        return report_skip if self.options.skips_corrupt else None

    def shares(self, conditions: Sequence[Condition]) -> list[Share]:
        """The parts to read, in shares of about the same size, without pieces that cannot hold a wanted row."""
        found: list[tuple[Source, list[BlockRange]]] = []
        for source in self.sources:
            keys = None if source.key is None else key_range(conditions, source.key)
            with BlockFile(source.path, on_skip=self.on_skip) as file:
                found.append((source, narrow(file, Scope(source.space_id, source.key_field, keys))))
        total = sum(item.end - item.start for _, ranges in found for item in ranges)
        count = self.options.partitions or max(_SHARES_MIN, total // _BYTES_A_SHARE)
        return [
            Share(source, blocks)
            for source, ranges in found
            for blocks in _split(source, ranges, max(1, -(-total // count)), self.on_skip)
        ]

    def read(
        self, share: Share, columns: Sequence[Column], schema: pa.Schema, conditions: Sequence[Condition]
    ) -> Iterator[pa.RecordBatch]:
        """Batches of `schema` with the rows of one share that pass the conditions, which name columns of the table."""
        source = share.source
        keys = None if source.key is None else key_range(conditions, source.key)
        compiled = is_compiled(self.options.decoder, sum(source.size for source in self.sources))
        columns = refill_constants(columns, source.instance)
        decoder = new_decoder(source.space_id, columns, schema, conditions, compiled=compiled)
        with BlockFile(source.path, on_skip=self.on_skip) as file:
            blocks = _until(Scope(source.space_id, source.key_field, keys), file.blocks(share.blocks))
            yield from decode_blocks(decoder, source.path, blocks, self.on_skip)


def _open_source(path: str, options: SourceOptions) -> tuple[Source, list[Column]]:
    with BlockFile(path, on_skip=report_skip if options.skips_corrupt else None) as file:
        space = read_definitions(file).space(options.space)
        instance = str(file.meta.instance_uuid)
        size = file.size
    columns = columns_of(space, unsigned=options.unsigned, rest=options.rest)
    field = sorted_field(space.primary)
    key = None if field is None else next((column.name for column in columns if column.field == field), None)
    if options.instance is not None:
        columns = with_constant(columns, options.instance, instance)
    return Source(path, size, instance, space.id, field or 0, key), columns


def _nullable(column: Column) -> Column:
    return Column(column.name, column.kind, column.field, True, column.text)


def _split(source: Source, ranges: Sequence[BlockRange], size: int, on_skip: SkipLog | None) -> Iterator[BlockRange]:
    with BlockFile(source.path, on_skip=on_skip) as file:
        for item in ranges:
            yield from file.shares(max(1, round((item.end - item.start) / size)), item)


def _until(scope: Scope, blocks: Iterator[Block]) -> Iterator[Block]:
    """The blocks up to the first one that is past the wanted keys."""
    for block in blocks:
        if is_past(scope, block.rows):
            return
        yield block


def report_skip(path: str, position: int, size: int, reason: str) -> None:
    """One line on standard error, which Spark keeps in the log of the executor."""
    extent = f"{size} bytes" if size else "the block"
    print(f"box: {os.path.basename(path)}: {extent} at {position} skipped: {reason}", file=sys.stderr)
