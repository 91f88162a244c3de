"""Decodes blocks into batches by the compiled decoder or by the one in Python, several small blocks at a time."""

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
"""Blocks are decoded together until their rows have this many bytes, because each batch costs Spark time."""
_SMALL_FILE: Final = 4 << 20
"""The bytes to read below which decoding in Python takes less time than loading numba."""

DECODERS: Final = ("auto", "compiled", "python")


class Decoder(Protocol):
    """A decoder of the rows of blocks into batches."""

    def decode(self, rows: bytes, left: NDArray[np.bool_] | None = None) -> pa.RecordBatch:
        """Return a batch of the tuples in the rows; with `left` only of those that are marked there.

        Raises:
            XlogError: a row is broken.
            BoxError: ILLEGAL_PARAMS, a value does not fit its column.
        """


def is_compiled(choice: str, size: int) -> bool:
    """Return whether to use the compiled decoder, by the option `decoder` and the number of bytes to read.

    Raises:
        BoxError: ILLEGAL_PARAMS, `compiled` was chosen and numba is not installed.
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
    """Return a decoder for the tuples of one space.

    `schema` has a field for each column. With `misfits` values that do not fit become null and are noted there.
    """
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
    """Return batches of the tuples in blocks, without empty batches.

    With `on_skip` blocks with broken rows are skipped and reported there; a value that does not fit its column is an
    error all the same. With `overlay` the changes of the log are applied, except those that `decode_rest` returns.

    Raises:
        XlogError: a row is broken; the text has file and offset.
        BoxError: ILLEGAL_PARAMS, a value does not fit its column.
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
    """Return the batches of a group of blocks with the changes of an overlay applied."""
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
    # The rest of the changed tuples is decoded together with the tuples of the snapshot, which saves a batch.
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
    """Return the blocks in groups of about `_BATCH_BYTES`."""
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
    """Return batches of the changed tuples whose keys are not in the snapshot."""
    for rows in _gathered(overlay.rest()):
        batch = decoder.decode(rows)
        if batch.num_rows:
            yield batch


def found_tuples(
    find: FindTuples, path: str, blocks: Iterable[Block], on_skip: SkipLog | None = None
) -> Iterator[BaseTuples]:
    """Return the tuples of each block.

    Raises:
        XlogError: a block is broken and there is no `on_skip`.
    """
    for block in blocks:
        try:
            tuples = find(block.rows)
        except XlogError as error:
            _skip(path, block, on_skip, error)
        else:
            yield tuples


def _gathered(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Return the parts, joined to pieces of about `_BATCH_BYTES`."""
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
    """Return the rows of all blocks of a group."""
    return group[0].rows if len(group) == 1 else b"".join(block.rows for block in group)


def _alone(
    decoder: Decoder, path: str, block: Block, on_skip: SkipLog | None, left: NDArray[np.bool_] | None = None
) -> Iterator[pa.RecordBatch]:
    """Return the batch of one block. After an error in a group this finds the broken block.

    Raises:
        XlogError: a row is broken and there is no `on_skip`.
        BoxError: ILLEGAL_PARAMS, a value does not fit its column.
    """
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
