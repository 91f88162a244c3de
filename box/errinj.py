"""Error injections: switches that make a subsystem fail or wait at a chosen place, always compiled in.

Every name of Tarantool's debug build is listed and settable; a subsystem that works with one reads it through
`ErrorInjections.values`. Names, types and defaults: `errinj.h` of the 2.8 line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from box.errors import ErrorCode, client_error, illegal_params
from box.waiters import Waiters

Value = bool | int | float

_BOOLEANS: Final = """
    APPLIER_SLOW_ACK AUTO_UPGRADE BUILD_INDEX_DELAY CHECK_FORMAT_DELAY COIO_WRITE_CHUNK FIBER_MADVISE HTTPC_EXECUTE
    HTTP_RESPONSE_ADD_WAIT INDEX_ALLOC INDEX_RESERVE IPROTO_TX_DELAY LOG_ROTATE MEMTX_DELAY_GC PORT_DUMP
    RELAY_FASTER_THAN_TX RELAY_FINAL_JOIN RELAY_FINAL_SLEEP RELAY_SEND_DELAY REPLICA_JOIN_DELAY SNAP_COMMIT_DELAY
    SNAP_COMMIT_FAIL SNAP_WRITE_DELAY SQL_NAME_NORMALIZATION SWIM_FD_ONLY TESTING TUPLE_ALLOC TUPLE_FIELD
    TXN_COMMIT_ASYNC VYRUN_DATA_READ VY_COMPACTION_DELAY VY_DELAY_PK_LOOKUP VY_DUMP_DELAY VY_GC VY_INDEX_FILE_RENAME
    VY_LOG_FILE_RENAME VY_LOG_FLUSH VY_LOG_FLUSH_DELAY VY_POINT_ITER_WAIT VY_READ_PAGE VY_READ_PAGE_DELAY
    VY_READ_VIEW_MERGE_FAIL VY_RUN_DISCARD VY_RUN_FILE_RENAME VY_RUN_WRITE VY_RUN_WRITE_DELAY VY_TASK_COMPLETE
    VY_WRITE_ITERATOR_START_FAIL WAL_DELAY WAL_IO WAL_ROTATE WAL_SYNC WAL_WRITE WAL_WRITE_DISK WAL_WRITE_EOF
    XLOG_GARBAGE XLOG_META
"""
_COUNTERS: Final = "DYN_MODULE_COUNT WAL_FALLOCATE WAL_WRITE_COUNT"
_INTEGERS: Final = """
    BUILD_INDEX COIO_SENDFILE_CHUNK FIBER_MPROTECT IPROTO_SINGLE_THREAD_STAT RELAY_BREAK_LSN SIO_READ_MAX
    STDIN_ISATTY TUPLE_FORMAT_COUNT VY_INDEX_DUMP VY_RUN_OPEN VY_STMT_ALLOC WAL_BREAK_LSN WAL_DELAY_COUNTDOWN
    WAL_WRITE_PARTIAL XLOG_READ
"""
_DOUBLES: Final = """
    RELAY_EXIT_DELAY RELAY_REPORT_INTERVAL RELAY_TIMEOUT VY_READ_PAGE_TIMEOUT VY_RUN_WRITE_STMT_TIMEOUT
    VY_SCHED_TIMEOUT VY_SQUASH_TIMEOUT
