"""The options of `box.cfg`: from the registry, with their groups and effects from facts/cfg_options.txt."""

from __future__ import annotations

from box.instance.option_registry import OPTIONS, Option
from reference_tables.markdown import code, lines_of, table

NO_EFFECT = "none"
"""The fact of an option that is accepted without effect."""


def groups() -> dict[str, dict[str, str]]:
    """Return effects by option, by the title of their group.

    Raises:
        KeyError: a line comes before the first title.
    """
    found: dict[str, dict[str, str]] = {}
    title = ""
    for line in lines_of("cfg_options.txt"):
        if line.startswith("== "):
            title = line[3:]
            found[title] = {}
        else:
            name, _, effect = line.partition(": ")
            found[title][name] = effect
    return found


def table_of_groups() -> str:
    """Return a section with a table for each group."""
    return "\n\n".join(f"## {title}\n\n{_table(effects)}" for title, effects in groups().items())


def _table(effects: dict[str, str]) -> str:
    head = ("option", "type", "default", "dynamic", "effect")
    return table(head, ((code(name), *_facts(OPTIONS[name]), _spelled(effects[name])) for name in effects))


def _facts(option: Option) -> tuple[str, str, str]:
    return option.types.replace(", ", " or "), _default(option.default), "yes" if option.dynamic else "no"


def _spelled(effect: str) -> str:
    return "Accepted without effect." if effect == NO_EFFECT else effect


def _default(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return code(str(value).lower())
    return code(f"{value:g}" if isinstance(value, float) else value)
