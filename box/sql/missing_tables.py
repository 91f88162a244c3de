"""Finds the first table of a query that does not exist.

Tarantool looks up the tables of the whole query, also those of its subqueries, before it looks at any other name. The
compiler does all this in one pass, from the outside inwards. So this search runs after a query has failed: a missing
table is the error that Tarantool raises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from box.errors import BoxError
from box.sql import sql_nodes
from box.sql.parse.token_reader import generic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from box.sql.catalogue import Catalogue
    from box.sql.scope import QueryScope

    Common = Mapping[str, sql_nodes.CommonTable | None]


def check_tables(select: sql_nodes.Select, catalogue: Catalogue, outer: QueryScope | None) -> None:
    """Look up the tables of a query; `outer` is the scope around it.

    Raises:
        ClientError: NO_SUCH_SPACE; SQL_PARSER_GENERIC for a table that is called like a function.
    """
    known: dict[str, sql_nodes.CommonTable | None] = {}
    while outer is not None:
        known = {**dict.fromkeys(outer.common), **known}
        outer = outer.outer
    search = _TableSearch(catalogue)
    search.select(select, known)
    if search.failure is not None:
        raise search.failure


class _TableSearch:
    """A search in the order of Tarantool: the parts of a compound query from the last to the first; of each part the
    tables, then the queries in expressions.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self.failure: BoxError | None = None
        """The last error in a table of WITH: Tarantool goes on after it."""

    def select(self, select: sql_nodes.Select, common: Common) -> None:
        """Search a query. `common` are the tables of WITH by name, None for one that is not to be searched again."""
        common = {**common, **{table.name: table for table in select.common}}
        for core in reversed(select.cores):
            self._sources(core.sources, common)
            joins = [source.on for source in core.sources]
            self._expressions([core.columns, core.values, core.where, joins, core.group_by, core.having], common)
        self._expressions([select.order_by, select.limit, select.offset], common)

    def _sources(self, sources: list[sql_nodes.FromItem], common: Common) -> None:
        for source in sources:
            if source.sources is not None:
                self._sources(source.sources, common)
            elif source.select is not None:
                self.select(source.select, common)
            elif source.name is not None and source.name in common and source.args is None:
                self._common(common[source.name], common)
            elif source.name is not None:
                self._table(source, source.name, common)

    def _common(self, table: sql_nodes.CommonTable | None, common: Common) -> None:
        """Search a table of WITH, and check the number of its columns, where a `*` that fails counts as one."""
        if table is None:
            return
        first, is_whole = table.select.cores[0], True
        try:
            self.select(table.select, {**common, table.name: None})
        except BoxError as error:
            self.failure, is_whole = error, False
        width = len(first.columns if first.values is None else first.values[0])
        is_known = not (is_whole and any(isinstance(one.expr, sql_nodes.Star) for one in first.columns))
        if table.columns is not None and is_known and width != len(table.columns):
            raise generic(f"table {table.name} has {width} values for {len(table.columns)} columns")

    def _table(self, source: sql_nodes.FromItem, name: str, common: Common) -> None:
        if name in common:
            raise generic(f"'{name}' is not a function")
        is_word = name == "SEQSCAN" and source.alias is not None
        if self._catalogue.find(name) is None and not is_word:
            raise self._catalogue.unknown(name)
        if source.args is not None:
            raise generic(f"'{name}' is not a function")

    def _expressions(self, node: object, common: Common) -> None:
        if isinstance(node, sql_nodes.Select):
            self.select(node, common)
            return
        for child in sql_nodes.children(node):
            self._expressions(child, common)
