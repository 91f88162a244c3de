"""One client connection: packets in, replies out, and when to stop reading.

Requests of one read are served one after another without a task; their replies leave in one write. A reply that has
to wait (for the log, a quorum, a function) is added when it is known, and all replies of one turn of the loop leave
together.

Input stops while: the client does not read its replies (OUTPUT), more than `net_msg_max` requests of the whole
server are waiting (LIMIT), the greeting waits for a trigger or replication has the connection (BUSY), requests gather
for a moment (PACE, see `pace.py`). Input that is here already stays in `_chunks` meanwhile.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from enum import IntFlag
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from box.data.codec import unpack
from box.errors import BoxError, ErrorCode, client_error
from box.iproto.pace import SECONDS, TURNS, Pace, Pause
from box.iproto.stats import Net
from box.net.peer_connection import DetachedSocket
from box.net.sockets import address_text
from box.session import Context
from box.txn.pending import Outcome, Pending
from box.wire.change import Request
from box.wire.constants import RequestType
from box.wire.greeting import encode_greeting
from box.wire.packet import packet_bounds
from box.wire.reply import reply_chunk, reply_error, reply_ok, reply_tuple, reply_tuples
from box.wire.row import Row

if TYPE_CHECKING:
    from box.iproto.server import IprotoServer


class Stop(IntFlag):
    """Reasons why a connection does not read; see the module."""

    OUTPUT = 1
    LIMIT = 2
    BUSY = 4
    PACE = 8


_HeaderReader = Callable[[bytes, int], tuple[Any, ...]]


def _header_shapes() -> dict[int, tuple[_HeaderReader, int]]:
    """By the first byte of the sync: how to read `ce <length> 82 00 <type> 01 <sync>`, and its size.

    The fields are 0xCE, length, 0x8200, type, 0x01, sync. Other forms of a header do not match the constants.
    """
    one_byte = struct.Struct(">BIHBBB").unpack_from
    shapes: dict[int, tuple[_HeaderReader, int]] = dict.fromkeys(range(128), (one_byte, 10))
    for mark, (form, width) in {0xCC: ("B", 1), 0xCD: ("H", 2), 0xCE: ("I", 4), 0xCF: ("Q", 8)}.items():
        shapes[mark] = (struct.Struct(">BIHBBx" + form).unpack_from, 10 + width)
    return shapes


_SHAPES: Final = _header_shapes()
_LONG_ARRAYS: Final = (0xDC, 0xDD)


class ServerConnection(asyncio.Protocol):
    """The protocol object of one accepted socket."""

    __slots__ = (
        "_chunks",
        "_flush_scheduled",
        "_have",
        "_is_detached",
        "_need",
        "_out",
        "_pace",
        "_server",
        "_stopped",
        "_transport",
        "ctx",
        "salt",
        "session",
    )

    def __init__(self, server: IprotoServer) -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._out: list[bytes] = []
        self._chunks: list[bytes] = []
        self._have = 0
        self._need = 0
        """Bytes in `_chunks`, and how many there must be before it is worth looking at them."""
        self._stopped = Stop(0)
        self._pace = Pace()
        self._flush_scheduled = False
        self._is_detached = False
        self.salt = b""
        self.session = server.open_session(self)
        self.ctx = Context(self.session)
        """The context of simple requests, which never suspend; every other request has its own."""

    # -- life -------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.session.peer = address_text(transport.get_extra_info("peername"))
        self.session.fd = transport.get_extra_info("socket").fileno()
        server = self._server
        server.connections.add(self)
        server.stats.connections += 1
        server.stats.net.totals[Net.CONNECTIONS] += 1
        self.salt = server.make_salt()
        self._out.append(encode_greeting(server.node.state.instance_uuid, self.salt))
        if server.node.sessions.on_connect:
            self._stop(Stop.BUSY)
            server.spawn(self._greet())
        else:
            self._flush()

    async def _greet(self) -> None:
        """Run the on_connect triggers; a client whom one refuses gets the greeting, the error and the end."""
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
        """The client has gone: requests that are running finish, their replies go nowhere."""
        self._transport = None
        self._chunks.clear()
        self._out.clear()
        self._server.forget(self)
        self._server.spawn(self._close_session())

    async def _close_session(self) -> None:
        try:
            await self._server.node.sessions.close(self.session)
        except BoxError as error:
            self._server.node.log.error(error.log_text)
        except Exception as bug:
            self._server.dispatcher.unexpected(bug)

    def close(self) -> None:
        """Send what there is to send and close."""
        self._flush()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Break the connection off: what is not sent yet never is, nor is anything that is served from now on."""
        transport, self._transport = self._transport, None
        self._out.clear()
        if transport is not None:
            transport.abort()

    # -- flow control -----------------------------------------------------------------------------------------

    def _stop(self, reason: Stop) -> None:
        if not self._stopped and self._transport is not None:
            self._transport.pause_reading()
        self._stopped |= reason

    def _resume(self, reason: Stop) -> None:
        self._stopped &= ~reason
        if self._stopped or self._transport is None:
            return
        if self._chunks:
            waiting = b"".join(self._chunks)
            self._chunks.clear()
            self._run(waiting)
        if not self._stopped and self._transport is not None:
            self._transport.resume_reading()

    def _pause(self, pause: Pause) -> None:
        """Let requests gather before the next read."""
        self._stop(Stop.PACE)
        if pause is Pause.LONG:
            self._server.loop.call_later(SECONDS, self._resume, Stop.PACE)
        else:
            self._take_turns(TURNS)

    def _take_turns(self, left: int) -> None:
        """A short pause: resume after so many turns of the loop."""
        if left:
            self._server.loop.call_soon(self._take_turns, left - 1)
        else:
            self._resume(Stop.PACE)

    def pause_writing(self) -> None:
        self._stop(Stop.OUTPUT)

    def resume_writing(self) -> None:
        self._resume(Stop.OUTPUT)

    def admit(self) -> None:
        """There is room for more requests on the server."""
        self._resume(Stop.LIMIT)

    # -- input ------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        self._server.stats.net.totals[Net.RECEIVED] += len(data)
        if self._chunks or self._stopped:
            self._chunks.append(data)
            self._have += len(data)
            if self._have < self._need or self._stopped:
                return
            data = b"".join(self._chunks)
            self._chunks.clear()
        pause = self._pace.after_read(self._run(data))
        if pause:
            self._pause(pause)

    def _run(self, data: bytes) -> int:
        """Serve the packets of `data` and keep what is left of it. Gives their number."""
        self._flush_scheduled = True  # all replies until the end of this method leave there
        try:
            pos, need, count = self._serve_packets(data)
        except BoxError as error:
            self._server.node.log.error(error.log_text)
            self.reply_error(0, error)
            self.close()
            return 0
        if pos < len(data):
            self._chunks.append(data[pos:])
            self._have = len(data) - pos
            self._need = need
        self._flush()
        return count

    def _serve_packets(self, data: bytes) -> tuple[int, int, int]:
        """Serve packet by packet. Gives the position behind the last one, the size of the incomplete rest, a count."""
        server = self._server
        pos, end, count, need = 0, len(data), 0, 0
        while pos < end and not self._stopped:
            if server.in_flight > server.limit:
                self._stop(Stop.LIMIT)
                server.wait_for_room(self)
                break
            try:
                read_header, size = _SHAPES[data[pos + 9]]
                mark, length, keys, kind, sync_key, sync = read_header(data, pos)
            except (IndexError, KeyError, struct.error):
                mark = 0
            if mark == 0xCE and keys == 0x8200 and sync_key == 1 and kind < 128 and length >= size - 5:
                start, stop = pos + size, pos + 5 + length
                if stop <= end and not self._serve(kind, sync, data, start, stop):
                    server.dispatcher.run(self, Row(kind, sync=sync, body=data[start:stop]))
            else:
                start, stop = packet_bounds(data, pos)
                if stop <= end:
                    server.dispatcher.dispatch(self, data[start:stop])
            if stop > end:
                need = stop - pos
                break
            pos = stop
            count += 1
        server.stats.net.totals[Net.REQUESTS] += count
        return pos, need, count

    def _serve(self, kind: int, sync: int, data: bytes, at: int, stop: int) -> bool:
        """Serve a request whose body, at `at`, begins like an earlier one. False if it is not of that sort."""
        server = self._server
        schema = server.schema
        if not 0 < kind < 4:
            if kind != RequestType.PING or stop != at:
                return False
            self._out.append(reply_ok(sync, schema.version))
            return True
        plans = server.plans
        tail = at + plans.sizes[kind]
        plan = plans.tables[kind].get(data[at:tail])
        if plan is None or plans.version != schema.version or server.is_delayed:
            return False
        if tail >= stop or (data[tail] & 0xF0 != 0x90 and data[tail] not in _LONG_ARRAYS):
            return False
        ctx = self.ctx
        try:
            if kind == 1:
                tuples = server.dml.reads.select(ctx, *plan, unpack(data[tail:stop]))
                self.reply(reply_tuples(sync, schema.version, tuples))
                return True
            space = plan.space
            if space.on_replace or space.before_replace:
                return False
            stored = server.dml.write(ctx, space, Request(kind, data[tail:stop]))
        except BoxError as error:
            if error.code == ErrorCode.INVALID_MSGPACK:
                return False
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

    # -- output -----------------------------------------------------------------------------------------------

    def reply(self, packet: bytes) -> None:
        """Send a reply at the end of this turn of the loop."""
        self._out.append(packet)
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self._server.loop.call_soon(self._flush)

    def reply_error(self, sync: int, error: BoxError) -> None:
        """Send an error reply."""
        self._server.stats.count_error()
        self.reply(reply_error(sync, self._server.schema.version, error))

    def finish_write(self, sync: int, outcome: Outcome) -> None:
        """Answer a write, now or when it has ended."""
        if isinstance(outcome, Pending):
            self._server.in_flight += 1
            outcome.on_done(partial(self._written, sync))
        else:
            self.reply(reply_tuples(sync, self._server.schema.version, () if outcome is None else (outcome,)))

    def _written(self, sync: int, write: Pending) -> None:
        server = self._server
        server.leave()
        if write.error is not None:
            self.reply_error(sync, write.error)
        elif write.result is not None:
            self.reply(reply_tuple(sync, server.schema.version, write.result))
        else:
            self.reply(reply_tuples(sync, server.schema.version, ()))

    def push(self, value: bytes, sync: int) -> None:
        """`box.session.push`: one encoded value for the client's request `sync`. SESSION_CLOSED if it is gone."""
        if self._transport is None:
            raise client_error(ErrorCode.SESSION_CLOSED)
        self.reply(reply_chunk(sync, self._server.schema.version, value))

    def _flush(self) -> None:
        self._flush_scheduled = False
        if self._is_detached:
            return
        out, transport = self._out, self._transport
        if out and transport is not None and not transport.is_closing():
            packets = b"".join(out)
            self._server.stats.net.totals[Net.SENT] += len(packets)
            transport.write(packets)
        out.clear()

    # -- replication ------------------------------------------------------------------------------------------

    def hand_over(self, row: Row) -> None:
        """Give the connection to replication, which may keep it."""
        self._stop(Stop.BUSY)
        # Not before the caller has put the rest of its input where `detach` finds it.
        self._server.loop.call_soon(self._begin_replication, row)

    def _begin_replication(self, row: Row) -> None:
        self._server.spawn(self._replicate(row))

    def detach(self) -> DetachedSocket:
        """For replication: the socket and the input that came behind the request. Replies wait until `attach`."""
        if self._transport is None:
            raise client_error(ErrorCode.SESSION_CLOSED)
        self._flush()
        self._is_detached = True
        received = b"".join(self._chunks)
        self._chunks.clear()
        return DetachedSocket(self._transport, received, bool(self._stopped & Stop.OUTPUT))

    def attach(self, detached: DetachedSocket) -> None:
        """Take the socket back and serve the input that has not been used, once the request is answered."""
        self._is_detached = False
        detached.transport.set_protocol(self)
        if detached.received:
            self._chunks.append(detached.received)
            self._have, self._need = len(detached.received), 0
        self._stopped = self._stopped | Stop.OUTPUT if detached.is_full else self._stopped & ~Stop.OUTPUT
        self._flush()

    async def _replicate(self, row: Row) -> None:
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
        """The socket has not come back."""
        if self._transport is not None:
            self._transport.close()
        self._end()
