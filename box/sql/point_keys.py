"""The values of point statements (`point_statements.py`): parameters and constants by their places, and keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from box.data.types import compiled_source
from box.sql import sql_nodes
from box.sql.stored_values import INT_MIN, UINT_MAX, Value

if TYPE_CHECKING:
    from box.schema.space import Space

PLAIN: Final[frozenset[type]] = frozenset((bool, int, float, str, bytes, type(None)))
"""The types of plain parameters; a named parameter is given as a map."""
_CHECKS: Final = {
    "integer": f"type({{0}}) is int and {INT_MIN} <= {{0}} <= {UINT_MAX}",
    "unsigned": f"type({{0}}) is int and 0 <= {{0}} <= {UINT_MAX}",
    "string": "type({0}) is str",
}
"""For each type of key parts that point statements support: the source of "the value fits"."""
BINARY: Final = frozenset((None, 0, 3))
"""The collations that compare bytes; None stands for no collation."""


class ValuePlaces(NamedTuple):
    """The values of a statement, by their indexes in the list of parameters and constants; the constants come last."""

    numbers: list[int]
    constants: list[Value]

    def are_parameters(self, count: int) -> bool:
        """Return whether the values are the `count` parameters in their order."""
        return self.numbers == list(range(count)) and not self.constants


class PointKey:
    """A primary key whose parts have the types `types`: the function that makes it of the parameters of a statement."""

    __slots__ = ("constants", "numbers", "of")

    def __init__(self, values: ValuePlaces, types: list[str], count: int) -> None:
        self.numbers = values.numbers
        self.constants = values.constants
        self.of = _compile_of(values, types, count)
        """A function that returns the key for a sequence of parameters, as many as the statement has; None if a value
        has another type than the key, so that the general path has to compare it.
        """

    def is_all(self, count: int) -> bool:
        """Return whether the parts of the key are exactly the first `count` parameters."""
        return set(range(count)) <= set(self.numbers)


def _compile_of(values: ValuePlaces, types: list[str], count: int) -> Callable[[Sequence[Value]], list[Value] | None]:
    given = [f"p[{number}]" if number < count else f"constants[{number - count}]" for number in values.numbers]
    names = [f"v{number}" for number in range(len(types))]
    checks = [_CHECKS[kind].format(name) for name, kind in zip(names, types, strict=True)]
    source = f"""
def of(p):
    {"; ".join(f"{name} = {value}" for name, value in zip(names, given, strict=True))}
    return [{", ".join(names)}] if {" and ".join(checks)} else None
"""
    scope: dict[str, Any] = {"constants": values.constants}
    exec(compiled_source(source), scope)
    # Remove the function from its own namespace, which would otherwise form a reference cycle.
    compiled: Callable[[Sequence[Value]], list[Value] | None] = scope.pop("of")
    return compiled


def key_exprs(
    space: Space, where: sql_nodes.Expr | None, names: tuple[str | None, ...]
) -> tuple[list[sql_nodes.Expr], list[str]] | None:
    """Return the expressions and types of the whole primary key in the condition `a = ... AND b = ...`, or None for any
    other condition. `names` are the names of the table; None stands for a column without one.
    """
    terms: list[sql_nodes.Expr | None] = [where]
    found: dict[str, sql_nodes.Expr] = {}
    while terms:
        term = terms.pop()
        if not isinstance(term, sql_nodes.Binary):
            return None
        if term.op == "AND":
            terms += (term.left, term.right)
            continue
        column, value = (term.left, term.right) if isinstance(term.left, sql_nodes.Name) else (term.right, term.left)
        if term.op != "=" or not isinstance(column, sql_nodes.Name) or column.table not in names:
            return None
        if column.name in found:
            return None
        found[column.name] = value
    fields = space.definition.fields
    exprs: list[sql_nodes.Expr] = []
    types: list[str] = []
    for part in space.index(0).definition.parts:
        field = fields[part.fieldno] if part.fieldno < len(fields) else None
        if field is None or field.name not in found or part.path or part.type is not field.type:
            return None
        if part.type.value not in _CHECKS or {part.collation_id, field.collation_id} - BINARY:
            return None
        exprs.append(found.pop(field.name))
        types.append(part.type.value)
    return None if found else (exprs, types)


def result_places(
    space: Space, columns: list[sql_nodes.ResultColumn], names: tuple[str | None, ...]
) -> list[int] | None:
    """Return the fields of the result columns, or None if a result column is not simply a column."""
    fields = {field.name: number for number, field in enumerate(space.definition.fields)}
    places: list[int] = []
    for column in columns:
        expr = column.expr
        if isinstance(expr, sql_nodes.Star) and expr.table in names:
            places += range(len(fields))
        elif isinstance(expr, sql_nodes.Name) and expr.table in names and expr.name in fields:
            places.append(fields[expr.name])
        else:
            return None
    return places
