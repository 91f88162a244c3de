"""A client of the admin console's text protocol."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

from console.suite.script import wire_command

GREETING_SIZE = 128
"""The bytes before the first answer: two lines of 64."""
END_OF_REPLY = b"\n...\n"
"""The end of a YAML document, which ends each answer of a text console."""
_ANSWER_MAX = 1 << 26
"""The bytes that an answer may have, which is read as a whole; asyncio's limit is 64 KB."""
Address = Path | tuple[str, int]


class WireError(Exception):
    """Raised if the other side is not an admin console."""


class ConsoleClient:
    """A connection to a node's admin console.

    A reply is the text up to and including the line `...`; an empty text means that the node has gone.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.is_open = True

    @classmethod
    async def connect(cls, address: Address) -> ConsoleClient:
        """Connect. Raises OSError if nobody listens, WireError after a wrong greeting."""
        if isinstance(address, Path):
            reader, writer = await asyncio.open_unix_connection(str(address), limit=_ANSWER_MAX)
        else:
            reader, writer = await asyncio.open_connection(*address, limit=_ANSWER_MAX)
        client = cls(reader, writer)
        try:
            await client._begin(address)
        except BaseException:  # also if the node does not answer before the caller's time is over
            client.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
            raise
        return client

    async def _begin(self, address: Address) -> None:
        try:
            greeting = await self._reader.readexactly(GREETING_SIZE)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise WireError(f"no greeting from {address}") from error
        if not (greeting.startswith(b"Tarantool") and b"console" in greeting):
            raise WireError(f"not a console at {address}: {greeting!r}")
        await self.execute("\\set language lua")

    async def execute(self, command: str) -> str:
        """Send a command and return its reply."""
        try:
            self._writer.write(wire_command(command))
            await self._writer.drain()
            reply = await self._reader.readuntil(END_OF_REPLY)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.close()
            return ""
        return reply.decode(errors="surrogateescape")

    def close(self) -> None:
        self.is_open = False
        self._writer.close()

    async def wait_closed(self) -> None:
        with suppress(ConnectionError):
            await self._writer.wait_closed()
