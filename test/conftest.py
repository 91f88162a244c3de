"""A whole `ast.parse` without a collection of garbage, so that no garbage of a test can end pytest.

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
from typing import Any

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
