"""A file with compiled code of many sources, each good for as long as its source has the same time and size.

```
bytes of the index (8, little) | index, marshalled | code of all sources

index: (layout, bytes of code, {key: (source, its time in ns, its size, note, offset, length)})
```

It is made in `__pycache__` of its owner, as trustworthy as the `.pyc` files there, and under the same conditions. One
that is missing, torn or of another layout is empty.
"""

from __future__ import annotations

import marshal
import os
import sys
from collections.abc import Iterable
from importlib.util import cache_from_source
from typing import Any, NamedTuple

_HEAD = 8
_LAYOUT = 1


class StoredEntry(NamedTuple):
    """Compiled code of one source. `note` is what its owner wants to know besides, and can be marshalled."""

    source: str
    time: int
    size: int
    note: Any
    code: bytes | memoryview

    def is_current(self) -> bool:
        """Whether the source is as it was."""
        try:
            found = os.stat(self.source)
        except OSError:
            return False
        return found.st_mtime_ns == self.time and found.st_size == self.size


def store_path(owner: str, name: str) -> str:
    """The path of the store `name` of the module with the path `owner`."""
    return cache_from_source(os.path.join(os.path.dirname(owner), f"{name}.py")).removesuffix(".pyc") + ".store"


def read_store(path: str) -> dict[str, StoredEntry]:
    """Entries by key; empty where there is no such file."""
    try:
        with open(path, "rb") as file:
            data = file.read()
        size = int.from_bytes(data[:_HEAD], "little")
        layout, total, index = marshal.loads(data[_HEAD : _HEAD + size])
    except (OSError, EOFError, ValueError, TypeError):
        return {}
    code = memoryview(data)[_HEAD + size :]
    if layout != _LAYOUT or total != len(code):
        return {}
    return {
        key: StoredEntry(source, time, size, note, code[at : at + length])
        for key, (source, time, size, note, at, length) in index.items()
    }


def write_store(path: str, entries: dict[str, StoredEntry]) -> None:
    """Replace the file, whole or not at all. Nothing happens where that is not allowed or Python keeps no `.pyc`."""
    index, at = {}, 0
    for key, entry in entries.items():
        index[key] = (*entry[:-1], at, len(entry.code))
        at += len(entry.code)
    head = marshal.dumps((_LAYOUT, at, index))
    replace_file(path, [len(head).to_bytes(_HEAD, "little"), head, *(entry.code for entry in entries.values())])


def replace_file(path: str, parts: Iterable[bytes | memoryview]) -> None:
    """Replace a file in `__pycache__`, whole or not at all."""
    if sys.dont_write_bytecode:
        return
    unfinished = f"{path}.{os.getpid()}"
    try:
        with open(unfinished, "wb") as file:
            file.writelines(parts)
        os.replace(unfinished, path)
    except OSError:
        _remove(unfinished)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        return
