"""The UDP socket of a member of a SWIM cluster."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections import deque
from collections.abc import Callable
from typing import Final

from box.errors import BoxError
from box.net.sockets import socket_name
from box.net.uri import socket_error
from box.swim import Address, Cipher
from box.swim.encoding import DATAGRAM_SIZE
from lua.machine.sockets import READ, WRITE, Socket, Sockets

_TURN: Final = 4
"""The most packets that are read in one turn of the loop: one with a full table takes up to a millisecond."""
_BACKLOG: Final = 4096
"""The most packets that wait until the system takes them; others are lost, as on a busy network."""


class SwimSocket:
    """Sends and receives packets, encrypted with `cipher` if it is set.

    `on_packet` gets each packet, `on_problem` texts for the log.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, sockets: Sockets, on_problem: Callable[[str], None]) -> None:
        self._loop = loop
        self._sockets = sockets
        self._on_problem = on_problem
        self.on_packet: Callable[[bytes], None] = lambda _: None
        self.cipher: Cipher | None = None
        self._socket: Socket | None = None
        self._address = Address(0, 0)
        self._unsent: deque[tuple[bytes, Address]] = deque()
        self._is_ending = False

    @property
    def descriptor(self) -> int:
        """The number of the socket, -1 if there is none."""
        return -1 if self._socket is None else self._socket.fileno()

    def bind(self, address: Address) -> Address:
        """Receive at an address, in place of an earlier one. Port 0 stands for any port, or for the current one if the
        host stays the same.

        Raises:
            SocketError: the address cannot be bound.
        """
        is_bound = self._socket is not None and address.ip == self._address.ip
        if is_bound and address.port in (0, self._address.port):
            return self._address
        try:
            sock = self._sockets.open(socket.AF_INET, socket.SOCK_DGRAM, 0)
        except OSError as error:
            raise socket_error("socket", "fd -1", error.errno or 0) from error
        try:
            sock.setblocking(False)
            sock.bind((address.host, address.port))
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            port = int(sock.getsockname()[1])
        except OSError as error:
            name = socket_name(sock)
            sock.close()
            raise socket_error("bind", name, error.errno or 0) from error
        self._close_socket()
        self._socket, self._address = sock, Address(address.ip, port)
        self._watch()
        return self._address

    def send(self, data: bytes, address: Address) -> bool:
        """Send a packet, or keep it until the system takes it. Returns False if that is impossible."""
        if self._socket is None:
            return False
        if self.cipher is not None:
            try:
                data = self.cipher.encrypt(data)
            except BoxError as error:
                self._on_problem(error.log_text)
                return False
        if self._unsent:
            return self._keep(data, address)
        return self._try_send(data, address)

    def _try_send(self, data: bytes, address: Address) -> bool:
        assert self._socket is not None
        try:
            self._socket.sendto(data, 0, (address.host, address.port))
        except BlockingIOError:
            return self._keep(data, address)
        except OSError as error:
            if error.errno != errno.EINVAL:  # a broadcast from the local host, which finds no way
                self._report(f"sendto({len(data)})", error)
            return False
        return True

    def _keep(self, data: bytes, address: Address) -> bool:
        if len(self._unsent) < _BACKLOG:
            self._unsent.append((data, address))
            self._watch()
        return True

    def _report(self, what: str, error: OSError) -> None:
        name = "fd -1" if self._socket is None else socket_name(self._socket)
        self._on_problem(socket_error(what, name, error.errno or 0).log_text)

    def close(self) -> None:
        """Receive nothing more. The socket closes when all packets are sent."""
        self._is_ending = True
        if self._unsent:
            self._watch()
        else:
            self.abort()

    def abort(self) -> None:
        """Close the socket at once."""
        self._is_ending = True
        self._unsent.clear()
        self._close_socket()

    def _close_socket(self) -> None:
        if self._socket is not None:
            self._sockets.watch(self._loop, self._socket.fileno(), 0, self._on_ready)
            self._socket.close()
            self._socket = None

    def _watch(self) -> None:
        mask = (0 if self._is_ending else READ) | (WRITE if self._unsent else 0)
        self._sockets.watch(self._loop, self.descriptor, mask, self._on_ready)

    def _on_ready(self, _descriptor: int, event: int) -> None:
        if event == WRITE:
            self._flush()
        else:
            self._read()

    def _flush(self) -> None:
        waiting, self._unsent = self._unsent, deque()
        while waiting and not self._unsent and self._socket is not None:
            self._try_send(*waiting.popleft())
        self._unsent += waiting
        if self._is_ending and not self._unsent:
            self._close_socket()
        elif self._socket is not None:
            self._watch()

    def _read(self) -> None:
        """Read some packets; the loop calls again for others."""
        for _ in range(_TURN):
            if self._socket is None or self._is_ending:
                return
            try:
                data, _ = self._socket.recvfrom(DATAGRAM_SIZE, 0)
                if self.cipher is not None:
                    data = self.cipher.decrypt(data)
            except BlockingIOError:
                return
            except OSError as error:
                self._report(f"recvfrom({DATAGRAM_SIZE})", error)
                return
            except BoxError as error:
                self._on_problem(error.log_text)
                continue
            if data:
                self.on_packet(data)
        self._loop.call_soon(self._read)
