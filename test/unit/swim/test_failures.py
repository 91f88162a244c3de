"""A member that does not answer is suspected, then dead, then forgotten; one that lives says so."""

from __future__ import annotations

import pytest

from box.errors import BoxError
from box.swim import Address, Incarnation, Member, MemberEvent, Protocol, Status
from test.unit.swim.cluster import HOST, Cluster, events_of, seen, status, uuid_of


def met(size: int, seed: int = 1) -> Cluster:
    cluster = Cluster(size, seed)
    cluster.until(lambda: cluster.are_met(size))
    return cluster


def silence(cluster: Cluster, number: int) -> None:
    """Let a member neither send nor receive."""
    cluster.cuts |= {frozenset((number, other)) for other in range(1, 100) if other != number}


def test_members_find_each_other() -> None:
    """Who knows one member soon knows all: those that it hears of are pinged before they are believed."""
    cluster = Cluster(20)
    assert cluster.until(lambda: cluster.are_met(20)) < 60
    assert all(member.status == Status.ALIVE for node in cluster.nodes for member in node.members)


def test_the_way_to_death() -> None:
    """Two missed acknowledgements make a member suspected, three more dead, and two more forgotten."""
    cluster = met(2)
    one = cluster.nodes[0]
    one.has_listeners = True
    silence(cluster, 2)
    states: list[Status] = []

    def is_gone() -> bool:
        now = status(one, 2)
        if now is not None and (not states or states[-1] != now):
            states.append(now)
        return now is None

    assert cluster.until(is_gone) < 8
    assert states == [Status.ALIVE, Status.SUSPECTED, Status.DEAD]
    assert [event for _, event in events_of(one)] == [MemberEvent.NEW_STATUS | MemberEvent.DROP]


def test_times_of_a_death() -> None:
    """Each missed acknowledgement takes `ack_timeout`, from a ping on."""
    cluster = met(2)
    one = cluster.nodes[0]
    cluster.until(lambda: seen(one, 2).ack_deadline is None)
    silence(cluster, 2)
    cluster.until(lambda: seen(one, 2).ack_deadline is not None)
    assert cluster.until(lambda: status(one, 2) == Status.SUSPECTED) == pytest.approx(1.0, abs=0.1)
    assert cluster.until(lambda: status(one, 2) == Status.DEAD) == pytest.approx(1.5, abs=0.1)


def test_pings_of_others_delay_nothing() -> None:
    """A silent member dies in time even if others are pinged more often than `ack_timeout`."""
    cluster = met(6)
    for node in cluster.nodes:
        node.configure(heartbeat_rate=0.1, ack_timeout=2)
    silence(cluster, 6)
    assert cluster.until(lambda: all(status(node, 6) == Status.DEAD for node in cluster.nodes[:5])) < 20


def test_a_dead_member_stays_if_it_is_not_collected() -> None:
    """With `collects_dead` False a dead member is kept, and strangers learn of it."""
    cluster = met(3)
    for node in cluster.nodes:
        node.configure(collects_dead=False)
    silence(cluster, 3)
    cluster.run(120)
    assert [status(node, 3) for node in cluster.nodes[:2]] == [Status.DEAD] * 2
    late = cluster.add(4)
    late.configure(collects_dead=False)
    late.probe([Address(HOST, 1)])
    cluster.until(lambda: status(late, 3) == Status.DEAD)


def test_the_dead_do_not_return() -> None:
    """What tables of others say of a dead member that is forgotten here does not bring it back."""
    cluster = met(3)
    cluster.nodes[1].configure(collects_dead=False)
    silence(cluster, 3)
    cluster.until(lambda: status(cluster.nodes[0], 3) is None)
    cluster.run(60)
    assert status(cluster.nodes[0], 3) is None
    assert status(cluster.nodes[1], 3) == Status.DEAD


def test_a_way_over_others_saves_from_death() -> None:
    """A member that only one other cannot reach is pinged over third ones, and does not die."""
    cluster = met(4)
    cluster.cuts.add(frozenset((1, 2)))
    found: set[Status | None] = set()
    for _ in range(1000):
        cluster.run(0.1)
        found |= {status(node, 2) for node in cluster.nodes}
    assert found <= {Status.ALIVE, Status.SUSPECTED}
    assert Status.SUSPECTED in found


