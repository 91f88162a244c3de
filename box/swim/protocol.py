"""A member of a cluster: the state machine of SWIM, over a transport, a clock and a random source.

```
state          no acknowledgement of ...       a message of the member, or
                                               news of a greater incarnation
alive       -> suspected after 2 pings         alive
suspected   -> dead after 3 more               alive
dead        -> forgotten after 2 more, when all members were told, if `collects_dead`
left        -> forgotten when all members were told
```

A step of a round, each `heartbeat_rate` seconds, sends one packet to one member: a ping, the latest news and a part of
the member table. A member that does not answer within `ack_timeout` is pinged again; a suspected one over two other
members, too.

A fact about a member wins with a greater incarnation, in equal incarnations with a greater status. A member that hears
of its own death answers with a greater incarnation. One that is new to this node is pinged before it is believed to
live. Facts: Tarantool 2.8.1. Two things are otherwise there: its timer for late acknowledgements begins anew with each
ping, so that no member is suspected while others are pinged more often than `ack_timeout`, and each mention of a
stranger is a ping, so that two nodes may ping each other without a pause because of a third one that is gone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Final
from typing import Protocol as Interface

from box.errors import BoxError, ErrorCode
from box.swim.decoding import (
    Body,
    BodyKey,
    Detection,
    MessageKind,
    PacketError,
    PacketMeta,
    Quit,
    decode_body,
    decode_meta,
)
from box.swim.detector import Alarm, AwaitedAcks, TimeSource
from box.swim.encoding import Packet, forwarded
from box.swim.gossip import Gossip
from box.swim.members import (
    MAX_PAYLOAD,
    NIL_UUID,
    Address,
    Description,
    Incarnation,
    Member,
    MemberEvent,
    Members,
    Status,
    incarnation_change,
)

HEARTBEAT_RATE: Final = 1.0
ACK_TIMEOUT: Final = 30.0
"""The default times in seconds."""
_MISSED_TO_SUSPECT: Final = 2
_MISSED_TO_DIE: Final = 3
_MISSED_TO_FORGET: Final = 2
_INDIRECT_PINGS: Final = 2
"""The number of other members over which a suspected one is pinged. Such a ping takes two hops in each direction."""

_MOST_PROBES: Final = 1000
"""The most unknown addresses that are pinged in a heartbeat: forged packets must not make this node flood others."""


class Transport(Interface):
    """Sends packets."""

    def bind(self, address: Address) -> Address:
        """Receive at an address; port 0 is any. Returns the address with its port. Raises `BoxError`."""

    def send(self, data: bytes, address: Address) -> bool:
        """Send a packet. Returns False if that is impossible."""

    def close(self) -> None:
        """Receive nothing more, and close when what was sent is on its way."""


def swim_error(text: str) -> BoxError:
    """Return an error of Tarantool's family SwimError."""
    return BoxError(ErrorCode.PROC_LUA, text, type="SwimError")


