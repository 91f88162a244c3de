"""One node for all connections of this process to a directory: the first starts it, the last stops it."""

from __future__ import annotations

import os
import threading
from os import PathLike
from typing import Any, Final

from box.dbapi.exceptions import ProgrammingError
from box.sync import Node

_lock: Final = threading.Lock()
_shared: Final[dict[str, SharedNode]] = {}


class SharedNode:
    """A node, and the number of its connections. A node that the program has started itself is never stopped here."""

    def __init__(self, node: Node, options: dict[str, Any], path: str | None) -> None:
        self.node = node
        self._options = options
        self._path = path
        self._users = 1

    @classmethod
    def of(cls, directory: str | PathLike[str] | None, options: dict[str, Any]) -> SharedNode:
        """Return the node of a directory; start it if no connection uses it yet. With None, return a new node in
        memory.

        Raises:
            ProgrammingError: the node runs with other options.
            BoxError: the node cannot start.
        """
        if directory is None:
            node = Node(None, **options)
            node.start()
            return cls(node, options, None)
        path = f"{os.getpid()} {os.path.realpath(directory)}"
        with _lock:
            found = _shared.get(path)
            if found is not None:
                if options and options != found._options:
                    raise ProgrammingError(f"the node of {os.fspath(directory)!r} runs with other options")
                found._users += 1
                return found
            node = Node(directory, **options)
            node.start()
            found = _shared[path] = cls(node, options, path)
            return found

    def release(self) -> None:
        """Release the node for one connection; the last release stops the node."""
        with _lock:
            self._users -= 1
            if self._users:
                return
            if self._path is not None:
                del _shared[self._path]
            self.node.stop()
