"""Patterns of paths for simulated files, as in Python's `glob`: `*`, `?` and `[...]` in every part of a path."""

from __future__ import annotations

import os
from collections.abc import Iterator
from fnmatch import filter as matching
from typing import Final, Protocol

_SPECIAL: Final = frozenset(b"*?[")
"""The bytes that make a part of a path a pattern."""


class _Listed(Protocol):
    """The files that are searched."""

    def stat(self, path: bytes, /) -> dict[str, float]: ...

    def lstat(self, path: bytes, /) -> dict[str, float]: ...

    def listdir(self, path: bytes, /) -> list[bytes]: ...


def matching_paths(files: _Listed, pattern: bytes) -> list[bytes]:
    """Return the paths that match a pattern; directories that cannot be read match nothing.

    Names that begin with a dot match only if their part of the pattern begins with one.
    """
    return list(_matches(files, pattern))


def _is_special(pattern: bytes) -> bool:
    return not _SPECIAL.isdisjoint(pattern)


def _exists(files: _Listed, path: bytes) -> bool:
    try:
        files.lstat(path)
    except (OSError, ValueError):
        return False
    return True


def _names(files: _Listed, directory: bytes) -> list[bytes]:
    try:
        return files.listdir(directory or b".")
    except (OSError, ValueError):
        return []


def _is_directory(files: _Listed, path: bytes) -> bool:
    try:
        files.stat(os.path.join(path, b"."))
    except (OSError, ValueError):
        return False
    return True


def _matches(files: _Listed, pattern: bytes) -> Iterator[bytes]:
    above, last = os.path.split(pattern)
    if not _is_special(pattern):
        if _exists(files, pattern) if last else above and _is_directory(files, above):
            yield pattern
        return
    parents = _matches(files, above) if _is_special(above) else [above]
    for parent in parents:
        for name in _names_that_match(files, parent, last):
            yield os.path.join(parent, name)


def _names_that_match(files: _Listed, directory: bytes, pattern: bytes) -> list[bytes]:
    """Return the names in a directory that match a pattern.

    A plain name is returned if it exists, and an empty pattern (the path ends with a slash) if the directory exists.
    """
    if not pattern:
        return [pattern] if _is_directory(files, directory) else []
    if not _is_special(pattern):
        return [pattern] if _exists(files, os.path.join(directory, pattern)) else []
    names = matching(_names(files, directory), pattern)
    return names if pattern.startswith(b".") else [name for name in names if not name.startswith(b".")]
