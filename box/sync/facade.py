"""The base of the blocking classes; each wraps an object of `box.embed`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from box.sync.thread_contexts import ThreadContexts

T = TypeVar("T")
H = TypeVar("H", covariant=True)


class Facade(Generic[H]):
    """Wraps an object of `box.embed` that belongs to the node's loop."""

    def __init__(self, contexts: ThreadContexts, asynchronous: H) -> None:
        self._contexts = contexts
        self.asynchronous = asynchronous
        """The object of `box.embed`, for coroutines on the node's loop."""

    def _run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine in the loop's thread and wait for its result."""
        return self._contexts.call(work)

    def _now(self, function: Callable[[], T]) -> T:
        """Run a function in this thread while it holds the node's turn."""
        return self._contexts.thread.run(function)

    def _there(self, function: Callable[[], T]) -> T:
        """Run a function in the loop's thread and wait for its result."""

        async def work() -> T:
            return function()

        return self._contexts.call(work)

    def __repr__(self) -> str:
        return repr(self.asynchronous)
