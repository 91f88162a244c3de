"""Tests are shared out among processes, long ones first; and no garbage of a test can end pytest.

For that a whole `ast.parse` runs without a collection of garbage.
Python 3.11 counts the depth of what `ast.parse` makes in one place for all calls. A collection in the middle of one
may run a finalizer that formats a traceback (a task whose exception nobody has taken), which calls `ast.parse`, too;
the outer one then raises `SystemError: AST constructor recursion depth mismatch`. Pytest calls it wherever it formats
a failure and wherever it imports a module whose assertions it rewrites, the plugins' own ones included, up to the
summary at the end; either way it dies with an internal error, and the failures are not told.
"""

from __future__ import annotations

import ast
import functools
import gc
import os
from typing import Any

import pytest

PARSE: Any = ast.parse


@functools.wraps(PARSE)
def _parse(*args: Any, **kwargs: Any) -> Any:
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return PARSE(*args, **kwargs)
    finally:
        if was_enabled:
            gc.enable()


ast.parse = _parse


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are processors, because half of the time a test waits for another process."""
    return min(len(os.sched_getaffinity(0)), 4) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    if config.option.dist != "loadfile":
        return None
    from test.distribution import TogetherScheduling

    return TogetherScheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs Spark, then files with slow tests, then the others: at the end nobody waits for a long file."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (item.get_closest_marker("spark") is None, item.path not in slow))
