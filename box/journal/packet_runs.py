"""Turns blocks of the log into packets for other instances: rows are found and framed, not decoded."""

from __future__ import annotations

import struct
from typing import Any, Final

import msgpack

from box.journal.rows import unpacker_of
from box.journal.xlog_errors import XlogError
from box.wire.change_run import HEAD_SIZE, origin_of_head
from box.wire.constants import GROUP_LOCAL, RequestType
from box.wire.first_bytes import UINT32
from box.wire.packet_run import PacketRun, RunBuilder
from box.wire.skipping import DeepUnpacker, StackError
from box.wire.vclock import VClock

_FRAME: Final = struct.Struct(">BI").pack
_TAIL_U16: Final = struct.Struct(">BHH").unpack_from
_TAIL_U32: Final = struct.Struct(">BIH").unpack_from
"""The usual header after its first six bytes: type and value of the lsn, then the time's key and type as one number."""
_STAMP: Final = 0x04CB
"""The key of the time stamp (4) and the MessagePack type of a double (cb), as one number."""
_NOP: Final = int(RequestType.NOP)


def packet_runs(rows: bytes) -> list[PacketRun]:
    """Return the runs of consecutive rows in log blocks.

    Raises:
        XlogError: a row is malformed (`can't parse row`).
    """
    try:
        return _packet_runs(rows, unpacker_of(rows))
    except StackError:
        return _packet_runs(rows, DeepUnpacker(rows))


def _packet_runs(rows: bytes, unpacker: Any) -> list[PacketRun]:
    unpack, skip, tell = unpacker.unpack, unpacker.skip, unpacker.tell
    builder = RunBuilder()
    heads: dict[bytes, int | None] = {}
    replica_id: int | None
    pos, end = 0, len(rows)
    current, last = -1, 0
    parts: list[bytes] = []
    try:
        while pos < end:
            start = pos
            head = rows[pos : pos + HEAD_SIZE]
            if head in heads:
                replica_id = heads[head]
            else:
                replica_id = heads[head] = origin_of_head(head)
            if replica_id is not None:
                # The usual header: an lsn of two or four bytes (cd or ce), the time stamp, and nothing else.
                mark = rows[pos + HEAD_SIZE]
                read = _TAIL_U32 if mark == 0xCE else _TAIL_U16 if mark == 0xCD else None
                if read is not None:
                    _, lsn, stamp = read(rows, pos + HEAD_SIZE)
                    if stamp == _STAMP:
                        skip()
                        skip()
                        pos = tell()
                        if replica_id != current or lsn <= last:
                            builder.last = last
                            parts = builder.begin(replica_id, False, lsn)
                            current = replica_id
                        last = lsn
                        parts += (_FRAME(0xCE, pos - start), rows[start:pos])
                        continue
            # Any other header: 0 is the key of its type, 2 of the replica id, 3 of the lsn, 7 of the group id.
            fields = unpack()
            pos = tell()
            if fields.get(0) != _NOP and pos < end:
                skip()
                pos = tell()
            builder.last = last
            replica_id, last = fields.get(2, 0), fields.get(3, 0)
            if type(replica_id) is not int or type(last) is not int:
                raise XlogError("can't parse row")
            is_local = fields.get(7, 0) == GROUP_LOCAL
            parts = builder.begin(replica_id, is_local, last)
            parts += (_FRAME(UINT32, pos - start), rows[start:pos])
            # A usual row is never local, so after a local one it has to begin a run.
            current = -1 if is_local else replica_id
    except StackError:
        raise
    except (IndexError, ValueError, AttributeError, TypeError, struct.error, msgpack.exceptions.UnpackException):
        raise XlogError("can't parse row") from None
    builder.last = last
    return builder.finish()


def fresh_runs(runs: list[PacketRun], vclock: VClock) -> list[PacketRun]:
    """Return the rows later than `vclock`, and move `vclock` past them."""
    fresh = []
    for run in runs:
        replica_id = run.replica_id
        rest = run.after(vclock[replica_id])
        if rest is not None:
            vclock[replica_id] = rest.last
            fresh.append(rest)
    return fresh
