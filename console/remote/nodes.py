"""Other instances that statements are sent to, through the binary or the text protocol.

    open       connect, and become the user of the address
    execute    a statement -> the text of its answer, as a console there gives it
    call       a function of a Lua text that goes along with the request -> its values
    ask        as `call`, for questions of the terminal, which may be given up

A lost connection is opened again by the next `execute` or `call`; a statement is never sent twice.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

import yaml

from box.data.codec import pack, unpack
from box.errors import BoxError, ErrorCode, client_error, timed_out
from box.net.dial import connect, open_connection, parse_address
from box.net.peer_connection import PeerConnection
from box.net.sockets import SocketNetwork
from box.net.uri import Uri, address_of, parse
from box.wire.constants import GREETING_SIZE, Key, RequestType
from box.wire.row import Row
from console.sent_modules import call_of, sent_source

CONNECT_TIMEOUT: Final = 5.0
"""The seconds that a connection may take, so that a console does not wait for the system's minutes."""
_ANSWER_MAX: Final = 1 << 28
"""The bytes that an answer may have in a text console, where it is read as a whole; asyncio's limit is 64 KB."""
_LAST_PORT: Final = 65535
_LOOK_UP: Final = "getaddrinfo: "
"""The beginning of a message about an unknown host or service name."""
_ROUTE: Final = "return require('console').eval(...)"
_DELIMITER: Final = "$EOF$"
_END: Final = {"yaml": b"\n...\n", "lua": b";"}

OnPush = Callable[[str], None]


class Lost(Exception):
    """Raised if the connection is lost; the text gives the reason."""


class RemoteNode(Protocol):
    """A remote instance, whichever protocol it speaks."""

    name: str

    async def open(self) -> None:
        """Connect if there is no connection. Raises BoxError."""

    async def execute(self, statement: str, on_push: OnPush) -> str:
        """Run a statement and return the text of its answer. Raises Lost."""

    async def call(self, module: str, function: str, *arguments: Any) -> Any:
        """Call a function of a module that is sent along, and return its first value. Raises BoxError, Lost."""

    async def ask(self, module: str, function: str, *arguments: Any) -> Any:
        """Ask a question of the terminal; giving up the wait leaves the connection intact."""

    def close(self) -> None: ...


class BinaryNode:
    """An instance reached through the binary protocol: the statement is an argument of an EVAL."""

    def __init__(self, address: str, user: str | None, password: str | None) -> None:
        self.name = address_of(address)
        self._address = address
        self._user, self._password = user, password
        self._connection: PeerConnection | None = None

    @property
    def is_open(self) -> bool:
        return self._connection is not None and self._connection.error is None

    async def open(self) -> None:
        if self.is_open:
            return
        loop = asyncio.get_running_loop()
        self._connection = await connect(
            loop,
            SocketNetwork(loop),
            self._address,
            timeout=CONNECT_TIMEOUT,
            user=self._user,
            password=self._password,
        )

    async def execute(self, statement: str, on_push: OnPush) -> str:
        try:
            values = await self._eval(_ROUTE, [statement], on_push)
        except BoxError as error:
            if not self.is_open:
                raise Lost(error.message) from error
            return f"---\n- error: {json.dumps(error.message, ensure_ascii=False)}\n...\n"
        return _text(values[0]) if values and values[0] is not None else ""

    async def call(self, module: str, function: str, *arguments: Any) -> Any:
        values = await self._eval(call_of(module), [function, *arguments], None)
        return values[0] if values else None

    async def ask(self, module: str, function: str, *arguments: Any) -> Any:
        return await self.call(module, function, *arguments)

    async def eval(self, source: str, *arguments: Any) -> list[Any]:
        """Run a Lua text and return its values. Raises BoxError."""
        return await self._eval(source, list(arguments), None)

    async def _eval(self, source: str, arguments: list[Any], on_push: OnPush | None) -> list[Any]:
        connection = self._connection
        if connection is None:
            raise client_error(ErrorCode.NO_CONNECTION)
        body = pack({int(Key.EXPR): source, int(Key.TUPLE): arguments})
        take: Callable[[Row], None] | None = None
        if on_push is not None:
            push = on_push

            def take(row: Row) -> None:
                push("".join(f"{_pushed(value)}\n" for value in _data(row)))

        return _data(await connection.request(Row(RequestType.EVAL, body=body), on_push=take))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


def _data(row: Row) -> list[Any]:
    return list(unpack(row.body).get(int(Key.DATA), [])) if row.body else []


def _pushed(value: Any) -> str:
    return f"-- push: {json.dumps(value, default=str, ensure_ascii=False)}"


def _text(value: Any) -> str:
    return value.decode(errors="surrogateescape") if isinstance(value, bytes) else str(value)


