"""News that the cluster still has to get: members that have changed lately, the oldest news first."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, log2

from box.swim.members import Member


class Gossip:
    """Members with news. The news of a member is sent a number of times that grows with the logarithm of the cluster's
    size. That is enough to reach all members, and leaves room in the packets.
    """

    def __init__(self) -> None:
        self._members: dict[Member, None] = {}

    def __len__(self) -> int:
        return len(self._members)

    def add(self, member: Member, size: int) -> None:
        """Begin to spread the state of a member in a cluster of `size` members."""
        self._members.setdefault(member)
        member.status_ttd = ceil(log2(max(size, 1))) + 1

    def remove(self, member: Member) -> None:
        """Stop spreading news about a member."""
        self._members.pop(member, None)

    def news(self) -> Iterator[tuple[Member, bool]]:
        """Yield the members with news, each with True if its payload is news as well."""
        for member in self._members:
            yield member, member.payload_ttd > 0

    def told(self) -> list[Member]:
        """Count one packet with all the news. Returns the members whose news has been sent often enough."""
        finished = []
        for member in self._members:
            member.payload_ttd = max(member.payload_ttd - 1, 0)
            member.status_ttd -= 1
            if member.status_ttd <= 0:
                finished.append(member)
        for member in finished:
            del self._members[member]
        return finished
