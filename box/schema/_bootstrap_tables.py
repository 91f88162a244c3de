"""Tables for `box.schema.bootstrap`: system spaces, their indexes, names of SQL functions."""

from __future__ import annotations

from typing import Any

from box.schema.ids import SpaceId as Id

_COLLATION = "id:unsigned name:string owner:unsigned type:string locale:string opts:map"
_SPACE = "id:unsigned owner:unsigned name:string engine:string field_count:unsigned flags:map format:array"
_SEQUENCE = (
    "id:unsigned owner:unsigned name:string step:integer min:integer max:integer start:integer cache:integer "
    "cycle:boolean"
)
_INDEX = "id:unsigned iid:unsigned name:string type:string opts:map parts:array"
_USER = "id:unsigned owner:unsigned name:string type:string auth:map"
_PRIV = "grantor:unsigned grantee:unsigned object_type:string object_id:scalar privilege:unsigned"

SPACES: tuple[tuple[Id, str, str, int, dict[str, Any], str], ...] = (
    (
        Id.VINYL_DEFERRED_DELETE,
        "_vinyl_deferred_delete",
        "blackhole",
        0,
        {"group_id": 1},
        "space_id:unsigned lsn:unsigned tuple:array",
    ),
    (Id.SCHEMA, "_schema", "memtx", 0, {}, "key:string value:any"),
    (Id.COLLATION, "_collation", "memtx", 0, {}, _COLLATION),
    (Id.VCOLLATION, "_vcollation", "sysview", 0, {}, _COLLATION),
    (Id.SPACE, "_space", "memtx", 0, {}, _SPACE),
    (Id.VSPACE, "_vspace", "sysview", 0, {}, _SPACE),
    (Id.SEQUENCE, "_sequence", "memtx", 0, {}, _SEQUENCE),
    (Id.SEQUENCE_DATA, "_sequence_data", "memtx", 0, {}, "id:unsigned value:integer"),
    (Id.VSEQUENCE, "_vsequence", "sysview", 0, {}, _SEQUENCE),
    (Id.INDEX, "_index", "memtx", 0, {}, _INDEX),
    (Id.VINDEX, "_vindex", "sysview", 0, {}, _INDEX),
    (
        Id.FUNC,
        "_func",
        "memtx",
        0,
        {},
        (
            "id:unsigned owner:unsigned name:string setuid:unsigned language:string body:string routine_type:string "
            "param_list:array returns:string aggregate:string sql_data_access:string is_deterministic:boolean "
            "is_sandboxed:boolean is_null_call:boolean exports:array opts:map comment:string created:string "
            "last_altered:string"
        ),
    ),
    (Id.VFUNC, "_vfunc", "sysview", 0, {}, "id:unsigned owner:unsigned name:string setuid:unsigned"),
    (Id.USER, "_user", "memtx", 0, {}, _USER),
    (Id.VUSER, "_vuser", "sysview", 0, {}, _USER),
    (Id.PRIV, "_priv", "memtx", 0, {}, _PRIV),
    (Id.VPRIV, "_vpriv", "sysview", 0, {}, _PRIV),
    (Id.CLUSTER, "_cluster", "memtx", 0, {}, "id:unsigned uuid:string"),
    (Id.TRIGGER, "_trigger", "memtx", 0, {}, "name:string space_id:unsigned opts:map"),
    (Id.TRUNCATE, "_truncate", "memtx", 0, {}, "id:unsigned count:unsigned"),
    (
        Id.SPACE_SEQUENCE,
        "_space_sequence",
        "memtx",
        0,
        {},
        "id:unsigned sequence_id:unsigned is_generated:boolean field:unsigned path:string",
    ),
    (
        Id.FK_CONSTRAINT,
        "_fk_constraint",
        "memtx",
        0,
        {},
        (
            "name:string child_id:unsigned parent_id:unsigned is_deferred:boolean match:string on_delete:string "
            "on_update:string child_cols:array parent_cols:array"
        ),
    ),
    (
        Id.CK_CONSTRAINT,
        "_ck_constraint",
        "memtx",
        0,
        {},
        "space_id:unsigned name:string is_deferred:boolean language:str code:str is_enabled:boolean",
    ),
    (Id.FUNC_INDEX, "_func_index", "memtx", 0, {}, "space_id:unsigned index_id:unsigned func_id:unsigned"),
    (Id.SESSION_SETTINGS, "_session_settings", "service", 2, {"temporary": True}, "name:string value:any"),
)
"""The system spaces: id, name, engine, exact field count, options, and format as `name:type` pairs. All of them belong
to admin.
"""

