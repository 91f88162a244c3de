"""Parses expressions, by precedence climbing.

```
OR < AND < NOT < IS MATCH LIKE REGEXP BETWEEN IN <> = < > <= < >= < & | << >> < + - < * / % < || < COLLATE < unary
```

NOT may be an operand of any operator, as in `1 = NOT 2`, which a grammar with one rule per level would refuse.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from box.errors import ErrorCode, client_error
from box.sql import sql_nodes
from box.sql.parse.token_reader import TokenReader, generic, limit_exceeded
from box.sql.parse.tokens import Token, name_of

_OR, _AND, _NOT, _EQUAL, _ORDER, _BITS, _SUM, _PRODUCT, _CONCAT, _COLLATE, _UNARY = range(1, 12)
_BINARY: Final = {
    "OR": _OR,
    "AND": _AND,
    "=": _EQUAL,
    "!=": _EQUAL,
    "<": _ORDER,
    "<=": _ORDER,
    ">": _ORDER,
    ">=": _ORDER,
    "&": _BITS,
    "|": _BITS,
    "<<": _BITS,
    ">>": _BITS,
    "+": _SUM,
    "-": _SUM,
    "*": _PRODUCT,
    "/": _PRODUCT,
    "%": _PRODUCT,
    "||": _CONCAT,
}
_SPECIAL: Final = {
    "IS": _EQUAL,
    "MATCH": _EQUAL,
    "LIKE": _EQUAL,
    "BETWEEN": _EQUAL,
    "IN": _EQUAL,
    "NOT": _EQUAL,
    "COLLATE": _COLLATE,
}
_TYPES: Final = {
    "TEXT": "string",
    "STRING": "string",
    "SCALAR": "scalar",
    "BOOLEAN": "boolean",
    "VARBINARY": "varbinary",
    "NUMBER": "number",
    "DOUBLE": "double",
    "INT": "integer",
    "INTEGER": "integer",
    "UNSIGNED": "unsigned",
}
_PARAMETERS_MAX: Final = 65000
"""The limit of Tarantool for the parameters of a statement."""
_HEIGHT_MAX: Final = 200
"""The limit of Tarantool for the height of an expression tree."""
_WORD_MAX: Final = 2**64 - 1
_HEX_DIGITS_MAX: Final = 16
"""The hexadecimal digits of an integer of 64 bits."""
_STACK_MAX: Final = 98
"""The number of symbols of a statement for which Tarantool's parser has room on its stack."""


