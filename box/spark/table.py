"""A table: one space in one or more directories, with its columns and the shares that workers read."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa

from box.errors import BoxError, ErrorCode, illegal_params, unsupported
from box.journal.xlog_errors import XlogError
from box.spark.blocks import SKIP_ADVICE, Block, BlockFile, BlockRange, SkipLog
from box.spark.columns import Column, choose_columns, columns_of, refill_constants, with_constant
from box.spark.conditions import Condition, key_range
from box.spark.cut import find_snapshot, make_cut
from box.spark.decoder import decode_blocks, is_compiled, new_decoder
from box.spark.definitions import SpaceInfo
from box.spark.merge import KeySpan, MergedSpace
from box.spark.misfits import Misfits
from box.spark.moments import Moment
from box.spark.paths import expand, newest_snapshot
from box.spark.skips import SkipCount, report_skip
from box.spark.snapshot import Scope, is_past, narrow, read_definitions, sorted_field
from box.spark.source_options import SourceOptions
from box.wire.constants import EMPTY_ENGINES, SNAPSHOT_ENGINES

_BYTES_A_SHARE: Final = 8 << 20
"""The usual size of a share."""
_SHARES_MIN: Final = 4
"""The least number of shares. Larger numbers are multiples of it, so that 2 or 4 cores end their shares together."""
_SHARES_A_LOG: Final = 8
"""A share of a snapshot that is merged with a log has at least the size of the log divided by this."""


@dataclass(frozen=True, slots=True)
class Source:
    """A space in one directory.

    `size` is the size of the files in bytes. `key` is the column by which the snapshot is sorted, None if there is
    none. `merged` is None if only the snapshot is read.
    """

    path: str
    size: int
    instance: str
    space_id: int
    key_field: int
    key: str | None
    merged: MergedSpace | None


@dataclass(frozen=True, slots=True)
class Share:
    """Ranges of blocks of one source, and the keys in them."""

    source: Source
    ranges: tuple[BlockRange, ...]
    span: KeySpan = field(default_factory=KeySpan)


class Table:
    """A table, which `open` creates; it is small and can be pickled, so that every worker gets a copy."""

    def __init__(self, options: SourceOptions, sources: Sequence[Source], columns: Sequence[Column]) -> None:
        self.options = options
        self.sources = list(sources)
        self.columns = list(columns)

    @classmethod
    def open(cls, options: SourceOptions) -> Table:
        """Find the files and read the definition of the space.

        Raises:
            BoxError: a file cannot be read, the space does not exist, an option is wrong, or the directories have
                different columns.
        """
        table: Table | None = None
        for path in expand(options.paths):
            source, columns = _open_source(path, options)
            if table is None:
                table = cls(options, [], columns)
            elif [(column.name, column.kind) for column in columns] != [(c.name, c.kind) for c in table.columns]:
                raise illegal_params(
                    f"{source.path}: space '{options.space}' has other columns than in {table.sources[0].path}: "
                    "read the two apart"
                )
            table.columns = [
                replace(column, is_nullable=column.is_nullable or old.is_nullable)
                for column, old in zip(columns, table.columns, strict=True)
            ]
            table.sources.append(source)
        assert table is not None
        if options.columns is not None:
            table.columns = choose_columns(table.columns, options.columns)
        return table

    @property
    def on_skip(self) -> SkipLog | None:
        """The callback for broken blocks, None if they are errors."""
        return report_skip if self.options.skips_corrupt else None

    def new_skips(self) -> SkipCount | None:
        """Return a counter of broken blocks, None if they are errors."""
        return SkipCount() if self.options.skips_corrupt else None

    def count(self, skips: SkipCount | None = None) -> int:
        """Return the number of rows, for which no field is decoded."""
        empty = pa.schema([])
        return sum(
            batch.num_rows for share in self.shares(()) for batch in self.read(share, (), empty, (), skips=skips)
        )

    def shares(self, conditions: Sequence[Condition]) -> list[Share]:
        """Return the shares of the table, of about equal size, without blocks that cannot have a wanted row."""
        whole: list[Share] = []
        for source in self.sources:
            keys = None if source.key is None else key_range(conditions, source.key)
            with BlockFile(source.path, on_skip=self.on_skip) as file:
                scope = Scope(source.space_id, source.key_field, keys if source.merged is None else None)
                whole.append(Share(source, tuple(narrow(file, scope))))
        total = sum(item.end - item.start for share in whole for item in share.ranges)
        size = max(1, -(-total // (self.options.partitions or _share_count(total))))
        return [part for share in whole for part in self._split(share, size, conditions)]

    def _split(self, share: Share, size: int, conditions: Sequence[Condition]) -> Iterator[Share]:
        source = share.source
        with BlockFile(source.path, on_skip=self.on_skip) as file:
            if source.merged is None:
                for item in share.ranges:
                    for blocks in file.shares(max(1, round((item.end - item.start) / size)), item):
                        yield Share(source, (blocks,))
                return
            keys = None if source.key is None else key_range(conditions, source.key)
            # Each share reads the log, so small shares beside a long log would do little else.
            least = 0 if self.options.partitions else source.merged.log_size // _SHARES_A_LOG
            for span, ranges in source.merged.shares(file, max(size, _BYTES_A_SHARE // _SHARES_MIN, least)):
                if keys is None or span.may_hold(keys, source.key_field):
                    yield Share(source, ranges, span)

    def read(
        self,
        share: Share,
        columns: Sequence[Column],
        schema: pa.Schema,
        conditions: Sequence[Condition],
        *,
        skips: SkipCount | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Return batches of `schema` with the rows of a share that meet the conditions, which name columns of the
        table.

        `skips` counts broken blocks; without it their number is printed on standard error.

        Raises:
            XlogError: a block is broken, and the options do not skip it.
            BoxError: ILLEGAL_PARAMS, a value does not fit its column.
        """
        source = share.source
        counted = skips if skips is not None else self.new_skips()
        compiled = is_compiled(self.options.decoder, sum(source.size for source in self.sources))
        columns = refill_constants(columns, source.instance)
        misfits = Misfits() if self.options.columns_as.misfits_are_null else None
        try:
            yield from self._read(share, columns, schema, conditions, compiled, misfits, counted)
        except XlogError as error:
            raise _advised(error, source.path) from None
        if skips is None and counted is not None:
            counted.report(source.path)
        if misfits is not None and misfits.count:
            name = os.path.basename(source.path)
            print(f"box: {name}: {misfits.count} values are null, because {misfits.example}", file=sys.stderr)

    def _read(
        self,
        share: Share,
        columns: Sequence[Column],
        schema: pa.Schema,
        conditions: Sequence[Condition],
        compiled: bool,
        misfits: Misfits | None,
        skips: SkipCount | None,
    ) -> Iterator[pa.RecordBatch]:
        source = share.source
        with BlockFile(source.path, on_skip=skips) as file:
            if source.merged is not None:
                yield from source.merged.read(
                    file,
                    share.span,
                    share.ranges,
                    columns,
                    schema,
                    conditions,
                    compiled=compiled,
                    on_skip=skips,
                    misfits=misfits,
                )
                return
            keys = None if source.key is None else key_range(conditions, source.key)
            decoder = new_decoder(source.space_id, columns, schema, conditions, compiled=compiled, misfits=misfits)
            for item in share.ranges:
                blocks = _until(Scope(source.space_id, source.key_field, keys), file.blocks(item))
                yield from decode_blocks(decoder, source.path, blocks, skips)


