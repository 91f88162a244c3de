"""Aggregate functions: a class for each, with the `step` and `final` that SQLite calls.

Arguments and results are values as SQLite stores them (`box.sql.stored_values`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from box.sql import sql_nodes
from box.sql.builtins import as_text
from box.sql.casts import text_to_double, text_to_integer
from box.sql.operators import order_key
from box.sql.stored_values import INT_MIN, UINT_MAX, Stored, Value, execute_error, load, mismatch, store


class _Sum:
    """Common part of SUM, AVG and TOTAL: keeps an exact sum of the integers beside a sum of doubles."""

    __slots__ = ("count", "exact", "is_exact", "is_overflowed", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.exact = 0
        self.is_exact = True
        self.is_overflowed = False

    def step(self, stored: Any) -> None:
        kind = type(stored)
        if kind is float:
            self.total += stored
            self.is_exact = False
            self.count += 1
            return
        if stored is None:
            return
        number: int | float = stored if kind is int else _number(load(stored))
        self.count += 1
        self.total += number
        if type(number) is float:
            self.is_exact = False
        elif self.is_exact and not self.is_overflowed:
            self.exact += int(number)
            self.is_overflowed = not INT_MIN <= self.exact <= UINT_MAX


def _number(value: Value) -> int | float:
    if type(value) is int:
        return value
    if type(value) is str:
        found = text_to_integer(value)
        double = text_to_double(value) if found is None else None
        if found is not None:
            return found
        if double is not None:
            return double
    raise mismatch(value, "number")


class Sum(_Sum):
    """SUM: the exact sum while all values are integers, else a double; nil without values."""

    def final(self) -> Stored:
        if not self.count:
            return None
        if self.is_overflowed:
            raise execute_error("integer overflow")
        return store(self.exact) if self.is_exact else store(self.total)


class Average(_Sum):
    """AVG: a double; nil without values."""

    def final(self) -> Stored:
        return self.total / self.count if self.count else None


class Total(_Sum):
    """TOTAL: a double; 0 without values."""

    def final(self) -> Stored:
        return self.total


class Last:
    """The value in the last row."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: Stored = None

    def step(self, value: Any) -> None:
        self.value = value

    def final(self) -> Stored:
        return self.value


