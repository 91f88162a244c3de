"""Opens and finds files by path or by URL of a store that fsspec knows (`s3://`, `hdfs://`, `memory://`, ...).

A path with `file:` in front is local. Globs may contain `*`, `?` and `[...]`.
"""

from __future__ import annotations

import errno
import glob
import io
import os
import re
from collections.abc import Sequence
from typing import Any, BinaryIO, Final, cast

from box.errors import BoxError, ErrorCode, client_error, illegal_params
from box.journal import pending_mark

_URL: Final = re.compile(r"([a-z][a-z0-9+.-]+)://")
_LOCAL: Final = re.compile(r"file:(?://(?=/))?")
"""The prefix of a local path: `file:` or, before a slash, `file://`."""
_GLOB: Final = re.compile(r"[*?\[]")
_SNAPSHOT_NAME: Final = re.compile(r"\d{20}\.snap")
_BUFFER: Final = 1 << 18
"""The buffer size of a local file in bytes: about the size of a block."""


def local_path(path: str) -> str | None:
    """Return the path without `file:`, None for the URL of another store."""
    path = _LOCAL.sub("", path, count=1)
    return None if _URL.match(path) else path


def _store(url: str) -> Any:
    """Return the fsspec file system of a URL.

    Raises:
        BoxError: ILLEGAL_PARAMS, fsspec or the package of the store is not installed, or the URL is wrong.
    """
    try:
        import fsspec
    except ImportError:
        text = f"'{url}' needs the package fsspec: pip install '.[remote]' in a clone of Lunabox"
        raise illegal_params(text) from None
    try:
        return fsspec.core.url_to_fs(url)[0]
    except (ImportError, ValueError) as error:
        raise illegal_params(f"'{url}': {error}") from None


def open_file(path: str) -> BinaryIO:
    """Open a file for reading.

    Raises:
        BoxError: SYSTEM, the file cannot be opened.
    """
    local = local_path(path)
    try:
        if local is not None:
            return open(local, "rb", buffering=_BUFFER)
        return cast(BinaryIO, _store(path).open(path, "rb"))
    except OSError as error:
        raise _failed(f"failed to open '{path}' file", error) from error


def counted_size(file: BinaryIO) -> int:
    """Return the size of an open file without the bytes that the node that writes it may still remove.

    Changes the position in the file.

    Raises:
        BoxError: SYSTEM, the size cannot be determined.
    """
    try:
        if isinstance(file, io.BufferedReader) and isinstance(file.raw, io.FileIO):
            return pending_mark.counted_size(file.fileno())
        return file.seek(0, os.SEEK_END)
    except OSError as error:
        raise _failed("failed to look at an open file", error) from error


def names_in(directory: str) -> list[str]:
    """Return the sorted names of the files of a directory.

    Raises:
        BoxError: SYSTEM, the directory cannot be read.
    """
    local = local_path(directory)
    try:
        if local is not None:
            return sorted(os.listdir(local))
        found = _store(directory).ls(directory, detail=False)
    except OSError as error:
        raise _failed(f"can't read directory {directory}", error) from error
    return sorted(str(name).rstrip("/").rpartition("/")[2] for name in found)


def size_of(path: str) -> int:
    """Return the size of a file in bytes, without those that the node that writes it may still remove.

    Raises:
        BoxError: SYSTEM, the file cannot be opened.
    """
    local = local_path(path)
    try:
        if local is None:
            return int(_store(path).size(path))
        with open(local, "rb", buffering=0) as file:
            return pending_mark.counted_size(file.fileno())
    except OSError as error:
        raise _failed(f"failed to open '{path}' file", error) from error


def expand(patterns: Sequence[str]) -> list[str]:
    """Return the paths, with globs replaced by the paths that match, and no path twice.

    Raises:
        BoxError: ILLEGAL_PARAMS, nothing matches a glob; SYSTEM, a store cannot be read.
    """
    found: dict[str, None] = {}
    for pattern in patterns:
        paths = _glob(pattern) if _GLOB.search(pattern) else [pattern]
        if not paths:
            raise illegal_params(f"no file or directory matches '{pattern}'")
        found.update(dict.fromkeys(path.rstrip("/") or "/" for path in paths))
    return list(found)


def is_glob(pattern: str) -> bool:
    """Return whether the path is a glob."""
    return _GLOB.search(pattern) is not None


def _glob(pattern: str) -> list[str]:
    local = local_path(pattern)
    if local is not None:
        return sorted(glob.glob(local))
    store = _store(pattern)
    try:
        return sorted(str(store.unstrip_protocol(name)) for name in store.glob(pattern))
    except OSError as error:
        raise _failed(f"can't read {pattern}", error) from error


def newest_snapshot(path: str) -> str:
    """Return the path itself if it is a snapshot, otherwise the newest snapshot of the directory.

    Unfinished snapshots (`.inprogress`) do not count.

    Raises:
        BoxError: SYSTEM, the directory cannot be read; MISSING_SNAPSHOT, it has no snapshot.
    """
    return path if path.endswith(".snap") else snapshots_in(path)[-1]


def snapshots_in(directory: str) -> list[str]:
    """Return the paths of the snapshots of a directory, the oldest first.

    Raises:
        BoxError: SYSTEM, the directory cannot be read; MISSING_SNAPSHOT, it has no snapshot; ILLEGAL_PARAMS, the path
            is not a directory.
    """
    try:
        names = [name for name in names_in(directory) if _SNAPSHOT_NAME.fullmatch(name)]
    except BoxError as failure:
        if failure.errno != errno.ENOTDIR:
            raise
        raise illegal_params(f"'{directory}' is neither a directory nor a .snap file: name one of the two") from None
    if not names:
        error = client_error(ErrorCode.MISSING_SNAPSHOT)
        raise BoxError(error.code, f"{error.message} in {directory}: run box.snapshot() there first")
    return [f"{directory}/{name}" for name in names]


def _failed(what: str, error: OSError) -> BoxError:
    text = f"{what}: {error.strerror or error}"
    return BoxError(ErrorCode.SYSTEM, text, type="SystemError", errno=error.errno or 0)
