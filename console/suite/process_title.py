"""Sets the command line and short name of a forked process, which `ps` shows (Linux).

```
memory of the command line, as the kernel gave it:   arg_start | argument NUL argument NUL ... | arg_end
```

Its position is in /proc/self/stat. A new command line overwrites it and may not be longer: the rest becomes NUL, and
words without room are dropped.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

_PR_SET_NAME: Final = 15  # <linux/prctl.h>
_ARG_START, _ARG_END = 45, 46  # indexes of the fields after the name in /proc/self/stat: fields 48 and 49 of proc(5)
_LIBC: Final = ctypes.CDLL(None)


def show_command(name: str, arguments: Sequence[str]) -> None:
    """Show `name` with these arguments from now on; directories of paths are dropped if there is no room for them.

    Does nothing if the system does not tell the position or forbids the change, because the text only serves people.
    """
    with suppress(OSError, ValueError, IndexError):
        start, end = _place()
        ctypes.memmove(start, _fitting([name, *arguments], end - start), end - start)
        _LIBC.prctl(_PR_SET_NAME, name.encode()[:15])  # the kernel keeps 16 bytes, one of them the final zero


def _place() -> tuple[int, int]:
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[_ARG_START]), int(fields[_ARG_END])
    if not 0 < start < end:
        raise ValueError("no place for a command line")
    return start, end


def _fitting(words: Sequence[str], size: int) -> bytes:
    """Return `size` bytes of the words, ending with NUL, because otherwise the kernel also shows the environment."""
    for shown in (words, [word.rpartition("/")[2] or word for word in words]):
        text = b"".join(word.encode(errors="surrogateescape") + b"\0" for word in shown)
        if len(text) <= size:
            break
    return text[: size - 1].ljust(size, b"\0")
