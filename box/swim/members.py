"""The facts that a node knows about the members of its cluster."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from ipaddress import IPv4Address
from random import Random
from typing import Final, NamedTuple

UUID_SIZE: Final = 16
NIL_UUID: Final = bytes(UUID_SIZE)
MAX_PAYLOAD: Final = 1200
"""The most bytes of a payload: with it and the headers a packet still fits into a frame of Ethernet."""


class Address(NamedTuple):
    """An IPv4 address as a number, and a port."""

    ip: int
    port: int

    @property
    def is_empty(self) -> bool:
        """True if a part is missing, so that nothing can be sent there."""
        return self.ip == 0 or self.port == 0

    @property
    def host(self) -> str:
        """The address without the port: `127.0.0.1`."""
        return str(IPv4Address(self.ip))

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Incarnation(NamedTuple):
    """How new a fact about a member is; the greater one wins.

    `generation` is chosen at a start of the member, `version` grows with each change that it makes.
    """

    generation: int = 0
    version: int = 0

    def next(self) -> Incarnation:
        """Return the incarnation of the next change. It stays a number of 64 bits."""
        return Incarnation(self.generation, min(self.version + 1, 2**64 - 1))


NOWHERE: Final = Address(0, 0)
FIRST: Final = Incarnation()


class Status(IntEnum):
    """The state of a member; of two facts of one incarnation the one with the greater status wins."""

    ALIVE = 0
    SUSPECTED = 1
    DEAD = 2
    LEFT = 3


class MemberEvent(IntFlag):
    """The events that can happen to a member, with the numbers that triggers get."""

    NONE = 0
    NEW = 1
    NEW_STATUS = 2
    NEW_URI = 4
    NEW_GENERATION = 8
    NEW_VERSION = 16
    NEW_PAYLOAD = 32
    DROP = 64


def incarnation_change(old: Incarnation, new: Incarnation) -> MemberEvent:
    """Return the event for a changed incarnation. A new generation is always a new version, too."""
    if old == new:
        return MemberEvent.NONE
    is_generation = old.generation != new.generation
    return MemberEvent.NEW_VERSION | (MemberEvent.NEW_GENERATION if is_generation else MemberEvent.NONE)


@dataclass(slots=True)
class Description:
    """The description of a member in a packet; `payload` is None if the packet does not contain it."""

    status: Status = Status.ALIVE
    address: Address = NOWHERE
    uuid: bytes = NIL_UUID
    incarnation: Incarnation = FIRST
    payload: bytes | None = None


@dataclass(eq=False, slots=True)
class Member:
    """A member of the cluster. `uuid` has the bytes of `struct tt_uuid`, the leading numbers little-endian."""

    uuid: bytes
    address: Address
    status: Status
    incarnation: Incarnation
    payload: bytes = b""
    is_payload_current: bool = False
    """False if a newer incarnation is known whose payload is not: this one is not passed on then."""
    is_dropped: bool = False
    missed_acks: int = 0
    """How many pings in a row had no answer since the last news of this member."""
    status_ttd: int = 0
    payload_ttd: int = 0
    """How many more packets are to contain the state, and the payload."""
    events: MemberEvent = MemberEvent.NONE
    """The events that listeners have not been told yet."""
    ack_deadline: float | None = None
    """The time in seconds at which an awaited acknowledgement is late; None if none is awaited."""


class Members:
    """The members by uuid, and the order in which the current round turns to them."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._by_uuid: dict[bytes, Member] = {}
        self.round: deque[Member] = deque()
        """Members that have not had their turn in the current round."""

    def __len__(self) -> int:
        return len(self._by_uuid)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._by_uuid.values())

    def get(self, uuid: bytes) -> Member | None:
        """Return a member, None if it is not known."""
        return self._by_uuid.get(uuid)

    def add(self, member: Member) -> None:
        """Add a member. Its first turn is in the next round."""
        self._by_uuid[member.uuid] = member

    def remove(self, member: Member) -> None:
        """Forget a member."""
        member.is_dropped = True
        del self._by_uuid[member.uuid]
        if member in self.round:
            self.round.remove(member)

    def plan_round(self, own: Member) -> None:
        """Begin a round: all members but `own` in random order."""
        order = [member for member in self if member is not own]
        self._random.shuffle(order)
        self.round = deque(order)

    def from_random_place(self) -> list[Member]:
        """Return all members, beginning at a random one."""
        everyone = list(self)
        start = self._random.randrange(len(everyone))
        return everyone[start:] + everyone[:start]
