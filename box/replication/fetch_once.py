"""Fetching every row once (RFC 3294): assigns each origin to a source, without sockets and clocks.

A member is an id of `_cluster` other than this instance's own. A source is a connected peer whose rows are fetched.

```
case                                                         source of the rows
1  a member that is a source                                 itself
2  another member, assigned to a source that is still        that source, unless case 3 finds a better one
   connected
3  another member, and sources are known to have rows        of those sources one that sends everything (5, 6), else
   of it that are not here                                   the one with the fewest members; of equals the first by id
4  another member, and no such source is known               chosen as in case 3, among all sources
5  a source that has to be asked for everything              sends the rows of all members; case 1 holds as well
6  an elected leader that is a source                        as case 5: only the rows that it sends are applied
7  no source                                                 none
```

Case 3 precedes case 2 for two instances that ask each other for the rows of a third one: acknowledgements show which
of them has these rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from uuid import UUID

from box.wire.vclock import VClock

Assignment = dict[UUID, frozenset[int]]
"""The ids of the members whose rows are fetched, by the uuid of their source."""


@dataclass(frozen=True, slots=True)
class FetchSource:
    """A connected peer. `id` is 0 while it is not a member, `vclock` the last known vclock of it."""

    uuid: UUID
    id: int
    vclock: VClock
    gives_everything: bool = False


@dataclass(frozen=True, slots=True)
class FetchList:
    """The origins that one SUBSCRIBE asks for.

    `ids` and `uuids` are the wanted members. `left_out` are the ids of the others, for peers that know only such a list
    (Tarantool).
    """

    ids: frozenset[int]
    uuids: frozenset[UUID]
    left_out: frozenset[int]


def assign(
    members: Iterable[int], sources: Iterable[FetchSource], here: VClock, before: Assignment, leader_id: int = 0
) -> Assignment:
    """Assign every member to a source by the table of this module.

    `here` is this instance's vclock, `before` the present assignment, `leader_id` the elected leader, 0 for none.
    """
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
    """Return the sources to which the instance has to subscribe again.

    `asked` has the ids that the running subscriptions asked for, None for everything. Sources whose subscription lacks
    a wanted member come first. If there are none, sources that send unwanted members follow, as soon as others send
    the rows of these members.
    """
    everything = frozenset(members)
    given = {uuid: everything if ids is None else ids & everything for uuid, ids in asked.items()}
    lacking = [uuid for uuid, ids in given.items() if wanted.get(uuid, frozenset()) - ids]
    if lacking:
        return lacking
    safe = [given[uuid] & ids for uuid, ids in wanted.items() if uuid in given]
    held: frozenset[int] = frozenset().union(*safe) if safe else frozenset()
    return [uuid for uuid, ids in given.items() if (extra := ids - wanted.get(uuid, frozenset())) and extra <= held]
