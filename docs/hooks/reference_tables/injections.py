"""The error injections: names, types and defaults from the node, effects from facts/error_injections.txt."""

from __future__ import annotations

from box.errinj import ErrorInjections
from reference_tables.markdown import code, facts, table

PREFIX = "ERRINJ_"
_TYPES = {bool: "boolean", int: "integer", float: "seconds"}


def table_of_injections(which: str) -> str:
    """Return the table `working`, of injections with an effect, or `idle`, with the names of the others."""
    effects = {f"{PREFIX}{name}": text for name, text in facts("error_injections.txt").items()}
    values = ErrorInjections().values
    if which == "idle":
        return ", ".join(code(name) for name in values if name not in effects)
    rows = (
        (code(name), _TYPES[type(value)], code(str(value).lower()), effects[name])
        for name, value in values.items()
        if name in effects
    )
    return table(("injection", "type", "off", "while it is on"), rows)
