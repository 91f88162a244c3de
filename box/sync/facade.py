"""The base of the blocking classes: each stands for an object of `box.embed`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any, Final, Generic, TypeVar

from box.embed.loop_thread import LoopThread

T = TypeVar("T")
H = TypeVar("H", covariant=True)

_CHUNK: Final = 256
"""Rows that an iteration fetches at once."""


class Facade(Generic[H]):
    """Stands for an object of `box.embed`, which lives in the thread of the node."""

    def __init__(self, thread: LoopThread, asynchronous: H) -> None:
        self._thread = thread
        self.asynchronous = asynchronous
        """The object of `box.embed`, for coroutines on the loop of the node."""

    def _run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return self._thread.call(work)

    def _now(self, function: Callable[[], T]) -> T:
        async def work() -> T:
            return function()

        return self._thread.call(work)

    def _pairs(self, key: Any, options: Mapping[str, Any]) -> Iterator[Any]:
        """Rows of an iteration, some hundreds with each call."""
        asynchronous: Any = self.asynchronous
        rows = asynchronous.pairs(key, **options)

        async def fetch() -> list[Any]:
            chunk: list[Any] = []
            async for row in rows:
                chunk.append(row)
                if len(chunk) == _CHUNK:
                    break
            return chunk

        while chunk := self._run(fetch):
            yield from chunk

    def __repr__(self) -> str:
        return repr(self.asynchronous)