INDEXES: tuple[tuple[tuple[Id, ...], int, str, str, bool, str], ...] = (
    ((Id.SCHEMA, Id.TRIGGER, Id.SESSION_SETTINGS), 0, "primary", "tree", True, "0:string"),
    (
        (
            Id.COLLATION,
            Id.VCOLLATION,
            Id.SPACE,
            Id.VSPACE,
            Id.SEQUENCE,
            Id.VSEQUENCE,
            Id.FUNC,
            Id.VFUNC,
            Id.USER,
            Id.VUSER,
            Id.CLUSTER,
            Id.TRUNCATE,
            Id.SPACE_SEQUENCE,
        ),
        0,
        "primary",
        "tree",
        True,
        "0:unsigned",
    ),
    ((Id.COLLATION, Id.VCOLLATION), 1, "name", "tree", True, "1:string"),
    (
        (
            Id.SPACE,
            Id.VSPACE,
            Id.SEQUENCE,
            Id.VSEQUENCE,
            Id.FUNC,
            Id.VFUNC,
            Id.USER,
            Id.VUSER,
        ),
        1,
        "owner",
        "tree",
        False,
        "1:unsigned",
    ),
    (
        (
            Id.SPACE,
            Id.VSPACE,
            Id.SEQUENCE,
            Id.VSEQUENCE,
            Id.FUNC,
            Id.VFUNC,
            Id.USER,
            Id.VUSER,
        ),
        2,
        "name",
        "tree",
        True,
        "2:string",
    ),
    ((Id.SEQUENCE_DATA,), 0, "primary", "hash", True, "0:unsigned"),
    ((Id.INDEX, Id.VINDEX, Id.FUNC_INDEX), 0, "primary", "tree", True, "0:unsigned 1:unsigned"),
    ((Id.INDEX, Id.VINDEX), 2, "name", "tree", True, "0:unsigned 2:string"),
    ((Id.PRIV, Id.VPRIV), 0, "primary", "tree", True, "1:unsigned 2:string 3:scalar"),
    ((Id.PRIV, Id.VPRIV), 1, "owner", "tree", False, "0:unsigned"),
    ((Id.PRIV, Id.VPRIV), 2, "object", "tree", False, "2:string 3:scalar"),
    ((Id.CLUSTER,), 1, "uuid", "tree", True, "1:string"),
    ((Id.TRIGGER,), 1, "space_id", "tree", False, "1:unsigned"),
    ((Id.SPACE_SEQUENCE,), 1, "sequence", "tree", False, "1:unsigned"),
    ((Id.FK_CONSTRAINT,), 0, "primary", "tree", True, "0:string 1:unsigned"),
    ((Id.FK_CONSTRAINT,), 1, "child_id", "tree", False, "1:unsigned"),
    ((Id.CK_CONSTRAINT,), 0, "primary", "tree", True, "0:unsigned 1:string"),
    ((Id.FUNC_INDEX,), 1, "fid", "tree", False, "2:unsigned"),
)
"""The indexes of system spaces: ids of the spaces that have such an index, then its id, name, type, uniqueness, and its
parts as `field number:type` pairs.
"""

_SQL_FUNCTIONS = """
TRIM TYPEOF PRINTF UNICODE CHAR HEX VERSION QUOTE REPLACE SUBSTR GROUP_CONCAT JULIANDAY DATE TIME
DATETIME STRFTIME CURRENT_TIME CURRENT_TIMESTAMP CURRENT_DATE LENGTH POSITION ROUND UPPER LOWER IFNULL
RANDOM CEIL CEILING CHARACTER_LENGTH CHAR_LENGTH FLOOR MOD OCTET_LENGTH ROW_COUNT COUNT LIKE ABS EXP LN
POWER SQRT SUM TOTAL AVG RANDOMBLOB NULLIF ZEROBLOB MIN MAX COALESCE EVERY EXISTS EXTRACT SOME GREATER
LESSER SOUNDEX LIKELIHOOD LIKELY UNLIKELY _sql_stat_get _sql_stat_push _sql_stat_init GREATEST LEAST
"""
SQL_FUNCTIONS = tuple(_SQL_FUNCTIONS.split())
"""The names of SQL's built-in functions, by id from 2 on. `LUA` (id 65) is missing here; it comes before the last two.
"""
