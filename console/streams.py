"""The standard streams of the process, in whatever state they were inherited."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress


def open_missing() -> None:
    """Put /dev/null where descriptor 0, 1 or 2 is closed.

    Else the next file or socket would get that number; the event loop ends the process when it is to close such a one.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is not None:
            continue
        descriptor = os.open(os.devnull, os.O_RDWR)
        if descriptor != number:
            os.dup2(descriptor, number)
            os.close(descriptor)
        setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115 - it lives as long as the process


def write(text: str) -> None:
    """To standard output, bytes that are no UTF-8 as they came. A reader that has gone is no error."""
    with suppress(OSError):
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.flush()
            sys.stdout.buffer.write(text.encode(errors="surrogateescape"))
        else:  # somebody has put a stream of text there, as tests and terminals do
            sys.stdout.write(text)
        sys.stdout.flush()


def read_line() -> str:
    """Of standard input, with its end; blocks. Bytes that are no UTF-8 become surrogates; empty: the end."""
    return sys.stdin.buffer.readline().decode(errors="surrogateescape")


def flush() -> None:
    """Write what is left. If nobody reads any more it goes nowhere, and Python's own end is silent, too."""
    try:
        sys.stdout.flush()
    except OSError:
        descriptor = os.open(os.devnull, os.O_WRONLY)
        os.dup2(descriptor, sys.stdout.fileno())
        os.close(descriptor)
