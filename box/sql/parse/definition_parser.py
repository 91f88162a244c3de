"""Parses CREATE, DROP and ALTER."""

from __future__ import annotations

import re
from typing import Final

from box.errors import BoxError, ErrorCode, client_error
from box.sql import sql_nodes
from box.sql.parse.change_parser import ChangeParser
from box.sql.parse.token_reader import check_new_name

_CREATE_TRIGGER: Final = "CREATE TRIGGER "
_FOREIGN_ACTIONS: Final = {"CASCADE": "cascade", "RESTRICT": "restrict"}
_SPACES: Final = re.compile(r"('(?:[^']|'')*'|\"(?:[^\"]|\"\")*\")|[ \t\n\v\f\r]+")


def _one_space(found: re.Match[str]) -> str:
    """Return a quoted part unchanged, and one space for spaces outside of quotes, as the stored text of a check has
    them.
    """
    return found[1] or " "


class DefinitionParser(ChangeParser):
    """Adds definitions to the parser of changes."""

    def create(self) -> sql_nodes.Statement:
        start = self.token.start
        self.advance()
        if self.take("TABLE"):
            return self._create_table()
        if self.take("VIEW"):
            return self._create_view(start)
        if self.take("TRIGGER"):
            return self._create_trigger()
        is_unique = self.take("UNIQUE")
        self.expect("INDEX")
        if_not_exists = self._if_not_exists()
        name = check_new_name(self.name())
        self.expect("ON")
        table = self.name()
        self.expect("(")
        parts = self._key_parts()
        self.expect(")")
        return sql_nodes.CreateIndex(name, table, parts, is_unique, if_not_exists)

    def _if_not_exists(self) -> bool:
        if self.take_words("IF", "NOT", "EXISTS"):
            return True
        self.option_ended()
        return False

    def _if_exists(self) -> bool:
        if self.take_words("IF", "EXISTS"):
            return True
        self.option_ended()
        return False

    def _key_parts(self) -> list[sql_nodes.KeyPart]:
        return [sql_nodes.KeyPart(term.expr, term.is_desc) for term in self.order_terms()]

    # --- tables ---

    def _create_table(self) -> sql_nodes.CreateTable:
        if_not_exists = self._if_not_exists()
        name = self._table_name = check_new_name(self.name())
        self.expect("(")
        items: list[sql_nodes.TableColumn | sql_nodes.Constraint] = []
        try:
            while not items or self.take(","):
                if self.at("CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN"):
                    items.append(self._table_constraint(self._constraint_name(), may_increment=True))
                else:
                    self.column(items)
            self.option_ended()
            self.expect(")")
            engine = self._engine()
        except BoxError as error:  # Tarantool checks each item before it reads on
            if not items:
                raise
            self.trailing = error
            return sql_nodes.CreateTable(name, if_not_exists, items, None, is_cut=True)
        return sql_nodes.CreateTable(name, if_not_exists, items, engine)

    def _engine(self) -> str | None:
        if not self.take("WITH"):
            return None
        self.expect("ENGINE")
        self.expect("=")
        return self.expect("#string").text[1:-1].replace("''", "'")

    def column(self, items: list[sql_nodes.TableColumn | sql_nodes.Constraint] | None = None) -> sql_nodes.TableColumn:
        """Parse `name type constraints [AUTOINCREMENT]`. `items` get the column before its constraints are read."""
        column = sql_nodes.TableColumn(self.name(), self.type_name())
        if items is not None:
            items.append(column)
        while self._column_constraint(column):
            pass
        if self.take("AUTOINCREMENT"):
            self._check_only_auto()
            column.is_autoincrement = True
        else:
            self.option_ended()
        return column

    _has_auto = False

    def _check_only_auto(self) -> None:
        if self._has_auto:
            text = "table must feature at most one AUTOINCREMENT field"
            raise client_error(ErrorCode.SQL_SYNTAX_WITH_POS, self.token.line, self.token.position, text)
        self._has_auto = True

    def _column_constraint(self, column: sql_nodes.TableColumn) -> bool:
        if self.take("DEFAULT"):
            self._default(column)
        elif self.take("NULL"):
            action = self._on_conflict()
            self._nullable(column, "none")
            if action != "abort":
                self._nullable(column, action)
        elif self.at("NOT") and self.peek() == "DEFERRABLE":
            self._defer_last()
        elif self.take("NOT"):
            self.expect("NULL")
            self._nullable(column, self._on_conflict())
        elif self.at("DEFERRABLE"):
            self._defer_last()
        elif self.take("COLLATE"):
            column.collation = self._plain_name()
        elif self.at("CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "REFERENCES"):
            column.constraints.append(self._named_constraint(column))
        else:
            return False
        return True

    def _nullable(self, column: sql_nodes.TableColumn, action: str) -> None:
        before = column.nullable_action
        if before is not None and before != action:
            raise client_error(
                ErrorCode.SQL_EXECUTE,
                f"NULL declaration for column '{column.name}' of table '{self._table_name}' has been already set to '"
                f"{before}'",
            )
        column.nullable_action = action

    _table_name = ""

    def _default(self, column: sql_nodes.TableColumn) -> None:
        start = self.token.start
        if self.take("("):
            inner = self.token.start
            column.default_expr = self._nested()
            column.default = self.text_since(inner)
            self.expect(")")
            return
        sign = self.advance().kind if self.at("+", "-") else ""
        start = self.token.start if sign == "+" else start
        term: sql_nodes.Expr
        if self.is_name and not sign:
            raise client_error(ErrorCode.SQL_SYNTAX_NEAR_TOKEN, self.token.line, self.token.text)
        term = self.term()
        column.default_expr = sql_nodes.Unary("-", term) if sign == "-" else term
        column.default = self.text_since(start)

    def _on_conflict(self) -> str:
        if not self.take("ON"):
            return "abort"
        self.expect("CONFLICT")
        return self.action().lower()

    def _constraint_name(self) -> str | None:
        return check_new_name(self.name()) if self.take("CONSTRAINT") else None

    def _named_constraint(self, column: sql_nodes.TableColumn) -> sql_nodes.Constraint:
        name = self._constraint_name()
        part = sql_nodes.KeyPart(sql_nodes.Name(column.name), False)
        if self.take("PRIMARY"):
            self.expect("KEY")
            part.is_desc = self.take("DESC")
            if not part.is_desc:
                self.take("ASC")
            if column.nullable_action == "none":
                raise client_error(ErrorCode.NULLABLE_PRIMARY, self._table_name)
            if column.nullable_action is None:
                column.nullable_action = "abort"
            return sql_nodes.TableKey(name, True, [part])
        if self.take("UNIQUE"):
            return sql_nodes.TableKey(name, False, [part])
        if self.at("CHECK"):
            return self._check(name)
        self.expect("REFERENCES")
        return self._references(name, [column.name])

    def _table_constraint(self, name: str | None, *, may_increment: bool) -> sql_nodes.Constraint:
        """Parse a constraint of a table after its name. With `may_increment` a primary key may say AUTOINCREMENT."""
        if self.at("CHECK"):
            return self._check(name)
        if self.take("FOREIGN"):
            return self._foreign_key(name)
        is_primary = self.at("PRIMARY")
        if is_primary:
            self.advance()
            self.expect("KEY")
        else:
            self.expect("UNIQUE")
        self.expect("(")
        key = sql_nodes.TableKey(name, is_primary, [])
        if is_primary and may_increment:
            self._primary_parts(key)
        else:
            key.parts = self._key_parts()
        self.expect(")")
        return key

    def _primary_parts(self, key: sql_nodes.TableKey) -> None:
        while not key.parts or self.take(","):
            expr = self.expression()
            key.parts.append(sql_nodes.KeyPart(expr, False))
            if self.take("AUTOINCREMENT"):
                self._check_only_auto()
                inner = expr.operand if isinstance(expr, sql_nodes.Collate) else expr
                if not isinstance(inner, sql_nodes.Name):
                    raise client_error(ErrorCode.INDEX_DEF_UNSUPPORTED, "Expressions")
                key.autoincrement = inner.name

    def _check(self, name: str | None) -> sql_nodes.Check:
        self.expect("CHECK")
        self.expect("(")
        start = self.token.start
        expr = self._nested()
        text = _SPACES.sub(_one_space, self.text_since(start))
        self.expect(")")
        return sql_nodes.Check(name, expr, text)

    def _foreign_key(self, name: str | None) -> sql_nodes.ForeignKey:
        self.expect("KEY")
        columns = self.names_in_brackets()
        if columns is None:
            self.fail()
        self.expect("REFERENCES")
        found = self._references(name, columns)
        if self.at("DEFERRABLE", "NOT"):
            found.is_deferred = self._deferrable()
        return found

    _last_foreign_key: sql_nodes.ForeignKey | None = None

    def _defer_last(self) -> None:
        """Parse DEFERRABLE among the constraints of a column; it applies to the last foreign key of the table, if there
        is one.
        """
        is_deferred = self._deferrable()
        if self._last_foreign_key is not None:
            self._last_foreign_key.is_deferred = is_deferred

    def _references(self, name: str | None, columns: list[str]) -> sql_nodes.ForeignKey:
        found = sql_nodes.ForeignKey(name, columns, self.name(), self.names_in_brackets())
        self._last_foreign_key = found
        if self.take("MATCH"):
            if not self.at("SIMPLE", "PARTIAL", "FULL"):
                self.fail()
            found.match = self.advance().kind.lower()
        seen: set[str] = set()
        while self.at("ON"):
            if self.peek() not in ("DELETE", "UPDATE"):
                self.advance()
                self.fail()
            if len(seen) == 2:
                raise self._reserved(self.token, self.token.position)
            self.advance()
            if self.kind in seen:
                raise self._reserved(self.token, self.token.position)
            event = self.advance().kind
            seen.add(event)
            action = self._foreign_action()
            if event == "DELETE":
                found.on_delete = action
            else:
                found.on_update = action
        return found

    def _foreign_action(self) -> str:
        if self.take("SET"):
            if not self.at("NULL", "DEFAULT"):
                self.fail()
            return f"set_{self.advance().kind.lower()}"
        if self.take("NO"):
            self.expect("ACTION")
            return "no_action"
        if self.kind not in _FOREIGN_ACTIONS:
            self.fail()
        return _FOREIGN_ACTIONS[self.advance().kind]

    def _deferrable(self) -> bool:
        negated = self.take("NOT")
        self.expect("DEFERRABLE")
        is_deferred = False
        if self.take("INITIALLY"):
            if not self.at("DEFERRED", "IMMEDIATE"):
                self.fail()
            is_deferred = self.advance().kind == "DEFERRED"
        return is_deferred and not negated

    # --- views and triggers ---

    def _create_view(self, start: int) -> sql_nodes.CreateView:
        if_not_exists = self._if_not_exists()
        name, columns = check_new_name(self.name()), self.names_in_brackets()
        for column in columns or ():
            check_new_name(column)
        self.expect("AS")
        select = self.select()
        if self.parameters:
            raise client_error(ErrorCode.CREATE_SPACE, name, "parameters are not allowed in views")
        return sql_nodes.CreateView(name, columns, select, if_not_exists, self.text_since(start))

    trailing: BoxError | None = None
    """The error of what follows the beginning of a statement. It comes after errors of that beginning."""

    def _create_trigger(self) -> sql_nodes.CreateTrigger:
        if_not_exists = self._if_not_exists()
        self.allows_parameters = False
        start = self.token.start
        name = check_new_name(self.name())
        time = self._trigger_time()
        if not self.at("DELETE", "INSERT", "UPDATE"):
            self.fail()
        event, columns = self.advance().kind, None
        if event == "UPDATE" and self.take("OF"):
            columns = [self.name()]
            while self.take(","):
                columns.append(self.name())
        self.expect("ON")
        place = len(_CREATE_TRIGGER) + self.token.start - start, len(_CREATE_TRIGGER) + self.token.end - start
        table = self.name()
        if self.take("FOR"):
            self.expect("EACH")
            self.expect("ROW")
        else:
            token = self.token
            raise client_error(
                ErrorCode.SQL_PARSER_GENERIC_WITH_POS,
                token.line,
                token.position,
                "FOR EACH STATEMENT triggers are not implemented, please supply FOR EACH ROW clause",
            )
        when = self.expression() if self.take("WHEN") else None
        steps: list[sql_nodes.TriggerStep] = []
        try:
            self.expect("BEGIN")
            self.is_in_trigger = True
            while not steps or not self.at("END"):
                steps.append(self._trigger_step())
            self.advance()
        except BoxError as error:  # Tarantool looks for the table before it reads on
            self.trailing, steps = error, []
        text = _CREATE_TRIGGER + self.text_from(start)
        return sql_nodes.CreateTrigger(name, table, time, event, columns, when, steps, if_not_exists, text, place)

    def _trigger_time(self) -> str:
        if self.at("BEFORE", "AFTER"):
            return self.advance().kind
        if self.take_words("INSTEAD", "OF"):
            return "INSTEAD"
        return "BEFORE"

    def _trigger_step(self) -> sql_nodes.TriggerStep:
        step: sql_nodes.TriggerStep
        if self.at("INSERT", "REPLACE", "UPDATE", "DELETE"):
            step = self.change()
        elif self.at("SELECT", "VALUES", "WITH"):
            step = self.select()
        else:
            self.fail()
        self.expect(";")
        return step

    # --- DROP and ALTER ---

    def drop(self) -> sql_nodes.Statement:
        self.advance()
        if not self.at("TABLE", "VIEW", "INDEX", "TRIGGER"):
            self.fail()
        kind, if_exists = self.advance().kind, self._if_exists()
        name, table = self.name(), None
        if kind == "INDEX":
            self.expect("ON")
            table = self.name()
        return sql_nodes.Drop(kind, name, table, if_exists)

    def alter(self) -> sql_nodes.Statement:
        self.advance()
        self.expect("TABLE")
        table = self._table_name = self.name()
        self.option_ended()
        if self.take("RENAME"):
            self.expect("TO")
            self.advise()
            return sql_nodes.RenameTable(table, self.name())
        if self.take("DROP"):
            self.expect("CONSTRAINT")
            return sql_nodes.DropConstraint(table, self.name())
        if self.at("ENABLE", "DISABLE"):
            is_enabled = self.advance().kind == "ENABLE"
            self.expect("CHECK")
            self.expect("CONSTRAINT")
            return sql_nodes.EnableCheck(table, self.name(), is_enabled)
        self.expect("ADD")
        if self.take("CONSTRAINT"):
            return sql_nodes.AddConstraint(
                table, self._table_constraint(check_new_name(self.name()), may_increment=False)
            )
        self.take("COLUMN")
        return sql_nodes.AddColumn(table, self.column())
