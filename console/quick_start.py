"""Imports of the command without what it has no use for.

```
ssl        asyncio and uvloop import it, and the libraries behind it, for transports that nothing here uses; what does
           need it (`http.client`) imports it then: 15 ms
BTrees     makes 22 modules of its own when it is imported, of which two are used here, and declares interfaces
           of zope and persistent that nobody asks for: 45 ms
crc32c     looks for its version and has a command line: 12 ms
collector  looks at what the imports make, all of which stays: 25 ms
```

Only for processes that are nothing but a node: a program that embeds one imports those packages as they are.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, NoReturn


def prepare() -> None:
    """Before any other import. `console.cli` switches the collector on again."""
    gc.disable()
    import_loops()
    _try("crc32c", _import_crc32c)
    _try("BTrees", _import_trees)


class _NoSsl(ModuleType):
    """In the place of `ssl`: every name is a class that nothing is an instance of, a number for those of errors."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        found: object = -1 if name.startswith("SSL_") else type(name, (Exception,), {})
        setattr(self, name, found)
        return found


def import_loops() -> None:
    """asyncio and uvloop, without `ssl`: for processes whose connections never have TLS by way of them."""
    if {"ssl", "asyncio", "uvloop"} & sys.modules.keys():
        return
    sys.modules["ssl"] = _NoSsl("ssl")
    try:
        importlib.import_module("asyncio")
        importlib.import_module("uvloop")
    finally:
        del sys.modules["ssl"]


def _try(name: str, load: Callable[[ModuleType], None]) -> None:
    """Load a part of a package. Another version may not be like this one: then the usual import has to do."""
    if name in sys.modules:
        return
    before = set(sys.modules)
    try:
        load(_bare_package(name))
    except Exception:
        for loaded in set(sys.modules) - before:
            del sys.modules[loaded]


def _bare_package(name: str) -> ModuleType:
    """A package whose own code does not run: only its modules can be imported."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(name)
    package = sys.modules[name] = ModuleType(name)
    package.__path__ = list(spec.submodule_search_locations)
    package.__spec__ = spec
    return package


def _set(package: ModuleType, **members: Any) -> None:
    vars(package).update(members)


def _import_crc32c(package: ModuleType) -> None:
    _set(package, crc32c=importlib.import_module("crc32c._crc32c").crc32c)


def _import_trees(package: ModuleType) -> None:
    """The two kinds in C, without their likes in Python. Sizes of nodes are those that the package gives them."""
    interfaces = sys.modules["BTrees.Interfaces"] = ModuleType("BTrees.Interfaces")
    _set(interfaces, BTreesConflictError=ValueError)  # of transactions of ZODB
    persistent = _bare_package("persistent")
    _set(persistent, cPersistence=importlib.import_module("persistent.cPersistence"))
    datatypes = importlib.import_module("BTrees._datatypes")
    for prefix in ("OO", "QO"):
        extension = importlib.import_module(f"BTrees._{prefix}BTree")
        key, value = (getattr(datatypes, letter)() for letter in prefix)
        for kind in (extension.BTree, extension.TreeSet):
            kind.max_leaf_size = key.bucket_size_for_value(value.as_value_type())
            kind.max_internal_size = key.tree_size
        sys.modules[f"BTrees.{prefix}BTree"] = extension
        _set(package, **{f"{prefix}BTree": extension})


def main() -> NoReturn:
    """Entry point of `lunabox`: ends the process with the exit code of `console.cli`."""
    if not _has_told_about_itself():
        _run()
    os._exit(0)


def _run() -> NoReturn:
    from console.stored_imports import StoredImports

    with StoredImports("command"):
        prepare()
        from console import cli

    code = cli.main()
    from console.leave import leave

    leave(code)


def _has_told_about_itself() -> bool:
    """Say what the only option asks for. Where it cannot be written `console.cli` tries, and says why not."""
    if sys.argv[1:] not in (["--version"], ["-v"], ["-V"], ["--help"], ["-h"]):
        return False
    from console.command_texts import HELP, version_text

    text = HELP if "h" in sys.argv[1] else version_text()
    try:
        return os.write(1, text.encode()) == len(text)
    except OSError:
        return False
