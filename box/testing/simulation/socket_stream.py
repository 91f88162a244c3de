"""Ends of connections in which at least one end is a socket of a Lua program.

```
a socket reads        bytes wait in its buffer until the program takes them, and count as the sender's until then
a sender              takes no more (EAGAIN; a node's protocol pauses) while `SEND_BOUND` of its bytes are not taken
half closed           one side has ended its stream; the other one may continue
closed                the end of the stream, or a reset if something was not read; later data is answered by a reset
reset                 ECONNRESET, or EPIPE for a program that has seen the end of the stream. A reset also answers data
                      for a socket that is not closed, but has both directions shut
```

As on Linux, what has arrived before a reset can still be read, and an end that has arrived stays the end. Unix sockets
report the reset first.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any, Final

from box.testing.simulation.loop import SimulatedLoop
from box.testing.simulation.simulated_stream import Host, Stream, Ways, network_error

SEND_BOUND: Final = 256 * 1024
"""The limit for the bytes of one direction that are on their way or not taken."""


class CountedStream(Stream):
    """A node's end of a connection to a socket: its bytes count until the other end takes them."""

    _peer: CountedStream | None

    def _leave(self, size: int) -> None:
        """Do nothing: bytes that have arrived still count until they are taken."""

    def _hand_over(self, data: bytes) -> None:
        peer = self._peer
        if peer is None:
            return
        if peer._is_closing:
            peer.send_reset()
        else:
            peer._receive(data)

    def taken(self, size: int) -> None:
        """Count bytes that the other end has taken."""
        super()._leave(size)

    def _feed(self, data: bytes) -> int:
        size = super()._feed(data)
        if self._peer is not None:
            self._peer.taken(size)
        return size

    def _take_end(self) -> None:
        """Handle the end of the other side as asyncio does: the protocol may keep its own direction open."""
        self._end_is_here = False
        protocol: Any = self._protocol
        if not protocol.eof_received():
            self.close()

    def _send_end_later(self) -> None:
        if self._unread:
            self.send_reset()
        else:
            super()._send_end_later()

    def send_reset(self) -> None:
        """Send a reset to the other end, because this one is closed and takes nothing any more."""
        now = self._loop.time()
        self._last_arrival = max(self._last_arrival + 1e-9, now + self._network.delay(self.host, self.peer_host))
        self._at(self._last_arrival, self._reset_arrives)

    def _reset_arrives(self) -> None:
        if not self._network.is_cut(self.host, self.peer_host):
            self._network.forget(self)
            if self._peer is not None:
                self._peer._break()


def _ignore() -> None:
    """Do nothing, in place of a callback."""


