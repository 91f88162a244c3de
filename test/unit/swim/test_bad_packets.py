"""Whatever comes over the network, a member goes on, and its memory does not grow."""

from __future__ import annotations

from random import Random

import msgpack

from box.swim import Address, Incarnation
from box.swim.decoding import BodyKey, MessageKind
from box.swim.encoding import Packet
from test.unit.swim.cluster import HOST, Cluster, uuid_of

NODE = Address(HOST, 1)


def valid(number: int = 5, route: tuple[Address, Address] | None = None) -> bytes:
    """Return a packet with all sections, of a node that listens nowhere."""
    node = Cluster(1).add(number)
    node.set_payload(b"payload")
    assert node.own is not None
    packet = Packet(Address(HOST, number), route)
    packet.add_sender(uuid_of(number))
    packet.add_detection(MessageKind.PING, Incarnation(1, 1))
    packet.add_members(BodyKey.DISSEMINATION, [(node.own, True)])
    packet.add_members(BodyKey.ANTI_ENTROPY, [(node.own, True)])
    packet.add_quit(Incarnation(1, 1))
    return packet.to_bytes()


def test_random_bytes() -> None:
    """10,000 random packets are reported, and nothing else."""
    cluster = Cluster(1)
    (node,) = cluster.nodes
    random = Random(5)
    for _ in range(10_000):
        node.receive(random.randbytes(random.randrange(1, 1472)))
    assert len(node.members) == 1
    assert len(cluster.problems) == 10_000
    assert all(problem.startswith("SwimError: invalid ") for problem in cluster.problems)


def test_truncated_packets() -> None:
    """A packet cut anywhere is a mistake, after what stands before the cut."""
    cluster = Cluster(1)
    data = valid()
    for size in range(len(data)):
        cluster.nodes[0].receive(data[:size])
    assert len(cluster.problems) == len(data)


def test_damaged_packets() -> None:
    """Changed bytes may change what is read; never more than that."""
    random = Random(6)
    packets = [valid(number) for number in range(1, 5)]
    for seed in range(10):
        cluster = Cluster(3, seed)
        cluster.run(5)
        for _ in range(100):
            data = bytearray(random.choice(packets))
            for _ in range(random.randrange(1, 4)):
                data[random.randrange(len(data))] = random.randrange(256)
            random.choice(cluster.nodes).receive(bytes(data))
        cluster.run(3)


def test_foreign_packets_are_passed_on_once() -> None:
    """A packet for somebody else goes there, whatever its body is, and has no effect here."""
    cluster = Cluster(1)
    got: list[bytes] = []
    other = cluster.add(2)
    cluster.sockets[2].receiver = got.append
    cluster.nodes[0].receive(valid(5, (Address(HOST, 5), Address(HOST, 2))))
    cluster.run(1)
    assert len(got) == 1
    assert len(cluster.nodes[0].members) == len(other.members) == 1


def test_a_packet_that_is_too_long_to_be_passed_on() -> None:
    cluster = Cluster(1)
    data = valid(5, (Address(HOST, 5), Address(HOST, 2)))
    cluster.nodes[0].receive(data + bytes(1472 - len(data)))
    assert cluster.problems == ["SwimError: a packet is too long to be forwarded"]


def test_foreign_uuids() -> None:
    """A node with the uuid of another, or of the receiver, confuses nobody for good."""
    cluster = Cluster(2)
    cluster.run(5)
    one = cluster.nodes[0]
    for number in (1, 2):
        packet = Packet(Address(HOST, 50))
        packet.add_sender(uuid_of(number))
        packet.add_detection(MessageKind.PING, Incarnation(0, 50))
        one.receive(packet.to_bytes())
    cluster.run(60)
    assert one.own is not None
    assert one.own.address == NODE
    assert cluster.are_met(2)


def test_the_greatest_incarnation() -> None:
    """A member that is told to have the greatest incarnation of all still has one of 64 bits."""
    cluster = Cluster(2)
    cluster.run(5)
    greatest = 2**64 - 1
    known = {0: 2, 1: HOST, 2: 1, 3: uuid_of(1), 4: greatest, 5: greatest}
    meta = msgpack.packb({0: 1, 1: HOST, 2: 9})
    for _ in range(3):
        cluster.nodes[0].receive(meta + msgpack.packb({0: uuid_of(2), 3: [known]}))
        cluster.nodes[0].receive(meta + msgpack.packb({0: uuid_of(1), 4: {0: greatest, 1: greatest}}))
    cluster.nodes[0].set_payload(b"x")
    cluster.run(30)
    assert cluster.nodes[0].own is not None
    assert cluster.nodes[0].own.incarnation == Incarnation(greatest, greatest)


def test_huge_counts() -> None:
    """Counts of billions in a short packet cost nothing."""
    cluster = Cluster(1)
    head = msgpack.packb({0: 1, 1: 1, 2: 1})
    start = b"\xdf\xff\xff\xff\xff\x00\xc4\x10" + uuid_of(3)
    for rest in (b"", b"\x01\xdd\xff\xff\xff\xff", b"\x01\xdd\xff\xff\xff\xff\xdf\xff\xff\xff\xff"):
        cluster.nodes[0].receive(head + start + rest)
    cluster.nodes[0].receive(b"\xdf\xff\xff\xff\xff")
    assert len(cluster.problems) == 4


def test_silent_strangers_are_forgotten() -> None:
    """Members of forged packets, which never answer, do not stay."""
    cluster = Cluster(1)
    (node,) = cluster.nodes
    for number in range(100, 400):
        packet = Packet(Address(HOST, number))
        packet.add_sender(uuid_of(number))
        packet.add_detection(MessageKind.PING, Incarnation())
        node.receive(packet.to_bytes())
    assert len(node.members) == 301
    node.configure(heartbeat_rate=0.01)
    cluster.until(lambda: len(node.members) == 1, seconds=3000)
