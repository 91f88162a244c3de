"""The checks of the options of `box.cfg`, without side effects.

`prepare` checks names and types and returns the new values; `check` checks ranges and combinations of the whole set.
`box.instance.reconfigure` applies the result. The order of checks and the texts were observed on Tarantool (2.8.1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from box.errors import BoxError, ErrorCode, client_error, unsupported
from box.instance.option_registry import BOOLEAN, DEPRECATED_NAMES, NUMBER, OPTIONS, STRING, Option, Value, Values
from box.instance.quorum import check_synchro_quorum
from box.journal.wal_modes import WAL_MODES
from box.log import check_log_target, log_level
from box.net import uri as uris
from box.txn.isolation import Isolation, level_of
from box.wire.greeting import is_version

_QUOTA_UNIT = 1024
"""Tarantool counts the memory of memtx in units of so many bytes, rounded up."""
_QUOTA_MAX = _QUOTA_UNIT * (2**32 - 1)
"""The number of units has 32 bits."""
_DEPRECATED_VALUES: dict[str, Callable[[Value], Value]] = {
    "panic_on_snap_error": lambda old: not old,
    "panic_on_wal_error": lambda old: not old,
    "slab_alloc_arena": lambda gigabytes: _int64(gigabytes * 1024.0**3),
}
_GONE = frozenset({"rows_per_wal"})
"""Options of old versions that a warning names, and that are refused all the same."""
_LOG_FORMATS = "expected json,plain"
_TYPE_TEXTS = {"log_format": _LOG_FORMATS, "log_level": "must be a number or a string"}
"""The texts for values of a wrong type of those options that Tarantool's module `log` checks itself."""


def bad(name: str, reason: str) -> BoxError:
    """Make the error `Incorrect value for option 'name': reason`."""
    return client_error(ErrorCode.CFG, name, reason)


def _int64(value: float) -> int:
    """Convert a number to a 64-bit option as Tarantool does: cut to an integer; NaN and the like become the least
    integer.
    """
    return int(value) if -(2.0**63) <= value < 2.0**63 else -(2**63)


def int32(value: float) -> int:
    """Convert a number to a 32-bit option: the low 32 bits of `_int64`, signed, so that 2^40 tuples or threads become
    0.
    """
    low = _int64(value) % 2**32
    return low - 2**32 if low >= 2**31 else low


def _lua_type(value: Value) -> str:
    if isinstance(value, bool):
        return BOOLEAN
    if isinstance(value, (int, float)):
        return NUMBER
    if isinstance(value, str):
        return STRING
    return "table" if isinstance(value, (dict, list)) else "cdata"


def _normalize_uri(value: Value) -> Value:
    """Convert a port number to text, in Lua's notation."""
    return f"{value:.14g}" if _lua_type(value) == NUMBER else value


def _normalize_uri_list(value: Value) -> list[str] | None:
    if value is None:
        return None
    if isinstance(value, dict):
        value = [value[key] for key in sorted(value)] if all(isinstance(key, int) for key in value) else [value]
    sources = value if isinstance(value, list) else str(_normalize_uri(value)).split(",")
    for source in sources:
        if _lua_type(source) not in (STRING, NUMBER):
            raise bad("replication", "expected host:service or /unix.socket")
    return [str(_normalize_uri(source)).strip() for source in sources]


_LOG_VALUES: dict[str, Callable[[Value], Value]] = {"log": _normalize_uri, "log_nonblock": bool}
"""Options of the log whose types Tarantool does not check: a number is the name of a file, and what is not false is
true."""
_NORMALIZERS: dict[str, Callable[[Value], Value]] = {"listen": _normalize_uri, "replication": _normalize_uri_list}


def _convert(option: Option, value: Value) -> Value:
    """Convert a value to the form in which it is kept. Nil and the empty string select the default."""
    if value is None or value == "":
        return [] if option.name == "replication" else option.default
    if option.name in _LOG_VALUES:
        value = _LOG_VALUES[option.name](value)
    types = option.types.split(", ")
    if _lua_type(value) not in types:
        if option.name in _TYPE_TEXTS:
            raise bad(option.name, _TYPE_TEXTS[option.name])
        kind = "should be of type " if len(types) == 1 else "should be one of types "
        raise bad(option.name, kind + option.types)
    normalize = _NORMALIZERS.get(option.name)
    if normalize is not None:
        return normalize(value)
    if isinstance(value, float) and not isinstance(option.default, float) and abs(value) < 2.0**63:
        return int(value) if value.is_integer() else value
    return value


def prepare(options: Mapping[str, Value], warn: Callable[[str], None] = lambda text: None) -> Values:
    """Check names and types of the user's options, and translate deprecated names with a warning.

    Raises:
        ConfigError: CFG with `unexpected option`, `should be of type ...` or `should be one of types ...`.
    """
    prepared: Values = {}
    for name, value in _upgrade(options, warn).items():
        option = OPTIONS.get(name)
        if option is None:
            raise bad(str(name), "unexpected option")
        prepared[name] = _convert(option, value)
    return prepared