class SocketStream(CountedStream):
    """An end that is a socket of a program."""

    def __init__(self, network: Ways, owner: Host, peer_host: str, own: tuple[str, int], peer: tuple[str, int]) -> None:
        super().__init__(network, owner, peer_host, own, peer)
        self.on_change: Callable[[], None] = _ignore
        """Called when the socket may have become ready."""
        self.is_over = False
        """True if a reset has ended both directions."""
        self.is_read_shut = False
        self.is_write_shut = False
        self._error = 0
        self._is_end_there = False
        """True if the end of this side's stream has arrived at the other side."""
        self._inbox = bytearray()

    # -- the program

    def take_error(self) -> int:
        """Return the errno of an unreported error, or 0, and clear it."""
        error, self._error = self._error, 0
        return error

    @property
    def is_finished(self) -> bool:
        """True if the connection has ended, by a reset or because both sides have ended their streams."""
        return self.is_over or (self._is_end_there and self._end_is_here)

    @property
    def is_readable(self) -> bool:
        """True if a read returns at once."""
        return bool(self._inbox) or self._end_is_here or self.is_read_shut or self.is_over or bool(self._error)

    @property
    def is_writable(self) -> bool:
        """True if a write takes at least half of `SEND_BOUND` at once, or fails."""
        return self._in_flight <= SEND_BOUND // 2 or self.is_write_shut or self.is_over or bool(self._error)

    def send(self, data: bytes) -> int:
        """Send data and return the number of bytes taken.

        Raises:
            OSError: EAGAIN if there is no room, EPIPE after the end, or an unreported error.
        """
        if error := self.take_error():
            raise network_error(error)
        if self.is_write_shut or self.is_over:
            raise network_error(errno.EPIPE)
        room = SEND_BOUND - self._in_flight
        if room <= 0 and data:
            raise network_error(errno.EAGAIN)
        block = data[:room]
        self.write(block)
        return len(block)

    def receive(self, size: int, *, peeks: bool = False) -> bytes:
        """Return up to `size` bytes, or none at the end of the stream. With `peeks` they stay in the buffer.

        Raises:
            OSError: EAGAIN if nothing has arrived, or an unreported error.
        """
        inbox = self._inbox
        if not inbox:
            return self._receive_nothing()
        data = bytes(inbox[:size])
        if not peeks:
            del inbox[:size]
            if self._peer is not None:
                self._peer.taken(len(data))
        return data

    def _receive_nothing(self) -> bytes:
        if not self._end_is_here:
            if error := self.take_error():
                raise network_error(error)
            if not self.is_over and not self.is_read_shut:
                raise network_error(errno.EAGAIN)
        return b""

    def shut_writing(self) -> None:
        """End this side's stream."""
        if not self.is_write_shut:
            self.is_write_shut = True
            self._send_end_later()
            self.on_change()

    def shut_reading(self) -> None:
        """Read nothing more."""
        self.is_read_shut = True
        self.on_change()

    def end(self, *, abruptly: bool = False) -> None:
        """Close the connection; a reset is sent if data was not read, or with `abruptly`."""
        self.on_change = _ignore
        if self._is_closing:
            return
        self._is_closing = True
        if self._inbox or abruptly:
            self.send_reset()
        elif not self.is_write_shut:
            self.is_write_shut = True
            self._send_end_later()

    # -- the stream

    def _receive(self, data: bytes) -> None:
        if self.is_read_shut and self.is_write_shut:
            self.send_reset()
            self._break()
            return
        self._inbox += data
        self.on_change()

    def _pass_cut(self, data: bytes | None) -> bool:
        passes = super()._pass_cut(data)
        if passes and data is None:
            self._is_end_there = True
        return passes

    def _read_on(self) -> None:
        self.on_change()

    def taken(self, size: int) -> None:
        was_writable = self.is_writable
        self._in_flight -= size
        if not was_writable and self.is_writable:
            self.on_change()

    def close(self) -> None:
        self.end()

    def vanish(self) -> None:
        self.end()

    def _break(self) -> None:
        self._network.forget(self)
        if not self._is_closing:
            self._is_closing = self.is_over = True
            self._error = errno.EPIPE if self._end_is_here else errno.ECONNRESET
            self.on_change()


class LocalWays:
    """The way of unix sockets, which has no delays and no faults because it stays within a host."""

    trace = None
    bandwidth = None
    corruption = 0.0

    def __init__(self, loop: SimulatedLoop) -> None:
        self.loop = loop

    def delay(self, source: str, target: str) -> float:
        """Return 0, because a unix socket has no delay."""
        return 0.0

    def chance(self, share: float) -> bool:
        return False

    def is_cut(self, source: str, target: str) -> bool:
        return False

    def register(self, stream: Stream) -> None:
        """Do nothing: faults of the network do not affect unix sockets."""

    def forget(self, stream: Stream) -> None:
        """Do nothing, because `register` has not stored the stream."""


class LocalSocketStream(SocketStream):
    """An end of a unix socket. Between two of these, data arrives at once."""

    def _at(self, when: float, call: Callable[..., object], *arguments: Any) -> None:
        if isinstance(self._peer, LocalSocketStream):
            call(*arguments)
        else:  # a node's protocol must not be called in the middle of the program's call
            super()._at(when, call, *arguments)

    def send(self, data: bytes) -> int:
        if self.is_over or (self._peer is not None and self._peer._is_closing):
            raise network_error(errno.EPIPE)
        return super().send(data)

    def _receive_nothing(self) -> bytes:
        """Report a reset in preference to the end of the stream."""
        if error := self.take_error():
            raise network_error(error)
        return super()._receive_nothing()

    def _break(self) -> None:
        super()._break()
        if self._error:
            self._error = errno.ECONNRESET

    def shut_reading(self) -> None:
        """Read nothing more, and stop the other side from writing."""
        super().shut_reading()
        if isinstance(self._peer, LocalSocketStream):
            self._peer.is_write_shut = True
            self._peer.on_change()


SocketStream.partner = CountedStream
CountedStream.partner = CountedStream
