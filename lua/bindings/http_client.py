"""`http.client`: requests to web servers, which run in threads; see `lua.bindings.http_request`."""

from __future__ import annotations

import asyncio
import errno
import os
from typing import TYPE_CHECKING, Final

from box.data import codec
from box.errors import system_error
from lua.bindings.binding import Binding, exported, waiting

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from box.instance.node import Instance
    from lua.bindings.http_request import WebRequest
    from lua.runtime import Runtime

_THREADS: Final = 32
"""The requests that run at the same time; further ones wait."""


class HttpClientBinding(Binding):
    """Python half of lua/modules/http/client.lua."""

    def __init__(self, runtime: Runtime, node: Instance) -> None:
        super().__init__(runtime, node)
        self._executor: ThreadPoolExecutor | None = None
        self._running: set[WebRequest] = set()
        node.on_close.append(self.close_all)

    def close_all(self) -> None:
        """Abort all requests, because the node stops."""
        executor, self._executor = self._executor, None
        for request in self._running:
            request.abort()
        if executor is not None:
            executor.shutdown(wait=False, cancel_futures=True)

    @exported("http_active")
    def active(self) -> int:
        """Return the number of running requests."""
        return len(self._running)

    @waiting("http_request")
    async def request(self, packed: bytes, body: bytes | None) -> tuple[bytes, bytes]:
        """Send a request. Returns (packed {status, reason, headers, proto}, body).

        `packed` is {method, url, options}.

        Raises:
            BoxSystemError: the arguments are not a valid request.
            UnsupportedError: the machine has no web servers.
        """
        self.runtime.machine.require_outside("http.client")
        # Imported here because these take 30 ms, and few scripts need them.
        from concurrent.futures import ThreadPoolExecutor

        from lua.bindings.http_request import TIMEOUT, WebRequest, failed

        given = codec.unpack(packed)
        request = WebRequest(given["method"], given["url"], body, dict(given["options"] or {}))
        if self._executor is None:
            self._executor = ThreadPoolExecutor(_THREADS, thread_name_prefix="http")
        timeout = given["options"].get("timeout") if given["options"] else None
        self._running.add(request)
        try:
            async with asyncio.timeout(timeout):
                head, answer = await self.runtime.loop.run_in_executor(self._executor, request.run)
        except TimeoutError:
            head, answer = failed(*TIMEOUT)
        except (ValueError, TypeError, UnicodeError) as error:
            raise system_error(f"curl: {os.strerror(errno.EINVAL)}", errno.EINVAL) from error
        finally:
            self._running.discard(request)
            request.abort()
        return codec.pack(head), answer
