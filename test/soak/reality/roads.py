"""The roads between nodes: each node follows each other one over a proxy of its own, which can be cut either way.

```
cut     what comes waits, ends of streams included; new connections come about when the way works again
mended  what has waited goes on, or the connection is broken: chance decides, as in the simulation
```
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Final

from test.unit.replication.cluster import Proxy

_BROKEN: Final = 0.5
"""The share of roads whose connections do not outlive a cut."""


class Road(Proxy):
    """The way from a follower to its source, and back."""

    def __init__(self, path: str, target: str) -> None:
        super().__init__(path, target)
        self.forth = asyncio.Event()
        self.back = asyncio.Event()
        self.forth.set()
        self.back.set()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self.forth.wait()
        await self.back.wait()
        await super()._connect(reader, writer)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_back: bool) -> None:
        gate = self.back if is_back else self.forth
        with suppress(OSError):
            while data := await reader.read(65536):
                await gate.wait()
                writer.write(data)
                self.forwarded += 1
                await writer.drain()
        await gate.wait()


class Roads:
    """All roads of a cluster, with what can happen to a network."""

    def __init__(self, directory: Path, uris: dict[str, str], random: Random) -> None:
        self._random = random
        self._names = list(uris)
        self._roads = {
            (follower, source): Road(f"{directory}/{follower}-{source}.sock", uris[source])
            for follower, source in permutations(uris, 2)
        }

    async def open(self) -> None:
        """Serve."""
        for road in self._roads.values():
            await road.start()

    async def close(self) -> None:
        """Break everything."""
        for road in self._roads.values():
            await road.stop()

    def uri(self, follower: str, source: str) -> str:
        """The URI by which a node reaches another one."""
        return self._roads[follower, source].uri

    def sources(self, follower: str) -> list[str]:
        """The URIs by which a node reaches the others."""
        return [road.uri for (one, _), road in self._roads.items() if one == follower]

    def cut(self, source: str, target: str) -> None:
        """What `source` sends does not reach `target` any more."""
        for _, gate in self._gates(source, target):
            gate.clear()

    def mend(self, source: str, target: str) -> None:
        """It does again."""
        for road, gate in self._gates(source, target):
            if not gate.is_set():
                gate.set()
                if self._random.random() < _BROKEN:
                    road.cut()

    def _gates(self, source: str, target: str) -> list[tuple[Road, asyncio.Event]]:
        if source == target:
            return []
        there, here = self._roads[source, target], self._roads[target, source]
        return [(there, there.forth), (here, here.back)]

    def isolate(self, name: str) -> None:
        """Cut all ways from and to a node."""
        for other in self._names:
            self.cut(name, other)
            self.cut(other, name)

    def rejoin(self, name: str) -> None:
        """Mend them."""
        for other in self._names:
            self.mend(name, other)
            self.mend(other, name)

    def heal(self) -> None:
        """Mend all ways."""
        for name in self._names:
            self.rejoin(name)

    def reset_connections(self, name: str) -> None:
        """Break all connections of a node."""
        for ends, road in self._roads.items():
            if name in ends:
                road.cut()
