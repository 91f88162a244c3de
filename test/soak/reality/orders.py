"""Clients that insert rows at the leader, and the check of the final rows against the outcomes reported to them.

```
reported   must hold in the end
ok         all members have the row
refused    no member has the row
unknown    all or none: the process died, no answer came in time, or the error leaves it open (`ending_of`)
```
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from random import Random
from typing import Final

from box.data.codec import pack
from box.errors import BoxError, ErrorCode
from box.net.peer_connection import PeerConnection
from box.testing.simulation.history import Ending
from box.testing.simulation.workload import ending_of
from box.wire.constants import Key, RequestType
from box.wire.row import Row
from test.soak.reality.member import Member

SPACES: Final = {"orders": 512, "notes": 513}
"""Names and ids of the spaces that member.lua creates: `orders` is synchronous, `notes` is not."""
_PATIENCE: Final = 10.0
"""Seconds that a client waits for a reply."""
_PAUSES: Final = (0.0, 0.02, 0.1, 0.3)
"""Seconds between two calls."""
_LOST: Final = 0.1
"""Seconds that a client waits after a failed call before it tries another member."""
_SHOWN: Final = 8
"""The most keys that the text of a violation lists."""


class ReportedOutcomes:
    """The outcome of each insert, as it was reported to its client."""

    def __init__(self) -> None:
        self.endings: dict[str, dict[int, Ending]] = {space: {} for space in SPACES}
        self.calls: dict[int, str] = {}
        """For each key the member that it was sent to, and the error if there was one."""

    def note(self, space: str, key: int, ending: Ending, text: str) -> None:
        """Record the outcome of one insert; `text` says where it went and how it failed."""
        self.endings[space][key] = ending
        self.calls[key] = text

    def counts(self) -> Counter[str]:
        """Return the number of inserts by ending."""
        return Counter(ending.value for endings in self.endings.values() for ending in endings.values())

    def keys(self, space: str, *endings: Ending) -> set[int]:
        """Return the keys of a space whose inserts had one of these endings."""
        return {key for key, ending in self.endings[space].items() if ending in endings}

    def disagreements(
        self, rows: Mapping[str, Mapping[str, set[int]]], *, by_none_of: Collection[str] = ()
    ) -> Iterator[str]:
        """Yield a text for each contradiction between the outcomes and `rows`: keys by member, then by space.

        What members of `by_none_of` have answered is not checked.
        """
        unreliable = {key for key, text in self.calls.items() if text.partition(":")[0] in by_none_of}
        for space in SPACES:
            tables = {name: spaces[space] for name, spaces in rows.items()}
            everywhere, anywhere = set.intersection(*tables.values()), set.union(*tables.values())
            for name, table in tables.items():
                yield from self._about(f"{space}: {name} alone lacks", anywhere - table)
            acknowledged, refused = (self.keys(space, one) - unreliable for one in (Ending.OK, Ending.FAILED))
            yield from self._about(f"{space}: acknowledged, not everywhere", acknowledged - everywhere)
            yield from self._about(f"{space}: refused, and there", refused & anywhere)
            yield from self._about(f"{space}: nobody has sent", anywhere - self.endings[space].keys())

    def _about(self, what: str, keys: set[int]) -> Iterator[str]:
        if keys:
            shown = ", ".join(f"{key} ({self.calls.get(key, 'unsent')})" for key in sorted(keys)[:_SHOWN])
            yield f"{what}: {len(keys)} rows: {shown}"


class Client:
    """Inserts rows one by one at the member that it takes for the leader."""

    def __init__(self, members: Sequence[Member], spaces: Sequence[str], keys: count[int], random: Random) -> None:
        self._members = members
        self._spaces = spaces
        self._keys = keys
        self._random = random
        self._member = members[0]
        self._connection: PeerConnection | None = None

    async def run(self, reported: ReportedOutcomes, until: float) -> None:
        """Insert rows until the loop's clock shows `until`, and record each outcome in `reported`."""
        loop = asyncio.get_running_loop()
        try:
            while loop.time() < until:
                if not await self._call(reported):
                    self._leave()
                    leaders = [one for one in self._members if one.state.leads]
                    self._member = self._random.choice(leaders or self._members)
                    await asyncio.sleep(_LOST)
                await asyncio.sleep(self._random.choice(_PAUSES))
        finally:
            self._leave()

    async def _call(self, reported: ReportedOutcomes) -> bool:
        """Insert a row; return False if the client should look for another member."""
        member = self._member
        if self._connection is None:
            try:
                self._connection = await member.connect()
            except (BoxError, OSError):
                return False
        space, key = self._random.choice(self._spaces), next(self._keys)
        reported.note(space, key, Ending.UNKNOWN, f"{member.name}: under way")
        body = pack({int(Key.SPACE_ID): SPACES[space], int(Key.TUPLE): [key, member.name]})
        try:
            await self._connection.request(Row(RequestType.INSERT, body=body), timeout=_PATIENCE)
        except BoxError as error:
            ending = ending_of(error)
            reported.note(space, key, ending, f"{member.name}: {error}")
            return ending is Ending.FAILED and error.code != ErrorCode.READONLY
        reported.note(space, key, Ending.OK, member.name)
        return True

    def _leave(self) -> None:
        if self._connection is not None:
            with suppress(OSError):
                self._connection.close()
            self._connection = None
