"""Which terms of a condition become keys: Tarantool reads a table by one index.

Only the terms that the index serves are compared as keys (`box.sql.index_keys`, `box.sql.join_keys`), all others as
elsewhere. Tarantool takes, for each table, the first of these:

```
column = value   for the whole key of a unique index
column IN list   for the whole key of a unique index
column = value   a constant
column = value   of another table
column IN list
column BETWEEN low AND high
column < value   and the other operators of ranges
```

Of two alike it takes the older index, and of two on one index the term that is written first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from box.errors import BoxError
from box.sql import sql_nodes
from box.sql.join_keys import BEFORE_TABLES, FLIPPED, UNKNOWN, is_constant_key, is_read_by_index, place_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from box.sql.join_keys import Compile
    from box.sql.scope import KnownColumn

_WHOLE_KEY: Final = 0
_WHOLE_KEY_IN: Final = 1
_CONSTANT: Final = 2
_OTHER_TABLE: Final = 3
_IN: Final = 4
_BETWEEN: Final = 5
_RANGE: Final = 6


class _Use(NamedTuple):
    """How a term may use an index. The least use is the best."""

    rank: int
    number: int
    term: int
    column: str
    table: int


def chosen_terms(terms: list[sql_nodes.Expr], compile_one: Compile) -> list[bool]:
    """Return for each term of AND whether it becomes a key, if it can be one."""
    uses: list[_Use | None] = []
    for number, term in enumerate(terms):
        try:
            uses.append(min(_uses(number, term, compile_one), default=None))
        except BoxError:  # it is raised when its turn comes: the terms before it may be wrong, too
            uses.append(None)
    best: dict[int, _Use] = {}
    for use in uses:
        if use is not None and (use.table not in best or use < best[use.table]):
            best[use.table] = use
    return [use is None or _is_served(use, best[use.table]) for use in uses]


def _is_served(use: _Use, best: _Use) -> bool:
    """Return whether the index of the best use serves this one, too: both ends of a range are keys."""
    return use is best or (use.column == best.column and use.rank >= _BETWEEN and best.rank >= _BETWEEN)


def _uses(number: int, term: sql_nodes.Expr, compile_one: Compile) -> Iterable[_Use]:
    for name, others, op in _comparisons(term):
        places = [BEFORE_TABLES if is_constant_key(other) else place_of(other, compile_one) for other in others]
        table = place_of(name, compile_one)
        if UNKNOWN in (table, *places) or max(places) >= table:
            continue
        key = compile_one(name)
        column = key.column
        if column is None or not all(is_read_by_index(key, compile_one(other)) for other in others):
            continue
        yield _Use(_rank(column, op, max(places)), column.index_place, number, column.sql, table)


def _comparisons(term: sql_nodes.Expr) -> Iterable[tuple[sql_nodes.Name, list[sql_nodes.Expr], str]]:
    """Return the names that a term compares, each with the values and the operator."""
    if isinstance(term, sql_nodes.Between) and not term.negated and isinstance(term.operand, sql_nodes.Name):
        yield term.operand, [term.low, term.high], "BETWEEN"
    elif isinstance(term, sql_nodes.InList) and not term.negated and isinstance(term.operand, sql_nodes.Name):
        if term.items:
            yield term.operand, term.items, "IN" if len(term.items) > 1 else "="
    elif isinstance(term, sql_nodes.Binary) and term.op in FLIPPED:
        if isinstance(term.left, sql_nodes.Name):
            yield term.left, [term.right], term.op
        if isinstance(term.right, sql_nodes.Name):
            yield term.right, [term.left], FLIPPED[term.op]


def _rank(column: KnownColumn, op: str, place: int) -> int:
    if op == "=":
        return _WHOLE_KEY if column.is_key else _CONSTANT if place == BEFORE_TABLES else _OTHER_TABLE
    if op == "IN":
        return _WHOLE_KEY_IN if column.is_key else _IN
    return _BETWEEN if op == "BETWEEN" else _RANGE
