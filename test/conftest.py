"""Distribution of tests to processes, options of Java and Hypothesis, and a guard against a defect of `ast.parse` that
can end pytest.

The guard keeps the garbage collector from running within `ast.parse`. Python 3.11 counts the recursion depth of
`ast.parse` in one place for all calls. A collection within a call may run a finalizer that formats a traceback (of a
task whose exception was never retrieved) and so calls `ast.parse` itself; then the outer call raises `SystemError: AST
constructor recursion depth mismatch`. Pytest calls `ast.parse` when it formats a failure, and when it imports a module
whose assertions it rewrites. In either case it would end with an internal error, without reporting the failures.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import gc
import importlib
import os
import sys
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from test.distribution import COMPILING

settings.register_profile("lunabox", suppress_health_check=[HealthCheck.too_slow])  # a busy machine is no bug
settings.load_profile("lunabox")

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
# to profit from more, and with them an export by Spark takes 16 s of processor time instead of 27. Classes of Spark are
# not verified while they are loaded, which saves two more.
_OF_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
for _name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"):
    os.environ.setdefault(_name, _OF_JAVA)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return the number of test processes: two more than processors, of which at most four count.

    Half of the time a test waits: for another process, for a timer, for the log.
    """
    return min(len(os.sched_getaffinity(0)), 4) + 2


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    if config.option.dist != "loadfile":
        return None
    from test.distribution import TogetherScheduling

    return TogetherScheduling(config, log)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session: pytest.Session) -> Generator[None, Any, Any]:
    """Keep the tests themselves from the garbage collector.

    They are 340,000 objects, which a collection goes through for a quarter of a second. Each simulation and each test
    of garbage ends with one. The collector has nothing to find while modules are imported either.
    """
    gc.disable()
    try:
        _import_share(session)
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def _import_share(session: pytest.Session) -> None:
    """Import a share of the test modules in each process before it collects all.

    So that each module is compiled, with its assertions rewritten, by one process, and the others read what that wrote.
    """
    worker = getattr(session.config, "workerinput", None)
    if worker is None or sys.dont_write_bytecode:
        return
    files = sorted((session.config.rootpath / "test").rglob("test_*.py"))
    for path in files[int(worker["workerid"].removeprefix("gw")) :: worker["workercount"]]:
        # A module that needs what is not installed is skipped, or fails, when it is collected.
        with contextlib.suppress(Exception, pytest.skip.Exception):
            importlib.import_module(".".join(path.relative_to(session.config.rootpath).with_suffix("").parts))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort tests: those that compile what Spark runs, those that need Spark, files with slow tests, the others.

    So no long file runs alone at the end.
    """
    slow = {item.path for item in items if item.get_closest_marker("slow")}

    def place(item: pytest.Item) -> tuple[bool, bool, bool]:
        return item.path.name not in COMPILING, item.get_closest_marker("spark") is None, item.path not in slow

    items.sort(key=place)
