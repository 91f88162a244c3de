"""Requests that wait for their replies; request and reply carry the same sync."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from box.errors import BoxError
from box.wire.constants import RequestType
from box.wire.error import decode_error_body
from box.wire.row import Row

PushHandler = Callable[[Row], None]


class PendingReplies:
    """The requests without a reply so far. Syncs grow from 1; `schema_version` is that of the last reply."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.schema_version = 0
        self._loop = loop
        self._last_sync = 0
        self._requests: dict[int, asyncio.Future[Row]] = {}
        self._pushes: dict[int, PushHandler] = {}

    def add(self, request: Row, on_push: PushHandler | None) -> asyncio.Future[Row]:
        """Assign a sync to the request. The future gets its reply's row, or its error as a BoxError."""
        self._last_sync += 1
        request.sync = self._last_sync
        future = self._requests[request.sync] = self._loop.create_future()
        if on_push is not None:
            self._pushes[request.sync] = on_push
        return future

    def take(self, row: Row) -> bool:
        """Use the row if it is a reply. Returns False for other rows; replies that nobody waits for are dropped."""
        request = self._requests.get(row.sync)
        if request is None:
            return False
        self.schema_version = row.schema_version or self.schema_version
        if row.type == RequestType.CHUNK:
            on_push = self._pushes.get(row.sync)
            if on_push is not None:
                on_push(row)
            return True
        del self._requests[row.sync]
        self._pushes.pop(row.sync, None)
        if request.done():
            return True
        if row.type > RequestType.CHUNK:  # any other status is an error, also without TYPE_ERROR
            request.set_exception(decode_error_body(row.type, row.body))
        else:
            request.set_result(row)
        return True

    def forget(self, sync: int) -> None:
        """Expect no reply to a request any more; its future stays as it is."""
        self._requests.pop(sync, None)
        self._pushes.pop(sync, None)

    def fail(self, error: BoxError) -> None:
        """Fail all waiting requests, because no reply will come any more."""
        waiting, self._requests = list(self._requests.values()), {}
        self._pushes.clear()
        for request in waiting:
            if not request.done():
                request.set_exception(error)

    def __bool__(self) -> bool:
        return bool(self._requests)
