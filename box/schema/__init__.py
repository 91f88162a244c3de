"""Spaces, users, functions and sequences: the data dictionary, and the triggers that maintain it.

`initial_schema()` makes the dictionary of an instance. The rows of a snapshot, or `bootstrap_rows()` of a new instance,
complete it when they are applied to the system spaces.
"""

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
