"""Loads the shared libraries of stored functions with `language = 'C'`, and finds their functions.

A library is copied to a new folder before it is loaded, as in Tarantool: the same path loaded twice would be the
same library, and a reload would do nothing. The error texts of the linker name the copy.
The functions themselves are not called: they need the functions that Tarantool's `module.h` declares.
"""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

from box.errors import BoxError, ErrorCode, client_error, system_error

Find = Callable[[str], tuple[str | None, str]]
"""Returns the path of a module's library, None if there is none, and the folder for temporary files."""


class CModules:
    """The libraries that stored functions have loaded, by the name of their module."""

    def __init__(self, find: Find) -> None:
        self._find = find
        self._handles: dict[str, int] = {}
        self._functions: dict[str, set[str]] = {}

    def load_function(self, name: str) -> None:
        """Load the library of a function such as `module.submodule.function` and find the function in it.

        Raises:
            ClientError: LOAD_MODULE or LOAD_FUNCTION.
            BoxSystemError: the library could not be copied.
        """
        package, symbol = _split(name)
        if symbol in self._functions.get(package, ()):
            return
        handle = self._handles.get(package) or self.load_copy(package)
        try:
            _find_symbol(handle, symbol)
        except BoxError:
            if package not in self._handles:
                close(handle)
            raise
        self._handles[package] = handle
        self._functions.setdefault(package, set()).add(symbol)

    def reload(self, package: str) -> None:
        """Load a library anew. If a function in use is missing in it, the old library stays.

        Raises:
            ClientError: NO_SUCH_MODULE, LOAD_MODULE or LOAD_FUNCTION.
            BoxSystemError: the library could not be copied.
        """
        if package not in self._handles:
            raise client_error(ErrorCode.NO_SUCH_MODULE, package)
        new = self.load_copy(package)
        try:
            for symbol in self._functions.get(package, ()):
                _find_symbol(new, symbol)
        except BoxError:
            close(new)
            raise
        close(self._handles[package])
        self._handles[package] = new

    def try_loading(self, package: str) -> None:
        """Load a library and release it; errors are those of `load_function`."""
        close(self.load_copy(package))

    def load_copy(self, package: str) -> int:
        """Load a copy of a library and return its handle; errors are those of `load_function`."""
        path, temporary = self._find(package)
        if path is None:
            raise client_error(ErrorCode.LOAD_MODULE, package, "module not found")
        folder = os.fsdecode(_new_folder(os.path.join(temporary, "tntXXXXXX")))
        try:
            return _open_copy(Path(path), Path(folder) / f"{package}.so", package)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _new_folder(template: str) -> bytes:
    # mkdtemp of the system library: its names are as long as those in Tarantool's messages.
    name = ctypes.create_string_buffer(os.fsencode(template))
    if not _linker().mkdtemp(name):
        raise system_error(f"failed to create unique dir name: {template}", ctypes.get_errno())
    return name.value


def _open_copy(source: Path, target: Path, package: str) -> int:
    try:
        shutil.copy(source, target)
    except OSError as error:
        raise system_error(f"failed to copy dso {source} to {target}", error.errno or 0) from error
    # Symbols are bound when they are called: a library may need functions of module.h, which nobody has here.
    handle = _linker().dlopen(os.fsencode(target), os.RTLD_LAZY | os.RTLD_LOCAL)
    if not handle:
        raise client_error(ErrorCode.LOAD_MODULE, package, _problem())
    return int(handle)


def close(handle: int) -> None:
    """Release a library."""
    _linker().dlclose(handle)


def _find_symbol(handle: int, symbol: str) -> None:
    if not _linker().dlsym(handle, os.fsencode(symbol)):
        raise client_error(ErrorCode.LOAD_FUNCTION, symbol, _problem())


def _split(name: str) -> tuple[str, str]:
    """Return the module and the function that a name stands for; a name without a dot stands for both."""
    package, dot, symbol = name.rpartition(".")
    return (package, symbol) if dot else (name, name)


def _problem() -> str:
    text: bytes | None = _linker().dlerror()
    return os.fsdecode(text) if text else "unknown error"


@cache
def _linker() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.dlopen.restype, library.dlopen.argtypes = ctypes.c_void_p, (ctypes.c_char_p, ctypes.c_int)
    library.dlsym.restype, library.dlsym.argtypes = ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_char_p)
    library.dlclose.restype, library.dlclose.argtypes = ctypes.c_int, (ctypes.c_void_p,)
    library.mkdtemp.restype, library.mkdtemp.argtypes = ctypes.c_char_p, (ctypes.c_char_p,)
    library.dlerror.restype, library.dlerror.argtypes = ctypes.c_char_p, ()
    return library