def _upgrade(options: Mapping[str, Value], warn: Callable[[str], None]) -> dict[str, Value]:
    upgraded: dict[str, Value] = {}
    for name, value in options.items():
        new_name = DEPRECATED_NAMES.get(name)
        if new_name is None:
            upgraded[name] = value
            continue
        warn(f"Deprecated option {name}, please use {new_name} instead")
        if name in _GONE:
            upgraded[name] = value
            continue
        convert = _DEPRECATED_VALUES.get(name)
        if name == "slab_alloc_arena" and _lua_type(value) != NUMBER:
            raise bad(name, "should be of type number")
        new_value = convert(value) if convert is not None else value
        if options.get(new_name) is not None and options[new_name] != new_value:
            raise bad(name, "can not override a value for a deprecated option")
        upgraded[new_name] = new_value
    return upgraded


# -- checks over the whole set, in Tarantool's order ------------------------------------------------


def _require(values: Values, name: str, reason: str, holds: Callable[[Any], bool]) -> None:
    if not holds(values[name]):
        raise bad(name, reason)


def _positive(value: float) -> bool:
    return value > 0


def _check_log(values: Values) -> None:
    target = values["log"]
    kind = target.split(":", 1)[0] if isinstance(target, str) and ":" in target else ""
    if values["log_format"] not in ("plain", "json"):
        raise bad("log_format", _LOG_FORMATS)
    log_level(values["log_level"])
    if target is not None:
        check_log_target(target)
    if kind == "syslog" and values["log_format"] == "json":
        raise bad("log_format", "json can't be used with syslog logger")
    is_pipe = kind in ("pipe", "syslog") or (isinstance(target, str) and target.startswith("|"))
    if values["log_nonblock"] and not is_pipe:
        raise bad("log_nonblock", "the option is incompatible with file/stderr logger")


def check_uri(name: str, text: str | None) -> None:
    """Check that `text` is `[user[:password]@]host:service`, a service or a unix socket path.

    Raises:
        ConfigError: CFG.
    """
    if text is not None:
        uris.check(text, name)


def _check_uuid(values: Values, name: str) -> None:
    text = values[name]
    if text is None:
        return
    try:
        parsed = UUID(text)
    except ValueError:
        raise bad(name, text) from None
    if len(text) != 36:  # Tarantool wants the hyphens, Python does not
        raise bad(name, text)
    if parsed.int == 0:
        raise bad(name, "nil UUID is reserved")


def _check_replication(values: Values) -> None:
    modes = ("off", "voter", "candidate", "manual")
    text = "the value must be one of the following strings: 'off', 'voter', 'candidate', 'manual'"
    _require(values, "election_mode", text, lambda mode: mode in modes)
    _require(values, "election_timeout", "the value must be a positive number", _positive)
    for source in values["replication"] or ():
        check_uri("replication", source)
    for name in ("replication_timeout", "replication_connect_timeout"):
        _require(values, name, "the value must be greather than 0", _positive)
    quorum_text = "the value must be greater or equal to 0"
    _require(values, "replication_connect_quorum", quorum_text, lambda quorum: quorum is None or int32(quorum) >= 0)
    _require(values, "replication_sync_lag", "the value must be greater than 0", _positive)
    check_synchro_quorum(values["replication_synchro_quorum"])
    _require(values, "replication_synchro_timeout", "the value must be greater than zero", _positive)
    _require(values, "replication_sync_timeout", "the value must be greater than 0", _positive)


def _check_sizes(values: Values) -> None:
    # The bounds are Tarantool's; those whose text does not name them are in `box.cc`.
    _require(values, "readahead", "specified value is out of bounds", lambda size: int32(size) >= 128)
    _require(values, "checkpoint_count", "the value must not be less than one", lambda count: int32(count) >= 1)
    _require(values, "wal_max_size", "the value must be greater than one", lambda size: _int64(size) > 1)
    if values["wal_mode"].lower() not in WAL_MODES:
        raise bad("wal_mode", values["wal_mode"])
    _require(values, "wal_queue_max_size", "wal_queue_max_size must be >= 0", lambda size: _int64(size) >= 0)
    _require(values, "wal_cleanup_delay", "value must be >= 0", lambda delay: delay >= 0)
    _check_quota(values, "memtx_memory")
    bounds = "specified value is out of bounds"
    _require(values, "memtx_min_tuple_size", bounds, lambda size: 8 <= _int64(size) <= 1048280)
    text = "must be greater than or equal to 4, less than or equal to 1024 * 16 and exponent of two"
    _require(values, "slab_alloc_granularity", text, _is_granularity)
    _require(
        values, "iproto_threads", "must be greater than or equal to 0, less than or equal to 1000", _is_thread_count
    )


