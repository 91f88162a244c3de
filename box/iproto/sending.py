"""The sending half of a client's connection: replies, and out-of-band messages.

Replies to requests that are served in one turn are sent together at its end, or with those of turns that follow within
a few milliseconds. Replies that had to wait are sent with all others of the same turn of the loop. Large replies are
sent in pieces in the connection's turns (`output.py`), and no request is served until they have left.

An out-of-band message (`box.session.push`) belongs to a running request. The fiber that pushes waits until the client
has read (`until_read`), unless the wait would roll back its transaction. Then up to `_PUSHED_MOST` bytes may wait for
the client, and a further message raises an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from box.errors import BoxError, ErrorCode, client_error, out_of_memory
from box.index.long_read import LongRead
from box.iproto.output import FLUSH_SIZE, LARGE_SIZE, Output
from box.iproto.stop import Stop
from box.txn.pending import Outcome, Pending
from box.waiters import Waiters
from box.wire.reply import reply_array, reply_chunk, reply_error, reply_ok, reply_tuple, reply_tuples

if TYPE_CHECKING:
    from box.iproto.stats import Stats

_QUICK_ROWS: Final = 16
"""The number of rows above which a turn looks at the clock after the reply."""
_PUSHED_MOST: Final = 16 * 1024 * 1024
"""The bytes waiting for a client above which an out-of-band message is refused."""
_BEHIND: Final = Stop.OUTPUT | Stop.LARGE
"""The reasons to stop input that mean: the client has not read its replies yet."""


class SchemaVersion(Protocol):
    """The dictionary, whose version is part of each reply."""

    @property
    def version(self) -> int: ...


class ReplyServer(Protocol):
    """The part of the server that the sending half of a connection uses."""

    in_flight: int
    loop: asyncio.AbstractEventLoop

    @property
    def schema(self) -> SchemaVersion: ...

    @property
    def stats(self) -> Stats: ...

    def leave(self) -> None:
        """Count the end of a request in flight."""


def push_to_nobody(value: bytes, sync: int) -> None:
    """Refuse `SendingHalf.push` for a client that has gone.

    Raises:
        ClientError: SESSION_CLOSED.
    """
    raise client_error(ErrorCode.SESSION_CLOSED)


class SendingHalf(asyncio.BufferedProtocol):
    """The half of `ServerConnection` that sends replies and out-of-band messages."""

    __slots__ = (
        "_flush_scheduled",
        "_is_detached",
        "_look_at",
        "_out",
        "_output",
        "_pushers",
        "_server",
        "_stopped",
        "_transport",
    )

    def __init__(self, server: ReplyServer) -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._output = Output(server.stats.net.totals)
        self._out = self._output.parts
        self._look_at = 0
        """The number of served requests at which the turn looks at the clock again."""
        self._stopped = 0
        """The reasons not to read, as a sum of `Stop` values."""
        self._flush_scheduled = False
        self._is_detached = False
        self._pushers = Waiters()

    def _wait_for_larges(self) -> None:
        """Serve no request until the large replies have left, in this connection's turns."""
        raise NotImplementedError

    def reply(self, packet: bytes) -> None:
        """Send a reply at the end of this turn of the loop."""
        self._out.append(packet)
        self._output.size += len(packet)
        if not self._flush_scheduled:
            self._schedule_flush()

    def reply_ok(self, sync: int) -> None:
        """Send an OK reply without data."""
        self.reply(reply_ok(sync, self._server.schema.version))

    def reply_rows(self, sync: int, rows: Sequence[bytes]) -> None:
        """Send a reply of tuples, possibly millions of them; a list is given away."""
        if len(rows) > _QUICK_ROWS:
            self._look_at = 0
        if self._output.add_rows(sync, self._server.schema.version, rows):
            if not self._flush_scheduled:
                self._schedule_flush()
        else:
            self._wait_for_larges()

    def reply_page(self, sync: int, rows: list[bytes], position: bytes | None) -> None:
        """Send a reply of tuples, with the position of the last tuple if it is wanted and exists. The list of tuples is
        given away.
        """
        if position is None:
            self.reply_rows(sync, rows)
        elif self._output.add_page(sync, self._server.schema.version, rows, position):
            self._look_at = 0  # a page is never found quickly
            if not self._flush_scheduled:
                self._schedule_flush()
        else:
            self._wait_for_larges()

    def reply_read(self, sync: int, read: LongRead) -> None:
        """Send a reply of tuples that have still to be found."""
        self._output.add_read(sync, self._server.schema.version, read)
        self._wait_for_larges()

    def reply_array(self, sync: int, array: bytes) -> None:
        """Send the results of a function, one encoded array.

        Raises:
            OutOfMemory: no packet can hold them.
        """
        if len(array) < LARGE_SIZE:
            self.reply(reply_array(sync, self._server.schema.version, array))
        else:
            self._output.add_array(sync, self._server.schema.version, array)
            self._wait_for_larges()

    def reply_error(self, sync: int, error: BoxError) -> None:
        """Send an error reply."""
        self._server.stats.count_error(error)
        self.reply(reply_error(sync, self._server.schema.version, error))

    def finish_write(self, sync: int, outcome: Outcome) -> None:
        """Reply to a write, now or when it has ended."""
        if isinstance(outcome, Pending):
            self._server.in_flight += 1
            outcome.on_done(partial(self._written, sync))
        else:
            self._reply_changed(sync, outcome)

    def _reply_changed(self, sync: int, raw: bytes | None) -> None:
        version = self._server.schema.version
        self.reply(reply_tuples(sync, version, ()) if raw is None else reply_tuple(sync, version, raw))

    def _written(self, sync: int, write: Pending) -> None:
        self._server.leave()
        if write.error is not None:
            self.reply_error(sync, write.error)
        else:
            self._reply_changed(sync, write.result)

    # -- out of band ------------------------------------------------------------------------------------------

    def push(self, value: bytes, sync: int) -> None:
        """Send one encoded value out of band for the client's request `sync` (`box.session.push`).

        Raises:
            ClientError: SESSION_CLOSED.
            OutOfMemory: too much waits for the client already.
        """
        if self._transport is None:
            raise client_error(ErrorCode.SESSION_CLOSED)
        if self._output.size + self._transport.get_write_buffer_size() > _PUSHED_MOST:
            raise out_of_memory(len(value), "obuf", "push")
        self.reply(reply_chunk(sync, self._server.schema.version, value))
        if self._output.size > FLUSH_SIZE and not self._is_detached:
            self._output.flush()

    def until_read(self) -> Coroutine[Any, Any, None] | None:
        """Return a coroutine that waits until the client has read, or None if it has read everything."""
        if not self._stopped & _BEHIND:
            return None
        return self._pushers.until(lambda: not self._stopped & _BEHIND or self._transport is None)

    def _wake_pushers(self) -> None:
        if self._pushers:
            self._pushers.wake()

    # -- leaving ----------------------------------------------------------------------------------------------

    def _schedule_flush(self) -> None:
        self._flush_scheduled = True
        self._server.loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_scheduled = False
        if not self._is_detached:
            self._output.flush()

    def look_soon(self) -> None:
        """Let the turn look at the clock before the next request, because this one may have taken long."""
        self._look_at = 0
