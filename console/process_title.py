"""Sets the command line and short name of a process, which `ps` shows (Linux): of a forked one its command, of a
program its title, such as `lunabox init.lua <running>: text`.

```
memory of the command line, as the kernel gave it:   arg_start | argument NUL argument NUL ... | arg_end
```

Its position is in /proc/self/stat. A new command line overwrites it and may not be longer: the rest becomes NUL, and
words without room are dropped. A title may be longer: the environment, which follows in memory, is moved elsewhere, and
the title takes its place too. The kernel then shows the title to its end.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

_PR_SET_NAME: Final = 15  # <linux/prctl.h>
_ARG_START, _ARG_END, _ENV_START, _ENV_END = 45, 46, 47, 48
"""Indexes of the fields after the name in /proc/self/stat: fields 48 to 51 of proc(5)."""
_LIBC: Final = ctypes.CDLL(None)


def show_command(name: str, arguments: Sequence[str]) -> None:
    """Show `name` with these arguments from now on; directories of paths are dropped if there is no room for them.

    Does nothing if the system does not tell the position or forbids the change, because the text only serves people.
    """
    with suppress(OSError, ValueError, IndexError):
        start, end, _ = _place()
        ctypes.memmove(start, _fitting([name, *arguments], end - start), end - start)
        _LIBC.prctl(_PR_SET_NAME, name.encode()[:15])  # the kernel keeps 16 bytes, one of them the final zero


def show_title(text: bytes) -> None:
    """Show a title in place of the command line from now on, as much of it as there is room for. Does nothing if the
    system forbids it.
    """
    with suppress(OSError, ValueError, IndexError):
        start, end, limit = _place()
        if len(text) >= end - start:
            for name, value in os.environb.items():
                os.putenv(name, value)  # the C library copies them elsewhere
            end = limit
        shown = text[: end - start - 1].ljust(end - start, b"\0")
        if len(text) < end - start - 1 and end != limit:
            shown = shown[:-1] + b"."  # a last byte other than NUL tells the kernel to show one text only
        ctypes.memmove(start, shown, end - start)


def _place() -> tuple[int, int, int]:
    """Return where the command line begins and ends, and where the environment behind it ends."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[_ARG_START]), int(fields[_ARG_END])
    if not 0 < start < end:
        raise ValueError("no place for a command line")
    is_followed = int(fields[_ENV_START]) - end in (0, 1)
    return start, end, int(fields[_ENV_END]) if is_followed else end


def _fitting(words: Sequence[str], size: int) -> bytes:
    """Return `size` bytes of the words, ending with NUL, because otherwise the kernel also shows the environment."""
    for shown in (words, [word.rpartition("/")[2] or word for word in words]):
        text = b"".join(word.encode(errors="surrogateescape") + b"\0" for word in shown)
        if len(text) <= size:
            break
    return text[: size - 1].ljust(size, b"\0")
