"""Standard error of Java and of Spark's Python workers, without what is no news to the user of a command.

Spark announces its settings line by line. When it closes the connection of a Python worker that still writes, at its
end or because it needs no more rows, the worker prints a traceback, although nothing is wrong.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

_NO_NEWS: Final = re.compile(
    rb"WARNING: Using incubator modules|Using Spark's default log4j|Setting (default|Spark) log level"
    rb"|To adjust logging level|.* WARN Utils: (Your hostname|Set SPARK_LOCAL_IP)|.* WARN NativeCodeLoader: "
)
_BEGIN: Final = b"Traceback (most recent call last):"
_CLOSED: Final = (b"BrokenPipeError", b"ConnectionResetError", b"EOFError")
"""The errors of a worker whose connection was closed."""


def news_in(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines that tell something."""
    held: list[bytes] = []
    for line in lines:
        if held and line.startswith(b" "):
            held.append(line)
            continue
        if not (held and line.startswith(_CLOSED)):
            yield from held
            if line.startswith(_BEGIN):
                held = [line]
                continue
            if not _NO_NEWS.match(line):
                yield line
        held = []
    yield from held


def _copy(source: int) -> None:
    with os.fdopen(source, "rb") as stream:
        for line in news_in(stream):
            os.write(2, line)


@contextmanager
def filtered_for_children() -> Iterator[None]:
    """Let processes that are started inside of the block write their standard error through the filter, until they
    end. That of this process stays.
    """
    try:
        own = os.dup(2)
    except OSError:  # it is closed
        yield
        return
    source, sink = os.pipe()
    os.dup2(sink, 2)
    os.close(sink)
    copier = threading.Thread(target=_copy, args=(source,), name="spark-stderr", daemon=True)
    try:
        yield
    except BaseException:
        _restore(own)
        copier.start()
        copier.join(1)  # the children that failed have ended, and their lines come before the error
        raise
    _restore(own)
    copier.start()


def _restore(own: int) -> None:
    os.dup2(own, 2)
    os.close(own)
