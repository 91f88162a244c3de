"""The TCP service that receives `test_run:cmd` commands from a test's nodes.

A request is one line, a reply one YAML document (until `...`); `error: text` reports a failure. Commands run one at a
time, in the order of arrival.
"""

from __future__ import annotations

import asyncio

from console.suite.session import EXPECTED_ERRORS, TestSession, reply_text

HOST = "127.0.0.1"


class Inspector:
    """Serves commands. `address` is known after start(); commands are refused until `session` is set."""

    def __init__(self) -> None:
        self.session: TestSession | None = None
        self._server: asyncio.Server | None = None
        self._busy = asyncio.Lock()
        self._clients: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> tuple[str, int]:
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()[:2]
        return str(host), int(port)

    async def start(self) -> None:
        # A command is one line, for which asyncio's limit is 64 KB.
        self._server = await asyncio.start_server(self._serve, HOST, 0, limit=1 << 20)

    async def idle(self) -> None:
        """Wait until no command is running."""
        async with self._busy:
            return

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._clients:
            task.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._clients.add(task)
        try:
            while line := await reader.readline():
                async with self._busy:
                    reply = await self._answer(line.decode(errors="surrogateescape").strip())
                writer.write(reply.encode(errors="surrogateescape"))
                await writer.drain()
        except (ConnectionError, ValueError, asyncio.CancelledError):
            pass
        finally:
            self._clients.discard(task)
            writer.close()

    async def _answer(self, text: str) -> str:
        if self.session is None:
            return reply_text({"error": "no test is running"})
        try:
            return reply_text(await self.session.carry_out(text))
        except EXPECTED_ERRORS as error:
            return reply_text({"error": str(error)})
