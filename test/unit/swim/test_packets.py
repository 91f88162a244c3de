"""Packets: their bytes, and what is read of them."""

from __future__ import annotations

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from box.swim import Address, Incarnation, Member, Status
from box.swim.decoding import (
    BodyKey,
    Detection,
    MessageKind,
    PacketError,
    Quit,
    Route,
    decode_body,
    decode_meta,
)
from box.swim.encoding import PACKET_SIZE, Packet, forwarded
from box.swim.members import Description

HERE, THERE, THIRD = Address(0x7F000001, 3301), Address(0x0A000001, 65535), Address(0xFFFFFFFE, 1)
UUID = bytes(range(16))
META = "83 00 ce00020801 01 ce7f000001 02 cd0ce5"
SENDER = "00 c410 000102030405060708090a0b0c0d0e0f"


def member(number: int = 1, payload: bytes = b"", *, is_current: bool = True) -> Member:
    uuid = number.to_bytes(16)
    return Member(uuid, THERE, Status.SUSPECTED, Incarnation(2, 3), payload, is_payload_current=is_current)


def packet(route: Route | None = None) -> Packet:
    made = Packet(HERE, route)
    made.add_sender(UUID)
    return made


def test_bytes_of_a_ping() -> None:
    """The numbers have their full width, whatever their value."""
    made = packet()
    made.add_detection(MessageKind.PING, Incarnation(1, 2**64 - 1))
    expected = f"{META} 82 {SENDER} 02 83 00 00 01 cf0000000000000001 02 cfffffffffffffffff"
    assert made.to_bytes().hex() == bytes.fromhex(expected).hex()


def test_bytes_of_a_quit_over_a_route() -> None:
    """The route stands between the sender's address and the body."""
    made = packet((HERE, THERE))
    made.add_quit(Incarnation(5, 6))
    expected = (
        f"84{META[2:]} 03 84 00 ce7f000001 01 cd0ce5 02 ce0a000001 03 cdffff "
        f"82 {SENDER} 04 82 00 cf0000000000000005 01 cf0000000000000006"
    )
    assert made.to_bytes().hex() == bytes.fromhex(expected).hex()


def test_bytes_of_members() -> None:
    """A payload is told if it is asked for and current; an empty one, too."""
    made = packet()
    made.add_members(BodyKey.DISSEMINATION, [(member(), False), (member(2, b"xy"), True)])
    made.add_members(BodyKey.ANTI_ENTROPY, [(member(3, b"old", is_current=False), True), (member(4), True)])
    facts = "00 01 01 ce0a000001 02 cdffff 03 c410 {:032x} 04 cf0000000000000002 05 cf0000000000000003"
    expected = (
        f"{META} 83 {SENDER} 03 dc0002 86 {facts.format(1)} 87 {facts.format(2)} 06 c50002 7879"
        f"01 dc0002 86 {facts.format(3)} 87 {facts.format(4)} 06 c50000"
    )
    assert made.to_bytes().hex() == bytes.fromhex(expected).hex()


def test_a_packet_has_as_many_members_as_fit() -> None:
    """A packet never grows beyond its size; the first member that does not fit ends the section."""
    made = packet()
    made.add_detection(MessageKind.ACK, Incarnation())
    made.add_members(BodyKey.DISSEMINATION, ((member(number), False) for number in range(1, 12)))
    made.add_members(BodyKey.ANTI_ENTROPY, ((member(number, b"p" * 100), True) for number in range(1, 100)))
    data = made.to_bytes()
    assert len(data) <= PACKET_SIZE
    body = decode_body(data, decode_meta(data)[1])
    assert [len(section) for section in body.sections if isinstance(section, list)] == [11, 5]
    full = packet()
    full.add_members(BodyKey.DISSEMINATION, [(member(1, b"p" * 1200), True), (member(2, b"q"), True)])
    full.add_members(BodyKey.ANTI_ENTROPY, [(member(1, b"p" * 1200), True)])
    data = full.to_bytes()
    assert PACKET_SIZE - 100 < len(data) <= PACKET_SIZE


