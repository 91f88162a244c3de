"""Every record once (RFC 3294): the decision whose rows are fetched from whom, without sockets and clocks.

A member is an id of `_cluster` other than this instance's own, a source a connected peer whose rows are fetched here.

```
case                                                         who gives the rows
1  a member that is a source                                 itself
2  another member, given by a source that is still here      that source, as long as 3 knows nothing better
3  another member, and sources are known to have rows        of those sources one that gives everything (5, 6), else
   of it that are not here                                   the one that gives the fewest; the first of equals, by id
4  another member, and no such source is known               the same among all sources
5  a source that has to be asked for everything              it gives the rows of all members, besides 1
6  an elected leader that is a source                        the same: only what it sends is applied
7  no source                                                 nobody
```

3 over 2 is what ends the case of two instances that ask each other for the rows of a third one: acknowledgements tell
who has them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from uuid import UUID

from box.wire.vclock import VClock

Assignment = dict[UUID, frozenset[int]]
"""Members whose rows are fetched, by the source."""


@dataclass(frozen=True, slots=True)
class FetchSource:
    """A connected peer. `id` is 0 while it is no member, `vclock` the last that is known of it."""

    uuid: UUID
    id: int
    vclock: VClock
    gives_everything: bool = False


@dataclass(frozen=True, slots=True)
class FetchList:
    """Everything that one SUBSCRIBE asks for: the instances whose rows are wanted, and as `left_out` the ids of the
    others, for peers that do not know such lists."""

    ids: frozenset[int]
    uuids: frozenset[UUID]
    left_out: frozenset[int]


def assign(
    members: Iterable[int], sources: Iterable[FetchSource], here: VClock, before: Assignment, leader_id: int = 0
) -> Assignment:
    """Assign every member to a source; see the table. `here` is the own vclock, `before` the assignment until now."""
    members = frozenset(members)
    ordered = sorted(sources, key=lambda source: (source.id, source.uuid))
    if not ordered:
        return {}
    full = [source.uuid for source in ordered if source.gives_everything or source.id == leader_id != 0]
    found = {source.uuid: {source.id} & members for source in ordered}
    for member in sorted(members - {source.id for source in ordered}):
        ahead = [source.uuid for source in ordered if source.vclock[member] > here[member]]
        candidates = ahead or list(found)
        former = [uuid for uuid in candidates if member in before.get(uuid, ())]
        giver = next(chain((uuid for uuid in candidates if uuid in full), former), None)
        found[giver or min(candidates, key=lambda uuid: len(found[uuid]))].add(member)
    return {uuid: members if uuid in full else frozenset(given) for uuid, given in found.items()}


def affected(members: Collection[int], wanted: Assignment, asked: Mapping[UUID, frozenset[int] | None]) -> list[UUID]:
    """The sources that have to be asked anew.

    `asked` tells what the running subscriptions have asked for, None: everything. Those that lack something come first;
    what is too much is given up only when somebody else gives it.
    """
    everything = frozenset(members)
    given = {uuid: everything if ids is None else ids & everything for uuid, ids in asked.items()}
    lacking = [uuid for uuid, ids in given.items() if wanted.get(uuid, frozenset()) - ids]
    if lacking:
        return lacking
    safe = [given[uuid] & ids for uuid, ids in wanted.items() if uuid in given]
    held: frozenset[int] = frozenset().union(*safe) if safe else frozenset()
    return [uuid for uuid, ids in given.items() if (extra := ids - wanted.get(uuid, frozenset())) and extra <= held]
