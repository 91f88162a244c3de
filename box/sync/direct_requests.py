"""Requests of blocking handles that the calling thread runs itself while it holds the node's turn.

Some requests go to the loop's thread instead, because they may run code of the program or Lua, or may wait for more
than the log: requests of spaces with triggers, of system spaces, and all while the loop is in debug mode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Generic, cast

from box.embed.arguments import check_offset, limit_of
from box.embed.row_page import RowPage
from box.embed.space_requests import CHUNK
from box.sync.thread_commits import WaitingOutcome
from box.txn.pending import Pending

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from box.embed import NamedRow
    from box.embed.arguments import IteratorName, Row
    from box.embed.space_requests import Requests
    from box.index import IteratorType
    from box.sync.thread_contexts import ThreadContexts

    R = TypeVar("R", default=NamedRow)
    T = TypeVar("T")
else:
    from typing import TypeVar

    R = TypeVar("R")

_BY_LOOP: Final = object()
"""Stands for the outcome of a request that only the loop's thread can run."""


class DirectRequests(Generic[R]):
    """Requests of one space; `_requests` run in the contexts of threads."""

    _contexts: ThreadContexts
    _requests: Requests

    # -- changes

    def _change(self, method: Callable[..., Any], *args: Any) -> R | None:
        """Run a method of `_requests` that changes a tuple. Returns the row."""
        thread = self._contexts.thread
        outcome: Any = thread.run(self._change_now, method, args) if thread.is_direct else _BY_LOOP
        if outcome is _BY_LOOP:
            outcome = self._contexts.call(lambda: self._change_there(method.__name__, args))
            thread.run(self._requests.bind)
        elif outcome.__class__ is WaitingOutcome:
            outcome = thread.wait(outcome.pending, outcome.done)
        return cast("R | None", self._requests.row_from(outcome))

    def _change_now(self, method: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        return _BY_LOOP if self._requests.has_triggers() else method(*args)

    async def _change_there(self, name: str, args: tuple[Any, ...]) -> Any:
        requests = self._requests.with_contexts(self._contexts.of_loop)
        outcome = getattr(requests, name)(*args)
        return await requests.ended(outcome) if isinstance(outcome, Pending) else outcome

    def _store_many(self, kind: int, rows: Iterable[Any], batch: int | None) -> int:
        thread, count = self._contexts.thread, 0
        batches = thread.run(self._requests.batches, kind, rows, batch)
        for raws in batches:
            outcome = thread.run(self._store_now, kind, raws) if thread.is_direct else _BY_LOOP
            if outcome is _BY_LOOP:
                self._contexts.call(lambda raws=raws: self._store_there(kind, raws))  # type: ignore[misc]
            elif isinstance(outcome, WaitingOutcome):
                thread.wait(outcome.pending, outcome.done)
            count += len(raws)
        return count

    def _store_now(self, kind: int, raws: list[bytes]) -> Any:
        return _BY_LOOP if self._requests.has_triggers() else self._requests.store_at_once(kind, raws)

    async def _store_there(self, kind: int, raws: list[bytes]) -> None:
        await self._requests.with_contexts(self._contexts.of_loop).store_raws(kind, raws)

    # -- reads

    def _read(self, method: Callable[..., T], *args: Any) -> T:
        """Run a method of `_requests` that reads without waiting."""
        return self._contexts.thread.run(method, *args)

    def _find(self, index: str | int, key: Any) -> R | None:
        raw = self._contexts.thread.run(self._requests.find, index, key)
        return None if raw is None else cast("R", self._requests.decode(raw))

    def _select(
        self, index: str | int, key: Any, iterator: IteratorName | IteratorType | None, offset: int, limit: int | None
    ) -> list[R]:
        run, requests, most = self._contexts.thread.run, self._requests, limit_of(limit)
        check_offset(offset)
        if self._contexts.own is None:
            raws = run(requests.first, key, index, iterator, offset, min(most, CHUNK))
            if most <= CHUNK or len(raws) < CHUNK:
                return requests.decode_many(raws)
        rows: list[R] = []
        for raws in self._chunks(index, key, iterator):
            rows += requests.decode_many(raws[offset : offset + most - len(rows)])
            offset = max(0, offset - len(raws))
            if len(rows) >= most:
                break
        return rows

    def _page(
        self,
        index: str | int,
        key: Any,
        iterator: IteratorName | IteratorType | None,
        limit: int | None,
        after: str | Row | None,
    ) -> RowPage[R]:
        """Read a page; the node's turn is held for some hundred rows at a time."""
        limit = limit_of(limit)
        found = self._read(self._requests.page, index, key, iterator, min(limit, CHUNK), after)
        rows, end = found.rows, found.position
        while len(rows) < limit and len(found.rows) == CHUNK:
            found = self._read(self._requests.page, index, key, iterator, min(limit - len(rows), CHUNK), end)
            rows += found.rows
            end = found.position or end
        return RowPage(rows, end)

    def _pairs(self, index: str | int, key: Any, iterator: IteratorName | IteratorType | None) -> Iterator[R]:
        for raws in self._chunks(index, key, iterator):
            yield from self._requests.decode_many(raws)

    def _chunks(
        self, index: str | int, key: Any, iterator: IteratorName | IteratorType | None
    ) -> Iterator[list[bytes]]:
        """Yield the tuples of a select in lists of some hundreds; the node's turn is held for one list at a time."""
        run, requests = self._contexts.thread.run, self._requests
        if self._contexts.own is not None:
            cursor, scanned = run(requests.cursor, key, index, iterator)
            space = requests.space
            while raws := run(lambda: list(islice(cursor, CHUNK))):
                yield raws
                run(requests.check_same, space, scanned)
            return
        view = run(requests.view, key, index, iterator)
        try:
            while (found := run(view.take, CHUNK)) is not None:
                yield found
        finally:
            if self._contexts.thread.is_running:
                run(view.close)
