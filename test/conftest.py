"""Distribution of tests to processes, options of Java, and a guard against a defect of `ast.parse` that can end pytest.

The guard keeps the garbage collector from running within `ast.parse`. Python 3.11 counts the recursion depth of
`ast.parse` in one place for all calls. A collection within a call may run a finalizer that formats a traceback (of a
task whose exception was never retrieved) and so calls `ast.parse` itself; then the outer call raises `SystemError: AST
constructor recursion depth mismatch`. Pytest calls `ast.parse` when it formats a failure, and when it imports a module
whose assertions it rewrites. In either case it would end with an internal error, without reporting the failures.
"""

from __future__ import annotations

import ast
import functools
import gc
import os
from typing import Any

import pytest

PARSE: Any = ast.parse
"""The original `ast.parse`."""


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

# For the Java of every process that a test starts: one JIT compiler and one collector thread. No test runs long enough
# to profit from more, and a start of Spark takes 16 s of processor time with them instead of 27.
for _name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"):
    os.environ.setdefault(_name, "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return the number of test processes: one more than processors, of which at most four count.

    Half of the time a test waits for another process, so that one more process keeps the processors busy.
    """
    return min(len(os.sched_getaffinity(0)), 4) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    if config.option.dist != "loadfile":
        return None
    from test.distribution import TogetherScheduling

    return TogetherScheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort tests: those that need Spark, files with slow tests, the others. So no long file runs alone at the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (item.get_closest_marker("spark") is None, item.path not in slow))
