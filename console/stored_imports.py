"""The code of all modules that a part of the program imports, from one file.

For each of some hundred modules the interpreter lists directories, makes paths, opens a file and reads it: a fifth of a
start. Here it looks at each source's time and size, as for a `.pyc`, and has the code. A module that has changed is
found in the usual way. What the imports compile from text is stored too (`console.stored_texts`).

The note of an entry is (path of the `.pyc`, whether it is a package).
"""

from __future__ import annotations

import marshal
import os
import sys
from contextlib import ExitStack
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from types import CodeType, ModuleType, TracebackType
from typing import Self

from console.code_store import StoredEntry, read_store, store_path, write_store


class StoredImports:
    """`with StoredImports("node"):` around imports. What they have found elsewhere is in the file the next time."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._path = store_path(__file__, name)
        self._entries: dict[str, StoredEntry] = {}
        self._before: frozenset[str] = frozenset()
        self._rest = ExitStack()

    def __enter__(self) -> Self:
        self._entries = read_store(self._path)
        self._before = frozenset(sys.modules)
        sys.meta_path.insert(0, self)
        from console.stored_texts import StoredTexts

        self._rest.enter_context(StoredTexts(self._name))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._rest.__exit__(kind, error, trace)
        sys.meta_path.remove(self)
        if kind is None and not sys.dont_write_bytecode:
            self._keep()
        self._entries = {}

    def find_spec(self, name: str, _path: object = None, _target: ModuleType | None = None) -> ModuleSpec | None:
        """As finders of `sys.meta_path`; None for a module that is not stored, or has changed since."""
        entry = self._entries.get(name)
        if entry is None or not entry.is_current():
            return None
        cached, is_package = entry.note
        folder = [os.path.dirname(entry.source)] if is_package else None
        loader = _StoredLoader(name, entry.source, entry.code)
        spec = spec_from_file_location(name, entry.source, loader=loader, submodule_search_locations=folder)
        if spec is not None:
            spec.cached = cached
        return spec

    def _keep(self) -> None:
        """Write the file anew if a module has come from elsewhere."""
        found = {name: entry for name in sys.modules.keys() - self._before if (entry := _entry_of(name)) is not None}
        if found:
            write_store(self._path, {name: e for name, e in self._entries.items() if e.is_current()} | found)


class _StoredLoader(SourceFileLoader):
    """Has the code already; the source is read by whoever wants to see it."""

    def __init__(self, name: str, path: str, code: bytes | memoryview) -> None:
        super().__init__(name, path)
        self._code = code

    def get_code(self, fullname: str) -> CodeType:
        loaded: CodeType = marshal.loads(self._code)
        self._code = b""
        return loaded


def _entry_of(name: str) -> StoredEntry | None:
    """Of a module that was just imported from its source, if its `.pyc` is there and of that source."""
    spec = getattr(sys.modules.get(name), "__spec__", None)
    if spec is None or spec.name != name or type(spec.loader) is not SourceFileLoader:
        return None
    source, cached = spec.origin, spec.cached
    if source is None or cached is None:
        return None
    try:
        found = os.stat(source)
        with open(cached, "rb") as file:
            data = file.read()
    except OSError:
        return None
    # The head of a .pyc: magic number, flags (0: the next two tell whether it is current), time in seconds, size.
    flags, time, size = (int.from_bytes(data[at : at + 4], "little") for at in (4, 8, 12))
    if flags != 0 or time != int(found.st_mtime) & 0xFFFFFFFF or size != found.st_size & 0xFFFFFFFF:
        return None
    note = (cached, spec.submodule_search_locations is not None)
    return StoredEntry(source, found.st_mtime_ns, found.st_size, note, data[16:])