def test_a_member_refutes_its_death() -> None:
    """Who hears that it is suspected or dead says with a greater incarnation that it lives."""
    cluster = met(3)
    before = seen(cluster.nodes[0], 3).incarnation
    silence(cluster, 3)
    for node in cluster.nodes:
        node.configure(collects_dead=False)
    cluster.until(lambda: status(cluster.nodes[0], 3) == Status.DEAD)
    cluster.cuts.clear()
    cluster.until(lambda: all(status(node, 3) == Status.ALIVE for node in cluster.nodes))
    assert seen(cluster.nodes[0], 3).incarnation >= before


def test_a_message_of_the_member_itself_is_proof_of_life() -> None:
    """A ping of a dead member makes it alive, though its incarnation is the old one."""
    cluster = met(2)
    one, two = cluster.nodes
    one.configure(collects_dead=False)
    silence(cluster, 2)
    cluster.until(lambda: status(one, 2) == Status.DEAD)
    cluster.cuts.clear()
    two.probe([Address(HOST, 1)])
    cluster.run(0.01)
    assert status(one, 2) == Status.ALIVE


@pytest.mark.parametrize("loss", [0.1, 0.3])
def test_lost_packets_kill_nobody_for_good(loss: float) -> None:
    """On a network that loses packets the members still find each other again and again."""
    cluster = met(5, seed=7)
    cluster.loss = loss
    cluster.run(100)
    cluster.loss = 0
    for node in cluster.nodes[1:]:
        node.probe([Address(HOST, 1)])
    cluster.until(lambda: cluster.are_met(5))
    cluster.until(lambda: all(m.status == Status.ALIVE for node in cluster.nodes for m in node.members))


def test_quit() -> None:
    """Who quits is left for all at once, and forgotten when all were told."""
    cluster = met(5)
    cluster.nodes[4].quit()
    cluster.run(0.01)
    assert {status(node, 5) for node in cluster.nodes[:4]} == {Status.LEFT}
    cluster.until(lambda: all(status(node, 5) is None for node in cluster.nodes[:4]))
    cluster.run(60)
    assert all(status(node, 5) is None for node in cluster.nodes[:4])


def test_a_quit_of_before_a_restart_is_ignored() -> None:
    """A member that has a greater incarnation than a QUIT says stays; one of its own uuid it refutes."""
    cluster = met(2)
    one, two = cluster.nodes
    two.set_payload(b"new")
    cluster.until(lambda: seen(one, 2).payload == b"new")
    ghost = cluster.add(3, uuid_of(2))
    ghost.members.add(Member(uuid_of(1), Address(HOST, 1), Status.ALIVE, Incarnation()))
    ghost.members.add(Member(uuid_of(9), Address(HOST, 2), Status.ALIVE, Incarnation()))
    ghost.quit()
    cluster.run(0.01)
    assert status(one, 2) == Status.ALIVE
    late = cluster.add(3, uuid_of(2), generation=5)
    late.members.add(Member(uuid_of(9), Address(HOST, 2), Status.ALIVE, Incarnation()))
    late.quit()
    cluster.run(0.01)
    assert two.own is not None
    assert two.own.incarnation == Incarnation(5, 1)


def test_a_restart_with_an_older_generation() -> None:
    """A member that starts again learns from others what incarnation it had."""
    cluster = met(3)
    cluster.nodes[2].set_payload(b"x")
    cluster.until(lambda: all(seen(node, 3).payload == b"x" for node in cluster.nodes))
    before = seen(cluster.nodes[0], 3).incarnation
    cluster.nodes[2].close()
    again = cluster.nodes[2] = cluster.add(3)
    again.probe([Address(HOST, 1)])
    cluster.until(lambda: again.own is not None and again.own.incarnation >= before)
    again.set_payload(b"y")
    cluster.until(lambda: all(seen(node, 3).payload == b"y" for node in cluster.nodes))


def test_a_restart_with_a_greater_generation_elsewhere() -> None:
    """A greater generation wins at once, with a new address."""
    cluster = met(3)
    cluster.nodes[2].close()
    again = cluster.nodes[2] = cluster.add(33, uuid_of(3), generation=1)
    again.probe([Address(HOST, 1)])
    cluster.until(
        lambda: all(seen(node, 3).address.port == 33 for node in cluster.nodes if status(node, 3) is not None)
    )
    cluster.until(lambda: cluster.are_met(3))
    assert all(seen(node, 3).incarnation.generation == 1 for node in cluster.nodes)


