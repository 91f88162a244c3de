"""Follows a running node as an anonymous replica, in a thread with its own event loop.

The thread connects, reads `_schema`, `_vspace` and `_vindex`, and subscribes. It collects whole transactions in a list,
from which the stream takes them. While the list is full, the thread does not read, so the node waits. The
acknowledgements that a node expects have an empty vclock: a stream is no backup and counts for no quorum of synchronous
transactions.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from typing import Final
from uuid import uuid4

from box.errors import BoxError, ErrorCode, timed_out
from box.net.dial import connect
from box.net.peer_connection import PeerConnection
from box.net.sockets import SocketNetwork
from box.spark.node_facts import NodeFacts, ask_facts
from box.wire.error import raise_if_error
from box.wire.messages import decode_replication, subscribe_row, vclock_row
from box.wire.row import Row
from box.wire.vclock import VClock

_ACK_SECONDS: Final = 1.0
"""Seconds between two acknowledgements; a node waits four times its `replication_timeout` for one."""
_MAX_BYTES: Final = 64 << 20
"""The bytes of collected transactions above which the thread stops reading."""
_PAUSE: Final = 0.005
"""Seconds between two checks whether the list has room."""
_BEGIN_SECONDS: Final = 30.0
"""Further seconds, after `timeout`, for connection and subscription together."""


class ReplicaThread:
    """A thread that follows a node from `since` on until it is closed or the connection ends; `error` is the reason
    then."""

    def __init__(self, uri: str, since: VClock, timeout: float) -> None:
        self._uri = uri
        self._since = since.without_zero()
        self._timeout = timeout
        self._lock = threading.Lock()
        self._transactions: deque[list[Row]] = deque()
        self._bytes = 0
        self._open: list[Row] = []
        self._begun = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._task: asyncio.Task[None] | None = None
        self.facts: NodeFacts | None = None
        self.error: BoxError | None = None
        self.count = 0
        """The number of transactions that have come."""
        self._thread = threading.Thread(target=self._run, name="box-stream", daemon=True)
        self._thread.start()

    def wait_begun(self) -> NodeFacts:
        """Wait for the subscription; return the facts of the node.

        Raises:
            BoxError: the error of the connection or of the subscription, or TIMEOUT.
        """
        if not self._begun.wait(self._timeout + _BEGIN_SECONDS):
            raise timed_out()
        if self.facts is None:
            raise self.error or timed_out()
        return self.facts

    def transactions(self) -> list[list[Row]]:
        """Return the transactions that have come and were not dropped."""
        with self._lock:
            return list(self._transactions)

    def drop_until(self, vclock: VClock) -> None:
        """Drop the transactions up to a position."""
        with self._lock:
            waiting = self._transactions
            while waiting and all(row.lsn <= vclock[row.replica_id] for row in waiting[0]):
                self._bytes -= _size(waiting.popleft())

    def close(self) -> None:
        """Close the connection and end the thread."""
        with contextlib.suppress(RuntimeError):  # the thread has ended by itself, and closed its loop
            self._loop.call_soon_threadsafe(self._cancel)
        self._thread.join()

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    # -- in the thread --------------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._task = self._loop.create_task(self._follow())
        try:
            self._loop.run_until_complete(self._task)
        except asyncio.CancelledError:
            pass
        except BoxError as error:
            self.error = error
        except Exception as error:  # a bug: the query fails instead of waiting forever
            self.error = BoxError(ErrorCode.UNKNOWN, f"{type(error).__name__}: {error}")
        finally:
            self._loop.close()
            self._begun.set()

    async def _follow(self) -> None:
        connection = await connect(
            self._loop, SocketNetwork(self._loop), self._uri, timeout=self._timeout, keeps_rows=True
        )
        try:
            facts = await ask_facts(connection, self._timeout)
            connection.write_rows([subscribe_row(facts.replicaset, uuid4(), self._since, anon=True)])
            answer = await connection.read_row(self._timeout)
            raise_if_error(answer)
            facts.vclock = decode_replication(answer).vclock or VClock()
            self.facts = facts
            self._begun.set()
            acks = self._loop.create_task(self._acknowledge(connection))
            try:
                await self._read(connection)
            finally:
                acks.cancel()
        finally:
            connection.close()

    async def _acknowledge(self, connection: PeerConnection) -> None:
        while True:
            connection.write_rows([vclock_row(VClock())])
            await connection.drain()
            await asyncio.sleep(_ACK_SECONDS)

    async def _read(self, connection: PeerConnection) -> None:
        while True:
            rows = await connection.read_rows()
            for row in rows:
                raise_if_error(row)
                if row.lsn:
                    self._add(row)
            while self._bytes > _MAX_BYTES:  # noqa: ASYNC110 - another thread takes them, so there is no event
                await asyncio.sleep(_PAUSE)

    def _add(self, row: Row) -> None:
        self._open.append(row)
        if row.is_commit:
            transaction, self._open = self._open, []
            with self._lock:
                self._transactions.append(transaction)
                self._bytes += _size(transaction)
                self.count += 1


def _size(transaction: list[Row]) -> int:
    # 100 is about the size of a row without its body, so that rows with small bodies count, too.
    return sum(100 + len(row.body) for row in transaction)
