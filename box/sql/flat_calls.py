"""Lets coroutines call each other a thousand levels deep, as triggers that fire triggers do.

A nested `await` takes a frame of Python's stack and of the machine's. `run_flat` keeps a list of coroutines instead:
`await deeper(coroutine)` adds one to the list, and its frames do not lie on those of its caller.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from types import coroutine
from typing import Any, TypeVar, cast

_T = TypeVar("_T")


class _Deeper:
    """Yielded to `run_flat` to request that a coroutine runs as the next level."""

    __slots__ = ("work",)

    def __init__(self, work: Coroutine[Any, Any, Any]) -> None:
        self.work = work


@coroutine
def deeper(work: Coroutine[Any, Any, _T]) -> Generator[_Deeper, _T, _T]:
    """Run a coroutine as a new level. Works only inside `run_flat`."""
    return (yield _Deeper(work))


@coroutine
def run_flat(work: Coroutine[Any, Any, _T]) -> Generator[Any, Any, _T]:
    """Run a coroutine that may await `deeper`. Other awaits of its levels reach the event loop unchanged."""
    levels: list[Coroutine[Any, Any, Any]] = [work]
    value: Any = None
    error: BaseException | None = None
    wanted: Any
    try:
        while levels:
            level = levels[-1]
            try:
                wanted = level.send(value) if error is None else level.throw(error)
            except StopIteration as end:
                del levels[-1]
                value, error = end.value, None
                continue
            except BaseException as raised:
                del levels[-1]
                value, error = None, raised
                continue
            value = error = None
            if isinstance(wanted, _Deeper):
                levels.append(wanted.work)  # `send(None)` starts it in the next round
                continue
            try:
                value = yield wanted
            except BaseException as raised:
                error = raised
    finally:
        while levels:
            levels.pop().close()
    if error is not None:
        raise error
    return cast(_T, value)
