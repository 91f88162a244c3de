"""The entry points of `lunabox-cat` and `lunabox-export`, which report packages that are not installed."""

from __future__ import annotations

import importlib
import sys

from box.exit_status import INTERRUPTED, end_at_interrupt, open_closed_streams, raise_at_interrupt

_NOT_INSTALLED = 2
"""The exit code if a package is missing."""
_OWN = ("box", "lua", "console")
"""Packages of this project: if one of them is missing, the installation is broken, and the traceback is shown."""


def cat() -> int:
    """Run `lunabox-cat`; return its exit code."""
    return _run("cat")


def export() -> int:
    """Run `lunabox-export`; return its exit code."""
    return _run("export")


def _run(name: str) -> int:
    """Run a command. Its help, its version and errors in its command line need no package of an extra."""
    open_closed_streams()
    end_at_interrupt()
    try:
        command = importlib.import_module(f"box.spark.{name}")
        raise_at_interrupt()
        code: int = command.main()
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in _OWN:
            raise
        advice = "pip install '.[spark]' in a clone of Lunabox"
        print(f"lunabox-{name}: {package} is not installed: {advice}", file=sys.stderr)
        return _NOT_INSTALLED
    except KeyboardInterrupt:
        return INTERRUPTED
    return code
