"""`http.client`: requests to web servers by libcurl; see `lua.bindings.http_request` and `lua.bindings.curl_loop`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from box.data import codec
from box.errors import fiber_is_cancelled
from lua.bindings.binding import Binding, exported, waiting

if TYPE_CHECKING:
    from box.instance.node import Instance
    from lua.bindings.curl_loop import CurlLoop
    from lua.runtime import Runtime


class HttpClientBinding(Binding):
    """Python half of lua/modules/http/client.lua."""

    def __init__(self, runtime: Runtime, node: Instance) -> None:
        super().__init__(runtime, node)
        self._clients: dict[int, CurlLoop] = {}
        self._last = 0
        node.on_close.append(self.close_all)

    def close_all(self) -> None:
        """Abort all requests, because the node stops."""
        clients, self._clients = self._clients, {}
        for client in clients.values():
            client.close()

    @exported("http_open")
    def open(self, max_connections: float, max_total_connections: float) -> int:
        """Make a client. Returns its number."""
        # Imported here because few scripts need libcurl.
        from lua.bindings.curl_loop import CurlLoop

        self._last += 1
        self._clients[self._last] = CurlLoop(self.runtime.loop, int(max_connections), int(max_total_connections))
        return self._last

    @exported("http_close")
    def close(self, client: float) -> None:
        """Close the connections of a client that is no longer used."""
        found = self._clients.pop(int(client), None)
        if found is not None:
            found.close()

    @exported("http_sockets")
    def sockets(self, client: float) -> bytes:
        """Return how many sockets requests of a client have begun and ended to use, as a packed array."""
        found = self._clients[int(client)]
        return codec.pack([found.sockets_added, found.sockets_deleted])

    @waiting("http_request")
    async def request(self, client: float, packed: bytes, body: bytes) -> tuple[bytes, bytes]:
        """Send a request. Returns (packed {status, reason, headers, proto}, body).

        `packed` is {method, url, options}.

        Raises:
            BoxSystemError: libcurl does not accept the arguments, or the request failed.
            FiberIsCancelled: the node stops.
            UnsupportedError: the machine has no web servers.
        """
        self.runtime.machine.require_outside("http.client")
        from lua.bindings.http_request import TIMED_OUT, WebRequest

        requests = self._clients.get(int(client))
        if requests is None:  # the node stops
            raise fiber_is_cancelled()
        given = codec.unpack(packed)
        options = given["options"] or {}
        request = WebRequest(given["method"], given["url"], body, options)
        try:
            async with asyncio.timeout(options.get("timeout")):
                code = await requests.run(request)
        except TimeoutError:
            code = TIMED_OUT
        try:
            head, answer = request.answer(code)
        finally:
            request.handle.close()
        return codec.pack(head), answer
