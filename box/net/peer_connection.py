"""A connection to another instance, as clients, appliers and relays use it.

```
request     a row with a sync of its own -> the reply of that sync; many may be on their way at once
rows        rows that answer no request, in order; a reader that is slow makes the other side wait
items       from `begin_stream` on, instead of rows: runs of changes, and other rows one by one
tuples      from `begin_snapshot` to `end_snapshot`, instead of rows: runs of tuples, and other rows
write       rows as they are; `drain` waits while the other side is slow
```

`connect` of `box.net.dial` opens a connection; `take_over` makes one of a socket that a client of the binary server has
opened. The error that ends the connection becomes its `error`, which all waiting and later requests, readers and
writers raise.
"""

from __future__ import annotations

import asyncio
import errno
import sys
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, cast

from box.errors import BoxError, ErrorCode, client_error, timed_out
from box.net.framing import RowBuffer, SnapshotItem, StreamItem, TakeRun, take_changes, take_tuples
from box.net.reader_wait import ReaderWait
from box.net.replies import PendingReplies, PushHandler
from box.net.sockets import EndWatch, address_text, send_now, socket_name
from box.net.uri import socket_error
from box.wire.auth import encode_auth
from box.wire.constants import GREETING_SIZE, RequestType
from box.wire.greeting import Greeting, decode_greeting
from box.wire.row import Row, encode_packet
from box.wire.tuple_run import TupleRun

EOF_TEXT: Final = "unexpected EOF when reading from socket"

_LOOKS: Final = 3
"""The number of turns after which the loop has read from every socket at least once."""
_MAX_UNREAD_BYTES: Final = 512 * 1024
"""The size of unread input above which the other end has to wait. A socket would otherwise deliver all that it has in
one turn of the loop; four megabytes took 25 milliseconds."""
_ROWS_A_TURN: Final = 256
"""The number of rows that are decoded at once, in about a millisecond. The others wait as bytes."""


class DetachedSocket(NamedTuple):
    """A live socket between two protocols: reading is paused, and `input` came after the last request.

    `is_full` is true while the other side is slow, so that writers have to wait.
    """

    transport: asyncio.Transport
    received: bytes
    is_full: bool


