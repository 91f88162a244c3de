"""Values that no argument should be: of another type, without an end, no Unicode, or of a node that has stopped."""

from __future__ import annotations

import datetime
import math
import uuid
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

_ENORMOUS: Final = "x" * 1_000_000


async def _coroutine() -> int:
    return 1


def _recursive() -> list[Any]:
    made: list[Any] = [1]
    made.append(made)
    return made


def _deep() -> list[Any]:
    made: list[Any] = []
    for _ in range(5000):
        made = [made]
    return made


def hostile_values(closed: Sequence[Any]) -> dict[str, Callable[[], Any]]:
    """Return makers of hostile values by name. `closed` are objects of a node that has stopped."""
    plain: dict[str, Any] = {
        "None": None, "True": True, "False": False, "-1": -1, "0": 0, "2**31": 2**31, "2**70": 2**70, "1.5": 1.5,
        "nan": math.nan, "inf": math.inf, "''": "", "'x'": "x", "surrogate": "a\ud800", "enormous": _ENORMOUS,
        "NUL": "a\0b", "quote": "a'\"]]b", "b'\\xff'": b"\xff", "b''": b"", "[]": [], "{}": {}, "()": (), "set": {1},
        "[None]": [None], "[[1]]": [[1]], "[[[]]]": [[[]]], "{'x': 1}": {"x": 1}, "{1: {}}": {1: {}},
        "{(): 1}": {(): 1},
        "['x']": ["x"], "[1, object]": [1, object()], "['=', 1, 2]": ["=", 1, 2], "object": object(), "class": int,
        "module": math, "lambda": lambda *_: None, "Ellipsis": ..., "Decimal NaN": Decimal("NaN"),
        "naive datetime": datetime.datetime(2020, 1, 1), "UUID": uuid.UUID(int=1), "range": range(3),
        "memoryview": memoryview(b"ab"),
    }  # fmt: skip
    made: dict[str, Callable[[], Any]] = {name: lambda value=value: value for name, value in plain.items()}  # type: ignore[misc]
    made |= {f"closed {type(one).__name__}": lambda one=one: one for one in closed}  # type: ignore[misc]
    return made | {
        "generator": lambda: (one for one in [1]),
        "coroutine": _coroutine,
        "recursive list": _recursive,
        "deep list": _deep,
    }