def _share_count(size: int) -> int:
    """Return the number of shares for so many bytes of blocks."""
    return max(1, round(size / _BYTES_A_SHARE / _SHARES_MIN)) * _SHARES_MIN


def spaces_of(options: SourceOptions) -> list[SpaceInfo]:
    """Return all spaces of the first directory, whatever space the options name.

    Raises:
        BoxError: a file cannot be read.
    """
    path = expand(options.paths)[0]
    with BlockFile(_snapshot_of(path, options.as_of)) as file:
        if options.as_of is None:
            return list(read_definitions(file).spaces())
        return list(make_cut(file, _log_of(file.path, options), options.as_of, options.decoder).after.spaces())


def _snapshot_of(path: str, moment: Moment | None) -> str:
    return newest_snapshot(path) if moment is None or path.endswith(".snap") else find_snapshot(path, moment)


def _log_of(snapshot: str, options: SourceOptions) -> str:
    """Return the directory of the log files."""
    return options.log or snapshot.rpartition("/")[0] or "."


def _open_source(path: str, options: SourceOptions) -> tuple[Source, list[Column]]:
    moment = options.as_of
    snapshot = _snapshot_of(path, moment)
    with BlockFile(snapshot, on_skip=report_skip if options.skips_corrupt else None) as file:
        log = _log_of(snapshot, options)
        merged: MergedSpace | None = None
        size, instance = file.size, str(file.meta.instance_uuid)
        if moment is None:
            space = _find_space(file, log, options.space)
        else:
            made = make_cut(file, log, moment, options.decoder)
            space = made.after.space(options.space)
            merged = MergedSpace.of(space, made.cut, made.before, made.schema_changes)
            size += sum(piece.end for piece in made.cut.pieces)
    _check_engine(space)
    columns = columns_of(space, options.columns_as)
    sorted_by = sorted_field(space.primary)
    key = None if sorted_by is None else next((column.name for column in columns if column.field == sorted_by), None)
    if options.instance is not None:
        columns = with_constant(columns, options.instance, instance)
    return Source(snapshot, size, instance, space.id, sorted_by or 0, key, merged), columns


def _advised(error: XlogError, snapshot: str) -> XlogError:
    """Return an error about a block of the snapshot with the advice to skip broken blocks; other errors unchanged."""
    if not error.message.startswith(f"{snapshot}:"):
        return error
    return XlogError(f"{error.message}; {SKIP_ADVICE}")


def _find_space(file: BlockFile, log: str, name: str) -> SpaceInfo:
    """Return the space in a snapshot.

    Raises:
        BoxError: NO_SUCH_SPACE, with advice if the space was created in the log.
    """
    definitions = read_definitions(file)
    found = definitions.find(name)
    if found is not None:
        return found
    try:
        in_log = make_cut(file, log, Moment.parse("latest")).after.find(name) is not None
    except (BoxError, XlogError):
        in_log = False
    if in_log:
        raise BoxError(
            ErrorCode.NO_SUCH_SPACE,
            f"Space '{name}' does not exist in {file.path}, but in the log after it: "
            "run box.snapshot(), or read with as_of 'latest'",
        )
    return definitions.space(name)


def _check_engine(space: SpaceInfo) -> None:
    """Refuse a space whose tuples are not in snapshots. Raises UNSUPPORTED."""
    if space.engine not in SNAPSHOT_ENGINES and space.engine not in EMPTY_ENGINES:
        raise unsupported("Lunabox", f"reading space '{space.name}' of the engine '{space.engine}'")


def _until(scope: Scope, blocks: Iterator[Block]) -> Iterator[Block]:
    """Return the blocks before the first one that is above the wanted keys."""
    for block in blocks:
        if is_past(scope, block.rows):
            return
        yield block
