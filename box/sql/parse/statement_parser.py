"""Parses statements with `parse_statement`, and the texts of constraints and defaults with `parse_expression`."""

from __future__ import annotations

from typing import Final

from box.errors import BoxError, ErrorCode, client_error
from box.sql import sql_nodes
from box.sql.parse.definition_parser import DefinitionParser
from box.sql.parse.token_reader import check_new_name


class StatementParser(DefinitionParser):
    """Adds the remaining statements to the parser of definitions, and chooses by the first word."""

    def parse(self) -> sql_nodes.Statement:
        """Parse the whole text, which must be one statement.

        Raises:
            ClientError: SQL_STATEMENT_EMPTY, SQL_SYNTAX_NEAR_TOKEN, SQL_KEYWORD_IS_RESERVED.
        """
        if self.at("#end") or self.take(";"):
            raise client_error(ErrorCode.SQL_STATEMENT_EMPTY)
        if self.take("EXPLAIN"):
            is_plan = self.take_words("QUERY", "PLAN")
            found: sql_nodes.Statement = sql_nodes.Explain(self._statement(), is_plan)
        else:
            self.option_ended()
            found = self._statement()
        if self.trailing is not None:
            return found
        if self.at(";"):
            self.option_ended()
            self.advance()
        if not self.at("#end"):
            try:
                self.fail()
            except BoxError as error:
                self.trailing = error
        return found

    def _statement(self) -> sql_nodes.Statement:
        method = _METHODS.get(self.kind)
        if method is None:
            self.fail()
        if self.kind == "REPLACE":
            self.option_ended()
        found: sql_nodes.Statement = getattr(self, method)()
        return found

    def _with(self) -> sql_nodes.Statement:
        common, is_recursive = self.with_clause()
        if self.at("SELECT", "VALUES"):
            select = self.select()
            select.common, select.is_recursive = common, is_recursive
            return select
        if not self.at("INSERT", "REPLACE", "UPDATE", "DELETE"):
            self.fail()
        change = self.change()
        change.common = common
        return change

    def _truncate(self) -> sql_nodes.Statement:
        self.advance()
        self.expect("TABLE")
        return sql_nodes.Truncate(self.name())

    # --- transactions ---

    def _start(self) -> sql_nodes.Statement:
        self.advance()
        self.expect("TRANSACTION")
        return sql_nodes.TransactionStep("START")

    def _commit(self) -> sql_nodes.Statement:
        self.advance()
        return sql_nodes.TransactionStep("COMMIT")

    def _rollback(self) -> sql_nodes.Statement:
        self.advance()
        if not self.take("TO"):
            return sql_nodes.TransactionStep("ROLLBACK")
        self.take("SAVEPOINT")
        return sql_nodes.TransactionStep("ROLLBACK TO", self.name())

    def _savepoint(self) -> sql_nodes.Statement:
        self.advance()
        return sql_nodes.TransactionStep("SAVEPOINT", check_new_name(self.name()))

    def _release(self) -> sql_nodes.Statement:
        self.advance()
        self.take("SAVEPOINT")
        return sql_nodes.TransactionStep("RELEASE", self.name())

    # --- settings ---

    def _pragma(self) -> sql_nodes.Statement:
        self.advance()
        name, args = self.name(), []
        if self.take("("):
            args = [self.name()]
            if self.take("."):
                args.append(self.name())
            self.expect(")")
        return sql_nodes.Pragma(name, args)

    def _set(self) -> sql_nodes.Statement:
        self.advance()
        self.expect("SESSION")
        name = self.name()
        self.expect("=")
        return sql_nodes.SetSession(name, self.term().value)


_METHODS: Final = {
    "SELECT": "select",
    "VALUES": "select",
    "WITH": "_with",
    "INSERT": "change",
    "REPLACE": "change",
    "UPDATE": "change",
    "DELETE": "change",
    "TRUNCATE": "_truncate",
    "CREATE": "create",
    "DROP": "drop",
    "ALTER": "alter",
    "START": "_start",
    "COMMIT": "_commit",
    "ROLLBACK": "_rollback",
    "SAVEPOINT": "_savepoint",
    "RELEASE": "_release",
    "PRAGMA": "_pragma",
    "SET": "_set",
}


def parse_statement(text: str) -> sql_nodes.Parsed:
    """Parse a statement.

    Raises:
        ClientError: SQL_SYNTAX_NEAR_TOKEN, SQL_KEYWORD_IS_RESERVED, SQL_UNKNOWN_TOKEN, SQL_STATEMENT_EMPTY,
            SQL_PARSER_GENERIC, SQL_STACK_OVERFLOW, SQL_BIND_PARAMETER_MAX.
    """
    parser = StatementParser(text)
    try:
        statement = parser.parse()
    except RecursionError:
        raise client_error(ErrorCode.SQL_STACK_OVERFLOW) from None
    return sql_nodes.Parsed(statement, parser.parameters, text, parser.trailing, parser.literals)


def parse_expression(text: str, *, allows_parameters: bool = True) -> sql_nodes.Expr:
    """Parse an expression that a definition has kept as text.

    Raises:
        ClientError: SQL_PARSER_GENERIC_WITH_POS, or an error of `parse_statement`.
    """
    parser = StatementParser(text)
    parser.allows_parameters = allows_parameters
    found = parser.expression()
    parser.take(";")
    if not parser.at("#end"):
        parser.fail()
    return found
