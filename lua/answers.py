"""The future of a call into Lua that waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


class LuaAnswer(asyncio.Future[Any]):
    """The values of a call that waits.

    Whoever awaits it goes on in a later turn of the loop. Other fibers and tasks run before that, so `ctx`, the Context
    of the call, is passed to `on_return` at the end.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, ctx: Any, on_return: Callable[[Any], None]) -> None:
        super().__init__(loop=loop)
        self._ctx = ctx
        self._on_return = on_return

    def set_result(self, result: Any) -> None:
        """Keep the values of the call."""
        if self._ctx is not None:
            self._on_return(self._ctx)
        super().set_result(result)

    def set_exception(self, exception: BaseException | type[BaseException]) -> None:
        """Keep the error of the call."""
        if self._ctx is not None:
            self._on_return(self._ctx)
        super().set_exception(exception)