class Protocol:
    """This member of the cluster, and its knowledge of the others.

    `on_pending` is called when there is an event for listeners, which `next_event` returns. `on_problem` gets a text
    for the log. `tells_all()` is False while packets shall have no more than failure detection.
    """

    def __init__(
        self,
        transport: Transport,
        clock: TimeSource,
        random: Random,
        generation: int = 0,
        *,
        on_pending: Callable[[], None] = lambda: None,
        on_problem: Callable[[str], None] = lambda _: None,
        tells_all: Callable[[], bool] = lambda: True,
    ) -> None:
        self._transport = transport
        self._on_pending = on_pending
        self._on_problem = on_problem
        self._tells_all = tells_all
        self._generation = generation
        self.own: Member | None = None
        """This member, None before the first `configure`."""
        self.members = Members(random)
        self.heartbeat_rate = HEARTBEAT_RATE
        self.ack_timeout = ACK_TIMEOUT
        self.collects_dead = True
        self.has_listeners = False
        self._clock = clock
        self._probed: set[Address] = set()
        self._probing_since = float("-inf")
        """The time since which the addresses in `_probed` were pinged."""
        self._gossip = Gossip()
        self._pending: deque[Member] = deque()
        self._heartbeat = Alarm(clock, self._step)
        self._acks = AwaitedAcks(clock, self._check_acks)

    # ---- what users do ----

    def configure(
        self,
        address: Address | None = None,
        uuid: bytes | None = None,
        *,
        heartbeat_rate: float = 0,
        ack_timeout: float = 0,
        collects_dead: bool | None = None,
    ) -> None:
        """Join the cluster, or change options. A time that is not positive stays as it was.

        Raises:
            BoxError: the first call lacks the address or the uuid, the uuid belongs to another member, or the address
                cannot be bound.
        """
        uuid = None if uuid == NIL_UUID else uuid
        old = self.own
        if old is None:
            if uuid is None or address is None:
                raise swim_error("swim.cfg: UUID and URI are mandatory in a first config")
        elif uuid is not None and uuid != old.uuid and self.members.get(uuid) is not None:
            raise swim_error("swim.cfg: a member with such UUID already exists")
        bound = self._transport.bind(address) if address is not None else None
        if uuid is not None and (old is None or uuid != old.uuid):
            self._take_uuid(uuid, address)
        self._set_times(heartbeat_rate, ack_timeout)
        own = self._self
        if bound is not None and bound != own.address:
            own.incarnation = own.incarnation.next()
            own.address = bound
            self._changed(own, MemberEvent.NEW_VERSION | MemberEvent.NEW_URI)
        if collects_dead is not None:
            self.collects_dead = collects_dead

    def _take_uuid(self, uuid: bytes, address: Address | None) -> None:
        """Become the member with this uuid. The member that this node was before leaves the cluster."""
        old = self.own
        if old is None:
            assert address is not None  # `configure` has checked it
            self.own = self._add(uuid, address, Status.ALIVE, Incarnation(self._generation, 0), b"")
            return
        self.own = self._add(uuid, old.address, Status.ALIVE, old.incarnation, old.payload)
        old.status = Status.LEFT
        self._changed(old, MemberEvent.NEW_STATUS)

    def _set_times(self, heartbeat_rate: float, ack_timeout: float) -> None:
        if heartbeat_rate > 0 and heartbeat_rate != self.heartbeat_rate:
            self.heartbeat_rate = heartbeat_rate
            if self._heartbeat.is_set:
                self._heartbeat.set(heartbeat_rate)
        if ack_timeout > 0:
            self.ack_timeout = ack_timeout

    @property
    def _self(self) -> Member:
        assert self.own is not None  # only a configured member gets here
        return self.own

    def add_member(self, address: Address | None, uuid: bytes | None) -> None:
        """Add a member by hand.

        Raises:
            BoxError: the address or the uuid is missing, or the member is known already.
        """
        if address is None or uuid is None or uuid == NIL_UUID:
            raise swim_error("swim.add_member: URI and UUID are mandatory")
        if self.members.get(uuid) is not None:
            raise swim_error("swim.add_member: a member with such UUID already exists")
        self._add(uuid, address, Status.ALIVE, Incarnation(), None)

    def remove_member(self, uuid: bytes | None) -> None:
        """Forget a member without telling the others. Does nothing for an unknown member.

        Raises:
            BoxError: the uuid is missing, or it is this member's own.
        """
        if uuid is None or uuid == NIL_UUID:
            raise swim_error("swim.remove_member: UUID is mandatory")
        member = self.members.get(uuid)
        if member is self._self:
            raise swim_error("swim.remove_member: can not remove self")
        if member is not None:
            self._drop(member)

    def probe(self, addresses: list[Address]) -> None:
        """Ping these addresses. Nodes that answer become members."""
        for address in addresses:
            self._send(MessageKind.PING, address)

    def set_payload(self, payload: bytes, size: int | None = None) -> None:
        """Set the payload that other members get. A caller that knows the size to be wrong passes only the size.

        Raises:
            BoxError: the payload is too long.
        """
        if not 0 <= (len(payload) if size is None else size) <= MAX_PAYLOAD:
            text = f"Payload should be <= {MAX_PAYLOAD} and >= 0"
            raise BoxError(ErrorCode.PROC_LUA, text, type="IllegalParams")
        own = self._self
        self._set_payload(own, payload)
        own.incarnation = own.incarnation.next()
        self._changed(own, MemberEvent.NEW_VERSION)

    def quit(self) -> None:
        """Tell all members that this one leaves, and close."""
        own = self._self
        own.status = Status.LEFT
        packet = Packet(own.address)
        packet.add_sender(own.uuid)
        packet.add_quit(own.incarnation)
        data = packet.to_bytes()
        self.members.plan_round(own)
        for member in self.members.round:
            self._transport.send(data, member.address)
        self.close()

    def close(self) -> None:
        """Leave the cluster without telling the others, and close the transport."""
        self._heartbeat.cancel()
        self._acks.close()
        self._transport.close()
        self._pending.clear()
        for member in self.members:
            member.is_dropped = True

    def next_event(self) -> tuple[Member, MemberEvent] | None:
        """Take the oldest event, or return None. Everything that has happened to a member meanwhile is one event."""
        while self._pending:
            member = self._pending.popleft()
            events, member.events = member.events, MemberEvent.NONE
            if not (events & MemberEvent.NEW and events & MemberEvent.DROP):  # nobody has seen it
                return member, events
        return None

    # ---- members ----

    def _changed(self, member: Member, events: MemberEvent) -> None:
        """Note that something has happened to a member, so that other members and listeners are told."""
        member.missed_acks = 0
        self._gossip.add(member, len(self.members))
        if self.has_listeners and events:
            is_first = not member.events
            member.events |= events
            if is_first:
                self._pending.append(member)
                self._on_pending()

    def _add(
        self, uuid: bytes, address: Address, status: Status, incarnation: Incarnation, payload: bytes | None
    ) -> Member:
        member = Member(uuid, address, status, incarnation)
        self.members.add(member)
        if len(self.members) > 1:
            self._heartbeat.set(self.heartbeat_rate)
        self._changed(member, MemberEvent.NEW)
        if payload is not None:
            self._set_payload(member, payload)
        return member

    def _drop(self, member: Member) -> None:
        self._acks.remove(member)
        self._changed(member, MemberEvent.DROP)
        self._gossip.remove(member)
        self.members.remove(member)

    def _set_payload(self, member: Member, payload: bytes) -> None:
        member.is_payload_current = True
        if payload or member.payload:  # two empty ones are no news
            member.payload = payload
            member.payload_ttd = len(self.members)
            self._changed(member, MemberEvent.NEW_PAYLOAD)

    def _advance(self, member: Member, status: Status, incarnation: Incarnation) -> None:
        """Apply what a packet says about another member, if it is newer than what is known."""
        events = incarnation_change(member.incarnation, incarnation)
        if incarnation < member.incarnation or (not events and status <= member.status):
            return
        if status != member.status:
            member.status = status
            events |= MemberEvent.NEW_STATUS
        member.incarnation = incarnation
        self._changed(member, events)

    # ---- sending ----

    def _send(self, kind: MessageKind, address: Address, over: Address | None = None) -> bool:
        """Send a ping or an acknowledgement, filled up with news and members; `over` another node if one is given."""
        own = self._self
        packet = Packet(own.address, None if over is None else (own.address, address))
        packet.add_sender(own.uuid)
        packet.add_detection(kind, own.incarnation)
        if self._tells_all():
            packet.add_members(BodyKey.DISSEMINATION, self._gossip.news())
            everyone = self.members.from_random_place()
            packet.add_members(BodyKey.ANTI_ENTROPY, ((member, True) for member in everyone))
        return self._transport.send(packet.to_bytes(), over or address)

    def _step(self) -> None:
        """Turn to the next member of the round."""
        turn = self.members.round
        if not turn:
            self.members.plan_round(self._self)
            turn = self.members.round
        if not turn:
            return  # there is nobody else; a new member sets the alarm
        member = turn.popleft()
        is_sent = self._send(MessageKind.PING, member.address)
        self._heartbeat.set(self.heartbeat_rate)
        if is_sent:
            self._acks.add(member, self.ack_timeout)
            for told in self._gossip.told():
                if told.status == Status.LEFT and told is not self.own:
                    self._drop(told)

    def _check_acks(self) -> None:
        for member in self._acks.take_late():
            member.missed_acks += 1
            if self._suspect(member) and self._send(MessageKind.PING, member.address):
                self._acks.add(member, self.ack_timeout)

    def _suspect(self, member: Member) -> bool:
        """Act on a missed acknowledgement. Returns whether to ping the member again."""
        missed = member.missed_acks
        match member.status:
            case Status.ALIVE if missed >= _MISSED_TO_SUSPECT:
                member.status = Status.SUSPECTED
                self._changed(member, MemberEvent.NEW_STATUS)
                self._ping_over_others(member)
            case Status.SUSPECTED if missed >= _MISSED_TO_DIE:
                member.status = Status.DEAD
                self._changed(member, MemberEvent.NEW_STATUS)
            case Status.DEAD if missed >= _MISSED_TO_FORGET and self.collects_dead and member.status_ttd == 0:
                self._drop(member)
                return False
            case Status.LEFT:
                return False
        return True

    def _ping_over_others(self, member: Member) -> None:
        others = [
            other
            for other in self.members.from_random_place()
            if other is not self.own and other.address != member.address
        ]
        for other in others[:_INDIRECT_PINGS]:
            if self._send(MessageKind.PING, member.address, over=other.address):
                self._acks.add(member, 2 * self.ack_timeout)

    # ---- receiving ----

    def receive(self, data: bytes) -> None:
        """Process a packet. A mistake in it is reported; the sections before the mistake count."""
        try:
            meta, position = decode_meta(data)
            own = self._self.address
            if meta.route is not None and meta.route[1] != own:
                self._forward(meta, data[position:])
                return
            body = decode_body(data, position)
        except PacketError as error:
            self._on_problem(f"SwimError: {error}")
            return
        self._act(meta, body)
        if body.problem is not None:
            self._on_problem(f"SwimError: {body.problem}")

    def _forward(self, meta: PacketMeta, body: bytes) -> None:
        assert meta.route is not None
        packet = forwarded(self._self.address, meta.route, body)
        if packet is None:
            self._on_problem("SwimError: a packet is too long to be forwarded")
        else:
            self._transport.send(packet, meta.route[1])

    def _act(self, meta: PacketMeta, body: Body) -> None:
        source, over = (meta.source, None) if meta.route is None else (meta.route[0], meta.source)
        for section in body.sections:
            if isinstance(section, Detection):
                self._on_detection(section, body.sender, source, over)
            elif isinstance(section, Quit):
                self._on_quit(body.sender, section.incarnation)
            else:
                for described in section:
                    self._on_description(described)

    def _on_detection(self, message: Detection, sender: bytes, source: Address, over: Address | None) -> None:
        described = Description(address=source, uuid=sender, incarnation=message.incarnation)
        member = self._on_description(described, is_direct=True)
        if member is None:
            return  # old: since then there was something newer from there
        if message.incarnation == member.incarnation and member.status != Status.ALIVE:
            member.status = Status.ALIVE
            self._changed(member, MemberEvent.NEW_STATUS)
        if message.kind == MessageKind.PING:
            self._send(MessageKind.ACK, member.address, over)
        else:
            member.missed_acks = 0
            self._acks.remove(member)

    def _on_description(self, described: Description, *, is_direct: bool = False) -> Member | None:
        """Take over what a packet says of a member; `is_direct` if it came from there. Returns the member, None if it
        is not known or newer than that.
        """
        member = self.members.get(described.uuid)
        if member is None:
            return self._on_stranger(described, is_direct=is_direct)
        if member is self.own:
            self._refute(member, described)
            return member
        if described.incarnation < member.incarnation:
            return None
        self._update(member, described)
        return member

    def _on_stranger(self, described: Description, *, is_direct: bool) -> Member | None:
        is_gone = described.status == Status.LEFT or (described.status == Status.DEAD and self.collects_dead)
        if is_gone:
            return None  # or the dead would return again and again with the tables of others
        if described.status != Status.DEAD and not is_direct:
            if self._may_probe(described.address):
                self._send(MessageKind.PING, described.address)
            return None
        return self._add(described.uuid, described.address, described.status, described.incarnation, described.payload)

    def _may_probe(self, address: Address) -> bool:
        """Return whether to ping an unknown member at this address. Once in a heartbeat is enough: if another node has
        the address now, each of its answers may mention the unknown member again.
        """
        now = self._clock.time()
        if now - self._probing_since >= self.heartbeat_rate:
            self._probing_since = now
            self._probed.clear()
        if address in self._probed or len(self._probed) >= _MOST_PROBES:
            return False
        self._probed.add(address)
        return True

    def _refute(self, own: Member, described: Description) -> None:
        """Correct what others say about this member. They may know a later incarnation from before a restart."""
        if described.incarnation > own.incarnation:
            events = incarnation_change(own.incarnation, described.incarnation)
            own.incarnation = described.incarnation
            self._changed(own, events)
        elif described.incarnation == own.incarnation and described.status != Status.ALIVE:
            own.incarnation = own.incarnation.next()
            self._changed(own, MemberEvent.NEW_VERSION)

    def _update(self, member: Member, described: Description) -> None:
        is_newer = described.incarnation > member.incarnation
        if is_newer and described.address != member.address:
            member.address = described.address
            self._changed(member, MemberEvent.NEW_URI)
        if is_newer:
            member.is_payload_current = False
        if described.payload is not None and not member.is_payload_current:
            self._set_payload(member, described.payload)
        self._advance(member, described.status, described.incarnation)

    def _on_quit(self, sender: bytes, incarnation: Incarnation) -> None:
        member = self.members.get(sender)
        if member is None:
            return
        if member is not self.own:
            self._advance(member, Status.LEFT, incarnation)
        elif incarnation >= member.incarnation:
            # Another node with the uuid of this member has left.
            events = incarnation_change(member.incarnation, incarnation)
            member.incarnation = incarnation.next()
            self._changed(member, events | MemberEvent.NEW_VERSION)
