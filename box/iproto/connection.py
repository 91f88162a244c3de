"""One client connection: reads packets, writes replies, and decides when to stop reading.

The requests of a read are served one after another without a task, for the length of a turn (`turns.py`). Their replies
are sent in one write, or in a few if they are large (`sending.py`, `output.py`). A reply that has to wait for the log,
a quorum or a function is added when it is ready. `stop.py` lists the reasons to stop input; what was read before that
stays in `_chunks`: one read of `readahead` bytes, or a packet with the read that completed it.
"""

from __future__ import annotations

import asyncio
import struct
from typing import TYPE_CHECKING, Final, cast

from box.data.codec import unpack
from box.data.marks import ARRAY16, ARRAY32
from box.errors import BoxError, ErrorCode, client_error
from box.index.long_read import LONG
from box.iproto.calling import CallingHalf
from box.iproto.headers import HEADER_SHAPES
from box.iproto.output import FLUSH_SIZE
from box.iproto.pace import SECONDS, TURNS, Pace, Pause
from box.iproto.request_streams import RequestStreams
from box.iproto.sending import push_to_nobody
from box.iproto.stats import Net
from box.iproto.stop import Stop
from box.iproto.watching import Watching
from box.net.peer_connection import DetachedSocket
from box.net.sockets import address_text, socket_name
from box.session import Context, RequestContext
from box.wire.constants import RequestType
from box.wire.greeting import encode_greeting
from box.wire.packet import packet_bounds
from box.wire.reply import reply_ok, reply_tuple
from box.wire.row import Row, is_msgpack

if TYPE_CHECKING:
    from box.iproto.server import IprotoServer


_LONG_ARRAYS: Final = (ARRAY16, ARRAY32)
"""The marks of MessagePack arrays with 16 and 32 bits of length; shorter ones begin with 0x90 to 0x9f."""
_LOOK_EVERY: Final = 16
"""The number of quick requests after which a turn looks at the clock."""
_GENERAL: Final = 3
"""A request that takes the general path counts for so many requests more."""
_GATHER: Final = 0.005
"""Seconds for which replies gather over several turns, because a write costs as much as a few requests."""
_EXECUTE: Final = int(RequestType.EXECUTE)
_CALLS: Final = (RequestType.CALL, RequestType.EVAL)
_QUICK_SIZE: Final = 4096
"""The bytes up to which a single tuple is sent on the fast path."""


