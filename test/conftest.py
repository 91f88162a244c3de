"""Reports of failures that no garbage of a test can spoil.

Python 3.11 counts the depth of what `ast.parse` makes in one place for all calls. A collection in the middle of one
may run a finalizer that formats a traceback (a task whose exception nobody has taken), which calls `ast.parse`, too;
pytest then dies with `AST constructor recursion depth mismatch`, and the failure is not told.
"""

from __future__ import annotations

import gc
from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Format failures without a collection of garbage meanwhile."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return (yield)
    finally:
        if was_enabled:
            gc.enable()
