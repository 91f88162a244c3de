"""Packets as bytes. The layout stands in `box/swim/decoding.py`.

Numbers are written with their full width, as Tarantool does: each section has a fixed size, so that it is known
whether one more fits.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from box.data.marks import ARRAY16, BIN8, FIXMAP, UINT16, UINT32, UINT64
from box.swim.decoding import BodyKey, MessageKind, Route
from box.swim.members import Address, Incarnation, Member
from box.wire.tarantool_version import VERSION_ID

DATAGRAM_SIZE: Final = 1472
"""The bytes of UDP data in a frame of 1500 bytes: without the headers of IPv4 (20) and UDP (8)."""
PACKET_SIZE: Final = DATAGRAM_SIZE - 32
"""The most bytes of a packet. Encryption may add an initial vector of 16 bytes and fill a block of 16."""
# The pieces of a packet as a whole: each key and each mark of a value is one byte (B), then comes the value.
_META: Final = struct.Struct(">BBBIBBIBBH")
_ROUTE: Final = struct.Struct(">BBBBIBBHBBIBBH")
_DETECTION: Final = struct.Struct(">BBBBBBQBBQ")
_QUIT: Final = struct.Struct(">BBBBQBBQ")
_MEMBER: Final = struct.Struct(">BBBBBIBBHBBB16sBBQBBQ")
_BIN16: Final = BIN8 + 1
_MEMBER_KEYS: Final = 6
"""The number of keys of a member without its payload."""


def _meta(source: Address, route: Route | None) -> bytes:
    keys = 3 if route is None else 4
    head = _META.pack(FIXMAP | keys, 0, UINT32, VERSION_ID, 1, UINT32, source.ip, 2, UINT16, source.port)
    if route is None:
        return head
    origin, target = route
    return head + _ROUTE.pack(
        *(3, FIXMAP | 4, 0, UINT32, origin.ip, 1, UINT16, origin.port),
        *(2, UINT32, target.ip, 3, UINT16, target.port),
    )


def _member(member: Member, *, with_payload: bool) -> bytes:
    with_payload = with_payload and member.is_payload_current
    encoded = _MEMBER.pack(
        *(FIXMAP | (_MEMBER_KEYS + with_payload), 0, member.status),
        *(1, UINT32, member.address.ip, 2, UINT16, member.address.port),
        *(3, BIN8, len(member.uuid), member.uuid),
        *(4, UINT64, member.incarnation.generation, 5, UINT64, member.incarnation.version),
    )
    if with_payload:
        encoded += struct.pack(">BBH", 6, _BIN16, len(member.payload)) + member.payload
    return encoded


class Packet:
    """A packet that grows section by section.

    `source` is the sender of this packet. With a `route` it goes over another node: the route names the first sender
    and the last receiver.
    """

    def __init__(self, source: Address, route: Route | None = None) -> None:
        self._meta = _meta(source, route)
        self._sections: list[bytes] = []
        self._room = PACKET_SIZE - len(self._meta) - 1

    def _add(self, section: bytes) -> None:
        self._sections.append(section)
        self._room -= len(section)

    def add_sender(self, uuid: bytes) -> None:
        """Name the node that wrote the body. This section has to be the first."""
        self._add(bytes((BodyKey.SENDER, BIN8, len(uuid))) + uuid)

    def add_detection(self, kind: MessageKind, incarnation: Incarnation) -> None:
        """Add a ping or an acknowledgement, depending on `kind`."""
        generation, version = incarnation
        key = BodyKey.FAILURE_DETECTION
        self._add(_DETECTION.pack(key, FIXMAP | 3, 0, kind, 1, UINT64, generation, 2, UINT64, version))

    def add_quit(self, incarnation: Incarnation) -> None:
        """Add the message that the sender leaves the cluster."""
        generation, version = incarnation
        self._add(_QUIT.pack(BodyKey.QUIT, FIXMAP | 2, 0, UINT64, generation, 1, UINT64, version))

    def add_members(self, key: BodyKey, members: Iterable[tuple[Member, bool]]) -> None:
        """Describe as many of the members as fit, from the first on. With each comes whether to include its payload."""
        room = self._room - 4
        if room < 0:
            return
        described: list[bytes] = []
        for member, with_payload in members:
            encoded = _member(member, with_payload=with_payload)
            room -= len(encoded)
            if room < 0:
                break
            described.append(encoded)
        self._add(struct.pack(">BBH", key, ARRAY16, len(described)) + b"".join(described))

    def to_bytes(self) -> bytes:
        """Return the whole packet."""
        return self._meta + bytes((FIXMAP | len(self._sections),)) + b"".join(self._sections)


def forwarded(source: Address, route: Route, body: bytes) -> bytes | None:
    """Return a packet that forwards a body, or None if it would not fit into a datagram."""
    packet = _meta(source, route) + body
    return packet if len(packet) <= PACKET_SIZE else None
