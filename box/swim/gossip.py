"""What is still to be told to the cluster: members that have changed lately, the oldest news first."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, log2

from box.swim.members import Member


class Gossip:
    """Members with news. Each is told a number of times that grows with the logarithm of the cluster's size: that is
    enough to reach everybody, and leaves room in the packets.
    """

    def __init__(self) -> None:
        self._members: dict[Member, None] = {}

    def __len__(self) -> int:
        return len(self._members)

    def add(self, member: Member, size: int) -> None:
        """Tell the state of a member in a cluster of `size` members."""
        self._members.setdefault(member)
        member.status_ttd = ceil(log2(max(size, 1))) + 1

    def remove(self, member: Member) -> None:
        """Tell nothing more about a member."""
        self._members.pop(member, None)

    def news(self) -> Iterator[tuple[Member, bool]]:
        """Yield the members, and whether their payload is news."""
        for member in self._members:
            yield member, member.payload_ttd > 0

    def told(self) -> list[Member]:
        """Count one packet with news. Returns the members that need not be told any more."""
        finished = []
        for member in self._members:
            member.payload_ttd = max(member.payload_ttd - 1, 0)
            member.status_ttd -= 1
            if member.status_ttd <= 0:
                finished.append(member)
        for member in finished:
            del self._members[member]
        return finished
