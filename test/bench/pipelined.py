"""Measures requests a second of a client that writes a thousand requests with one system call and skips the replies.

Usage: python -m test.bench.pipelined URI REQUESTS NAME...; prints a line `NAME RATE` for each kind of request. The
client needs next to no processor time, so that the rates are those of the server.
"""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable

import msgpack

from box.wire.constants import GREETING_SIZE, Key, RequestType
from box.wire.packet import packet_bounds
from box.wire.row import Row, decode_row, encode_packet

_BATCH = 1000
"""Requests in one system call."""
_ROUNDS = 3
"""Measurements of which the best counts."""


def _body(fields: dict[Key, object]) -> bytes:
    packed: bytes = msgpack.packb({int(key): value for key, value in fields.items()})
    return packed


_SELECT_ALL = {Key.INDEX_ID: 0, Key.OFFSET: 0, Key.ITERATOR: 0}


def select_body(space: int, limit: int, key: list[object], index: int = 0) -> bytes:
    """Encode the body of an EQ select of a key; an empty key selects from the beginning of the index."""
    return _body({Key.SPACE_ID: space, **_SELECT_ALL, Key.INDEX_ID: index, Key.LIMIT: limit, Key.KEY: key})


_REQUESTS: dict[str, Callable[[int, int], Row]] = {
    "replace": lambda space, number: Row(
        RequestType.REPLACE, body=_body({Key.SPACE_ID: space, Key.TUPLE: [number, "name", 1.5]})
    ),
    "select": lambda space, number: Row(RequestType.SELECT, body=select_body(space, 1, [number])),
    "update": lambda space, number: Row(
        RequestType.UPDATE, body=_body({Key.SPACE_ID: space, Key.KEY: [number], Key.TUPLE: [["=", 1, "name"]]})
    ),
    "call": lambda space, number: Row(RequestType.CALL, body=_body({Key.FUNCTION_NAME: "echo", Key.TUPLE: [number]})),
    "ping": lambda space, number: Row(RequestType.PING),
}

_TABLE = "CREATE TABLE IF NOT EXISTS points (id INT PRIMARY KEY, name TEXT, price DOUBLE)"
_STATEMENTS: dict[str, tuple[str, Callable[[int], list[object]]]] = {
    "prepared_replace": ("REPLACE INTO points VALUES (?, ?, ?)", lambda number: [1000 + number, "name", 1.5]),
    "prepared_select": ("SELECT * FROM points WHERE id = ?", lambda number: [1000 + number]),
    "prepared_update": ("UPDATE points SET name = ? WHERE id = ?", lambda number: ["other", 1000 + number]),
}


class Client:
    """A blocking connection that decodes as few replies as possible."""

    def __init__(self, uri: str, timeout: float = 60) -> None:
        host, port = uri.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=timeout)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = memoryview(bytearray(1 << 20))
        self.read(GREETING_SIZE)

    def send(self, data: bytes) -> None:
        """Send all bytes."""
        self._socket.sendall(data)

    def read(self, size: int) -> None:
        """Read `size` bytes and drop them.

        Raises:
            SystemExit: the server has closed the connection.
        """
        while size > 0:
            got = self._socket.recv_into(self._buffer, min(size, len(self._buffer)))
            if got == 0:
                raise SystemExit("the server has closed the connection")
            size -= got

    def ask(self, requests: bytes, count: int) -> list[Row]:
        """Send encoded requests and return their `count` decoded replies; `reply_size` is then their size in bytes."""
        self._socket.sendall(requests)
        data, replies, pos = b"", [], 0
        while len(replies) < count:
            data += self._socket.recv(1 << 20)
            while len(data) - pos > 5 and (bounds := packet_bounds(data, pos))[1] <= len(data):
                replies.append(decode_row(data[slice(*bounds)]))
                pos = bounds[1]
        self.reply_size = pos
        return replies

    def reply_size_of(self, request: bytes) -> int:
        """Send one request and return the size of its reply in bytes.

        Raises:
            SystemExit: the request has failed.
        """
        self.send(request)
        # Five bytes of length, then the header: a map of three whose first pair is the type, OK (0).
        head = self._peek(12)
        if head[5:12] != b"\x83\x00\xce\x00\x00\x00\x00":
            raise SystemExit(f"the request failed: {head!r}")
        size = packet_bounds(head, 0)[1]
        self.read(size)
        return size

    def _peek(self, size: int) -> bytes:
        while len(head := self._socket.recv(size, socket.MSG_PEEK)) < size:
            if not head:
                raise SystemExit("the server has closed the connection")
        return head

    def space_id(self, name: str) -> int:
        """Return the id of a space by its name, from index 2 of `_vspace` (281)."""
        [reply] = self.ask(encode_packet(Row(RequestType.SELECT, body=select_body(281, 1, [name], index=2))), 1)
        space_id: int = msgpack.unpackb(reply.body, strict_map_key=False)[int(Key.DATA)][0][0]
        return space_id

    def prepare(self, name: str) -> Callable[[int, int], Row]:
        """Create the table and prepare a statement; return a function that makes the n-th request to execute it."""
        text, params = _STATEMENTS[name]
        for request_type, prepared in ((RequestType.EXECUTE, _TABLE), (RequestType.PREPARE, text)):
            [reply] = self.ask(encode_packet(Row(request_type, body=_body({Key.SQL_TEXT: prepared}))), 1)
        statement_id = msgpack.unpackb(reply.body, strict_map_key=False)[int(Key.STMT_ID)]

        def make(_: int, number: int) -> Row:
            body = _body({Key.STMT_ID: statement_id, Key.SQL_BIND: params(number)})
            return Row(RequestType.EXECUTE, body=body)

        return make

    def rate(self, make: Callable[[int, int], Row], space: int, count: int) -> float:
        """Return the best rate (1/s) of some rounds of `count` requests.

        A first batch is decoded: it shows whether the requests succeed, and the size of their replies.

        Raises:
            SystemExit: a request of the first batch has failed.
        """
        rows = (make(space, number) for number in range(_BATCH))
        requests = b"".join(
            encode_packet(Row(row.type, sync=100_000 + number, body=row.body)) for number, row in enumerate(rows)
        )
        failed = [reply for reply in self.ask(requests, _BATCH) if reply.type != RequestType.OK]
        if failed:
            raise SystemExit(f"{len(failed)} requests failed, the first with {failed[0].body!r}")
        best = 0.0
        for _ in range(_ROUNDS):
            start = time.perf_counter()
            for _ in range(count // _BATCH):
                self._socket.sendall(requests)
                self.read(self.reply_size)
            best = max(best, count // _BATCH * _BATCH / (time.perf_counter() - start))
        return best


def main(uri: str, count: int, names: list[str]) -> None:
    client = Client(uri)
    space = client.space_id("bench")
    fill = client.prepare("prepared_replace") if _STATEMENTS.keys() & set(names) else _REQUESTS["replace"]
    for name in names:
        make = _REQUESTS[name] if name in _REQUESTS else client.prepare(name)
        if name in _STATEMENTS:
            client.ask(b"".join(encode_packet(fill(0, number)) for number in range(_BATCH)), _BATCH)
        print(f"pipelined_{name}", client.rate(make, space, count))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
