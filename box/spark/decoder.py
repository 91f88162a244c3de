"""Blocks turned into batches by one of two decoders, several small blocks at a time."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from box.errors import BoxError, ErrorCode, illegal_params
from box.journal.xlog_errors import XlogError
from box.spark.base_tuples import BaseTuples, FindTuples
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
    """Turns the rows of blocks into a batch: of all tuples, or of those marked in `left`.

    Raises XlogError, ILLEGAL_PARAMS.
    """

    def decode(self, rows: bytes, left: NDArray[np.bool_] | None = None) -> pa.RecordBatch: ...


def is_compiled(choice: str, size: int) -> bool:
    """Whether the compiled decoder is to be used, by the option `decoder` and the bytes to read.

    Raises ILLEGAL_PARAMS for `compiled` without numba.
    """
    has_numba = "numba" in sys.modules or importlib.util.find_spec("numba") is not None
    if choice == "compiled" and not has_numba:
        raise illegal_params("the compiled decoder needs numba: pip install '.[spark]' in a clone of Lunabox")
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
    misfits: Misfits | None = None,
) -> Decoder:
    """A decoder for the tuples of one space; `schema` has a field for each column, `misfits` takes notes of values that
    do not fit."""
    if not compiled:
        return ReferenceDecoder(space_id, columns, schema, conditions, misfits)
    from box.spark.compiled import CompiledDecoder

    return CompiledDecoder(space_id, columns, schema, conditions, misfits)


def decode_blocks(
    decoder: Decoder,
    path: str,
    blocks: Iterable[Block],
    on_skip: SkipLog | None = None,
    overlay: Overlay | None = None,
) -> Iterator[pa.RecordBatch]:
    """Batches of the blocks' tuples; empty ones are left out. Raises XlogError, ILLEGAL_PARAMS with file and position.

    With `on_skip` blocks whose rows are broken are reported there and passed over. A value that does not fit its
    column is an error all the same. With an overlay its outcomes are among the tuples, except for the rest.
    """
    for group in grouped(blocks):
        found: Iterable[pa.RecordBatch] = (
            _decoded(decoder, path, group, on_skip)
            if overlay is None
            else _laid(decoder, path, group, on_skip, overlay)
        )
        for batch in found:
            if batch.num_rows:
                yield batch


def _decoded(decoder: Decoder, path: str, group: list[Block], on_skip: SkipLog | None) -> list[pa.RecordBatch]:
    try:
        return [decoder.decode(joined(group))]
    except BoxError:
        return [batch for block in group for batch in _alone(decoder, path, block, on_skip)]


def _laid(
    decoder: Decoder, path: str, group: list[Block], on_skip: SkipLog | None, overlay: Overlay
) -> Iterator[pa.RecordBatch]:
    """The same under an overlay."""
    rows = joined(group)
    try:
        tuples = overlay.find(rows)
    except XlogError as error:
        if len(group) == 1:
            _skip(path, group[0], on_skip, error)
        else:
            for block in group:
                yield from _laid(decoder, path, [block], on_skip, overlay)
        return
    left = np.ones(len(tuples), np.bool_)
    extra = b""
    for more in _gathered(overlay.lay(tuples, left)):
        if extra:
            yield decoder.decode(extra)
        extra = more
    # What is left of them makes no batch of its own.
    added = np.ones(len(overlay.find(extra)), np.bool_)
    try:
        batch = decoder.decode(rows + extra, np.append(left, added))
    except BoxError:
        for block in group:
            own = len(overlay.find(block.rows))
            yield from _alone(decoder, path, block, on_skip, left[:own])
            left = left[own:]
        batch = decoder.decode(extra)
    yield batch


def grouped(blocks: Iterable[Block]) -> Iterator[list[Block]]:
    """Several small blocks at a time."""
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


def decode_rest(decoder: Decoder, overlay: Overlay) -> Iterator[pa.RecordBatch]:
    """Batches of the tuples that no block of the snapshot has had."""
    for rows in _gathered(overlay.rest()):
        batch = decoder.decode(rows)
        if batch.num_rows:
            yield batch


def found_tuples(
    find: FindTuples, path: str, blocks: Iterable[Block], on_skip: SkipLog | None = None
) -> Iterator[BaseTuples]:
    """The tuples of block after block. Raises XlogError, or reports a broken block."""
    for block in blocks:
        try:
            tuples = find(block.rows)
        except XlogError as error:
            _skip(path, block, on_skip, error)
        else:
            yield tuples


def _gathered(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Several small parts as one."""
    held: list[bytes] = []
    size = 0
    for part in parts:
        held.append(part)
        size += len(part)
        if size >= _BATCH_BYTES:
            yield b"".join(held)
            held, size = [], 0
    if size:
        yield b"".join(held)


def joined(group: Sequence[Block]) -> bytes:
    """The rows of all blocks."""
    return group[0].rows if len(group) == 1 else b"".join(block.rows for block in group)


def _alone(
    decoder: Decoder, path: str, block: Block, on_skip: SkipLog | None, left: NDArray[np.bool_] | None = None
) -> Iterator[pa.RecordBatch]:
    """The batch of one block, to find out which of several is broken."""
    try:
        yield decoder.decode(block.rows, left)
    except XlogError as error:
        _skip(path, block, on_skip, error)
    except BoxError as error:
        text = f"{path}: {error.message.removeprefix('Illegal parameters, ')} in the block at {block.position}"
        raise BoxError(ErrorCode.ILLEGAL_PARAMS, text) from None


def _skip(path: str, block: Block, on_skip: SkipLog | None, error: XlogError) -> None:
    if on_skip is None:
        raise XlogError(f"{path}: {error.message} in the block at {block.position}") from None
    on_skip(path, block.position, 0, error.message)