class PeerConnection(asyncio.Protocol):
    """The connection to another instance.

    With `keeps_rows`, rows that answer no request wait for `read_row`; otherwise they are dropped, because only late
    replies are expected.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, *, keeps_rows: bool) -> None:
        self.on_close: Callable[[BoxError], None] | None = None
        """Called once when the connection has ended, for whatever reason."""
        self._loop = loop
        self._keeps_rows = keeps_rows
        self._greeting: asyncio.Future[Greeting] = loop.create_future()
        self._is_greeted = False
        self._transport: asyncio.Transport | None = None
        self._input = RowBuffer(GREETING_SIZE)
        self._replies = PendingReplies(loop)
        self._rows: deque[Row] = deque()
        self._items: deque[Any] | None = None
        """Used instead of `_rows` once a stream or a snapshot has begun."""
        self._take_run: TakeRun = take_changes
        self._unread = 0
        """The number of bytes that came since all rows were last read."""
        self._is_held = False
        self._detached_input: bytes | None = None
        self._reader = ReaderWait(loop)
        self._end_watch: EndWatch | None = None
        self._drained: asyncio.Future[None] | None = None
        self._error: BoxError | None = None

    # -- life -------------------------------------------------------------------------------------------------

    @property
    def error(self) -> BoxError | None:
        """The error that ended the connection, or None while it is open."""
        return self._error

    @property
    def greeting(self) -> Greeting:
        """The server's greeting."""
        return self._greeting.result()

    async def wait_greeting(self) -> Greeting:
        """Wait for the server's greeting.

        Raises:
            ClientError: PROTOCOL, the bytes are not a greeting.
        """
        return await self._greeting

    async def authenticate(self, user: str, password: str, *, timeout: float | None = None) -> None:
        """Authenticate as `user`. Raises the server's refusal and the errors of `request`."""
        body = encode_auth(user, password, self.greeting.salt)
        await self.request(Row(RequestType.AUTH, body=body), timeout=timeout)

    def close(self, error: BoxError | None = None) -> None:
        """Close the connection; waiting callers raise `error`."""
        self._fail(error or client_error(ErrorCode.NO_CONNECTION))
        if self._transport is not None:
            self._transport.close()

    def _fail(self, error: BoxError) -> None:
        if self._error is not None:
            return
        self._error = error
        self._replies.fail(error)
        if not self._greeting.done():
            self._greeting.set_exception(error)
            # Marks the error as seen, because asyncio would log it if nobody awaits the greeting.
            self._greeting.exception()
        self._reader.stop()
        _wake(self._drained)
        # Drops a reference cycle: the receiver usually refers to this connection.
        on_close, self.on_close = self.on_close, None
        if on_close is not None:
            on_close(error)

    # -- a socket of the binary server ------------------------------------------------------------------------

    def take_over(self, detached: DetachedSocket) -> None:
        """Become the protocol of a live socket. Reading begins with `start_reading`."""
        self._transport, self._detached_input, is_full = detached
        self._input = RowBuffer()
        self._is_greeted = True
        self._transport.set_protocol(self)
        if is_full:
            self.pause_writing()

    def start_reading(self) -> None:
        """Begin to read rows."""
        received, self._detached_input = self._detached_input, None
        if self._transport is not None and self._error is None:
            self._transport.resume_reading()
        if received:
            self.data_received(received)

    def give_back(self) -> DetachedSocket:
        """Release the socket that was taken over. Raises the error of the connection if it has ended."""
        if self._transport is None or self._error is not None:
            raise self._error or client_error(ErrorCode.NO_CONNECTION)
        if self._detached_input is None:
            self._transport.pause_reading()
        is_full = self._drained is not None
        detached = DetachedSocket(self._transport, self._detached_input or b"", is_full)
        self._transport = None
        self._fail(client_error(ErrorCode.NO_CONNECTION))
        return detached

    # -- asyncio.Protocol -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # The cast is needed because uvloop's transports do not inherit from asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if isinstance(exc, OSError):
            self._fail(socket_error("recv", self._socket_name, exc.errno or errno.EPIPE))
        else:
            self._fail(socket_error(EOF_TEXT, self._socket_name, errno.EPIPE))

    def pause_writing(self) -> None:
        if self._drained is None:
            self._drained = self._loop.create_future()

    def resume_writing(self) -> None:
        _wake(self._drained)
        self._drained = None

    def data_received(self, data: bytes) -> None:
        if self._error is not None:
            return
        self._input.add(data)
        if self._is_greeted or self._take_greeting():
            self._take_rows()
            if self._rows or self._items:
                self._unread += len(data)
                self._hold_if_full()
                self._reader.wake()
            if not self._keeps_rows:
                self._look_for_end()

    def _look_for_end(self) -> None:
        """End the connection in the turn of its last reply if the other side has closed it, as in Tarantool: who gets
        the reply finds the connection closed. The loop tells it a turn later.
        """
        if self._error is not None:
            return
        if self._end_watch is None:
            self._end_watch = EndWatch(self._info("socket"))
        if self._end_watch.has_ended():
            self.close(socket_error(EOF_TEXT, self._socket_name, errno.EPIPE))

    def _take_rows(self) -> None:
        """Decode received rows: all replies if requests wait, otherwise as many rows as one turn handles."""
        if self._items is not None:
            self._take_items(self._items)
            return
        is_stream = self._keeps_rows and not self._replies
        if is_stream and len(self._rows) >= _ROWS_A_TURN:
            return
        rows = self._rows if is_stream else deque[Row]()
        broken: BoxError | None = None
        try:
            self._input.take_rows(rows, _ROWS_A_TURN - len(rows) if is_stream else sys.maxsize)
        except BoxError as error:
            broken = error
        if not is_stream:
            self._sort(rows)
        if broken is not None:
            self.close(broken)

    def _take_items(self, items: deque[Any]) -> None:
        """Decode received items of a stream. One turn may read a socket several times, each with a run of tuples."""
        if len(items) < _ROWS_A_TURN and not (items and isinstance(items[-1], TupleRun)):
            try:
                self._input.take_items(items, _ROWS_A_TURN - len(items), self._take_run)
            except BoxError as error:
                self.close(error)

    def _take_greeting(self) -> bool:
        raw = self._input.take_prologue()
        if raw is not None:
            try:
                greeting = decode_greeting(raw)
            except BoxError as error:
                self.close(error)
                return False
            # The waiting caller may have been cancelled meanwhile.
            if not self._greeting.done():
                self._greeting.set_result(greeting)
            self._is_greeted = True
        return raw is not None

    def _sort(self, rows: Iterable[Row]) -> None:
        """Give replies to their requests; other rows are kept or dropped."""
        for row in rows:
            if not self._replies.take(row) and self._keeps_rows:
                self._rows.append(row)

    def _hold_if_full(self) -> None:
        if self._unread > _MAX_UNREAD_BYTES and not self._is_held and self._transport is not None:
            self._is_held = True
            self._transport.pause_reading()

    def _all_read(self) -> None:
        if self._input.may_have_rows:
            return
        self._unread = 0
        if self._is_held:
            self._is_held = False
            if self._transport is not None and not self._transport.is_closing():
                self._transport.resume_reading()

    # -- requests ---------------------------------------------------------------------------------------------

    @property
    def schema_version(self) -> int:
        """The schema version of the last reply, or 0 before it."""
        return self._replies.schema_version

    def send(self, row: Row, on_push: PushHandler | None = None) -> asyncio.Future[Row]:
        """Send a request with a new sync. The future gets the reply's row, or its error as a BoxError.

        `on_push` is called with every out-of-band message that precedes the reply.
        """
        if self._error is not None or self._transport is None:
            future: asyncio.Future[Row] = self._loop.create_future()
            future.set_exception(self._error or client_error(ErrorCode.NO_CONNECTION))
            return future
        future = self._replies.add(row, on_push)
        self._transport.write(encode_packet(row))
        return future

    def forget(self, sync: int) -> None:
        """Expect no reply to a request any more; its future stays as it is."""
        self._replies.forget(sync)

    async def request(self, row: Row, *, timeout: float | None = None, on_push: PushHandler | None = None) -> Row:
        """Send a request and wait for its reply.

        Raises:
            BoxError: the error in the reply, or the error of the connection.
            TimedOut: the time is over; a late reply is dropped.
        """
        future = self.send(row, on_push)
        try:
            async with asyncio.timeout(timeout):
                return await future
        except TimeoutError:
            raise timed_out() from None

    # -- rows -------------------------------------------------------------------------------------------------

    async def read_rows(self, timeout: float | None = None) -> list[Row]:
        """Return the next rows, between one and a turn's worth; error rows are returned as rows.

        Raises:
            BoxError: the error of the connection, after its last row.
            TimedOut: nothing came for `timeout` seconds.
        """
        await self._wait_for_rows(timeout)
        rows = list(self._rows)
        self._rows.clear()
        self._all_read()
        return rows

    async def read_row(self, timeout: float | None = None) -> Row:
        """Return the next row. Raises the errors of `read_rows`."""
        await self._wait_for_rows(timeout)
        row = self._rows.popleft()
        if not self._rows:
            self._all_read()
        return row

    def begin_stream(self) -> None:
        """Expect a stream of changes from now on: read it with `read_items`, and make no more requests."""
        self._items, self._rows = deque[StreamItem](self._rows), deque()

    def begin_snapshot(self) -> None:
        """Expect the tuples of a snapshot from now on: read them with `read_tuples`."""
        self._items, self._rows = deque(self._rows), deque()
        self._take_run = take_tuples

    def end_snapshot(self, rest: list[SnapshotItem]) -> None:
        """Expect rows again; `rest` holds the items that were read too far."""
        rows = [*rest, *(self._items or ())]
        self._items, self._rows = None, deque(row for row in rows if isinstance(row, Row))
        self._take_run = take_changes
        assert len(rows) == len(self._rows)

    async def read_tuples(self, timeout: float | None = None) -> list[SnapshotItem]:
        """Return the next items of a snapshot. Raises the errors of `read_rows`."""
        items: list[Any] = await self.read_items(timeout)
        return items

    async def read_items(self, timeout: float | None = None) -> list[StreamItem]:
        """Return the next items of the stream. Raises the errors of `read_rows`."""
        await self._wait_for_rows(timeout)
        assert self._items is not None
        items = list(self._items)
        self._items.clear()
        self._all_read()
        return items

    def put_back(self, rows: list[Row]) -> None:
        """Return rows that were read too far."""
        self._rows.extendleft(reversed(rows))

    async def _wait_for_rows(self, timeout: float | None) -> None:
        while not (self._rows or self._items):
            if self._is_greeted and self._input.may_have_rows:
                await asyncio.sleep(0)  # gives way, because others have had no turn since the last rows
                self._take_rows()
                continue
            self._all_read()
            if self._error is not None:
                raise self._error
            if not await self._reader.wait(timeout):
                await self._look_again()

    async def _look_again(self) -> None:
        """Read what arrived while the loop was busy, before the silence counts. Raises TimedOut."""
        for _ in range(_LOOKS):
            await asyncio.sleep(0)
        if not (self._rows or self._items or self._input.may_have_rows or self._error):
            raise timed_out()

    # -- writing ----------------------------------------------------------------------------------------------

    def write_rows(self, rows: Iterable[Row]) -> None:
        """Send rows unchanged, with one write. Raises the error of the connection if it has ended."""
        self.write(b"".join([encode_packet(row) for row in rows]))

    def write(self, data: bytes) -> None:
        """Send encoded packets with one write. Raises the error of the connection if it has ended."""
        if self._error is not None:
            raise self._error
        if self._transport is None or self._transport.is_closing():
            raise socket_error("send", self._socket_name, errno.EPIPE)
        self._transport.write(data)

    def write_at_once(self, row: Row) -> None:
        """Send a row in the middle of a long turn; it is dropped if it cannot be sent immediately."""
        transport, data = self._transport, encode_packet(row)
        if self._error is not None or transport is None or transport.is_closing() or transport.get_write_buffer_size():
            return
        written = send_now(self._info("socket"), data)
        if 0 < written < len(data):
            transport.write(data[written:])

    @property
    def is_full(self) -> bool:
        """True if the other side has not taken enough of the written data, so that `drain` would wait."""
        return self._drained is not None

    async def drain(self) -> None:
        """Wait until the other side has taken enough of the written data."""
        if self._drained is not None:
            # Several callers may wait for this one future, which the cancellation of one must not end.
            await asyncio.shield(self._drained)
        if self._error is not None:
            raise self._error

    # -- addresses --------------------------------------------------------------------------------------------

    def _info(self, name: str) -> Any:
        return None if self._transport is None else self._transport.get_extra_info(name)

    @property
    def peer(self) -> str:
        """The address of the other side."""
        return "" if self._transport is None else address_text(self._info("peername"))

    @property
    def local(self) -> str:
        """The address of this side."""
        return "" if self._transport is None else address_text(self._info("sockname"))

    @property
    def _socket_name(self) -> str:
        sock = self._info("socket")
        return "fd -1" if sock is None else socket_name(sock)

    def __repr__(self) -> str:
        state = "open" if self._error is None else f"ended by {self._error.message!r}"
        return f"<PeerConnection {state} rows {len(self._rows)}>"


def _wake(future: asyncio.Future[None] | None) -> None:
    if future is not None and not future.done():
        future.set_result(None)
