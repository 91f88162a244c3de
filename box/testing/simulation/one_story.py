"""A lock for faults of several steps, which would spoil each other's conditions if two ran at a time."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

_P = ParamSpec("_P")


class OneStory:
    """Runs one fault at a time; a fault that comes meanwhile does not happen."""

    def __init__(self) -> None:
        self._is_told = False

    async def tell(
        self, story: Callable[_P, Coroutine[Any, Any, None]], /, *arguments: _P.args, **named: _P.kwargs
    ) -> None:
        """Run a fault to its end, unless another one is in progress."""
        if self._is_told:
            return
        self._is_told = True
        try:
            await story(*arguments, **named)
        finally:
            self._is_told = False