class RealSum:
    """SUM of doubles; it raises no error."""

    __slots__ = ("count", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0

    def step(self, stored: float | None) -> None:
        if stored is not None:
            self.total += stored
            self.count += 1

    def final(self) -> Stored:
        return self.total if self.count else None


class RealAverage(RealSum):
    """AVG of doubles."""

    __slots__ = ()

    def final(self) -> Stored:
        return self.total / self.count if self.count else None


class IntegerSum:
    """SUM of integers; only `final` raises an error."""

    __slots__ = ("count", "exact", "is_overflowed")

    def __init__(self) -> None:
        self.count = 0
        self.exact = 0
        self.is_overflowed = False

    def step(self, stored: Any) -> None:
        if stored is not None:
            self.exact += stored if type(stored) is int else load(stored)
            self.count += 1
            if not INT_MIN <= self.exact <= UINT_MAX:
                self.is_overflowed = True

    def final(self) -> Stored:
        if self.is_overflowed:
            raise execute_error("integer overflow")
        return store(self.exact) if self.count else None


class GroupConcat:
    """GROUP_CONCAT: the values as one text, separated by the second argument, a comma if there is none."""

    __slots__ = ("parts",)

    def __init__(self) -> None:
        self.parts: list[str] = []

    def step(self, stored: Any, separator: Any = ",") -> None:
        if stored is None:
            return
        if self.parts:
            between = load(separator)
            self.parts.append("" if between is None else as_text(between))
        self.parts.append(as_text(load(stored)))

    def final(self) -> Stored:
        return store("".join(self.parts)) if self.parts else None


class _Extreme:
    """Common part of MIN and MAX, for values of any types. The second argument of `step` is the id of the collation."""

    __slots__ = ("found", "key")
    sign = 0

    def __init__(self) -> None:
        self.found: Any = None
        self.key: Any = None

    def step(self, stored: Any, collation: int) -> None:
        if stored is None:
            return
        key = order_key(load(stored), collation)
        if self.key is None or (key < self.key if self.sign < 0 else key > self.key):
            self.found, self.key = stored, key

    def final(self) -> Stored:
        found: Stored = self.found
        return found


class Minimum(_Extreme):
    """MIN: the least value; nil without values."""

    sign = -1


class _AtExtreme:
    """The value that a column has in the first row with the extreme of another value. While there was only nil, it is
    the value of the last row.
    """

    sign = 0

    def __init__(self) -> None:
        self._best: Any = None
        self._value: Stored = None

    def step(self, stored: Any, collation: int, value: Any) -> None:
        if stored is None:
            if self._best is None:
                self._value = value
            return
        key = order_key(load(stored), collation)
        if self._best is None or (key > self._best if self.sign > 0 else key < self._best):
            self._best, self._value = key, value

    def final(self) -> Stored:
        return self._value


class AtMinimum(_AtExtreme):
    """The value in the row with the least other value."""

    sign = -1


class AtMaximum(_AtExtreme):
    """The value in the row with the greatest other value."""

    sign = 1


class Maximum(_Extreme):
    """MAX: the greatest value; nil without values."""

    sign = 1


class UnsuitedAggregate(Exception):
    """Raised where an aggregate function of SQLite meets values that it treats in another way than Tarantool."""


def unsuited_aggregate() -> None:
    """Raise `UnsuitedAggregate`."""
    raise UnsuitedAggregate


class Guarded:
    """An aggregate that raises its first error at the end, because SQLite ignores errors of a step. `final` computes
    the result.
    """

    __slots__ = ("_error", "_final", "_step")

    def __init__(self, step: Callable[..., None], final: Callable[[], Stored]) -> None:
        self._step = step
        self._final = final
        self._error: Exception | None = None

    def step(self, *args: Any) -> None:
        if self._error is None:
            try:
                self._step(*args)
            except Exception as error:  # no error is lost: `final` raises it
                self._error = error

    def final(self) -> Stored:
        if self._error is not None:
            raise self._error
        return self._final()


AGGREGATES: Final[dict[str, tuple[int, int, str, str]]] = {
    "AVG": (1, 1, "1", "number"),
    "COUNT": (0, 1, "0 or 1", "integer"),
    "GROUP_CONCAT": (1, 2, "1 or 2", "string"),
    "MAX": (1, 1, "1", "scalar"),
    "MIN": (1, 1, "1", "scalar"),
    "SUM": (1, 1, "1", "number"),
    "TOTAL": (1, 1, "1", "number"),
}
"""For each aggregate: the least and the greatest number of arguments, the number that an error text shows, and the type
of the result.
"""
SAFE: Final[dict[str, Callable[[], Any]]] = {
    "lb_sum_int": IntegerSum,
    "lb_sum_real": RealSum,
    "lb_avg_real": RealAverage,
    "lb_last": Last,
}
"""Aggregates whose steps cannot fail, such as SUM and AVG of values whose kind is known."""


def aggregate_of(expr: object) -> str:
    """Return the name of the last aggregate that an expression calls, or ''."""
    if isinstance(expr, sql_nodes.FunctionCall) and expr.name in AGGREGATES:
        return expr.name
    return next(filter(None, map(aggregate_of, reversed(list(sql_nodes.children(expr))))), "")


def calls_of(expr: object, names: tuple[str, ...]) -> Iterator[sql_nodes.FunctionCall]:
    """Return the calls of these functions in an expression, apart from queries in it."""
    if isinstance(expr, sql_nodes.Select):
        return
    if isinstance(expr, sql_nodes.FunctionCall) and expr.name in names:
        yield expr
    for child in sql_nodes.children(expr):
        yield from calls_of(child, names)


def functions_of(expr: object) -> set[str]:
    """Return the names of the functions that an expression calls, apart from queries in it."""
    found: set[str] = set()
    left = [expr]
    while left:
        item = left.pop()
        if isinstance(item, sql_nodes.Select):
            continue
        if isinstance(item, sql_nodes.FunctionCall):
            found.add(item.name)
        left += sql_nodes.children(item)
    return found


def counts_rows(core: sql_nodes.Core) -> bool:
    """Return whether a query has nothing but GROUP_CONCAT() of a whole table: as in Tarantool 2.8, that counts rows."""
    if len(core.columns) != 1 or len(core.sources) != 1 or core.where is not None or core.group_by is not None:
        return False
    expr = core.columns[0].expr
    return expr == sql_nodes.FunctionCall("GROUP_CONCAT", []) and core.sources[0].select is None


def is_aggregate(expr: object) -> bool:
    """Return whether an expression has a call of an aggregate, outside of subqueries."""
    if isinstance(expr, sql_nodes.Subquery | sql_nodes.Exists | sql_nodes.InSelect):
        return False
    if isinstance(expr, sql_nodes.FunctionCall) and expr.name in AGGREGATES:
        return True
    return any(map(is_aggregate, sql_nodes.children(expr)))


def is_ordered_by_groups(select: sql_nodes.Select) -> bool:
    """Return whether a query returns groups of rows or a single row, so that the order of a scan is invisible."""
    core = select.cores[0]
    if len(select.cores) > 1 or core.values is not None:
        return False
    return core.group_by is not None or not core.sources or any(map(is_aggregate, core.columns))
