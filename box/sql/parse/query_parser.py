"""Parses SELECT and VALUES with all their clauses."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from box.errors import BoxError, ErrorCode, client_error, unsupported
from box.sql import sql_nodes
from box.sql.parse.expression_parser import ExpressionParser
from box.sql.parse.token_reader import check_new_name, generic
from box.sql.parse.tokens import name_of

_ALONE: Final = frozenset(("#integer", "#float", "#blob", "#variable", "NULL", "TRUE", "FALSE"))
"""Kinds of tokens that are an expression, and cannot be the beginning of a longer operand."""
_JOINS: Final = {
    ("INNER",): "INNER",
    ("CROSS",): "CROSS",
    ("LEFT",): "LEFT",
    ("LEFT", "OUTER"): "LEFT",
    ("NATURAL",): "NATURAL INNER",
    ("NATURAL", "INNER"): "NATURAL INNER",
    ("NATURAL", "LEFT"): "NATURAL LEFT",
    ("NATURAL", "LEFT", "OUTER"): "NATURAL LEFT",
    ("NATURAL", "CROSS"): "NATURAL CROSS",
    ("INNER", "NATURAL"): "NATURAL INNER",
    ("CROSS", "INNER"): "CROSS",
    ("LEFT", "NATURAL"): "NATURAL LEFT",
}


_OUTER_WORDS: Final = frozenset(("FULL", "LEFT", "OUTER", "RIGHT"))


class QueryParser(ExpressionParser):
    """Adds queries to the parser of expressions."""

    def with_clause(self) -> tuple[list[sql_nodes.CommonTable], bool]:
        """Parse `WITH [RECURSIVE] name [(columns)] AS (query), ...`. Returns an empty list if there is none."""
        if not self.take("WITH"):
            return [], False
        is_recursive = self.take("RECURSIVE")
        found: list[sql_nodes.CommonTable] = []
        while not found or self.take(","):
            name, columns = self.name(), self.names_in_brackets()
            for column in columns or ():
                check_new_name(column)
            self.expect("AS")
            self.expect("(")
            select = self.select()
            self.expect(")")
            if any(name == other.name for other in found):
                raise generic(f"Ambiguous table name in WITH query: {name}")
            found.append(sql_nodes.CommonTable(name, columns, select))
        return found, is_recursive

    def names_in_brackets(self) -> list[str] | None:
        """Parse `(a, b)`. Returns None if there is no bracket."""
        if not self.take("("):
            self.option_ended()
            return None
        names = [self.name()]
        while self.take(","):
            names.append(self.name())
        self.expect(")")
        return names

    def select(self) -> sql_nodes.Select:
        """Parse a query."""
        with self.stacked(4):
            found = self._select()
            self.needs(6)
        return found

    def _select(self) -> sql_nodes.Select:
        common, is_recursive = self.with_clause()
        cores, operators = [], []
        order_by, limit = None, None
        misplaced: BoxError | None = None
        while True:
            core = self._core()
            cores.append(core)
            order_by, limit, offset = self._tail() if core.values is None else (None, None, None)
            operator = self.kind
            if operator not in ("UNION", "EXCEPT", "INTERSECT"):
                break
            self.advance()
            if operator == "UNION" and self.take("ALL"):
                operator = "UNION ALL"
            if misplaced is None and (order_by is not None or limit is not None):
                clause = "LIMIT" if order_by is None else "ORDER BY"
                misplaced = generic(f"{clause} clause should come after {operator} not before")
            operators.append(operator)
        if misplaced is not None:
            raise misplaced
        return sql_nodes.Select(cores, operators, order_by, limit, offset, common, is_recursive)

    def _core(self) -> sql_nodes.Core:
        if self.at("VALUES"):
            return self._values()
        self.expect("SELECT")
        is_distinct = self.take("DISTINCT")
        if not is_distinct:
            self.take("ALL")
        self.option_ended()
        core = sql_nodes.Core(is_distinct=is_distinct)
        core.columns.append(self._result_column())
        while self.take(","):
            core.columns.append(self._result_column())
        if self.take("FROM"):
            core.sources = self._sources()
        if self.take("WHERE"):
            with self.stacked(2):
                core.where = self.expression()
        if self.take_words("GROUP", "BY"):
            with self.stacked(4):
                core.group_by = self.expressions()
        if self.take("HAVING"):
            with self.stacked(4):
                core.having = self.expression()
        return core

    def _values(self) -> sql_nodes.Core:
        self.advance()
        rows: list[list[sql_nodes.ResultColumn]] = []
        while not rows or self.take(","):
            self.expect("(")
            if rows and self.at(")"):
                row: list[sql_nodes.Expr] = []
            else:
                row = self.expressions()
            self.option_ended()
            self.expect(")")
            rows.append([sql_nodes.ResultColumn(expr, None, "") for expr in row])
        return sql_nodes.Core(values=rows)

    def _result_column(self) -> sql_nodes.ResultColumn:
        start = self.token.start
        if self.take("*"):
            self.option_ended()
            return sql_nodes.ResultColumn(sql_nodes.Star(None), None, "*")
        if self.is_name and self.peek() == "." and self._tokens[self._at + 2].kind == "*":
            table = self.name()
            self.advance()
            self.advance()
            self.option_ended()
            return sql_nodes.ResultColumn(sql_nodes.Star(table), None, "*")
        was_warned, place = self._is_warned, self._at
        expr = self.expression()
        if self._at == place + 1 and self._tokens[place].kind in _ALONE and self.at("ID", "AS", "#string"):
            self._is_warned = was_warned  # an alias is what Tarantool expects there, before any option
        span = self.text_since(start)
        alias = self.alias()
        if alias is not None:
            check_new_name(alias)
        return sql_nodes.ResultColumn(expr, alias, span)

    def alias(self) -> str | None:
        """Parse `[AS] name`; a string may be the name. Returns None if there is none."""
        if self.take("AS"):
            return self.name()
        if self.at("#string"):
            return self.advance().text[1:-1].replace("''", "'")
        if self.is_name and not self.at("INDEXED"):
            return name_of(self.advance())
        self.option_ended()
        return None

    # --- FROM ---

    def _sources(self) -> list[sql_nodes.FromItem]:
        found: list[sql_nodes.FromItem] = []
        join = ""
        while True:
            self.option_ended()
            found.append(self._source(join))
            if self.take(",") or self.take("JOIN"):
                join = "INNER"
            elif self.at("JOIN_KW"):
                join = self._join_words()
            else:
                return found

    def _join_words(self) -> str:
        words = [self.advance().text]
        while len(words) < 3 and not self.at("JOIN"):
            if not (self.is_name or self.at("JOIN_KW")):
                self.fail()
            words.append(self.advance().text)
        self.expect("JOIN")
        known = _JOINS.get(tuple(word.upper() for word in words))
        if known is None:
            upper = {word.upper() for word in words}
            if not upper - _OUTER_WORDS - {"NATURAL"} and upper & _OUTER_WORDS:
                raise unsupported("Tarantool", "RIGHT and FULL OUTER JOINs")
            raise generic(f"unknown or unsupported join type: {' '.join(words)}")
        return known

    def _source(self, join: str) -> sql_nodes.FromItem:
        source = sql_nodes.FromItem(join=join)
        if self.take("("):
            if self.at("SELECT", "VALUES", "WITH"):
                with self.stacked(3):
                    source.select = self.select()
            else:
                source.sources = self._sources()
            self.expect(")")
            source.alias = self.alias()
            if source.sources is not None and source.alias is not None:
                source = _named(source.sources, source.alias, join)
        else:
            source.name = self.name()
            if self.take("("):
                source.args = [] if self.at(")") else self.expressions()
                self.expect(")")
            source.alias = self.alias()
            if source.name == "SEQSCAN" and source.alias is not None and (self.is_name or self.at("AS")):
                source.name, source.alias = source.alias, self.alias()
            if source.args is None:
                source.indexed_by, source.not_indexed = self.indexed()
        if self.take("ON"):
            source.on = self.expression()
        if self.take("USING"):
            self.expect("(")
            source.using = [self.name()]
            while self.take(","):
                source.using.append(self.name())
            self.expect(")")
        if not join and (source.on is not None or source.using is not None):
            token, reason = self.token, "a JOIN clause is required before ON and USING"
            raise client_error(ErrorCode.SQL_SYNTAX_WITH_POS, token.line, token.position, reason)
        return source

    def indexed(self) -> tuple[str | None, bool]:
        """Parse `INDEXED BY name` or `NOT INDEXED`."""
        if self.take("INDEXED"):
            self.expect("BY")
            return self.name(), False
        if self.take("NOT"):
            self.expect("INDEXED")
            return None, True
        return None, False

    # --- clauses after FROM ---

    def _tail(self) -> tuple[list[sql_nodes.OrderTerm] | None, sql_nodes.Expr | None, sql_nodes.Expr | None]:
        order_by = self.order_terms() if self.take_words("ORDER", "BY") else None
        if not self.take("LIMIT"):
            return order_by, None, None
        limit, offset = self.expression(), None
        if self.take("OFFSET"):
            offset = self.expression()
        elif self.take(","):
            limit, offset = self.expression(), limit
        for expr in (limit, offset):
            if _has_collation(expr):
                raise client_error(ErrorCode.SQL_SYNTAX_NEAR_TOKEN, self.token.line, "COLLATE")
        return order_by, limit, offset

    def order_terms(self) -> list[sql_nodes.OrderTerm]:
        """Parse `expression [ASC | DESC], ...`."""
        terms: list[sql_nodes.OrderTerm] = []
        while not terms or self.take(","):
            expr = self.expression()
            is_desc = self.take("DESC")
            if not is_desc and not self.take("ASC"):
                self.option_ended()
            terms.append(sql_nodes.OrderTerm(expr, is_desc))
        return terms


def _named(sources: list[sql_nodes.FromItem], alias: str, join: str) -> sql_nodes.FromItem:
    """Return what a list of sources in brackets with an alias means: a table by that name, or a query over them."""
    if len(sources) == 1:
        return replace(sources[0], alias=alias, join=join)
    core = sql_nodes.Core([sql_nodes.ResultColumn(sql_nodes.Star(None), None, "*")], sources)
    return sql_nodes.FromItem(select=sql_nodes.Select([core], []), alias=alias, join=join)


def _has_collation(expr: object) -> bool:
    """Return whether an expression contains COLLATE, apart from queries in it."""
    if isinstance(expr, sql_nodes.Collate):
        return True
    return not isinstance(expr, sql_nodes.Select) and any(map(_has_collation, sql_nodes.children(expr)))