def test_an_old_ping_is_ignored() -> None:
    """A message with an older incarnation than the known one has no effect and no answer."""
    cluster = met(2)
    one = cluster.nodes[0]
    seen(one, 2).incarnation = Incarnation(9, 9)
    seen(one, 2).status = Status.DEAD
    cluster.nodes[1].probe([Address(HOST, 1)])
    cluster.run(0.0015)
    assert status(one, 2) == Status.DEAD


def test_times_take_effect_at_once() -> None:
    """A shorter heartbeat does not wait for the end of the longer one; times that are not positive change nothing."""
    cluster = met(2)
    one = cluster.nodes[0]
    one.configure(heartbeat_rate=1000)
    cluster.run(0.1)
    one.configure(heartbeat_rate=0.01, ack_timeout=-1)
    before = cluster.packets
    cluster.run(1)
    assert cluster.packets - before > 50
    one.configure(heartbeat_rate=float("nan"), ack_timeout=float("inf"))
    assert (one.heartbeat_rate, one.ack_timeout) == (0.01, float("inf"))


def test_refused_calls() -> None:
    """Wrong calls change nothing and say why, in Tarantool's words."""
    cluster = Cluster(1)
    (one,) = cluster.nodes
    calls = {
        "swim.add_member: URI and UUID are mandatory": lambda: one.add_member(None, uuid_of(2)),
        "swim.add_member: a member with such UUID already exists": lambda: one.add_member(Address(1, 1), uuid_of(1)),
        "swim.remove_member: UUID is mandatory": lambda: one.remove_member(bytes(16)),
        "swim.remove_member: can not remove self": lambda: one.remove_member(uuid_of(1)),
        "Payload should be <= 1200 and >= 0": lambda: one.set_payload(bytes(1201)),
    }
    for text, call in calls.items():
        with pytest.raises(BoxError, match=text):
            call()
    one.remove_member(uuid_of(5))
    assert len(one.members) == 1


def test_a_member_of_a_taken_uuid() -> None:
    """The uuid of another member is refused; a new one leaves the old one behind, which has left."""
    cluster = met(3)
    one = cluster.nodes[0]
    one.set_payload(b"p")
    with pytest.raises(BoxError, match=r"swim.cfg: a member with such UUID already exists"):
        one.configure(uuid=uuid_of(2))
    one.configure(uuid=uuid_of(7))
    cluster.until(lambda: all(status(node, 7) == Status.ALIVE and status(node, 1) is None for node in cluster.nodes))
    assert [len(node.members) for node in cluster.nodes] == [3, 3, 3]
    cluster.until(lambda: all(seen(node, 7).payload == b"p" for node in cluster.nodes))


def test_closing() -> None:
    """A closed member does nothing more, and its table is dropped."""
    cluster = met(2)
    one = cluster.nodes[0]
    known = list(one.members)
    one.close()
    before = cluster.packets
    cluster.nodes[1].close()
    cluster.run(100)
    assert cluster.packets == before
    assert all(member.is_dropped for member in known)


def test_a_ghost_at_the_address_of_another() -> None:
    """A member that is gone, at whose address another one answers, makes nobody ping without an end."""
    cluster = met(3)
    for node in cluster.nodes[:2]:
        node.configure(collects_dead=False)
        node.add_member(Address(HOST, 3), uuid_of(9))
    before = cluster.packets
    cluster.run(10)
    assert cluster.packets - before < 400


def test_equal_seeds_give_equal_runs() -> None:
    """Nothing but the injected clock and random source decides."""

    def run() -> tuple[int, list[list[tuple[bytes, Incarnation]]]]:
        cluster = met(5, seed=3)
        cluster.loss = 0.2
        cluster.run(30)
        return cluster.packets, [[(m.uuid, m.incarnation) for m in node.members] for node in cluster.nodes]

    assert run() == run()


def test_first_configuration_needs_everything() -> None:
    cluster = Cluster(1)
    node = Protocol(cluster.sockets[1], cluster.clock, cluster.random)
    for address, uuid in ((None, uuid_of(1)), (Address(HOST, 5), None), (Address(HOST, 5), bytes(16))):
        with pytest.raises(BoxError, match="UUID and URI are mandatory in a first config"):
            node.configure(address, uuid)
    assert node.own is None
