"""The history of entered statements: a private file, and suggestions from it."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

from prompt_toolkit.auto_suggest import AutoSuggest, Suggestion
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory

HISTORY: Final = ".lunabox_history"
_RECENT: Final = 2000
"""The number of recent statements that are searched at each key."""


class PrivateHistory(FileHistory):
    """A history file that only the user may read, because statements may contain passwords.

    Raises OSError for a path that is not a file. A file that later cannot be read or written costs only the history.
    """

    def __init__(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, 0o600)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "not a file", path)
            os.fchmod(descriptor, 0o600)
        finally:
            os.close(descriptor)
        super().__init__(path)

    def load_history_strings(self) -> Iterable[str]:
        try:
            return super().load_history_strings()
        except OSError:
            return ()

    def store_string(self, string: str) -> None:
        with suppress(OSError):
            super().store_string(string)


def default_history() -> History:
    """Return the history in the home directory, or one in memory if that is impossible."""
    home = os.environ.get("HOME")
    if not home or not os.access(home, os.W_OK):
        return InMemoryHistory()
    try:
        return PrivateHistory(str(Path(home) / HISTORY))
    except OSError:
        return InMemoryHistory()


class SuggestedFromHistory(AutoSuggest):
    """Suggests the rest of the latest statement that begins like the current one."""

    def get_suggestion(self, buffer: Buffer, document: Document) -> Suggestion | None:
        text = document.text
        if not text.strip() or "\n" in text:
            return None
        for entry in islice(reversed(buffer.history.get_strings()), _RECENT):
            if entry.startswith(text) and len(entry) > len(text):
                return Suggestion(entry[len(text) :].partition("\n")[0])
        return None
