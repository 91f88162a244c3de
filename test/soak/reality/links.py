"""Links between nodes: each node follows each other node over a proxy of its own, which can be cut in either direction.

```
cut      the proxy holds back bytes and ends of streams; new connections are made when the link is mended
mended   the proxy passes on what it held back, or breaks the connection: chance decides, as in the simulation
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
"""The probability that the connections of a link break when it is mended."""


class Link(Proxy):
    """A proxy from a follower to its source. `forward` and `backward` are set while that direction is open."""

    def __init__(self, path: str, target: str) -> None:
        super().__init__(path, target)
        self.forward = asyncio.Event()
        self.backward = asyncio.Event()
        self.forward.set()
        self.backward.set()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self.forward.wait()
        await self.backward.wait()
        await super()._connect(reader, writer)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_backward: bool) -> None:
        gate = self.backward if is_backward else self.forward
        with suppress(OSError):
            while data := await reader.read(65536):
                await gate.wait()
                writer.write(data)
                self.forwarded += 1
                await writer.drain()
        await gate.wait()


class Links:
    """The proxies between all pairs of nodes; cuts, mends and breaks them as a network may."""

    def __init__(self, directory: Path, uris: dict[str, str], random: Random) -> None:
        self._random = random
        self._names = list(uris)
        self._links = {
            (follower, source): Link(f"{directory}/{follower}-{source}.sock", uris[source])
            for follower, source in permutations(uris, 2)
        }

    async def open(self) -> None:
        """Start to listen on all proxies."""
        for link in self._links.values():
            await link.start()

    async def close(self) -> None:
        """Stop all proxies and break their connections."""
        for link in self._links.values():
            await link.stop()

    def uri(self, follower: str, source: str) -> str:
        """Return the URI of the proxy over which `follower` reaches `source`."""
        return self._links[follower, source].uri

    def sources(self, follower: str) -> list[str]:
        """Return the URIs of the proxies over which `follower` reaches all other nodes."""
        return [link.uri for (one, _), link in self._links.items() if one == follower]

    def cut(self, source: str, target: str) -> None:
        """Hold back what `source` sends to `target`, on the connections of both."""
        for _, gate in self._gates(source, target):
            gate.clear()

    def mend(self, source: str, target: str) -> None:
        """Open the direction from `source` to `target` again; half of the mended links break their connections."""
        for link, gate in self._gates(source, target):
            if not gate.is_set():
                gate.set()
                if self._random.random() < _BROKEN:
                    link.cut()

    def _gates(self, source: str, target: str) -> list[tuple[Link, asyncio.Event]]:
        if source == target:
            return []
        there, here = self._links[source, target], self._links[target, source]
        return [(there, there.forward), (here, here.backward)]

    def isolate(self, name: str) -> None:
        """Cut all links from and to a node."""
        for other in self._names:
            self.cut(name, other)
            self.cut(other, name)

    def rejoin(self, name: str) -> None:
        """Mend all links from and to a node."""
        for other in self._names:
            self.mend(name, other)
            self.mend(other, name)

    def heal(self) -> None:
        """Mend all links of the cluster."""
        for name in self._names:
            self.rejoin(name)

    def reset_connections(self, name: str) -> None:
        """Break all connections of a node."""
        for ends, link in self._links.items():
            if name in ends:
                link.cut()