class ExpressionParser(TokenReader):
    """Adds expressions to the reader of tokens. Subclasses provide `select` for subqueries."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._stops_at_and = False
        self._tallest = 0
        """The height of the tallest expression inside the one that is being read."""
        self.literals: list[tuple[int, sql_nodes.Literal]] = []
        """The constants, and where each begins in the text."""
        self._stack = 0
        """The number of symbols that Tarantool's parser would have on its stack at this point."""

    def select(self) -> sql_nodes.Select:
        raise NotImplementedError

    def expression(self, least: int = 0) -> sql_nodes.Expr:
        """Parse an expression whose operators bind at least as tightly as `least`."""
        outer, self._tallest = self._tallest, 0
        left = self._prefix()
        height = self._checked(self._tallest + 1)
        while True:
            kind = self.token.kind
            power = _BINARY.get(kind)
            if power is not None:
                if power < least or (kind == "AND" and self._stops_at_and):
                    break
                self.advance()
                self._tallest = 0
                with self.stacked(2):
                    left = sql_nodes.Binary(kind, left, self.expression(power + 1))
                self.option_ended()
            else:
                power = _SPECIAL.get(kind)
                if power is None or power < least:
                    break
                self._tallest = 0
                left = self._suffix(kind, left)
            height = self._checked(max(height, self._tallest) + 1)
        self._tallest = max(outer, height)
        return left

    @staticmethod
    def _checked(height: int) -> int:
        if height > _HEIGHT_MAX:
            raise limit_exceeded("Number of nodes in expression tree", height, _HEIGHT_MAX)
        return height

    @contextmanager
    def stacked(self, count: int) -> Iterator[None]:
        """Count `count` more symbols on the stack while the block is parsed.

        Raises:
            ClientError: SQL_STACK_OVERFLOW.
        """
        self._stack += count
        self.needs(1)
        yield
        self._stack -= count

    def needs(self, count: int) -> None:
        """Check that the stack has room for `count` more symbols.

        Raises:
            ClientError: SQL_STACK_OVERFLOW.
        """
        if self._stack + count > _STACK_MAX:
            raise client_error(ErrorCode.SQL_STACK_OVERFLOW)

    def _nested(self) -> sql_nodes.Expr:
        """Parse an expression inside brackets or between words, where AND is an operator."""
        outer, self._stops_at_and = self._stops_at_and, False
        found = self.expression()
        self._stops_at_and = outer
        return found

    def expressions(self) -> list[sql_nodes.Expr]:
        """Parse one or more expressions with commas between them."""
        found = [self._nested()]
        while self.at(","):
            self.option_ended()
            self.advance()
            found.append(self._nested())
        return found

    # --- operators after an operand ---

    def _suffix(self, kind: str, left: sql_nodes.Expr) -> sql_nodes.Expr:
        self.advance()
        if kind == "COLLATE":
            return sql_nodes.Collate(left, self._plain_name())
        if kind == "IS":
            negated = self.take("NOT")
            self.expect("NULL")
            return sql_nodes.IsNull(left, negated)
        negated = kind == "NOT"
        if negated:
            if not self.at("LIKE", "MATCH", "BETWEEN", "IN"):
                if not isinstance(left, sql_nodes.Literal):
                    self.advise()
                self.fail()
            kind = self.advance().kind
        if kind == "BETWEEN":
            return self._between(left, negated)
        if kind == "IN":
            return self._in(left, negated)
        return self._like(left, negated)

    def _plain_name(self) -> str:
        if not self.is_name:
            self.fail()
        return name_of(self.advance())

    def _like(self, left: sql_nodes.Expr, negated: bool) -> sql_nodes.Expr:
        word = self._tokens[self._at - 1].text.upper()
        with self.stacked(2):
            pattern = self.expression(_ORDER)
        escape = None
        if self.take("ESCAPE"):
            with self.stacked(4):
                escape = self.expression(_ORDER)
        return sql_nodes.Like(word, left, pattern, escape, negated)

    def _between(self, left: sql_nodes.Expr, negated: bool) -> sql_nodes.Expr:
        outer, self._stops_at_and = self._stops_at_and, True
        self.advise()
        with self.stacked(2):
            low = self.expression()
        self._stops_at_and = outer
        self.expect("AND")
        with self.stacked(4):
            return sql_nodes.Between(left, low, self.expression(_ORDER), negated)

    def _in(self, left: sql_nodes.Expr, negated: bool) -> sql_nodes.Expr:
        if not self.take("("):
            if not self.is_name:
                self.fail()
            return sql_nodes.InSelect(left, _all_of(self.name(), self._arguments()), negated)
        with self.stacked(3):
            if self.at("SELECT", "VALUES", "WITH"):
                select = self.select()
                self.expect(")")
                return sql_nodes.InSelect(left, select, negated)
            items = [] if self.at(")") else self.expressions()
        self.expect(")")
        return sql_nodes.InList(left, items, negated)

    def _arguments(self) -> list[sql_nodes.Expr] | None:
        """Parse the arguments after the name of a table; None if there are none. No table of Tarantool takes any."""
        if not self.take("("):
            return None
        found = [] if self.at(")") else self.expressions()
        self.expect(")")
        return found

    # --- operands ---

    def _prefix(self) -> sql_nodes.Expr:
        kind = self.token.kind
        if kind == "NOT":
            self.advance()
            with self.stacked(1):
                return sql_nodes.Unary("NOT", self.expression(_NOT))
        if kind in ("-", "+", "~"):
            self.advance()
            with self.stacked(1):
                return sql_nodes.Unary(kind, self.expression(_UNARY))
        if kind == "(":
            with self.stacked(1):
                return self._brackets()
        if kind in ("CASE", "CAST", "EXISTS", "TRIM", "RAISE"):
            method: sql_nodes.Expr = getattr(self, f"_{kind.lower()}")()
            return method
        if kind == "CHAR":
            return self._call()
        if self.is_name:
            return self._call() if self.peek() == "(" else self._column()
        if kind == "JOIN_KW":
            return sql_nodes.Name(self.advance().text.upper())
        if kind == "#variable":
            return self._parameter(self.advance())
        return self.term()

    def term(self) -> sql_nodes.Literal:
        """Parse a constant."""
        token = self.token
        if token.kind not in ("NULL", "TRUE", "FALSE", "#integer", "#float", "#string", "#blob"):
            self.fail()
        self.advance()
        found = sql_nodes.Literal(_constant(token))
        self.literals.append((token.start, found))
        return found

    def _brackets(self) -> sql_nodes.Expr:
        self.advance()
        if self.at("SELECT", "VALUES", "WITH"):
            outer, self._stops_at_and = self._stops_at_and, False
            found: sql_nodes.Expr = sql_nodes.Subquery(self.select())
            self._stops_at_and = outer
        else:
            items = self.expressions()
            found = items[0] if len(items) == 1 else sql_nodes.RowValue(items)
            self.needs(2)
            self._tallest -= len(items) == 1  # brackets do not count as a node of the tree
        self.expect(")")
        return found

    def _column(self) -> sql_nodes.Expr:
        first = self.advance()
        if not self.at("."):
            self.option_ended()
            return sql_nodes.Name(name_of(first))
        table = self.checked(first)
        self.advance()
        return sql_nodes.Name(self.name(), table)

    def _call(self) -> sql_nodes.Expr:
        name = name_of(self.advance())
        self.expect("(")
        if self.at("*") and name != "CHAR":
            self.advance()
            self.expect(")")
            return sql_nodes.FunctionCall(name, [], is_star=True)
        is_distinct = self.take("DISTINCT")
        if not is_distinct and not self.take("ALL"):
            self.option_ended()
        with self.stacked(3):
            args = [] if self.at(")") else self.expressions()
            self.needs(2)
        if args:
            self.option_ended()
        self.expect(")")
        return sql_nodes.FunctionCall(name, args, is_distinct)

    def _parameter(self, token: Token) -> sql_nodes.Expr:
        text = token.text
        if (text[0] == "#" and text[1].isdigit()) or (text[0] == "?" and len(text) > 1):
            raise client_error(ErrorCode.SQL_SYNTAX_NEAR_TOKEN, token.line, text)
        if not self.allows_parameters:
            text = "bindings are not allowed in DDL"
            raise client_error(ErrorCode.SQL_PARSER_GENERIC_WITH_POS, self.token.line, self.token.position, text)
        if text == "?":
            self.parameters.append(None)
            index = len(self.parameters) - 1
        elif text[0] == "$":
            number = int(text[1:]) if text[1:].isascii() and text[1:].isdigit() else 0
            if number == 0:
                raise generic("Index of binding slots must start from 1")
            if number > _PARAMETERS_MAX:
                raise client_error(ErrorCode.SQL_BIND_PARAMETER_MAX, _PARAMETERS_MAX)
            self.parameters += [None] * (number - len(self.parameters))
            index = number - 1
            self.parameters[index] = text
        elif text in self.parameters:
            index = self.parameters.index(text)
        else:
            self.parameters.append(text)
            index = len(self.parameters) - 1
        if len(self.parameters) > _PARAMETERS_MAX:
            raise client_error(ErrorCode.SQL_BIND_PARAMETER_MAX, _PARAMETERS_MAX)
        return sql_nodes.Param(index, text if text[0] in ":@#" else None)

    def _case(self) -> sql_nodes.Expr:
        self.advance()
        operand = None if self.at("WHEN") else self._nested()
        whens: list[tuple[sql_nodes.Expr, sql_nodes.Expr]] = []
        while self.at("WHEN") or not whens:
            self.expect("WHEN")
            with self.stacked(4 if whens else 3):
                condition = self._nested()
            self.expect("THEN")
            with self.stacked(6 if whens else 5):
                whens.append((condition, self._nested()))
        otherwise = None
        if self.take("ELSE"):
            with self.stacked(4):
                otherwise = self._nested()
        self.option_ended()
        self.expect("END")
        return sql_nodes.Case(operand, whens, otherwise)

    def _cast(self) -> sql_nodes.Expr:
        self.advance()
        self.expect("(")
        with self.stacked(2):
            operand = self._nested()
        self.expect("AS")
        found = sql_nodes.Cast(operand, self.type_name())
        self.expect(")")
        return found

    def _exists(self) -> sql_nodes.Expr:
        self.advance()
        self.expect("(")
        with self.stacked(2):
            found = sql_nodes.Exists(self.select())
        self.expect(")")
        return found

    def _trim(self) -> sql_nodes.Expr:
        self.advance()
        self.expect("(")
        args, kind = self._trim_operands()
        self.expect(")")
        return sql_nodes.FunctionCall("TRIM", args, trim=kind)

    def _trim_operands(self) -> tuple[list[sql_nodes.Expr], str]:
        if self.at("LEADING", "TRAILING", "BOTH"):
            kind = self.advance().kind
            chars = None if self.at("FROM") else self._nested()
            self.expect("FROM")
            return ([] if chars is None else [chars]) + [self._nested()], kind
        first = self._nested()
        if not self.take("FROM"):
            return [first], ""
        return [first, self._nested()], ""

    def _raise(self) -> sql_nodes.Expr:
        self.advance()
        self.expect("(")
        if self.take("IGNORE"):
            self.expect(")")
            return sql_nodes.Raise("IGNORE", None)
        if not self.at("ROLLBACK", "ABORT", "FAIL"):
            self.fail()
        action = self.advance().kind
        self.expect(",")
        text = _constant(self.expect("#string"))
        self.expect(")")
        return sql_nodes.Raise(action, str(text))

    def type_name(self) -> str:
        """Parse a type. Returns its name in a space format."""
        if self.take("VARCHAR"):
            self.expect("(")
            self.expect("#integer")
            self.expect(")")
            return "string"
        if self.kind not in _TYPES:
            self.fail()
        return _TYPES[self.advance().kind]


def _all_of(table: str, args: list[sql_nodes.Expr] | None) -> sql_nodes.Select:
    source = sql_nodes.FromItem(name=table, args=args)
    core = sql_nodes.Core([sql_nodes.ResultColumn(sql_nodes.Star(None), None, "*")], [source])
    return sql_nodes.Select([core], [])


def _constant(token: Token) -> bool | int | float | str | bytes | None:
    text, kind = token.text, token.kind
    if kind == "#integer":
        if text[:2] not in ("0x", "0X"):
            return int(text)
        if int(text, 16) > _WORD_MAX:
            raise client_error(ErrorCode.HEX_LITERAL_MAX, "", text, len(text) - 2, _HEX_DIGITS_MAX)
        return int(text, 16)
    if kind == "#float":
        return float(text)
    if kind == "#string":
        return text[1:-1].replace("''", "'")
    if kind == "#blob":
        return bytes.fromhex(text[2:-1])
    return None if kind == "NULL" else kind == "TRUE"
