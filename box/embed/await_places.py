"""Finds the place where a task waits, for error texts: the innermost `await` in the program's own code."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final

_PACKAGE: Final = str(Path(__file__).parents[1])
_ASYNCIO: Final = str(Path(asyncio.__file__).parent)


def place_of_await(task: asyncio.Task[Any]) -> str | None:
    """Return the place where a task waits, such as `in transfer() at /home/me/shop.py:12`.

    Returns None for a task that does not wait in a coroutine.
    """
    place = None
    for frame in _frames(task.get_coro()):
        file = frame.f_code.co_filename
        if not file.startswith((_PACKAGE, _ASYNCIO)):
            place = f"in {frame.f_code.co_name}() at {file}:{frame.f_lineno}"
    return place


def _frames(awaited: Any) -> Iterator[FrameType]:
    """Yield the frames of the coroutines and generators that wait for one another, outermost first."""
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is None:
            frame = getattr(awaited, "ag_frame", None)
        if frame is not None:
            yield frame
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
