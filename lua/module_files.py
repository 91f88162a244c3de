"""The source files of built-in Lua modules."""

from __future__ import annotations

import errno
import os

_MODULES = os.path.join(os.path.dirname(__file__), "modules")
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
"""Errors that say that a file is not there. After others, such as EMFILE, it may well be."""


def _module_path(name: str) -> str:
    """Return the file of a built-in module.

    An absolute path, or one that leaves the directory, is not a module's name and has no file.
    """
    parts = name.split(".")
    is_name = all(part.replace("_", "").replace("-", "").isalnum() for part in parts)
    return os.path.join(_MODULES, *parts) + ".lua" if is_name else ""


def module_text(name: str) -> bytes:
    """Return the source of a built-in module.

    Raises:
        OSError: there is no such module, or its file cannot be read.
    """
    with open(_module_path(name), "rb", buffering=0) as file:
        return file.readall()


def read_module(name: bytes) -> bytes | tuple[None, bytes] | None:
    """Return the source of a built-in module for Lua, None if there is no such module, or None and the reason why its
    file cannot be read.
    """
    try:
        return module_text(os.fsdecode(name))
    except OSError as error:
        return None if error.errno in _ABSENT else (None, os.fsencode(str(error)))
