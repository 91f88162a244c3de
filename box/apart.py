"""Lets code await that a library in C calls back: it runs apart, on a stack of its own (the `greenlet` package).

```
the task           await run_apart(work)                       await outcome ... done
                          |                                     ^             |
                          v                                     |             v
the other stack    work() -> sqlite3_step() -> callback -> wait_for(outcome)  returns its result, or raises its error
```

While it waits, its frames, those in C too, lie aside, and the loop goes on. No frame of Lua may be among them, because
Lua keeps addresses of the stack.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

from greenlet import getcurrent, greenlet

T = TypeVar("T")


class _Apart(greenlet):  # type: ignore[misc]
    """A stack that hands what it awaits to the task that runs it."""

    def __init__(self, work: Callable[[], Any]) -> None:
        super().__init__(work)
        self.caller = getcurrent()
        self.gr_context = self.caller.gr_context

    def go_on(self, switch: Callable[..., Any], *args: Any) -> Any:
        """Run until it waits or ends. Returns what it awaits or its result; `is_over` tells which."""
        self.caller = self.parent = getcurrent()
        return switch(*args)

    @property
    def is_over(self) -> bool:
        """Whether the work has ended."""
        return bool(self.dead)


async def run_apart(work: Callable[[], T]) -> T:
    """Run a function that may call `wait_for`. Returns its result, or raises its error."""
    apart = _Apart(work)
    found = apart.go_on(apart.switch)
    while not apart.is_over:
        try:
            result = await found
        except BaseException as error:
            found = apart.go_on(apart.throw, error)
        else:
            found = apart.go_on(apart.switch, result)
    return cast(T, found)


def is_apart() -> bool:
    """Return whether the caller runs inside of `run_apart`, so that it may wait."""
    return isinstance(getcurrent(), _Apart)


def wait_for(outcome: Awaitable[T]) -> T:
    """Wait inside of `run_apart`. Returns the result of `outcome`, or raises its error."""
    return cast(T, getcurrent().caller.switch(outcome))
