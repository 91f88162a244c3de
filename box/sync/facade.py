"""The base of the blocking classes: each stands for an object of `box.embed`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from box.sync.thread_contexts import ThreadContexts

T = TypeVar("T")
H = TypeVar("H", covariant=True)


class Facade(Generic[H]):
    """Stands for an object of `box.embed`, which belongs to the loop of the node."""

    def __init__(self, contexts: ThreadContexts, asynchronous: H) -> None:
        self._contexts = contexts
        self.asynchronous = asynchronous
        """The object of `box.embed`, for coroutines on the loop of the node."""

    def _run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine in the thread of the loop."""
        return self._contexts.call(work)

    def _now(self, function: Callable[[], T]) -> T:
        """Run a function with the node's turn."""
        return self._contexts.thread.run(function)

    def _there(self, function: Callable[[], T]) -> T:
        """Run a function in the thread of the loop."""

        async def work() -> T:
            return function()

        return self._contexts.call(work)

    def __repr__(self) -> str:
        return repr(self.asynchronous)
