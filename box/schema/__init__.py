"""Spaces, users, functions and sequences: the data dictionary, and the triggers that maintain it.

`initial_schema()` makes the dictionary of an instance. The rows of a snapshot, or `bootstrap_rows()` of a new instance,
complete it when they are applied to the system spaces.

Names are imported on first use, because access rights are needed without the dictionary.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from box.schema.access import Credentials, Privilege, User, check_session, check_universe, password_hash
    from box.schema.bootstrap import bootstrap_rows, bootstrap_runs
    from box.schema.function import Function
    from box.schema.ids import SpaceId, UserId
    from box.schema.schema import Schema
    from box.schema.sequence import Sequence
    from box.schema.sequence_fill import fill_sequence
    from box.schema.space import NOTHING, Space, SpaceDef, Trigger
    from box.schema.system import initial_schema

__all__ = [
    "NOTHING",
    "Credentials",
    "Function",
    "Privilege",
    "Schema",
    "Sequence",
    "Space",
    "SpaceDef",
    "SpaceId",
    "Trigger",
    "User",
    "UserId",
    "bootstrap_rows",
    "bootstrap_runs",
    "check_session",
    "check_universe",
    "fill_sequence",
    "initial_schema",
    "password_hash",
]

_MODULES = {
    "box.schema.access": ("Credentials", "Privilege", "User", "check_session", "check_universe", "password_hash"),
    "box.schema.bootstrap": ("bootstrap_rows", "bootstrap_runs"),
    "box.schema.function": ("Function",),
    "box.schema.ids": ("SpaceId", "UserId"),
    "box.schema.schema": ("Schema",),
    "box.schema.sequence": ("Sequence",),
    "box.schema.sequence_fill": ("fill_sequence",),
    "box.schema.space": ("NOTHING", "Space", "SpaceDef", "Trigger"),
    "box.schema.system": ("initial_schema",),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'box.schema' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