class ServerConnection(CallingHalf):
    """The asyncio protocol of one accepted socket."""

    __slots__ = (
        "_chunks",
        "_deadline",
        "_flush_by",
        "_have",
        "_is_ended",
        "_is_paused",
        "_need",
        "_pace",
        "_served",
        "_streams",
        "_was_full",
        "_watching",
        "ctx",
        "salt",
        "session",
    )

    _server: IprotoServer
    keeps_transactions = False

    def __init__(self, server: IprotoServer) -> None:
        super().__init__(server)
        self._chunks: list[bytes] = []
        self._have = 0
        """The bytes in `_chunks`."""
        self._need = 0
        """The number of bytes in `_chunks` from which on they contain a whole packet."""
        self._deadline = 0.0
        """The end of this turn."""
        self._flush_by = 0.0
        """The time at which gathered replies are sent even if more requests are to be served."""
        self._was_full = False
        """True if the last read filled its buffer, so that the socket has more."""
        self._served = 0
        """The number of requests served in earlier turns since the last read."""
        self._is_paused = False
        """True if reading of the transport is paused."""
        self._is_ended = False
        """True if the client has closed its side while input remains to be served."""
        self._pace = Pace(server.turns.clock)
        self._streams: RequestStreams | None = None
        self._watching: Watching | None = None
        self.salt = b""
        self.session = server.open_session(self)
        self.ctx = Context(self.session)
        """The context of simple requests, which never suspend; every other request has its own."""

    @property
    def socket_name(self) -> str:
        """The socket with its addresses, for the log."""
        return "" if self._transport is None else socket_name(self._transport.get_extra_info("socket"))

    # -- life -------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self._server.is_closed:  # the loop had accepted the connection before, and made its transport afterwards
            cast(asyncio.Transport, transport).abort()
            return
        self._transport = self._output.transport = cast(asyncio.Transport, transport)
        self.session.peer = address_text(transport.get_extra_info("peername"))
        self.session.fd = transport.get_extra_info("socket").fileno()
        server = self._server
        server.remember(self)
        self.salt = server.make_salt()
        self._out.append(encode_greeting(server.node.state.instance_uuid, self.salt, server.greeting_version))
        if server.node.sessions.on_connect:
            self._stop(Stop.BUSY)
            server.spawn(self._greet())
        else:
            self._flush()

    async def _greet(self) -> None:
        """Run the on_connect triggers, then greet the client.

        If a trigger refuses the client, it gets the greeting and the error, and the connection closes.
        """
        try:
            await self._server.node.sessions.run_on_connect(Context(self.session))
        except Exception as error:
            refusal = error if isinstance(error, BoxError) else self._server.dispatcher.unexpected(error)
            self.reply_error(0, refusal)
            self.close()
            return
        self._flush()
        self._resume(Stop.BUSY)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()

    def _end(self) -> None:
        """Clean up after the client has gone: running requests finish, and their replies are dropped."""
        self._transport = self._output.transport = None
        self._chunks.clear()
        self._out.clear()
        self._wake_pushers()
        if self._output.larges:
            self._queue()
        # Break the reference cycle with the session, so that both are freed without the garbage collector.
        self.session.push, self.session.until_read = push_to_nobody, None
        self._server.forget(self)
        self.end_streams()
        if self._watching is not None:
            self._watching.close()
        self._server.spawn(self._close_session())

    async def _close_session(self) -> None:
        try:
            await self._server.node.sessions.close(self.session)
        except BoxError as error:
            self._server.node.log.of_fiber("main").problem(error)
        except Exception as bug:
            self._server.dispatcher.unexpected(bug)

    def close(self) -> None:
        """Send the gathered replies and close the connection."""
        self._flush()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Break off the connection: replies that are not sent yet, and later ones, are dropped."""
        transport, self._transport = self._transport, None
        self._out.clear()
        self._wake_pushers()
        if transport is not None:
            transport.abort()

    # -- streams and watchers ---------------------------------------------------------------------------------

    def request_context(self, sync: int) -> RequestContext:
        """The context of a request outside of streams."""
        return RequestContext(self.session, sync)

    @property
    def streams(self) -> RequestStreams:
        """The streams of this connection."""
        if self._streams is None:
            self._streams = RequestStreams(self, self._server)
        return self._streams

    def end_streams(self) -> None:
        """Roll back transactions that the client can no longer commit."""
        if self._streams is not None:
            self._streams.close()

    def watch(self, key: bytes, sync: int) -> None:
        """Serve WATCH. Raises OutOfMemory if the connection watches too many keys."""
        if self._watching is None:
            self._watching = Watching(self.send_event, self._server.node.events)
        self._watching.watch(key, sync)

    def unwatch(self, key: bytes) -> None:
        """Serve UNWATCH."""
        if self._watching is not None:
            self._watching.unwatch(key)

    def is_watching(self, key: bytes) -> bool:
        """Return whether the client watches a key."""
        return self._watching is not None and key in self._watching

    def send_event(self, packet: bytes) -> None:
        """Send an EVENT packet to the client."""
        if self._transport is not None:
            self.reply(packet)

    def push(self, value: bytes, sync: int) -> None:
        """Send a value out of band, after the replies to calls that have run before it."""
        self._server.calls.drain(self)
        super().push(value, sync)

    # -- flow control -----------------------------------------------------------------------------------------

    def _stop(self, reason: int) -> None:
        self._stopped |= reason
        self._pause_reading()

    def _pause_reading(self) -> None:
        if self._is_paused or self._is_ended:
            return
        if self._transport is not None and not self._transport.is_closing():
            self._is_paused = True
            self._transport.pause_reading()

    def _resume(self, reason: int) -> None:
        self._stopped &= ~reason
        if self._output.larges:
            if not self._stopped & Stop.OUTPUT:
                self._queue()
        elif not self._stopped:
            if self._has_input():
                self._queue()
            else:
                self._read_on()

    def _read_on(self) -> None:
        """Resume reading, or close if the client has closed its side; all input is served now."""
        if self._is_ended:
            self.close()
        elif self._is_paused and self._transport is not None and not self._transport.is_closing():
            self._is_paused = False
            self._transport.resume_reading()

    def _queue(self) -> None:
        """Wait for a turn. It usually comes soon, so reading is paused only when more input arrives before it."""
        if not self._stopped & Stop.TURN:
            self._stopped |= Stop.TURN
            self._server.turns.add(self)

    def take_turn(self, deadline: float) -> None:
        """Continue with large replies, then with the input that is here."""
        self._stopped &= ~Stop.TURN
        self._deadline = deadline
        self._was_full = False
        output = self._output
        if self._transport is None:
            if not output.discard(self._has_time):
                self._queue()
            return
        if output.larges and not self._send_larges():
            return
        if self._stopped or self._transport.is_closing():
            self._flush()
            return
        if self._has_input():
            data = b"".join(self._chunks)
            self._chunks.clear()
            self._serve_until(data, deadline)
        if not self._stopped:
            self._read_on()

    def _wait_for_larges(self) -> None:
        self._stop(Stop.LARGE)
        self._queue()

    def _send_larges(self) -> bool:
        """Send as much of large replies as the transport and this turn allow; returns True if nothing is left."""
        if self._stopped & Stop.OUTPUT:
            return False
        if self._output.pump(self._may_send):
            self._stopped &= ~Stop.LARGE
            self._wake_pushers()
            return True
        if not self._stopped & Stop.OUTPUT:
            self._queue()
        return False

    def _has_time(self) -> bool:
        return self._server.turns.clock() < self._deadline

    def _may_send(self) -> bool:
        return not self._stopped & Stop.OUTPUT and self._server.turns.clock() < self._deadline

    def _pause(self, pause: Pause) -> None:
        """Pause reading so that requests gather before the next read."""
        self._stop(Stop.PACE)
        if pause is Pause.LONG:
            self._server.loop.call_later(SECONDS, self._resume, Stop.PACE)
        else:
            self._count_turns(TURNS)

    def _count_turns(self, left: int) -> None:
        """Resume after a short pause of `left` turns of the loop."""
        if left:
            self._server.loop.call_soon(self._count_turns, left - 1)
        else:
            self._resume(Stop.PACE)

    def pause_writing(self) -> None:
        self._stop(Stop.OUTPUT)

    def resume_writing(self) -> None:
        self._resume(Stop.OUTPUT)
        self._wake_pushers()

    def admit(self) -> None:
        """Serve requests again, because the server has room for more."""
        self._resume(Stop.LIMIT)

    # -- input ------------------------------------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer of the next read: `readahead` bytes, or more to complete a large packet."""
        return self._server.input.view(self._need - self._have)

    def buffer_updated(self, nbytes: int) -> None:
        read = self._server.input
        self.data_received(read.take(nbytes))
        self._was_full = nbytes >= read.readahead

    def data_received(self, data: bytes) -> None:
        """Serve what was read. Transports without buffers call this directly."""
        server = self._server
        server.stats.net.totals[Net.RECEIVED] += len(data)
        if self._chunks or self._stopped:
            self._chunks.append(data)
            self._have += len(data)
            if self._stopped:
                self._pause_reading()
                return
            if self._have < self._need:
                return
            data = b"".join(self._chunks)
            self._chunks.clear()
        if not self._was_full:
            self._serve_until(data, server.turns.begin())
        elif self._has_time():  # the transport continues to read after a full read: all these reads share one turn
            self._serve_until(data, self._deadline)
        else:
            self._chunks.append(data)
            self._have, self._need = len(data), 0
            self._queue()
            self._pause_reading()

    def eof_received(self) -> bool:
        """Return True to keep the connection open until the input of a client that has closed its side is served."""
        self._is_ended = bool(self._stopped) or self._has_input()
        return self._is_ended

    def _has_input(self) -> bool:
        return bool(self._chunks) and self._have >= self._need

    def _serve_until(self, data: bytes, deadline: float) -> None:
        """Serve the packets of `data` until the deadline, and keep the rest of it."""
        self._deadline = deadline
        self._look_at = _LOOK_EVERY
        self._have = self._need = 0
        if not self._out:
            self._flush_by = deadline + _GATHER
        self._flush_scheduled = True  # replies schedule no flush of their own: this method flushes at its end
        try:
            pos, need, count = self._serve_packets(data)
        except BoxError as error:
            self._server.dispatcher.log_refused(error)
            self.reply_error(0, error)
            self.close()
            return
        if pos < len(data):
            self._chunks.append(data[pos:])
            self._have = len(data) - pos
            self._need = need
        if self._stopped & Stop.TURN and self._server.turns.clock() < self._flush_by:
            self._flush_scheduled = False  # the next turn comes soon
        else:
            self._flush()
        self._served += count
        if not self._stopped:
            pause = self._pace.after_read(self._served)
            self._served = 0
            if pause:
                self._pause(pause)

    @property
    def takes_calls(self) -> bool:
        """True unless the connection is stopped, as by too many functions that wait."""
        return not self._stopped

    def _may_go_on(self, count: int) -> bool:
        """Send gathered replies if they are large; returns True if time and room are left after `count` requests."""
        self._look_at = count + _LOOK_EVERY
        if self._output.size > FLUSH_SIZE:
            self._output.flush()
        if self._stopped:
            return False
        if self._server.turns.clock() < self._deadline:
            return True
        self._queue()
        return False

    def _serve_packets(self, data: bytes) -> tuple[int, int, int]:
        """Serve packet by packet.

        Returns the position after the last served packet, the size of the incomplete packet there, and the number
        served.
        """
        server = self._server
        pos, end, count, need = 0, len(data), 0, 0
        while pos < end and not self._stopped:
            if count >= self._look_at and not self._may_go_on(count):
                break
            if server.in_flight > server.limit:
                self._stop(Stop.LIMIT)
                server.wait_for_room(self)
                break
            try:
                read_header, size = HEADER_SHAPES[data[pos + 9]]
                mark, length, keys, kind, sync_key, sync = read_header(data, pos)
            except (IndexError, KeyError, struct.error):
                mark = 0
            # The usual header (`headers.py`); 5 bytes are its mark and length, which the length does not count.
            # Literals, as the loop runs for every packet: ce is a length of four bytes, 82 00 a map of two pairs with
            # the type first, 1 the key of the sync.
            if mark == 0xCE and keys == 0x8200 and sync_key == 1 and kind < 128 and length >= size - 5:
                start, stop = pos + size, pos + 5 + length
                if kind > 3 and stop <= end:
                    if kind in _CALLS:
                        behind, served = server.calls.serve(self, data, pos, self._deadline)
                        if served:
                            pos, count, self._look_at = behind, count + served, 0
                            continue
                    elif kind == _EXECUTE:
                        behind, served = server.statements.serve(self, sync, data, pos, start, stop)
                        if served:
                            pos, count = behind, count + served
                            continue
                if stop <= end and not self._serve(kind, sync, data, start, stop):
                    self._look_at -= _GENERAL
                    server.dispatcher.run(self, Row(kind, sync=sync, body=data[start:stop]))
            else:
                start, stop = packet_bounds(data, pos)
                if stop <= end:
                    self._look_at -= _GENERAL
                    server.dispatcher.dispatch(self, data[start:stop])
            if stop > end:
                packet_bounds(data, pos)  # refuses a packet that is too large before the rest of it arrives
                need = stop - pos
                break
            pos = stop
            count += 1
        server.stats.net.totals[Net.REQUESTS] += count
        return pos, need, count

    def _serve(self, kind: int, sync: int, data: bytes, at: int, stop: int) -> bool:
        """Serve a request on the fast path. Returns False, with nothing done, if it needs the general path.

        It serves pings, and requests whose body, from `at` on, begins like an earlier one.
        """
        server = self._server
        schema = server.schema
        if not 0 < kind < 4:  # SELECT, INSERT and REPLACE are 1 to 3
            if kind != RequestType.PING or stop != at:
                return False
            self._out.append(reply_ok(sync, schema.version))
            return True
        learned = server.learned_bodies
        tail = at + learned.sizes[kind]
        meaning = learned.tables[kind].get(data[at:tail])
        if meaning is None or learned.version != schema.version or server.is_delayed:
            return False
        # The last value must be an array: 0x90 to 0x9f are arrays of up to 15 elements.
        if tail >= stop or (data[tail] & 0xF0 != 0x90 and data[tail] not in _LONG_ARRAYS):
            return False
        ctx = self.ctx
        try:
            if kind == 1:
                key = unpack(data[tail:stop])
                if meaning.limit >= LONG and (not key or meaning.iterator):
                    return False
                rows = server.dml.reads.select(ctx, *meaning, key)
                if len(rows) != 1 or len(rows[0]) > _QUICK_SIZE:
                    self.reply_rows(sync, rows)
                else:
                    self._out.append(reply_tuple(sync, schema.version, rows[0]))
                return True
            space = meaning.space
            if space.on_replace or space.before_replace:
                return False
            stored = server.dml.store_now(ctx, space, kind, data[tail:stop])
        except BoxError as error:
            if error.code == ErrorCode.INVALID_MSGPACK:
                # The general path finds the exact error and counts a write itself; selects are counted after decoding.
                server.dml.counters[kind] -= kind != 1
                return False
            if error.code == ErrorCode.READONLY and server.dml.refuses_writes:
                return False  # nothing is counted yet; the general path checks the body first, as Tarantool does
            if error.code == ErrorCode.ACCESS_DENIED and not is_msgpack(data[tail:stop]):
                return False  # so that the error is that of the body
            server.node.sessions.tell_denied(ctx, error)
            self.reply_error(sync, error)
            return True
        except Exception as bug:
            self.reply_error(sync, server.dispatcher.unexpected(bug))
            return True
        if type(stored) is bytes:
            self._out.append(reply_tuple(sync, schema.version, stored))
        else:
            self.finish_write(sync, stored)
        return True

    # -- replication ------------------------------------------------------------------------------------------

    def hand_over(self, row: Row) -> None:
        """Give the connection to replication, which may keep it; close it if the client has closed its side."""
        if self._is_ended:
            self.close()
            return
        self._stop(Stop.BUSY)
        # In the next turn of the loop: by then the caller has stored the rest of its input for `detach`.
        self._server.loop.call_soon(self._begin_replication, row)

    def _begin_replication(self, row: Row) -> None:
        self._server.spawn(self._replicate(row))

    def detach(self) -> DetachedSocket:
        """Give replication the socket, with the input that follows the request; replies wait until `attach`.

        Raises:
            ClientError: SESSION_CLOSED.
        """
        if self._transport is None:
            raise client_error(ErrorCode.SESSION_CLOSED)
        self._flush()
        self._is_detached = True
        received = b"".join(self._chunks)
        self._chunks.clear()
        return DetachedSocket(self._transport, received, bool(self._stopped & Stop.OUTPUT))

    def attach(self, detached: DetachedSocket) -> None:
        """Take the socket back; its unused input is served once the request is answered."""
        self._is_detached = False
        detached.transport.set_protocol(self)
        if detached.received:
            self._chunks.append(detached.received)
            self._have, self._need = len(detached.received), 0
        self._stopped = self._stopped | Stop.OUTPUT if detached.is_full else self._stopped & ~Stop.OUTPUT
        self._flush()
        self._wake_pushers()

    async def _replicate(self, row: Row) -> None:
        """Let replication handle a request, then go on or close the connection."""
        node = self._server.node
        try:
            await node.replication.requests.handle(self, row)
        except Exception as error:
            refusal = error if isinstance(error, BoxError) else self._server.dispatcher.unexpected(error)
            if not self._is_detached:
                self.reply_error(row.sync, refusal)
        finally:
            if self._is_detached:
                self._end_detached()
        if self._is_detached:
            return
        if row.type == RequestType.SUBSCRIBE:
            self.close()
        else:
            self._resume(Stop.BUSY)

    def _end_detached(self) -> None:
        """Close a socket that replication has not given back."""
        if self._transport is not None:
            self._transport.close()
        self._end()