"""

JOURNAL_DELAYS: Final = ("ERRINJ_WAL_DELAY", "ERRINJ_RELAY_FASTER_THAN_TX")
"""The injections that hold the thread which writes the log."""


def _defaults() -> dict[str, Value]:
    values: dict[str, Value] = dict.fromkeys(_BOOLEANS.split(), False)
    values |= dict.fromkeys(_COUNTERS.split(), 0)
    values |= dict.fromkeys(_INTEGERS.split(), -1)
    values |= dict.fromkeys(_DOUBLES.split(), 0.0)
    return {f"ERRINJ_{name}": values[name] for name in sorted(values)}


_DEFAULTS: Final = _defaults()
_TALLIES: Final = frozenset({"ERRINJ_DYN_MODULE_COUNT", "ERRINJ_WAL_WRITE_COUNT"})
"""Counts that say what has happened; they make nothing fail."""


class ErrorInjections:
    """The error injections of one node.

    `values` is for reading: `if errinj.values["ERRINJ_WAL_IO"]`. Any thread may read. Changes that listeners have to
    learn about go through `set`, in the tx thread. Types never change: bool, int or float as in the defaults.
    """

    __slots__ = ("_changes", "_listeners", "is_armed", "values")

    def __init__(self) -> None:
        self.values = _DEFAULTS.copy()
        self.is_armed = False
        """False while no injection is active at all: hot paths look at this first."""
        self._listeners: dict[str, list[Callable[[Value], None]]] = {}
        self._changes = Waiters()

    def get(self, name: str) -> Value | str:
        """Return the value of an injection, or the error text for an unknown name (Tarantool returns the text, too)."""
        return self.values[name] if name in self.values else _unknown(name)

    def set(self, name: str, value: object) -> str:
        """Change an injection and call its listeners. Returns `ok`, or the error text for an unknown name.

        A boolean injection takes any value by Lua's rules of truth, one with a fraction takes what is no number as 0.
        Raises PROC_LUA if an injection with a whole number gets something else than a number.
        """
        if name not in self.values:
            return _unknown(name)
        converted = _convert(name, self.values[name], value)
        self.values[name] = converted
        self.is_armed = any(self.values[key] != default for key, default in _DEFAULTS.items() if key not in _TALLIES)
        for listener in tuple(self._listeners.get(name, ())):
            listener(converted)
        self._changes.wake()
        return "ok"

    def release_journal(self) -> None:
        """End all delays of the journal's thread, because the node closes and waits for that thread."""
        self.set("ERRINJ_WAL_DELAY_COUNTDOWN", -1)
        for name in JOURNAL_DELAYS:
            self.set(name, False)

    def info(self) -> dict[str, dict[str, Value]]:
        """Return `{name: {"state": value}}` for all injections, as `box.error.injection.info()` shows them."""
        return {name: {"state": value} for name, value in self.values.items()}

    def on_change(self, name: str, listener: Callable[[Value], None]) -> Callable[[], None]:
        """Call `listener(value)` after each `set` of `name`. Returns a function that removes the listener."""
        listeners = self._listeners.setdefault(name, [])
        listeners.append(listener)
        return lambda: listeners.remove(listener)

    async def wait_until_off(self, name: str, unless: Callable[[], bool] = lambda: False) -> None:
        """Wait, in the tx thread, while a boolean injection is on. The wait also ends if `unless` returns True after a
        `wake`.
        """
        await self._changes.until(lambda: not self.values[name] or unless())

    def wake(self) -> None:
        """Make every waiting coroutine check its condition again."""
        self._changes.wake()

    def apply_environment(self, environment: Mapping[str, str]) -> None:
        """Set initial values from environment variables named like the injections. Raises ILLEGAL_PARAMS for a wrong
        value.
        """
        for name in self.values.keys() & environment.keys():
            if environment[name]:
                self.set(name, _parse(name, self.values[name], environment[name]))


def _unknown(name: str) -> str:
    return f"error: can't find error injection '{name}'"


def _convert(name: str, before: Value, value: object) -> Value:
    if isinstance(before, bool):
        return value is not None and value is not False
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else None
    if isinstance(before, float):
        return 0.0 if number is None else float(number)
    if number is None:
        raise client_error(ErrorCode.PROC_LUA, "expected int64_t as 2 argument")
    return int(number) if -(2.0**63) <= number < 2.0**63 else -(2**63)


def _parse(name: str, before: Value, text: str) -> Value:
    kind = "boolean" if isinstance(before, bool) else "integer" if isinstance(before, int) else "double"
    try:
        if kind == "boolean":
            return {"false": False, "true": True}[text.lower()]
        return int(text) if kind == "integer" else float(text)
    except (KeyError, ValueError):
        raise illegal_params(f"Incorrect value for {kind} {name}: {text}") from None
