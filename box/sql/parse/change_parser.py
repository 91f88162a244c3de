"""Parses INSERT, REPLACE, UPDATE and DELETE."""

from __future__ import annotations

from box.errors import ErrorCode, client_error
from box.sql import sql_nodes
from box.sql.parse.query_parser import QueryParser
from box.sql.parse.token_reader import check_new_name, generic


class ChangeParser(QueryParser):
    """Adds changes of data to the parser of queries."""

    is_in_trigger = False
    """True while the steps of a trigger are read."""

    def change(self) -> sql_nodes.Change:
        if self.at("UPDATE"):
            return self._update()
        if self.at("DELETE"):
            return self._delete()
        return self._insert()

    def action(self) -> str:
        """Parse ROLLBACK, ABORT, FAIL, IGNORE or REPLACE."""
        if not self.at("ROLLBACK", "ABORT", "FAIL", "IGNORE", "REPLACE"):
            self.fail()
        return self.advance().kind

    def _or_action(self) -> str:
        return self.action() if self.take("OR") else "ABORT"

    def _insert(self) -> sql_nodes.Insert:
        if self.advance().kind == "REPLACE":
            action = "REPLACE"
        else:
            action = self._or_action()
        self.expect("INTO")
        table, columns = self.name(), self.names_in_brackets()
        if self.take_words("DEFAULT", "VALUES"):
            return sql_nodes.Insert(table, columns, None, action)
        if not self.at("SELECT", "VALUES", "WITH"):
            self.fail()
        return sql_nodes.Insert(table, columns, self.select(), action)

    def _update(self) -> sql_nodes.Update:
        self.advance()
        if not self.at("OR"):
            self.option_ended()
        action = self._or_action()
        table = self.name()
        indexed_by = self._indexed()
        self.expect("SET")
        sets = [self._assignment()]
        while self.at(","):
            self.option_ended()
            self.advance()
            sets.append(self._assignment())
        where = self.expression() if self.take("WHERE") else None
        return sql_nodes.Update(table, sets, where, action, indexed_by=indexed_by)

    def _indexed(self) -> str | None:
        """Parse `INDEXED BY name` or `NOT INDEXED` after the table of a change.

        Raises:
            ClientError: SQL_SYNTAX_WITH_POS, the change is a step of a trigger.
        """
        indexed_by, not_indexed = self.indexed()
        if self.is_in_trigger and (indexed_by is not None or not_indexed):
            word = "INDEXED" if indexed_by is not None else "NOT INDEXED"
            text = f"the {word} BY clause is not allowed on UPDATE or DELETE statements within triggers"
            raise client_error(ErrorCode.SQL_SYNTAX_WITH_POS, self.token.line, self.token.position, text)
        return indexed_by

    def _assignment(self) -> tuple[list[str], sql_nodes.Expr]:
        if self.at("("):
            names = self.names_in_brackets() or []
        else:
            names = [check_new_name(self.name())]
        self.expect("=")
        value = self.expression()
        count = len(value.items) if isinstance(value, sql_nodes.RowValue) else 1
        if len(names) > 1 and count != len(names) and not isinstance(value, sql_nodes.Subquery):
            raise generic(f"{len(names)} columns assigned {count} values")
        return names, value

    def _delete(self) -> sql_nodes.Delete:
        self.advance()
        self.expect("FROM")
        table = self.name()
        indexed_by = self._indexed()
        where = self.expression() if self.take("WHERE") else None
        return sql_nodes.Delete(table, where, indexed_by=indexed_by)
