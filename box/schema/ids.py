"""Identifiers and limits of the data dictionary.

Source: Tarantool's published header of schema constants and `box.schema` of a running node.
"""

from __future__ import annotations

from enum import IntEnum


class SpaceId(IntEnum):
    """Ids of the system spaces. `_v...` are views of the space whose id is one less (two for sequences)."""

    VINYL_DEFERRED_DELETE = 257
    SCHEMA = 272
    COLLATION = 276
    VCOLLATION = 277
    SPACE = 280
    VSPACE = 281
    SEQUENCE = 284
    SEQUENCE_DATA = 285
    VSEQUENCE = 286
    INDEX = 288
    VINDEX = 289
    FUNC = 296
    VFUNC = 297
    USER = 304
    VUSER = 305
    PRIV = 312
    VPRIV = 313
    CLUSTER = 320
    TRIGGER = 328
    TRUNCATE = 330
    SPACE_SEQUENCE = 340
    VSPACE_SEQUENCE = 341
    """A view that 2.10 added: read where a newer version has made it, never made here."""
    FK_CONSTRAINT = 356
    CK_CONSTRAINT = 364
    FUNC_INDEX = 372
    SESSION_SETTINGS = 380


# The limits below are those of Tarantool's `schema_def.h`; the largest ones are the limits of its integer types.
SYSTEM_ID_MIN = 256
SYSTEM_ID_MAX = 511
SPACE_ID_MAX = 2**31 - 1
FUNCTION_ID_MAX = 32000
INDEX_MAX = 128
INDEX_PART_MAX = 255
INDEX_FIELD_MAX = 2**15 - 1
NAME_MAX = 65000
"""The greatest length of an identifier, in bytes."""
SHOWN_NAME_MAX = 64
"""How much of a too long identifier an error message shows, in bytes."""
ENGINE_NAME_MAX = 16
USER_MAX = 32
"""The greatest number of users and roles together."""
REPLICA_MAX = 32
"""Instance ids are lower than this, and 0 is reserved."""

GROUP_DEFAULT = 0
GROUP_LOCAL = 1
"""The replication group of spaces whose rows never leave the instance."""


class UserId(IntEnum):
    """Predefined users and roles."""

    GUEST = 0
    ADMIN = 1
    PUBLIC = 2
    REPLICATION = 3
    SUPER = 31


def is_system_id(space_id: int) -> bool:
    """Return whether an id is in the range of system spaces."""
    return SYSTEM_ID_MIN < space_id < SYSTEM_ID_MAX
