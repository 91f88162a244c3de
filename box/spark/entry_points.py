"""Entry points of `lunabox-cat` and `lunabox-export`. The second one needs packages that a node does not."""

from __future__ import annotations

import importlib
import sys

_NOT_INSTALLED = 2
_OWN = ("box", "lua", "console")


def cat() -> int:
    """Run `lunabox-cat`; its exit code."""
    return _run("cat")


def export() -> int:
    """Run `lunabox-export`; its exit code."""
    return _run("export")


def _run(name: str) -> int:
    try:
        command = importlib.import_module(f"box.spark.{name}")
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in _OWN:
            raise
        advice = "pip install '.[spark]' in a clone of Lunabox"
        print(f"lunabox-{name}: {package} is not installed: {advice}", file=sys.stderr)
        return _NOT_INSTALLED
    code: int = command.main()
    return code
