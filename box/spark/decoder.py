"""Blocks turned into batches by one of two decoders, several small blocks at a time."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol

import pyarrow as pa

from box.errors import BoxError, ErrorCode, illegal_params
from box.journal.xlog_errors import XlogError
from box.spark.blocks import Block, SkipLog
from box.spark.columns import Column
from box.spark.conditions import Condition
from box.spark.misfits import Misfits
from box.spark.overlay import Overlay
from box.spark.reference import ReferenceDecoder

_BATCH_BYTES: Final = 1 << 20
"""Blocks are decoded together until they have so many bytes of rows: a batch costs Spark more than a row."""
_SMALL_FILE: Final = 4 << 20
"""For fewer bytes than this, loading numba takes longer than decoding in Python."""

DECODERS: Final = ("auto", "compiled", "python")


class Decoder(Protocol):
    """Turns the rows of blocks into a batch. Raises XlogError, ILLEGAL_PARAMS."""

    def decode(self, rows: bytes, overlay: Overlay | None = None) -> pa.RecordBatch: ...


def is_compiled(choice: str, size: int) -> bool:
    """Whether the compiled decoder is to be used, by the option `decoder` and the bytes to read.

    Raises ILLEGAL_PARAMS for `compiled` without numba.
    """
    has_numba = "numba" in sys.modules or importlib.util.find_spec("numba") is not None
    if choice == "compiled" and not has_numba:
        raise illegal_params("the compiled decoder needs numba: pip install 'lunabox[spark]'")
    return choice == "compiled" or (
        choice == "auto" and has_numba and (size >= _SMALL_FILE or "box.spark.kernels" in sys.modules)
    )


def new_decoder(
    space_id: int,
    columns: Sequence[Column],
    schema: pa.Schema,
    conditions: Sequence[Condition],
    *,
    compiled: bool,
    key_field: int | None = None,
    misfits: Misfits | None = None,
) -> Decoder:
    """A decoder for the tuples of one space; `schema` has a field for each column, `key_field` is the field that
    overlays compare, `misfits` takes notes of values that do not fit."""
    if not compiled:
        return ReferenceDecoder(space_id, columns, schema, conditions, misfits)
    from box.spark.compiled import CompiledDecoder

    return CompiledDecoder(space_id, columns, schema, conditions, key_field, misfits)


def decode_blocks(
    decoder: Decoder,
    path: str,
    blocks: Iterable[Block],
    on_skip: SkipLog | None = None,
    overlay: Overlay | None = None,
) -> Iterator[pa.RecordBatch]:
    """Batches of the blocks' tuples; empty ones are left out. Raises XlogError, ILLEGAL_PARAMS with file and position.

    With `on_skip` blocks whose rows are broken are reported there and passed over. A value that does not fit its
    column is an error all the same.
    """
    for group in _groups(blocks):
        try:
            rows = group[0].rows if len(group) == 1 else b"".join(block.rows for block in group)
            batches = [decoder.decode(rows, overlay)]
        except BoxError:
            # A block that is no list of rows fails before the overlay is asked, any other error ends the reading.
            batches = list(_one_by_one(decoder, path, group, on_skip, overlay))
        for batch in batches:
            if batch.num_rows:
                yield batch


def _groups(blocks: Iterable[Block]) -> Iterator[list[Block]]:
    group: list[Block] = []
    size = 0
    for block in blocks:
        group.append(block)
        size += len(block.rows)
        if size >= _BATCH_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _one_by_one(
    decoder: Decoder, path: str, blocks: Iterable[Block], on_skip: SkipLog | None, overlay: Overlay | None
) -> Iterator[pa.RecordBatch]:
    for block in blocks:
        try:
            yield decoder.decode(block.rows, overlay)
        except XlogError as error:
            if on_skip is None:
                raise XlogError(f"{path}: {error.message} in the block at {block.position}") from None
            on_skip(path, block.position, 0, error.message)
        except BoxError as error:
            text = f"{path}: {error.message.removeprefix('Illegal parameters, ')} in the block at {block.position}"
            raise BoxError(ErrorCode.ILLEGAL_PARAMS, text) from None
