"""Lists of the commands' options, from their argument parsers."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from importlib import import_module

from reference_tables.markdown import sentence

_PARSERS = {
    "lunabox-connect": ("console.commands.connect", "parser"),
    "lunabox-top": ("console.commands.top", "parser"),
    "lunabox-sql": ("console.commands.sql", "parser"),
    "lunabox-init": ("console.commands.init", "parser"),
    "lunabox-completion": ("console.commands.completion", "parser"),
    "lunabox-test": ("console.suite.runner_options", "_parser"),
    "lunabox-export": ("box.spark.export_options", "parser"),
    "lunabox-cat": ("box.spark.cat", "_parser"),
    "lunabox-sim": ("box.testing.simulation.command", "_parser"),
}


def options_of(command: str) -> str:
    """Return the arguments and options of a command as a list.

    Raises:
        KeyError: the command has no parser.
    """
    module, name = _PARSERS[command]
    make: Callable[[], argparse.ArgumentParser] = getattr(import_module(module), name)
    parser = make()
    return "\n".join(f"- {item}" for action in parser._actions for item in _item(parser, action))


def _item(parser: argparse.ArgumentParser, action: argparse.Action) -> Iterator[str]:
    if action.help is argparse.SUPPRESS or isinstance(action, argparse._HelpAction):
        return
    value = "" if action.nargs == 0 else f" {_metavar(action)}"
    terms = ", ".join(f"`{option}{value}`" for option in action.option_strings) or f"`{_metavar(action)}`"
    texts = [sentence(parser._get_formatter()._expand_help(action))] if action.help else []
    if action.choices:
        texts.append(f"One of {', '.join(f'`{choice}`' for choice in action.choices)}.")
    yield f"{terms}: {' '.join((*texts, *_default(action)))}"


def _metavar(action: argparse.Action) -> str:
    return str(action.metavar or action.dest.upper())


def _default(action: argparse.Action) -> Iterator[str]:
    """Return the default of an option as text, '' if it says nothing or the help has it."""
    value = action.default
    if isinstance(value, bool) or not isinstance(value, int | float | str) or value == "" or value is argparse.SUPPRESS:
        return
    text = f"{value:g}" if isinstance(value, float) else str(value)
    if f"({text})" not in (action.help or "") and "default" not in (action.help or ""):
        yield f"Default: `{text}`."
