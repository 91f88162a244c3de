"""The pass over the files of a directory: Spark's workers profile pieces of them, and the profiles are joined."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

import pyarrow as pa

from box.errors import BoxError
from box.journal.rows import decode_rows, decode_tuples
from box.spark.blocks import BlockFile, BlockRange
from box.spark.columns import Column, columns_of
from box.spark.definitions import USER_SPACES, Definitions, SpaceInfo
from box.spark.log_files import all_log_files
from box.spark.paths import newest_snapshot
from box.spark.reference import ReferenceDecoder, arrow_type
from box.spark.report.directory_profile import DirectoryProfile
from box.spark.snapshot import read_definitions
from box.spark.values import decode_fields, to_json
from box.wire.change import decode_row
from box.wire.constants import DML_TYPES, RequestType

_PIECE: Final = 8 << 20
"""The bytes of a piece: one for each task."""
_TEXT: Final = 120
"""The characters of a large tuple that the page shows."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A range of blocks of a snapshot or of a log file."""

    path: str
    blocks: BlockRange
    is_log: bool


def pieces_of(directory: str) -> tuple[list[Piece], Definitions]:
    """Return the pieces of the newest snapshot and of all log files, and the definitions in the snapshot.

    Raises:
        BoxError: the directory or a file cannot be read.
    """
    path = newest_snapshot(directory)
    with BlockFile(path) as file:
        definitions = read_definitions(file)
        found = [Piece(path, item, False) for item in file.shares(max(1, file.size // _PIECE))]
    for start in all_log_files(path.rpartition("/")[0] or "."):
        with BlockFile(start.path, file_type="XLOG", is_open=True) as file:
            found += [Piece(start.path, item, True) for item in file.shares(max(1, file.size // _PIECE))]
    return found, definitions


def profile(pieces: Iterable[Piece], definitions: Definitions) -> DirectoryProfile:
    """Return the profile of some pieces; errors are noted in it."""
    found = DirectoryProfile()
    spaces = {space.id: _Space(space) for space in definitions.spaces()}
    for piece in pieces:
        try:
            with BlockFile(piece.path, file_type=None, is_open=True) as file:
                for block in file.blocks(piece.blocks):
                    if piece.is_log:
                        _add_log(found, block.rows, spaces)
                    else:
                        _add_tuples(found, block.rows, spaces)
        except BoxError as error:
            found.skipped.append(error.message)
    return found


class _Space:
    """A space and the decoder of its tuples."""

    def __init__(self, info: SpaceInfo) -> None:
        self.name = info.name
        try:
            self.columns: list[Column] = columns_of(info)
        except BoxError:
            self.columns = []  # Two columns have the same name: only rows and bytes are counted
        fields = [pa.field(item.name, arrow_type(item)) for item in self.columns]
        self.decoder = ReferenceDecoder(info.id, self.columns, pa.schema(fields), ())


def _add_tuples(found: DirectoryProfile, rows: bytes, spaces: dict[int, _Space]) -> None:
    for space_id, tuples in decode_tuples(rows)[0]:
        space = spaces.get(space_id)
        name = str(space_id) if space is None else space.name
        this = found.space(name, is_system=space_id < USER_SPACES)
        this.rows += len(tuples)
        this.bytes += sum(map(len, tuples))
        for raw in tuples:
            if not this.is_system and found.largest.wants(len(raw)):
                found.largest.add(len(raw), name, to_json(decode_fields(raw))[:_TEXT])
        if space is None or not space.columns or this.is_system:
            continue
        try:
            batch = space.decoder.raw_batch(tuples)
        except BoxError:
            this.misfits += len(tuples)
            continue
        for column in space.columns:
            this.column(column).add(batch.column(batch.schema.get_field_index(column.name)))


def _add_log(found: DirectoryProfile, rows: bytes, spaces: dict[int, _Space]) -> None:
    for row in decode_rows(rows):
        found.log[int(row.tm)] += 1
        found.log_bytes[int(row.tm)] += len(row.body)
        if row.type in DML_TYPES and row.body:
            space_id = decode_row(row)[0]
            name = spaces[space_id].name if space_id in spaces else str(space_id)
            found.operations[name, RequestType(row.type).name.lower()] += 1


def run_pass(spark: Any, directory: str) -> DirectoryProfile:
    """Return the profile of a directory, made by one Spark job.

    Raises:
        BoxError: the directory or a file cannot be read.
    """
    pieces, definitions = pieces_of(directory)
    tasks = spark.sparkContext.parallelize(pieces, len(pieces)).mapPartitions(lambda some: [profile(some, definitions)])
    return reduce(DirectoryProfile.join, tasks.collect(), DirectoryProfile())