class TextNode:
    """An instance reached through the text console's protocol: one statement at a time, an answer ends with a mark."""

    def __init__(self, address: str, uri: Uri) -> None:
        self.name = address_of(address)
        self._uri = uri
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._format = "yaml"
        self._turn = asyncio.Lock()

    async def open(self) -> None:
        if self._streams is not None:
            return
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                self._streams = await self._connect()
                await self._exchange(f'require("console").delimiter("{_DELIMITER}")\n')
        except TimeoutError:
            self.close()
            raise timed_out() from None
        except (OSError, Lost) as error:
            self.close()
            raise client_error(ErrorCode.NO_CONNECTION) from error
        self._format = "yaml"

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._uri.unix is not None:
            streams = await asyncio.open_unix_connection(self._uri.unix, limit=_ANSWER_MAX)
        else:
            host, port = self._uri.host or "localhost", self._uri.service or "0"
            streams = await asyncio.open_connection(host, port, limit=_ANSWER_MAX)
        try:
            await streams[0].readexactly(GREETING_SIZE)
        except asyncio.IncompleteReadError as error:
            raise Lost("no greeting") from error
        return streams

    async def execute(self, statement: str, on_push: OnPush) -> str:
        async with self._turn:
            words = statement.split()
            if words[:2] in (["\\set", "output"], ["\\s", "o"], ["\\set", "o"]) and len(words) == 3:
                self._format = words[2].partition(",")[0] if words[2].partition(",")[0] in _END else self._format
            answer = await self._exchange(f"{statement}{_DELIMITER}\n")
            while answer.startswith(("%TAG !push!", "-- Push")):
                on_push(answer)
                answer = await self._read()
            return answer

    async def call(self, module: str, function: str, *arguments: Any) -> Any:
        return await self._call(self._in_turn, module, function, arguments)

    async def ask(self, module: str, function: str, *arguments: Any) -> Any:
        return await self._call(self._read_to_the_end, module, function, arguments)

    async def _call(
        self, exchange: Callable[[str], Awaitable[str]], module: str, function: str, arguments: tuple[Any, ...]
    ) -> Any:
        if self._format != "yaml":
            return None
        literals = ", ".join(map(_literal, arguments))
        source = sent_source(module).replace(_DELIMITER, "")
        expression = f'require("json").encode((function() {source}\nend)().{function}({literals}))'
        text = await exchange(f"{expression}{_DELIMITER}\n")
        answer = yaml.safe_load(text.replace("\t", " "))
        value = answer[0] if isinstance(answer, list) and answer else None
        return json.loads(value) if isinstance(value, str) else None

    async def _in_turn(self, text: str) -> str:
        """Return the answer to a text. Giving up the wait ends the connection."""
        async with self._turn:
            return await self._exchange(text)

    async def _read_to_the_end(self, text: str) -> str:
        """Return the answer to a text, which is read completely even if the wait is given up.

        The connection must be kept, because the user may have a transaction open in it.
        """
        await self._turn.acquire()
        exchange = asyncio.ensure_future(self._exchange(text))
        exchange.add_done_callback(lambda _: self._turn.release())
        return await asyncio.shield(exchange)

    async def _exchange(self, text: str) -> str:
        if self._streams is None:
            raise Lost("there is no connection")
        try:
            self._streams[1].write(text.encode(errors="surrogateescape"))
            await self._streams[1].drain()
        except OSError as error:
            self.close()
            raise Lost(error.strerror or str(error)) from error
        return await self._read()

    async def _read(self) -> str:
        assert self._streams is not None
        try:
            return (await self._streams[0].readuntil(_END[self._format])).decode(errors="surrogateescape")
        except asyncio.CancelledError:
            self.close()  # the answer may still come, and could be taken for the next one
            raise
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError) as error:
            self.close()
            raise Lost("the other side has closed the connection") from error

    def close(self) -> None:
        streams, self._streams = self._streams, None
        if streams is not None:
            streams[1].close()


def _literal(value: Any) -> str:
    """Return a Lua expression for a plain value."""
    if value is None or isinstance(value, bool):
        return {None: "nil", True: "true", False: "false"}[value]
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        codes = (f"\\{byte}" if byte < 32 or byte > 126 or byte in b'"\\' else chr(byte) for byte in _bytes(value))
        # Three digits, because a digit after a shorter escape would be taken for a part of it.
        return '"' + "".join(code if len(code) == 1 else f"\\{int(code[1:]):03d}" for code in codes) + '"'
    return "{" + ", ".join(map(_literal, value)) + "}"


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


def address_problem(address: str) -> str | None:
    """Return the reason, in one line, why no instance can have this address, or None."""
    uri = parse(address)
    if uri is None or uri.service is None:
        return f"{address!r} is no URI: [user[:password]@]host:port expected"
    if uri.unix is None and uri.service.isdigit() and not 0 < int(uri.service) <= _LAST_PORT:
        return f"{address_of(address)}: ports are numbers from 1 to {_LAST_PORT}"
    return None


def reason_of(error: BoxError) -> str:
    """Return the reason for a missing connection, in one line."""
    if error.message.startswith(_LOOK_UP):  # the errno of such a message, EIO, says nothing about the reason
        return error.message.removeprefix(_LOOK_UP)
    if error.errno:
        return os.strerror(error.errno)
    return error.message


async def dial(address: str, user: str | None = None, password: str | None = None) -> RemoteNode:
    """Open a connection to an address, with the protocol that its greeting names. Raises BoxError."""
    uri = parse_address(address)
    loop = asyncio.get_running_loop()
    first = await open_connection(loop, SocketNetwork(loop), address, CONNECT_TIMEOUT, keeps_rows=False)
    protocol = first.greeting.protocol
    first.close()
    login = user or uri.login
    secret = password if password is not None else uri.password
    is_text = protocol == "Lua console"
    node: RemoteNode = TextNode(address, uri) if is_text else BinaryNode(address, login, secret)
    await node.open()
    return node
