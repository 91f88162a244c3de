"""Files as `fio` and `xlog` use them: by descriptor and by path."""

from __future__ import annotations

from typing import Protocol


class Files(Protocol):
    """The files of one process."""


class SystemFiles:
    """The operating system's."""
