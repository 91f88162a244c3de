"""libcurl on an event loop: it says which sockets and which time it waits for."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import pycurl

if TYPE_CHECKING:
    from lua.bindings.http_request import WebRequest


class CurlLoop:
    """The requests of one client. They share its connections, and `max_connections` of those stay open after use (-1:
    libcurl decides). `max_total_connections` are open at a time, further requests wait (0: any number).
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, max_connections: int, max_total_connections: int) -> None:
        self.sockets_added = 0
        self.sockets_deleted = 0
        self._closed = False
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._sockets: set[int] = set()
        self._waiting: dict[pycurl.Curl, asyncio.Future[int]] = {}
        self._multi = multi = pycurl.CurlMulti()
        multi.setopt(pycurl.M_TIMERFUNCTION, self._set_timer)
        multi.setopt(pycurl.M_SOCKETFUNCTION, self._watch)
        if max_connections > 0:
            multi.setopt(pycurl.M_MAXCONNECTS, max_connections)
        if max_total_connections > 0:
            multi.setopt(pycurl.M_MAX_TOTAL_CONNECTIONS, max_total_connections)

    async def run(self, request: WebRequest) -> int:
        """Run a request, which is withdrawn if the caller is cancelled. Returns libcurl's code."""
        done: asyncio.Future[int] = self._loop.create_future()
        self._waiting[request.handle] = done
        self._multi.add_handle(request.handle)
        try:
            return await done
        finally:
            del self._waiting[request.handle]
            self._multi.remove_handle(request.handle)
            self._close_unless_used()

    def close(self) -> None:
        """Close all connections. Requests that run now end with a code of libcurl."""
        self._closed = True
        for done in self._waiting.values():
            if not done.done():
                done.set_result(pycurl.E_ABORTED_BY_CALLBACK)
        self._set_timer(-1)
        for fd in self._sockets:
            self._forget(fd)
        self._sockets.clear()
        self._close_unless_used()

    def _close_unless_used(self) -> None:
        if self._closed and not self._waiting:
            self._multi.close()

    def _set_timer(self, milliseconds: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if milliseconds >= 0:
            self._timer = self._loop.call_later(milliseconds / 1000, self._proceed, pycurl.SOCKET_TIMEOUT, 0)

    def _watch(self, what: int, fd: int, _multi: pycurl.CurlMulti, _data: object) -> None:
        if fd in self._sockets:
            self._forget(fd)
        if what == pycurl.POLL_REMOVE:
            self.sockets_deleted += 1
            self._sockets.discard(fd)
            return
        if fd not in self._sockets:
            self.sockets_added += 1
            self._sockets.add(fd)
        if what & pycurl.POLL_IN:
            self._loop.add_reader(fd, partial(self._proceed, fd, pycurl.CSELECT_IN))
        if what & pycurl.POLL_OUT:
            self._loop.add_writer(fd, partial(self._proceed, fd, pycurl.CSELECT_OUT))

    def _forget(self, fd: int) -> None:
        self._loop.remove_reader(fd)
        self._loop.remove_writer(fd)

    def _proceed(self, fd: int, events: int) -> None:
        self._multi.socket_action(fd, events)
        left = 1
        while left:
            left, ended, failed = self._multi.info_read()
            for handle in ended:
                self._end(handle, pycurl.E_OK)
            for handle, code, _ in failed:
                self._end(handle, code)

    def _end(self, handle: pycurl.Curl, code: int) -> None:
        done = self._waiting.get(handle)
        if done is not None and not done.done():
            done.set_result(code)
