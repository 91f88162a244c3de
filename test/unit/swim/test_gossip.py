"""News reach all members: payloads, addresses, and what listeners hear of them."""

from __future__ import annotations

import pytest

from box.swim import Address, MemberEvent
from box.swim.decoding import decode_body, decode_meta
from test.unit.swim.cluster import HOST, Cluster, events_of, seen, status, uuid_of


def met(size: int) -> Cluster:
    cluster = Cluster(size)
    cluster.until(lambda: cluster.are_met(size))
    return cluster


@pytest.mark.parametrize("payload", [b"x", b"\0" * 1200])
def test_payloads_travel(payload: bytes) -> None:
    """A payload reaches all members, even one that leaves no room for another in a packet, and so does its removal."""
    cluster = met(5)
    cluster.nodes[0].set_payload(payload)
    cluster.until(lambda: all(seen(node, 1).payload == payload for node in cluster.nodes))
    cluster.nodes[0].set_payload(b"")
    cluster.until(lambda: all(seen(node, 1).payload == b"" for node in cluster.nodes))


def test_many_large_payloads() -> None:
    """Payloads that do not fit into one packet together reach everybody by the random parts of the tables."""
    cluster = met(6)
    for number, node in enumerate(cluster.nodes):
        node.set_payload(bytes([number]) * 700)
    cluster.until(
        lambda: all(len(member.payload) == 700 for node in cluster.nodes for member in node.members), seconds=600
    )


def test_an_outdated_payload_is_not_passed_on() -> None:
    """A member whose new payload is not known yet is told without any, until it comes."""
    cluster = met(2)
    one, two = cluster.nodes
    two.set_payload(b"old")
    cluster.until(lambda: seen(one, 2).payload == b"old")
    member = seen(one, 2)
    member.is_payload_current = False
    late = cluster.add(3)
    cluster.cuts.add(frozenset((2, 3)))
    late.add_member(Address(HOST, 2), uuid_of(2))
    late.probe([Address(HOST, 1)])
    cluster.run(0.05)
    assert seen(late, 2).payload == b""
    member.is_payload_current = True
    cluster.until(lambda: seen(late, 2).payload == b"old")


def test_a_new_address_is_told() -> None:
    """Who moves says so, and the others send there."""
    cluster = met(4)
    cluster.nodes[3].configure(Address(HOST, 44))
    cluster.until(lambda: all(seen(node, 4).address.port == 44 for node in cluster.nodes))
    cluster.run(100)
    assert cluster.are_met(4)


def test_any_port_is_a_new_incarnation() -> None:
    """A member that asks for any port has its first incarnation before it knows which."""
    cluster = Cluster(1)
    node = cluster.add(0, uuid_of(9))
    assert node.own is not None
    assert node.own.address.port > 0
    assert node.own.incarnation.version == 1


def test_events() -> None:
    """Listeners hear of new, changed and dropped members; what happens between two looks is one event."""
    cluster = met(2)
    one, two = cluster.nodes
    one.has_listeners = True
    two.set_payload(b"x")
    two.configure(Address(HOST, 22))
    cluster.until(lambda: seen(one, 2).payload == b"x" and seen(one, 2).address.port == 22)
    happened = MemberEvent.NONE
    for member, events in events_of(one):
        assert member.uuid == uuid_of(2)
        happened |= events
    assert happened == MemberEvent.NEW_PAYLOAD | MemberEvent.NEW_URI | MemberEvent.NEW_VERSION
    one.remove_member(uuid_of(2))
    assert [(member.is_dropped, events) for member, events in events_of(one)] == [(True, MemberEvent.DROP)]


def test_who_comes_and_goes_unseen_is_no_event() -> None:
    """A member that is dropped before a listener has seen it was never there."""
    cluster = Cluster(1)
    (one,) = cluster.nodes
    one.has_listeners = True
    one.add_member(Address(HOST, 2), uuid_of(2))
    one.remove_member(uuid_of(2))
    assert list(events_of(one)) == []


def test_no_listeners_no_events() -> None:
    """Without a listener nothing is kept for it."""
    cluster = met(2)
    assert list(events_of(cluster.nodes[0])) == []


def test_failure_detection_alone() -> None:
    """While `tells_all` says no, packets have no tables, and members learn of nobody else."""
    cluster = met(2)
    one = cluster.nodes[0]
    one._tells_all = lambda: False
    sections: list[int] = []

    def receive(data: bytes) -> None:
        _, position = decode_meta(data)
        sections.append(len(decode_body(data, position).sections))

    cluster.sockets[2].receiver = receive
    cluster.until(lambda: len(sections) > 2)
    assert set(sections) == {1}


def test_removed_members_come_back_if_they_live() -> None:
    """A removal by hand is this member's own affair: who still lives introduces itself again."""
    cluster = met(3)
    cluster.nodes[0].remove_member(uuid_of(3))
    assert status(cluster.nodes[0], 3) is None
    cluster.until(lambda: status(cluster.nodes[0], 3) is not None)
