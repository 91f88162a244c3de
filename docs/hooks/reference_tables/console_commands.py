"""Commands and settings of the interactive console."""

from __future__ import annotations

import textwrap

from console.interactive import settings
from console.interactive.completer import COMMANDS
from reference_tables.markdown import code, sentence, table


def commands() -> str:
    """Return a table of the backslash commands."""
    rows = ((code(f"\\{name}"), sentence(help)) for name, help in COMMANDS.items())
    return table(("command", "what it does"), rows)


def settings_file() -> str:
    """Return the settings with their defaults as the file has them, from the docstring of their module."""
    text = settings.__doc__ or ""
    lines = [line for line in text.splitlines() if line.startswith("    ")]
    return "```toml\n[console]\n" + textwrap.dedent("\n".join(lines)) + "\n```"
