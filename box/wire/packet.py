"""Packets in a stream: finds their bounds.

`MP_UINT length, header map, body map`; servers and most clients write the length as `ce <u32>`.
"""

from __future__ import annotations

from typing import Final

from box.data.marks import UINT8, UINT16, UINT32, UINT64
from box.errors import ErrorCode, client_error
from box.wire.constants import BODY_LEN_MAX

_LENGTH_WIDTHS: Final = {UINT8: 1, UINT16: 2, UINT32: 4, UINT64: 8}
"""The bytes of a length by its mark. Signed integers are no lengths for Tarantool, positive ones neither."""


def packet_bounds(data: bytes, pos: int) -> tuple[int, int]:
    """Return start and end of the packet whose length is at `pos`; an end beyond the data means an incomplete packet.

    Raises:
        ClientError: INVALID_MSGPACK (`packet length`, `too big packet size ...`), after which the stream is unusable.
    """
    mark = data[pos]
    if mark < 0x80:  # a small integer is its own mark; a literal, because this runs for every packet
        return pos + 1, pos + 1 + mark
    width = _LENGTH_WIDTHS.get(mark)
    if width is None:
        raise client_error(ErrorCode.INVALID_MSGPACK, "packet length")
    start = pos + 1 + width
    if start > len(data):
        return start, start
    length = int.from_bytes(data[pos + 1 : start], "big")
    if length > BODY_LEN_MAX:
        raise client_error(ErrorCode.INVALID_MSGPACK, f"too big packet size in the header: {length}")
    return start, start + length
