"""Stored functions: definitions from `_func` tuples, and the objects that calls use."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from box.data.types import FieldType, type_name_of
from box.errors import BoxError, ErrorCode, client_error
from box.schema.access import Credentials, check_function
from box.schema.fields import Fields
from box.schema.identifier import check_name
from box.schema.ids import FUNCTION_ID_MAX
from box.schema.options import BOOLEAN, check_options

# The fields of `_func` by their numbers: 0 id, 1 owner, 2 name, 3 setuid, 4 language, 5 body, 6 routine_type,
# 7 param_list, 8 returns, 9 aggregate, 10 sql_data_access, 11 is_deterministic, 12 is_sandboxed, 13 is_null_call,
# 14 exports, 15 opts, 16 comment, 17 created, 18 last_altered.
_OPTS_FIELD = 15
_LANGUAGES = frozenset(("LUA", "C", "SQL_BUILTIN", "SQL_EXPR"))
"""SQL_EXPR is of Tarantool 2.11: the body is an expression of SQL, which only constraints use."""
_FRONTENDS = frozenset(("LUA", "SQL"))
_OPTIONS = {"is_multikey": BOOLEAN, "takes_raw_args": BOOLEAN}
"""`takes_raw_args` is of Tarantool 2.10: the function gets an object of MessagePack with its arguments."""


@dataclass(frozen=True, slots=True)
class FunctionDef:
    """A decoded `_func` tuple. An alter must leave the definition equal."""

    id: int
    owner: int
    name: str
    setuid: bool = False
    language: str = "LUA"
    body: str = ""
    returns: str = "any"
    param_list: tuple[str, ...] = ()
    is_deterministic: bool = False
    is_sandboxed: bool = False
    is_multikey: bool = False
    takes_raw_args: bool = False
    exports: frozenset[str] = frozenset(("LUA",))
    aggregate: str = "none"
    comment: str = ""


class Function:
    """A stored function. `handle` belongs to the runtime of the language: a compiled body, or None."""

    __slots__ = ("definition", "handle")

    def __init__(self, definition: FunctionDef) -> None:
        self.definition = definition
        self.handle: Any = None

    @property
    def id(self) -> int:
        """The id in `_func`."""
        return self.definition.id

    @property
    def name(self) -> str:
        """The name by which it is called."""
        return self.definition.name

    @property
    def owner(self) -> int:
        """The owner's user id; a setuid function runs with this user's rights."""
        return self.definition.owner

    @property
    def is_persistent(self) -> bool:
        """True for a Lua function with a stored body; otherwise the global of that name is called."""
        return bool(self.definition.body)

    @property
    def is_loaded(self) -> bool:
        """True if the runtime has to load something for it when it is defined."""
        return self.definition.language == "LUA" and (self.is_persistent or self.definition.takes_raw_args)

    @property
    def makes_keys(self) -> bool:
        """True if an index may use it: a persistent Lua function that is deterministic and sandboxed."""
        definition = self.definition
        is_fixed = definition.is_deterministic and definition.is_sandboxed
        return definition.language == "LUA" and bool(definition.body) and is_fixed

    def check_access(self, credentials: Credentials) -> None:
        """Check that the user may execute the function."""
        check_function(credentials, self.id, self.name, self.owner)

    def __repr__(self) -> str:
        return f"<function {self.id} {self.name!r} {self.definition.language}>"


@lru_cache(256)
def decode_function(raw: bytes) -> FunctionDef:
    """Decode and check a `_func` tuple, which has 4, 5 (older versions) or 19 fields.

    Cached, because each bootstrap and each snapshot has the same 66 rows.
    """
    fields = Fields(raw)
    name = fields.string(2)
    check_name(name, ErrorCode.CREATE_FUNCTION, "function")
    is_full = len(fields) > 5
    if is_full:
        _check_fixed_values(fields, name)
    function_id, owner = fields.u32(0), fields.u32(1)
    if function_id > FUNCTION_ID_MAX:
        raise client_error(ErrorCode.CREATE_FUNCTION, name, "function id is too big")
    setuid = len(fields) > 3 and fields.u32(3) != 0
    language = "LUA"
    if len(fields) > 4:
        language = fields.string(4).upper()
        if language not in _LANGUAGES:
            raise client_error(ErrorCode.FUNCTION_LANGUAGE, fields.string(4), name)
    definition = FunctionDef(function_id, owner, name, setuid, language)
    if is_full:
        definition = _decode_rest(fields, definition)
    _check_language(definition)
    return definition


def _check_fixed_values(fields: Fields, name: str) -> None:
    """Check the fields that exist for SQL and may have only one value."""
    fields.string(5)
    fields.string(16)
    if fields.string(6).lower() != "function":
        raise client_error(ErrorCode.CREATE_FUNCTION, name, "unsupported routine_type value")
    if fields.string(10).lower() != "none":
        raise client_error(ErrorCode.CREATE_FUNCTION, name, "unsupported sql_data_access value")
    if not fields.boolean(13):
        raise client_error(ErrorCode.CREATE_FUNCTION, name, "unsupported is_null_call value")


def _decode_rest(fields: Fields, short: FunctionDef) -> FunctionDef:
    def wrong(text: str) -> BoxError:
        return client_error(ErrorCode.CREATE_FUNCTION, short.name, text)

    is_deterministic, is_sandboxed = fields.boolean(11), fields.boolean(12)
    returns = FieldType.by_name(fields.string(8)) if fields.string(8) else None
    if returns is None:
        raise wrong("invalid returns value")
    exports = frozenset(item.upper() for item in _strings(fields, 14))
    if not exports <= _FRONTENDS:
        raise wrong("invalid exports value")
    aggregate = fields.string(9).lower()
    if aggregate not in ("none", "group"):
        raise wrong("invalid aggregate value")
    param_list = tuple(_strings(fields, 7))
    if any(FieldType.by_name(item) is None for item in param_list):
        raise wrong("invalid argument type")
    opts = fields.any(_OPTS_FIELD)
    options = check_options(
        opts if isinstance(opts, dict) else {}, _OPTIONS, ErrorCode.WRONG_SPACE_OPTIONS, _OPTS_FIELD
    )
    return FunctionDef(
        short.id,
        short.owner,
        short.name,
        short.setuid,
        short.language,
        body=fields.string(5),
        returns=returns.value,
        param_list=param_list,
        is_deterministic=is_deterministic,
        is_sandboxed=is_sandboxed,
        is_multikey=options.get("is_multikey", False),
        takes_raw_args=options.get("takes_raw_args", False),
        exports=exports,
        aggregate=aggregate,
        comment=fields.string(16),
    )


def _strings(fields: Fields, number: int) -> list[str]:
    items = fields.array(number)
    for item in items:
        if not isinstance(item, str):
            raise client_error(ErrorCode.FIELD_TYPE, str(number + 1), "string", type_name_of(item))
    return items


def _check_language(definition: FunctionDef) -> None:
    text = ""
    if definition.language in ("C", "SQL_BUILTIN") and (definition.body or definition.is_sandboxed):
        shown = "C" if definition.language == "C" else "SQL"
        text = f"body and is_sandboxed options are not compatible with {shown} language"
    elif definition.is_sandboxed and not definition.body:
        text = "is_sandboxed option may be set only for a persistent Lua function (one with a non-empty body)"
    if text:
        raise client_error(ErrorCode.CREATE_FUNCTION, definition.name, text)
