"""Options of `box.cfg` in the environment: `TT_LISTEN=3301` counts if the first `box.cfg{}` does not set `listen`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from box.errors import BoxError, ErrorCode
from box.instance.option_registry import OPTIONS, Option

_FILE = "builtin/box/load_cfg.lua"
CALLER = f"{_FILE}:19: "
"""The place in Tarantool's code at which `box.cfg` reads the environment; its error texts begin with this place."""
_NUMBER = re.compile(
    r"\s*[-+]?(?:0x(?:[0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)(?:p[-+]?\d+)?|(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|inf|infinity|nan)\s*",
    re.ASCII | re.IGNORECASE,
)
_BOOLEANS = {"true": True, "false": False}


def options_from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the options in `TT_<NAME>` variables.

    Raises:
        LuajitError: a value has a wrong type.
    """
    options = {}
    for name, option in OPTIONS.items():
        raw = environment.get(_variable(name), "")
        if raw:
            options[name] = _parse(option, raw)
    return options


def _variable(name: str) -> str:
    return f"TT_{name.upper()}"


def _parse(option: Option, raw: str) -> Any:
    if "table" in option.types and "," in raw:
        return [_number_or_text(item) for item in raw.split(",")]
    if option.types == "boolean":
        if raw.lower() not in _BOOLEANS:
            raise _wrong(option, 848, '"true" or "false"')
        return _BOOLEANS[raw.lower()]
    if option.types == "number":
        number = _number_or_text(raw)
        if isinstance(number, str):
            raise _wrong(option, 852, "convertible to a number")
        return number
    return _number_or_text(raw) if "number" in option.types else raw


def _number_or_text(raw: str) -> float | str:
    """Convert a text that is a number in Lua's notation."""
    if not _NUMBER.fullmatch(raw):
        return raw
    number = float.fromhex(raw) if "x" in raw.lower() else float(raw)
    return int(number) if number.is_integer() else number


def _wrong(option: Option, line: int, expected: str) -> BoxError:
    """Make the error for a wrong value, whose text has a place in Tarantool."""
    variable = _variable(option.name)
    text = f"{_FILE}:{line}: "
    text += f'Environment variable {variable} has incorrect value for option "{option.name}": should be {expected}'
    return BoxError(ErrorCode.PROC_LUA, text, type="LuajitError")
