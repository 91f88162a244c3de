"""Splits a block of plain rows with one call: all headers are found by a pattern, all values decoded together.

The pattern may also match inside a value. But then the values do not end where it says: each rest of a body has to be
exactly as many values as its row has. So from the first row on every row begins where the block says.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from functools import lru_cache
from operator import lt
from typing import Final

from box.journal.plain_runs import PlainRun
from box.wire.change_run import HEAD_SIZE
from box.wire.split_bodies import KIND_CLASSES, START, class_of, decode_rests
from box.wire.vclock import VCLOCK_MAX

_LARGE: Final = 4096
"""The size of a rest in bytes from which decoding may take longer than finding its end, see `TupleFormat.validate`."""
_NUMBERS: Final = {
    0xCC: (rb"\xcc(.)", "B"),
    0xCD: (rb"\xcd(..)", "H"),
    0xCE: (rb"\xce(....)", "I"),
    0xCF: (rb"\xcf(........)", "Q"),
}
_SMALL_NUMBER: Final = (rb"([\x00-\x7f])", "B")
"""Patterns of an lsn and the letters of `struct` for its bytes, by its mark. A small number is its own mark."""
_TIME: Final = rb"\x04\xcb........"
_TIME_SIZE: Final = 8
_AT_TIME: Final = struct.Struct(">d").unpack_from
_PLACE: Final = rb"(|\x08(?:[\x00-\x7f]|\xcc.|\xcd..|\xce....))(|\x09\x01)"
"""What follows the time in a transaction of several rows: the distance to its first lsn, and the flag COMMIT."""
_SINGLE: Final = 0x84
_MIDDLE: Final = 0x85
_LAST: Final = 0x86
"""The first bytes of the headers that `plain_runs` shows."""
_HEADERS: Final = bytes((_SINGLE, _MIDDLE, _LAST))
_HAS_DISTANCE: Final = bytes.maketrans(_HEADERS, bytes((0, 1, 1)))
_COMMIT_SIZES: Final = bytes.maketrans(_HEADERS, bytes((0, 0, 2)))
_SINGLE_INSIDE: Final = bytes((_MIDDLE, _SINGLE))
"""A transaction of one row after a row that is not the last of its transaction."""


def split_block(block: bytes) -> PlainRun | None:
    """Return the rows of a block as one run with `starts`, or None if one of them is unusual or malformed."""
    if len(block) <= HEAD_SIZE or block[1] or block[3] != 2 or block[5] != 3 or not 0 < block[4] < VCLOCK_MAX:
        return None
    mark = block[HEAD_SIZE] if block[HEAD_SIZE] in _NUMBERS else 0
    if block[0] == _SINGLE and (run := _split(block, *_single_rows(block[4], mark))) is not None:
        return run
    return _split(block, *_all_rows(block[4], mark)) if block[0] in _HEADERS else None


@lru_cache(256)
def _single_rows(replica_id: int, mark: int) -> tuple[re.Pattern[bytes], str]:
    """Return the pattern of transactions of one row, and the letter for an lsn with a mark."""
    number, letter = _NUMBERS.get(mark, _SMALL_NUMBER)
    head = rb"\x84\x00(.)\x02" + re.escape(bytes((replica_id,)))
    return re.compile(head + rb"\x03" + number + _TIME + START, re.DOTALL), letter


@lru_cache(256)
def _all_rows(replica_id: int, mark: int) -> tuple[re.Pattern[bytes], str]:
    """Return the pattern of rows of any transactions, and the letter for an lsn with a mark."""
    number, letter = _NUMBERS.get(mark, _SMALL_NUMBER)
    head = rb"([\x84-\x86])\x00(.)\x02" + re.escape(bytes((replica_id,)))
    return re.compile(head + rb"\x03" + number + _TIME + _PLACE + START, re.DOTALL), letter


def _split(block: bytes, pattern: re.Pattern[bytes], letter: str) -> PlainRun | None:
    parts = pattern.split(block)
    if parts[0] or len(parts) == 1:
        return None
    step, is_single = pattern.groups + 1, pattern.groups == 3  # type, lsn and start
    starts, rests = parts[step - 1 :: step], parts[step::step]
    count = len(rests)
    kinds = b"".join(parts[1::step] if is_single else parts[2::step])
    lsns = struct.unpack(f">{count}{letter}", b"".join(parts[2::step] if is_single else parts[3::step]))
    classes = {start: class_of(start) for start in set(starts)}
    if (
        bytes(map(classes.__getitem__, starts)) != kinds.translate(KIND_CLASSES)
        or not all(map(lt, lsns, lsns[1:]))
        or max(map(len, rests)) > _LARGE
    ):
        return None
    tail = _TIME_SIZE + len(starts[-1]) + len(rests[-1])
    ends: Sequence[int] | None = range(1, count + 1)
    if not is_single:
        places, commits = parts[4::step], parts[5::step]
        ends = _ends(b"".join(parts[1::step]), places, commits)
        tail += len(places[-1]) + len(commits[-1])
    extensions: list[int] = []
    values = decode_rests(starts, rests, lambda code, data: extensions.append(code))
    if ends is None or values is None:
        return None
    run = PlainRun(block[4])
    run.kinds, run.lsns, run.starts, run.rests, run.ends = list(kinds), lsns, starts, rests, ends
    run.values = None if extensions else values
    run.tm = _AT_TIME(block, len(block) - tail)[0]
    return run


def _ends(headers: bytes, distances: list[bytes], commits: list[bytes]) -> list[int] | None:
    """Return the number of rows up to the end of each transaction; None if they are not all plain and complete.

    `headers` are the first bytes of the headers; the other columns are those of `_PLACE`.
    """
    if (
        bytes(map(bool, distances)) != headers.translate(_HAS_DISTANCE)
        or bytes(map(len, commits)) != headers.translate(_COMMIT_SIZES)
        or _SINGLE_INSIDE in headers
        or headers[-1] == _MIDDLE
    ):
        return None
    ends = [number for number, header in enumerate(headers, 1) if header != _MIDDLE]
    # The distance of a transaction's first row has to be 0.
    firsts = {distances[number] for number in (0, *ends[:-1])}
    return ends if firsts <= {b"", b"\x08\x00"} else None
