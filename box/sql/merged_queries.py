"""Which queries in FROM Tarantool merges into the query that reads them.

SQLite merges queries by itself, whatever is said here. But Tarantool names result columns after it has merged: those of
the reading query then get their text as a name, `Q.A` in place of `A`. The rules are those of the SQLite version that
Tarantool 2.8 comes from; SQLite's documentation lists them under "Subquery flattening".
"""

from __future__ import annotations

from box.sql import sql_nodes
from box.sql.aggregates import is_aggregate


def is_merged(
    select: sql_nodes.Select,
    core: sql_nodes.Core,
    sources: list[sql_nodes.FromItem],
    place: int,
    inner: sql_nodes.Select,
) -> bool:
    """Return whether the query `inner`, which stands at a place among the sources of a core of `select`, is merged into
    it.
    """
    is_compound = len(inner.cores) > 1
    reads_groups, has_groups = _is_grouped(core), any(map(_is_grouped, inner.cores))
    is_join = len(sources) > 1
    if any(inner_core.is_distinct or not inner_core.sources for inner_core in inner.cores):
        return False
    if sources[place].join.endswith("LEFT") or inner.offset is not None:
        return False
    if is_compound and not _is_compound_merged(select, core, inner, is_single=not (is_join or reads_groups)):
        return False
    if has_groups and (reads_groups or is_join or core.is_distinct or _has_subqueries(core, select)):
        return False
    if has_groups and not is_compound and calls(inner.cores[0].columns, ("MIN", "MAX")):
        return False
    if inner.order_by is not None and (select.order_by is not None or reads_groups):
        return False
    is_plain = not (is_join or reads_groups or core.is_distinct or core.where is not None)
    return inner.limit is None or (is_plain and select.limit is None and len(select.cores) == 1)


def _is_compound_merged(
    select: sql_nodes.Select, core: sql_nodes.Core, inner: sql_nodes.Select, *, is_single: bool
) -> bool:
    """Return whether a UNION ALL is merged; `is_single` tells that the reading query has no groups and no join."""
    if any(operator != "UNION ALL" for operator in inner.operators) or any(map(_is_grouped, inner.cores)):
        return False
    is_simple = all(isinstance(term.expr, sql_nodes.Name | sql_nodes.Literal) for term in select.order_by or ())
    return is_single and is_simple and not core.is_distinct and inner.order_by is None


def _is_grouped(core: sql_nodes.Core) -> bool:
    return core.group_by is not None or is_aggregate([core.columns, core.having])


def _has_subqueries(core: sql_nodes.Core, select: sql_nodes.Select) -> bool:
    """Return whether a query has subqueries outside of FROM."""
    return any(map(_has_query, (core.columns, core.where, core.group_by, core.having, select.order_by, select.limit)))


def _has_query(expr: object) -> bool:
    if isinstance(expr, sql_nodes.Subquery | sql_nodes.Exists | sql_nodes.InSelect):
        return True
    return any(map(_has_query, sql_nodes.children(expr)))


def calls(expr: object, names: tuple[str, ...]) -> bool:
    """Return whether an expression calls one of these functions, apart from queries in it."""
    if isinstance(expr, sql_nodes.Select):
        return False
    if isinstance(expr, sql_nodes.FunctionCall) and expr.name in names:
        return True
    return any(calls(child, names) for child in sql_nodes.children(expr))


def name_of(span: str) -> str:
    """Return the name of a column after its text: in capitals, or what its first quotes contain."""
    quote = span[:1]
    if quote not in ('"', "'"):
        return span.upper()
    end = span.find(quote, 1)
    while span[end + 1 : end + 2] == quote:  # a doubled quote is one
        end = span.find(quote, end + 2)
    return span[1:end].replace(quote * 2, quote)