addresses = st.builds(Address, st.integers(1, 2**32 - 1), st.integers(1, 2**16 - 1))
incarnations = st.builds(Incarnation, st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
members = st.builds(
    Member,
    uuid=st.binary(min_size=16, max_size=16).filter(any),
    address=addresses,
    status=st.sampled_from(Status),
    incarnation=incarnations,
    payload=st.binary(max_size=60),
    is_payload_current=st.booleans(),
)


@given(addresses, st.none() | st.tuples(addresses, addresses), incarnations, st.lists(members, max_size=8))
def test_what_is_written_is_read(
    source: Address, route: Route | None, number: Incarnation, known: list[Member]
) -> None:
    """Decoding returns what was encoded."""
    made = Packet(source, route)
    made.add_sender(UUID)
    made.add_detection(MessageKind.ACK, number)
    made.add_members(BodyKey.DISSEMINATION, ((member, True) for member in known))
    made.add_quit(number)
    data = made.to_bytes()
    meta, position = decode_meta(data)
    assert (meta.source, meta.route, meta.version) == (source, route, 2 << 16 | 8 << 8 | 1)
    body = decode_body(data, position)
    described = [
        Description(m.status, m.address, m.uuid, m.incarnation, m.payload if m.is_payload_current else None)
        for m in known
    ]
    assert body.problem is None
    assert body.sections == [Detection(MessageKind.ACK, number), described, Quit(number)]


def test_short_numbers_are_read() -> None:
    """Numbers may have any width: other programs may write the shortest."""
    meta = msgpack.packb({0: 1, 2: 5, 1: 7})
    body = msgpack.packb({0: UUID, 2: {1: 1, 2: 300, 0: 1}, 1: [{3: UUID, 1: 1, 2: 2}]})
    decoded, position = decode_meta(meta + body + b"what follows")
    assert decoded.source == Address(7, 5)
    sections = decode_body(meta + body, position).sections
    assert sections[0] == Detection(MessageKind.ACK, Incarnation(1, 300))
    assert sections[1] == [Description(address=Address(1, 2), uuid=UUID)]


ROUTE = {0: 1, 1: 1, 2: 1, 3: 1}
WRONG_META = {
    "invalid meta section: root should be a map": [1],
    "invalid meta section: a key should be a uint": {-1: 1},
    "invalid meta section: unknown key": {9: 1},
    "invalid meta section: version should be a uint": {0: "1"},
    "invalid meta section: invalid version, too big": {0: 2**32},
    "invalid meta section: source address should be a uint": {0: 1, 1: -1},
    "invalid meta section: source address is an invalid IP address": {0: 1, 1: 2**32},
    "invalid meta section: source port is an invalid port": {0: 1, 1: 1, 2: 65536},
    "invalid meta section: version is mandatory": {1: 1, 2: 1},
    "invalid meta section: source address is mandatory": {0: 1, 1: 1},
    "invalid routing section: route should be a map": {3: 1},
    "invalid routing section: a key should be a uint": {3: {None: 1}},
    "invalid routing section: unknown key": {3: {4: 1}},
    "invalid routing section: source address should be a uint": {3: {0: None}},
    "invalid routing section: destination port is an invalid port": {3: ROUTE | {3: 70000}},
    "invalid routing section: source address is mandatory": {3: {2: 1, 3: 1}},
    "invalid routing section: destination address is mandatory": {3: ROUTE | {2: 0}},
}


@pytest.mark.parametrize("text", WRONG_META)
def test_wrong_meta_sections(text: str) -> None:
    """Each mistake in the first map has Tarantool's text."""
    with pytest.raises(PacketError) as caught:
        decode_meta(msgpack.packb(WRONG_META[text]))
    assert str(caught.value) == text


KNOWN = {0: 0, 1: 1, 2: 1, 3: UUID}
WRONG_BODIES = {
    "invalid message: root should be a map": [],
    "invalid message: body can not be empty": {},
    "invalid message: a key should be a uint": {"x": 1},
    "invalid message: first key should be source UUID": {1: 1},
    "invalid message: source uuid should be bin": {0: "x"},
    "invalid message: source uuid is invalid": {0: b"x"},
    "invalid message: unexpected key": {0: UUID, 5: 1},
    "invalid anti-entropy message: root should be an array": {0: UUID, 1: {}},
    "invalid anti-entropy message: member should be a map": {0: UUID, 1: [1]},
    "invalid anti-entropy message: member key should be a uint": {0: UUID, 1: [{"x": 1}]},
    "invalid anti-entropy message: unknown member key": {0: UUID, 1: [{7: 1}]},
    "invalid anti-entropy message: member uuid is mandatory": {0: UUID, 1: [{0: 1}]},
    "invalid anti-entropy message: member address is mandatory": {0: UUID, 1: [{3: UUID}]},
    "invalid dissemination message: unknown member status": {0: UUID, 3: [KNOWN | {0: 4}]},
    "invalid dissemination message: member status should be a uint": {0: UUID, 3: [KNOWN | {0: 0.5}]},
    "invalid dissemination message: member port is an invalid port": {0: UUID, 3: [KNOWN | {2: 2**16}]},
    "invalid dissemination message: member uuid is invalid": {0: UUID, 3: [KNOWN | {3: b"x"}]},
    "invalid dissemination message: member generation should be a uint": {0: UUID, 3: [KNOWN | {4: "x"}]},
    "invalid dissemination message: member payload should be bin": {0: UUID, 3: [KNOWN | {6: "x"}]},
    "invalid dissemination message: member payload size should be <= 1200": {0: UUID, 3: [KNOWN | {6: b"x" * 1201}]},
    "invalid failure detection message: root should be a map": {0: UUID, 2: 1},
    "invalid failure detection message: root map should have 3 keys - message type and version": {0: UUID, 2: {}},
    "invalid failure detection message: a key should be a uint": {0: UUID, 2: {0: 0, 1: 1, "x": 1}},
    "invalid failure detection message: unknown message type": {0: UUID, 2: {0: 2, 1: 1, 2: 1}},
    "invalid failure detection message: unexpected key": {0: UUID, 2: {0: 0, 1: 1, 3: 1}},
    "invalid quit message: root should be a map": {0: UUID, 4: None},
    "invalid quit message: map of size 2 is expected": {0: UUID, 4: {0: 1}},
    "invalid quit message: version should be a uint": {0: UUID, 4: {0: 1, 1: -1}},
    "invalid quit message: unknown key": {0: UUID, 4: {0: 1, 2: 1}},
}


@pytest.mark.parametrize("text", WRONG_BODIES)
def test_wrong_bodies(text: str) -> None:
    """Each mistake in the second map has Tarantool's text."""
    try:
        problem = decode_body(msgpack.packb(WRONG_BODIES[text]), 0).problem
    except PacketError as error:
        problem = error
    assert str(problem) == text


def test_a_kind_is_needed() -> None:
    twice = b"\x82\x00\xc4\x10" + UUID + b"\x02\x83\x01\x01\x01\x01\x02\x01"
    assert str(decode_body(twice, 0).problem).endswith("message type should be specified")


def test_a_sender_has_a_uuid() -> None:
    """A nil uuid is refused: as a member, told to others, it would spoil the packets of this node."""
    with pytest.raises(PacketError, match="source uuid is invalid"):
        decode_body(msgpack.packb({0: bytes(16)}), 0)


def test_what_stands_before_a_mistake_counts() -> None:
    """Sections, and members of a section, up to a mistake are kept."""
    body = decode_body(msgpack.packb({0: UUID, 4: {0: 1, 1: 2}, 3: [KNOWN, 5], 2: {}}), 0)
    assert body.sections[0] == Quit(Incarnation(1, 2))
    assert isinstance(body.sections[1], list)
    assert len(body.sections[1]) == 1
    assert len(body.sections) == 2


def test_forwarding_keeps_the_body() -> None:
    """A node that passes a packet on puts its own address in front, and never sends more than a datagram."""
    passed = forwarded(THIRD, (HERE, THERE), b"\x80body")
    assert passed is not None
    meta, position = decode_meta(passed)
    assert (meta.source, meta.route, passed[position:]) == (THIRD, (HERE, THERE), b"\x80body")
    assert forwarded(THIRD, (HERE, THERE), bytes(PACKET_SIZE)) is None
