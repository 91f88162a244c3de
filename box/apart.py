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
from threading import local
from typing import Any, TypeVar, cast

from greenlet import getcurrent, greenlet

T = TypeVar("T")


class _Stack(greenlet):  # type: ignore[misc]
    """A stack, which runs one function after another: making one costs as much as a short query."""

    def __init__(self) -> None:
        super().__init__(self._serve)
        self.caller = getcurrent()
        self.is_busy = False
        """True while its function has not ended."""

    def go_on(self, switch: Callable[..., Any], *args: Any) -> Any:
        """Run until its function waits or ends. Returns what it awaits, or its result and its error."""
        self.caller = self.parent = caller = getcurrent()
        self.gr_context = caller.gr_context
        return switch(*args)

    def _serve(self, work: Callable[[], Any] | None) -> None:
        outcome: Any
        while True:
            assert work is not None
            self.is_busy = True
            try:
                outcome = work(), None
            except BaseException as error:
                outcome = None, error
            self.is_busy = False
            work, answer, outcome = None, outcome, None
            work = self.caller.switch(answer)


class _Idle(local):
    """The idle stacks of a thread, which the next function can use."""

    def __init__(self) -> None:
        self.stacks: list[_Stack] = []


_idle = _Idle()


async def run_apart(work: Callable[[], T]) -> T:
    """Run a function that may call `wait_for`. Returns its result, or raises its error."""
    stacks = _idle.stacks
    stack = stacks.pop() if stacks else _Stack()
    found = stack.go_on(stack.switch, work)
    while stack.is_busy:
        try:
            awaited = await found
        except BaseException as error:
            found = stack.go_on(stack.throw, error)
        else:
            found = stack.go_on(stack.switch, awaited)
    stacks.append(stack)
    result, failure = found
    if failure is not None:
        raise failure
    return cast(T, result)


def is_apart() -> bool:
    """Return whether the caller runs inside of `run_apart`, so that it may wait."""
    return isinstance(getcurrent(), _Stack)


def wait_for(outcome: Awaitable[T]) -> T:
    """Wait inside of `run_apart`. Returns the result of `outcome`, or raises its error."""
    return cast(T, getcurrent().caller.switch(outcome))