def _check_greeting_version(values: Values) -> None:
    version = values["iproto_greeting_version"]
    if version is not None and not is_version(version):
        raise bad("iproto_greeting_version", "expected a version such as 2.11.0")


def _is_granularity(value: float) -> bool:
    size = _int64(value)
    return 4 <= size <= 16384 and size & (size - 1) == 0


def _is_thread_count(value: float) -> bool:
    return 1 <= value <= 1000


def _check_quota(values: Values, name: str) -> None:
    size = _int64(values[name])
    if not 0 <= size <= _QUOTA_MAX:
        raise bad(name, f"must be >= 0 and <= {_QUOTA_MAX}, but it is {size}")


def _check_transactions(values: Values) -> None:
    """Check the options of transactions as 2.11 does. A missing option has the value that 2.8.1 works with: no time
    limit, and the level `best-effort`.
    """
    text = "the value must be greather than 0"
    _require(values, "txn_timeout", text, lambda seconds: seconds is None or seconds > 0)
    isolation = values["txn_isolation"]
    if isolation is None:
        return
    level = level_of(isolation)
    if level is None:
        raise bad("txn_isolation", "must be one of box.txn_isolation_level (keys or values)")
    if level is Isolation.DEFAULT:
        raise bad("txn_isolation", "cannot set default transaction isolation to 'default'")
    if level is Isolation.LINEARIZABLE:
        raise unsupported("Lunabox", "linearizable transactions")


def _check_vinyl(values: Values) -> None:
    _check_quota(values, "vinyl_memory")
    _require(values, "vinyl_read_threads", "must be greater than or equal to 1", lambda n: int32(n) >= 1)
    _require(values, "vinyl_write_threads", "must be greater than or equal to 2", lambda n: int32(n) >= 2)
    page, whole = _int64(values["vinyl_page_size"]), _int64(values["vinyl_range_size"] or 0)
    if page <= 0 or 0 < whole < page:
        raise bad("vinyl_page_size", "must be greater than 0 and less than or equal to vinyl_range_size")
    _require(values, "vinyl_run_count_per_level", "must be greater than 0", lambda count: int32(count) > 0)
    _require(values, "vinyl_run_size_ratio", "must be greater than 1", lambda ratio: ratio > 1)
    _require(values, "vinyl_bloom_fpr", "must be greater than 0 and less than or equal to 1", lambda p: 0 < p <= 1)


def check_read_only(values: Values, changed: str = "replication_anon") -> None:
    if not values["replication_anon"] or values["read_only"]:
        return
    if changed == "read_only":
        raise bad("read_only", "the value may be set to false only when replication_anon is false")
    raise bad("replication_anon", "the value may be set to true only when the instance is read-only")


def check_message_limit(values: Values) -> None:
    if int32(values["net_msg_max"]) < 2:
        raise bad("net_msg_max", "minimal value is 2")


def check(values: Values) -> None:
    """Check ranges and combinations of all values.

    Raises:
        ConfigError: CFG with Tarantool's text for the first violation.
    """
    _check_log(values)
    check_uri("listen", values["listen"])
    _check_greeting_version(values)
    _check_uuid(values, "instance_uuid")
    _check_uuid(values, "replicaset_uuid")
    _check_replication(values)
    _check_sizes(values)
    _check_vinyl(values)
    _check_transactions(values)
    _require(values, "sql_cache_size", "must be non-negative", lambda size: int32(size) >= 0)
    _check_numbers(values)


def _check_numbers(values: Values) -> None:
    """Refuse NaN, which cannot be waited for or compared. (Tarantool accepts it unless another check refuses it.)"""
    for name, value in values.items():
        if isinstance(value, float) and math.isnan(value):
            raise bad(name, "the value must not be NaN")


def _granted(name: str, value: Value) -> int:
    """Return the bytes that an option of memory grants: the least value that it may be changed to."""
    return -(-int(value) // _QUOTA_UNIT) * _QUOTA_UNIT if name == "memtx_memory" else int(value)


def check_change(current: Values, name: str, value: Value) -> None:
    """Check one option that is about to change.

    Raises:
        ConfigError: CFG.
    """
    values = {**current, name: value}
    if name in ("read_only", "replication_anon"):
        check_read_only(values, name)
    if name in ("instance_uuid", "replicaset_uuid"):
        # Only the current value is possible, which is checked where the option is applied.
        return
    check(values)
    if name == "net_msg_max":
        check_message_limit(values)
    if name in ("memtx_memory", "vinyl_memory") and value != current[name] and value < _granted(name, current[name]):
        raise bad(name, "cannot decrease memory size at runtime")
