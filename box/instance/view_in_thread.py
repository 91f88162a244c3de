"""A view of tuples for another thread: the loop's thread reads a slice ahead and passes it on."""

from __future__ import annotations

import errno
import threading
from asyncio import AbstractEventLoop
from concurrent.futures import Future

from box.index.view import TupleView


class ViewInThread:
    """A view that another thread reads. It is made and closed on the loop's thread; one other thread may call `fetch`,
    which blocks.

    A simulated loop has no other threads; there `fetch` reads at once.
    """

    def __init__(self, loop: AbstractEventLoop, view: TupleView) -> None:
        self._loop = loop
        self._thread = threading.get_ident()
        self._view = view
        self._ahead: Future[list[bytes] | None] | None = None
        self._lock = threading.Lock()
        self._is_closed = False

    def fetch(self, limit: int) -> list[bytes]:
        """Return the next tuples; [] at the end. Raises OSError (ECANCELED) once the view is closed."""
        if threading.get_ident() == self._thread:
            if self._is_closed:
                raise _given_up()
            return self._view.fetch(limit)
        ahead = self._ahead or self._ask(limit)
        while (tuples := ahead.result()) == []:
            ahead = self._ask(limit)
        self._ahead = self._ask(limit) if tuples else None
        return tuples or []

    def _ask(self, limit: int) -> Future[list[bytes] | None]:
        answer: Future[list[bytes] | None] = Future()
        with self._lock:
            self._ahead = answer
            if self._is_closed:
                answer.set_exception(_given_up())
            else:
                self._loop.call_soon_threadsafe(self._answer, answer, limit)
        return answer

    def _answer(self, answer: Future[list[bytes] | None], limit: int) -> None:
        if answer.done():
            return
        try:
            answer.set_result(self._view.take(limit))
        except Exception as error:
            answer.set_exception(error)

    def close(self) -> None:
        """Close the view; a thread that waits for tuples gets an error."""
        with self._lock:
            self._is_closed = True
            ahead = self._ahead
        if ahead is not None and not ahead.done():
            ahead.set_exception(_given_up())
        self._view.close()


def _given_up() -> OSError:
    return OSError(errno.ECANCELED, "the view was given up")
