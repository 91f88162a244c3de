"""One story at a time: faults that take several steps would undo each other's conditions."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

_P = ParamSpec("_P")


class OneStory:
    """Tells one story at a time; whatever is asked for meanwhile does not happen."""

    def __init__(self) -> None:
        self._is_told = False

    async def tell(
        self, story: Callable[_P, Coroutine[Any, Any, None]], /, *arguments: _P.args, **named: _P.kwargs
    ) -> None:
        """Until its end, unless another one is being told."""
        if self._is_told:
            return
        self._is_told = True
        try:
            await story(*arguments, **named)
        finally:
            self._is_told = False
