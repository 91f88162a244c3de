"""Streams: requests of one connection that run one after the other and may share a transaction.

```
event                      condition                action
a request arrives          the stream is idle       the request runs at once
                           the stream is busy       it waits in the stream's queue, and counts as in flight
a request gets its reply   a transaction is open    it yields: without tuple versions it is undone, else its time counts
                           the queue is empty       a stream without a transaction is forgotten
the connection ends        the stream is idle       its transaction is rolled back
                           the stream is busy       the queue is served first, like requests outside of streams
```

A stream has one context, which keeps the transaction from request to request. Handlers reply to the stream in place of
the connection, so that it knows when a request has ended. Source: the protocol's reference document and the behaviour
of the 2.11 line.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from box.session import RequestContext
from box.txn.pending import Outcome, Pending

if TYPE_CHECKING:
    from box.errors import BoxError
    from box.index.long_read import LongRead
    from box.iproto.connection import ServerConnection
    from box.iproto.server import IprotoServer
    from box.session import Session
    from box.wire.row import StreamRow


class RequestStream:
    """One stream. `ctx` holds its transaction."""

    __slots__ = ("_connection", "_is_busy", "_is_unanswered", "_server", "_streams", "_waiting", "ctx", "id")

    keeps_transactions = True

    def __init__(self, streams: RequestStreams, stream_id: int) -> None:
        self._streams = streams
        self._connection = streams.connection
        self._server: IprotoServer = streams.server
        self._waiting: deque[StreamRow] = deque()
        self._is_busy = False
        """True while a request runs, or while the next one is about to run."""
        self._is_unanswered = False
        self.id = stream_id
        self.ctx = RequestContext(self._connection.session, 0)

    def __repr__(self) -> str:
        return f"<stream {self.id} {self.ctx.txn!r} {len(self._waiting)} waiting>"

    @property
    def session(self) -> Session:
        """The session of the connection."""
        return self._connection.session

    def request_context(self, sync: int) -> RequestContext:
        """Return the context of the stream, marked with the sync of the request that runs."""
        return self.ctx

    # -- requests

    def submit(self, row: StreamRow) -> None:
        """Run a request of the stream once its earlier requests have ended."""
        if self._is_busy:
            self._server.in_flight += 1
            self._waiting.append(row)
        else:
            self._is_busy = True
            self._run(row)

    def _run(self, row: StreamRow) -> None:
        ctx = self.ctx
        ctx.sync = row.sync
        ctx.credentials = ctx.session.credentials
        ctx.error = None
        ctx.has_ended = ctx.has_waited = False
        self._is_unanswered = True
        self._server.dispatcher.run_in_stream(self, row)

    def _run_next(self) -> None:
        self._server.leave()
        self._run(self._waiting.popleft())

    def _answered(self) -> None:
        """Handle the end of a request: it has its reply."""
        if not self._is_unanswered:
            return
        self._is_unanswered = False
        if self.ctx.txn is not None:
            self._server.node.txns.on_yield(self.ctx)
        if self._waiting:
            # In a later turn of the loop, not inside the end of the previous request.
            self._server.loop.call_soon(self._run_next)
        else:
            self._is_busy = False
            self._streams.look_at(self)

    def end_if_idle(self) -> None:
        """Roll back the transaction of an idle stream, because the connection has ended. A busy stream does so after
        the reply to its last request.
        """
        if not self._is_busy and self.ctx.txn is not None:
            self._server.node.txns.rollback_open(self.ctx, self.ctx.txn)

    # -- replies

    def reply(self, packet: bytes) -> None:
        """Send a complete reply packet."""
        self._connection.reply(packet)
        self._answered()

    def reply_rows(self, sync: int, rows: Sequence[bytes]) -> None:
        """Send a reply of tuples."""
        self._connection.reply_rows(sync, rows)
        self._answered()

    def reply_page(self, sync: int, rows: list[bytes], position: bytes | None) -> None:
        """Send a reply of tuples and their position."""
        self._connection.reply_page(sync, rows, position)
        self._answered()

    def reply_read(self, sync: int, read: LongRead) -> None:
        """Send a reply of tuples that have still to be read."""
        self._connection.reply_read(sync, read)
        self._answered()

    def reply_array(self, sync: int, array: bytes) -> None:
        """Send the results of a function. Raises OutOfMemory if no packet can hold them."""
        self._connection.reply_array(sync, array)
        self._answered()

    def reply_error(self, sync: int, error: BoxError) -> None:
        """Send an error reply."""
        self._connection.reply_error(sync, error)
        self._answered()

    def finish_write(self, sync: int, outcome: Outcome) -> None:
        """Reply to a write or a commit, now or when it has ended."""
        self._connection.finish_write(sync, outcome)
        if isinstance(outcome, Pending):
            outcome.on_done(lambda _: self._answered())
        else:
            self._answered()

    def finish_commit(self, sync: int, pending: Pending | None) -> None:
        """Reply to COMMIT, now or when its outcome is known."""
        if pending is None:
            self._connection.reply_ok(sync)
            self._answered()
        else:
            self._server.in_flight += 1
            pending.on_done(partial(self._committed, sync))

    def _committed(self, sync: int, pending: Pending) -> None:
        self._server.leave()
        if pending.error is not None:
            self.reply_error(sync, pending.error)
        else:
            self._connection.reply_ok(sync)
            self._answered()

    def look_soon(self) -> None:
        """Make the connection's turn look at the clock soon."""
        self._connection.look_soon()

    def call_waits(self) -> None:
        """Count a function that has begun to wait, for the connection's limit."""
        self._connection.call_waits()

    def call_ended(self, size: int) -> None:
        """Count the end of a waiting function, for the connection's limit."""
        self._connection.call_ended(size)


class RequestStreams:
    """The streams of one connection that are busy or have a transaction."""

    __slots__ = ("_by_id", "_is_closed", "connection", "server")

    def __init__(self, connection: ServerConnection, server: IprotoServer) -> None:
        self.connection = connection
        self.server = server
        self._by_id: dict[int, RequestStream] = {}
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._by_id)

    def submit(self, row: StreamRow) -> None:
        """Run a request in the stream with its id; the first request of an id makes the stream."""
        stream = self._by_id.get(row.stream_id)
        if stream is None:
            stream = self._by_id[row.stream_id] = RequestStream(self, row.stream_id)
        stream.submit(row)

    def look_at(self, stream: RequestStream) -> None:
        """Forget a stream that has become idle, unless it has a transaction and the connection still lives."""
        if self._is_closed:
            stream.end_if_idle()
        if stream.ctx.txn is None:
            self._by_id.pop(stream.id, None)

    def close(self) -> None:
        """End the idle streams of a closed connection. Busy ones end when they become idle."""
        self._is_closed = True
        for stream in list(self._by_id.values()):
            stream.end_if_idle()
            if stream.ctx.txn is None:
                self.look_at(stream)
