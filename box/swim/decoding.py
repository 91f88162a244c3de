"""Packets from bytes: two MessagePack maps that follow each other.

```
meta     {0: version of the sender's program, 1: its IPv4 address, 2: its port, 3: route}
route    {0: address, 1: port of the first sender, 2: address, 3: port of the last receiver}
body     {0: uuid of the sender (always first), then any of
          1: [member, ...]      anti-entropy: some members, beginning with a random one
          2: {0: kind, 1: generation, 2: version}      failure detection: kind 0 is a ping, 1 an acknowledgement
          3: [member, ...]      dissemination: what has changed lately
          4: {0: generation, 1: version}      the sender leaves}
member   {0: status, 1: address, 2: port, 3: uuid, 4: generation, 5: version, 6: payload, or nothing}
```

Addresses and ports are numbers; uuids and payloads are bin. The facts are those of Tarantool 2.8.1, and so are the
texts for packets that are wrong. Sections before a mistake count.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from box.swim.members import MAX_PAYLOAD, NIL_UUID, NOWHERE, UUID_SIZE, Address, Description, Incarnation, Status

Route = tuple[Address, Address]
"""The first sender and the last receiver of a packet that goes over another node."""


class BodyKey(IntEnum):
    """The keys of the body."""

    SENDER = 0
    ANTI_ENTROPY = 1
    FAILURE_DETECTION = 2
    DISSEMINATION = 3
    QUIT = 4


class MessageKind(IntEnum):
    """The kind of a failure detection section: a question or its answer."""

    PING = 0
    ACK = 1


class PacketError(Exception):
    """A packet that does not have the layout at the top of this module."""


@dataclass(slots=True)
class PacketMeta:
    """The first map of a packet."""

    version: int = 0
    source: Address = NOWHERE
    route: Route | None = None


@dataclass(slots=True)
class Detection:
    """A failure detection section, with the incarnation of the sender."""

    kind: MessageKind
    incarnation: Incarnation


@dataclass(slots=True)
class Quit:
    """The sender leaves."""

    incarnation: Incarnation


Section = list[Description] | Detection | Quit


@dataclass(slots=True)
class Body:
    """The second map of a packet: the sections up to a mistake, and the mistake."""

    sender: bytes
    sections: list[Section] = field(default_factory=list)
    problem: PacketError | None = None


# The bytes of a MessagePack number, or of the length of another value, by the first byte of the value.
_UINT_WIDTHS: Final = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8}
_BIN_WIDTHS: Final = {0xC4: 1, 0xC5: 2, 0xC6: 4}
_MAP_WIDTHS: Final = {0xDE: 2, 0xDF: 4}
_ARRAY_WIDTHS: Final = {0xDC: 2, 0xDD: 4}


class _PacketReader:
    """A place in a packet. Texts begin with `prefix`, which says what is being read."""

    def __init__(self, data: bytes, position: int, prefix: str) -> None:
        self.data = data
        self.position = position
        self.prefix = prefix

    def wrong(self, text: str) -> PacketError:
        return PacketError(f"{self.prefix} {text}")

    def _number(self, widths: dict[int, int], fixed: range, expected: str) -> int:
        """Read a number of one of these formats; a first byte in `fixed` holds the number itself."""
        data, start = self.data, self.position
        if start < len(data):
            tag = data[start]
            if tag in fixed:
                self.position = start + 1
                return tag - fixed.start
            end = start + 1 + widths.get(tag, len(data))
            if end <= len(data):
                self.position = end
                return int.from_bytes(data[start + 1 : end])
        raise self.wrong(expected)

    def uint(self, name: str) -> int:
        return self._number(_UINT_WIDTHS, range(0x80), f"{name} should be a uint")

    def map(self, name: str) -> int:
        return self._number(_MAP_WIDTHS, range(0x80, 0x90), f"{name} should be a map")

    def array(self, name: str) -> int:
        return self._number(_ARRAY_WIDTHS, range(0x90, 0xA0), f"{name} should be an array")

    def bin(self, name: str) -> bytes:
        size = self._number(_BIN_WIDTHS, range(0), f"{name} should be bin")
        start, self.position = self.position, self.position + size
        if self.position > len(self.data):
            raise self.wrong(f"{name} is invalid")
        return self.data[start : self.position]

    def ip(self, name: str) -> int:
        number = self.uint(name)
        if number >= 1 << 32:
            raise self.wrong(f"{name} is an invalid IP address")
        return number

    def port(self, name: str) -> int:
        number = self.uint(name)
        if number >= 1 << 16:
            raise self.wrong(f"{name} is an invalid port")
        return number

    def uuid(self, name: str) -> bytes:
        uuid = self.bin(name)
        if len(uuid) != UUID_SIZE:
            raise self.wrong(f"{name} is invalid")
        return uuid


# ---- the first map ----


def decode_meta(data: bytes) -> tuple[PacketMeta, int]:
    """Decode the first map. Returns it and where the body begins.

    Raises:
        PacketError: the map is wrong, or something mandatory is missing.
    """
    reader = _PacketReader(data, 0, "invalid meta section:")
    meta = PacketMeta()
    ip = port = 0
    for _ in range(reader.map("root")):
        match reader.uint("a key"):
            case 0:
                meta.version = reader.uint("version")
                if meta.version >= 1 << 32:
                    raise reader.wrong("invalid version, too big")
            case 1:
                ip = reader.ip("source address")
            case 2:
                port = reader.port("source port")
            case 3:
                meta.route = _decode_route(reader)
            case _:
                raise reader.wrong("unknown key")
    if meta.version == 0:
        raise reader.wrong("version is mandatory")
    meta.source = _complete(reader, Address(ip, port), "source")
    return meta, reader.position


def _complete(reader: _PacketReader, address: Address, name: str) -> Address:
    if address.is_empty:
        raise reader.wrong(f"{name} address is mandatory")
    return address


def _decode_route(outer: _PacketReader) -> Route:
    reader = _PacketReader(outer.data, outer.position, "invalid routing section:")
    ips, ports = [0, 0], [0, 0]
    for _ in range(reader.map("route")):
        match reader.uint("a key"):
            case 0:
                ips[0] = reader.ip("source address")
            case 1:
                ports[0] = reader.port("source port")
            case 2:
                ips[1] = reader.ip("destination address")
            case 3:
                ports[1] = reader.port("destination port")
            case _:
                raise reader.wrong("unknown key")
    outer.position = reader.position
    source = _complete(reader, Address(ips[0], ports[0]), "source")
    return source, _complete(reader, Address(ips[1], ports[1]), "destination")


# ---- the second map ----


def decode_body(data: bytes, position: int) -> Body:
    """Decode the second map, which begins at `position`. What follows it is ignored.

    Raises:
        PacketError: the section that names the sender is wrong. A mistake after it is returned in the result.
    """
    reader = _PacketReader(data, position, "invalid message:")
    count = reader.map("root")
    if count == 0:
        raise reader.wrong("body can not be empty")
    if reader.uint("a key") != BodyKey.SENDER:
        raise reader.wrong("first key should be source UUID")
    body = Body(reader.uuid("source uuid"))
    if body.sender == NIL_UUID:
        # Passed on, a member without a uuid would make other nodes refuse the members after it.
        raise reader.wrong("source uuid is invalid")
    try:
        for _ in range(count - 1):
            key = reader.uint("a key")
            decode = _SECTIONS.get(key)
            if decode is None:
                raise reader.wrong("unexpected key")
            decode(reader, body.sections)
    except PacketError as error:
        body.problem = error
    return body


def _decode_detection(outer: _PacketReader, sections: list[Section]) -> None:
    reader = _PacketReader(outer.data, outer.position, "invalid failure detection message:")
    if reader.map("root") != 3:
        raise reader.wrong("root map should have 3 keys - message type and version")
    kind: MessageKind | None = None
    generation = version = 0
    for _ in range(3):
        match reader.uint("a key"):
            case 0:
                number = reader.uint("message type")
                if number >= len(MessageKind):
                    raise reader.wrong("unknown message type")
                kind = MessageKind(number)
            case 1:
                generation = reader.uint("generation")
            case 2:
                version = reader.uint("version")
            case _:
                raise reader.wrong("unexpected key")
    if kind is None:
        raise reader.wrong("message type should be specified")
    outer.position = reader.position
    sections.append(Detection(kind, Incarnation(generation, version)))


def _decode_quit(outer: _PacketReader, sections: list[Section]) -> None:
    reader = _PacketReader(outer.data, outer.position, "invalid quit message:")
    if reader.map("root") != 2:
        raise reader.wrong("map of size 2 is expected")
    generation = version = 0
    for _ in range(2):
        match reader.uint("a key"):
            case 0:
                generation = reader.uint("generation")
            case 1:
                version = reader.uint("version")
            case _:
                raise reader.wrong("unknown key")
    outer.position = reader.position
    sections.append(Quit(Incarnation(generation, version)))


def _members_decoder(prefix: str) -> Callable[[_PacketReader, list[Section]], None]:
    def decode(outer: _PacketReader, sections: list[Section]) -> None:
        reader = _PacketReader(outer.data, outer.position, prefix)
        count = reader.array("root")
        described: list[Description] = []
        sections.append(described)
        for _ in range(count):
            described.append(_decode_member(reader))
        outer.position = reader.position

    return decode


def _decode_member(reader: _PacketReader) -> Description:
    described = Description()
    ip = port = generation = version = 0
    for _ in range(reader.map("member")):
        match reader.uint("member key"):
            case 0:
                number = reader.uint("member status")
                if number >= len(Status):
                    raise reader.wrong("unknown member status")
                described.status = Status(number)
            case 1:
                ip = reader.ip("member address")
            case 2:
                port = reader.port("member port")
            case 3:
                described.uuid = reader.uuid("member uuid")
            case 4:
                generation = reader.uint("member generation")
            case 5:
                version = reader.uint("member version")
            case 6:
                described.payload = reader.bin("member payload")
                if len(described.payload) > MAX_PAYLOAD:
                    raise reader.wrong(f"member payload size should be <= {MAX_PAYLOAD}")
            case _:
                raise reader.wrong("unknown member key")
    if described.uuid == NIL_UUID:
        raise reader.wrong("member uuid is mandatory")
    described.address = _complete(reader, Address(ip, port), "member")
    described.incarnation = Incarnation(generation, version)
    return described


_SECTIONS: Final[dict[int, Callable[[_PacketReader, list[Section]], None]]] = {
    BodyKey.ANTI_ENTROPY: _members_decoder("invalid anti-entropy message:"),
    BodyKey.FAILURE_DETECTION: _decode_detection,
    BodyKey.DISSEMINATION: _members_decoder("invalid dissemination message:"),
    BodyKey.QUIT: _decode_quit,
}
