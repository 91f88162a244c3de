"""Foreign keys: checks and actions when a row is changed.

As in Tarantool, SQL alone enforces foreign keys: changes by Lua and IPROTO are not checked. A failed check is recorded
as a doubt. At the end of the statement doubts are checked again, because later rows of the statement may have resolved
them. A doubt about a deferred key in an open transaction waits until the commit.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from box.data.codec import unpack
from box.errors import BoxError, ErrorCode, client_error
from box.index import IteratorType
from box.schema.access import Privilege
from box.sql import sql_nodes
from box.sql.casts import in_trigger
from box.sql.children_by_value import ChildrenByValue
from box.sql.parse import parse_expression
from box.sql.stored_values import Value, execute_error

if TYPE_CHECKING:
    from box.schema.schema import Schema
    from box.schema.space import Space
    from box.schema.sql_objects import ForeignKeyDef
    from box.session import Context
    from box.sql.row_changes import ChangeRunner
    from box.txn.dml import Dml


@dataclass(frozen=True)
class _Doubt:
    """A doubt: child rows with these values of a foreign key had no parent when they were checked."""

    definition: ForeignKeyDef
    values: tuple[Any, ...]


class _Deferred:
    """The doubts that a transaction checks before its commit."""

    def __init__(self, keys: ForeignKeys, ctx: Context) -> None:
        self._keys = keys
        self._ctx = ctx
        self.doubts: dict[_Doubt, None] = {}

    def __call__(self) -> None:
        """Check the doubts.

        Raises:
            ClientError: FOREIGN_KEY_CONSTRAINT.
        """
        if any(self._keys.is_broken(self._ctx, doubt) for doubt in self.doubts):
            raise client_error(ErrorCode.FOREIGN_KEY_CONSTRAINT)


class PendingActions:
    """What foreign keys have to do once a row has been stored or removed."""

    def __init__(
        self,
        keys: ForeignKeys,
        ctx: Context,
        space: Space,
        old: list[Value] | None,
        of_child: Sequence[ForeignKeyDef],
    ) -> None:
        self._keys = keys
        self._ctx = ctx
        self._space = space
        self._old = old
        self._of_child = of_child
        """The foreign keys of the row whose values may have changed."""

    def note(self, new: list[Value] | None) -> None:
        """Check that the stored row has its parents; do nothing if `new` is None."""
        if new is not None:
            self._keys.check_parents(self._ctx, self._of_child, new)

    async def run(self, new: list[Value] | None) -> None:
        """Check that the stored row has its parents, and apply the foreign keys' actions to children of the old row.
        `new` is None for a removed row.
        """
        self._keys.note_change(self._space, new)
        self.note(new)
        if self._old is not None:
            await self._keys.act_on_children(self._ctx, self._space, self._old, new)

    async def run_replaced(self, new: list[Value]) -> None:
        """Check that the row has its parents, and apply the actions of a removal: as in Tarantool, UPDATE OR REPLACE
        removes the old row, even if its key stays the same.
        """
        self.note(new)
        if self._old is not None:
            await self._keys.act_on_children(self._ctx, self._space, self._old, None, replaced_by=new)


class ForeignKeys:
    """The foreign keys of one node."""

    def __init__(self, schema: Schema, dml: Dml, changes: ChangeRunner) -> None:
        self._schema = schema
        self._dml = dml
        self._changes = changes
        self._doubts: dict[Context, dict[_Doubt, None]] = {}
        """The doubts of running statements."""
        self._alone: set[Context] = set()
        """Contexts whose running statement is a whole transaction: nothing can be deferred beyond it."""
        self._children = ChildrenByValue(dml)
        self._version = -1
        """The version of the dictionary in which `_by_child` and `_by_parent` list the keys of spaces by their ids."""
        self._by_child: dict[int, list[ForeignKeyDef]] = {}
        self._by_parent: dict[int, list[ForeignKeyDef]] = {}

    def has_parents(self, space: Space) -> bool:
        """Return whether a space refers to others, or to itself."""
        return bool(self._of_child(space))

    def has_children(self, space: Space) -> bool:
        """Return whether other tables refer to a space."""
        return bool(self._of_parent(space))

    def _of_child(self, space: Space) -> Sequence[ForeignKeyDef]:
        self._stay_fresh()
        return self._by_child.get(space.id, ())

    def _of_parent(self, space: Space) -> Sequence[ForeignKeyDef]:
        self._stay_fresh()
        return self._by_parent.get(space.id, ())

    def _stay_fresh(self) -> None:
        """Note which keys a space has, after a change of the dictionary."""
        if self._version == self._schema.version:
            return
        by_child: dict[int, list[ForeignKeyDef]] = {}
        by_parent: dict[int, list[ForeignKeyDef]] = {}
        for key in self._schema.foreign_keys.values():
            by_child.setdefault(key.child_id, []).append(key)
            by_parent.setdefault(key.parent_id, []).append(key)
        self._by_child, self._by_parent = by_child, by_parent
        self._version = self._schema.version

    def note_change(self, space: Space, new: list[Value] | None) -> None:
        """Note that a row has just been changed, or removed (`new` is None)."""
        self._children.note(space, new)

    def concern(self, space: Space, places: Collection[int]) -> bool:
        """Return whether an UPDATE of the columns at these places may change a value of a foreign key, of the space or
        of its children.
        """
        return any(child in places for key in self._of_child(space) for child, _ in key.links) or any(
            parent in places for key in self._of_parent(space) for _, parent in key.links
        )

    def allow_together(self, ctx: Context, space: Space, *, is_single: bool) -> bool:
        """Return whether all rows of an INSERT may be stored before their parents are looked for. A single row is
        checked before it is stored (`check_alone`), and so is the right to read a parent.
        """
        if not self._of_child(space):
            return True
        if is_single:
            return False
        try:
            for key in self._of_child(space):
                self._schema.space(key.parent_id).check_access(ctx.credentials, Privilege.R)
        except BoxError:
            return False
        return True

    def check_new(self, ctx: Context, space: Space, rows: list[list[Value]]) -> None:
        """Check that rows that an INSERT has stored have their parents, as `check_parents` does for one."""
        for key in self._of_child(space):
            places = [child for child, _ in key.links]
            seen = set()
            for row in rows:
                values = tuple(row[place] for place in places)
                mark = values, tuple(map(type, values))  # True is no 1 in a column of scalars
                if None in values or mark in seen:
                    continue
                seen.add(mark)
                if not self._has_parent(ctx, key, values):
                    self._doubt(ctx, _Doubt(key, values))

    def before_store(
        self,
        ctx: Context,
        space: Space,
        old: list[Value] | None,
        new: list[Value] | None,
        changed: Collection[int] | None = None,
    ) -> PendingActions:
        """Prepare for the change of a row; call the methods of the result after the change.

        `changed`: the places of the columns that an UPDATE sets. As in Tarantool, parents are looked for only if a
        column of the foreign key is among them, or if the row may be its own parent and loses the key of that.

        Raises:
            ClientError: ACCESS_DENIED, the user may not read a parent of the new row.
        """
        keys = self._of_child(space)
        if changed is not None and keys:
            keys = [
                key
                for key in keys
                if any(
                    child in changed or (parent in changed and key.parent_id == space.id) for child, parent in key.links
                )
            ]
        if new is not None:
            for key in keys:
                if all(new[child] is not None for child, _ in key.links):
                    self._schema.space(key.parent_id).check_access(ctx.credentials, Privilege.R)
        return PendingActions(self, ctx, space, old, keys)

    # --- the child's side ---

    def check_parents(self, ctx: Context, keys: Sequence[ForeignKeyDef], row: list[Value]) -> None:
        """Record a doubt for each of these foreign keys of a child row that has no parent now."""
        for key in keys:
            values = tuple(row[child] for child, _ in key.links)
            if None not in values and not self._has_parent(ctx, key, values):
                self._doubt(ctx, _Doubt(key, values))

    def check_alone(self, ctx: Context, space: Space, row: list[Value]) -> None:
        """Check a row before it is stored, as an INSERT of a single row does: nothing later can give it a parent.

        Raises:
            ClientError: SQL_EXECUTE, the row has no parent, is not its own, and the key is not deferred.
        """
        is_deferring = self._schema.session_settings.value(ctx.session, "sql_defer_foreign_keys")
        for key in self._of_child(space):
            if key.is_deferred or is_deferring:
                continue
            values = tuple(row[child] for child, _ in key.links)
            is_own = key.parent_id == space.id and values == tuple(row[parent] for _, parent in key.links)
            if None not in values and not is_own and not self._has_parent(ctx, key, values):
                raise execute_error("FOREIGN KEY constraint failed")

    def _has_parent(self, ctx: Context, key: ForeignKeyDef, values: tuple[Value, ...]) -> bool:
        parent = self._schema.space(key.parent_id)
        return bool(self._rows(ctx, parent, [place for _, place in key.links], values, 1))

    def _doubt(self, ctx: Context, doubt: _Doubt) -> None:
        if not self._is_deferred(ctx, doubt.definition):
            self._doubts.setdefault(ctx, {})[doubt] = None
            return
        assert ctx.txn is not None
        deferred = ctx.txn.before_commit
        if not isinstance(deferred, _Deferred):
            deferred = ctx.txn.before_commit = _Deferred(self, ctx)
        deferred.doubts[doubt] = None

    def _is_deferred(self, ctx: Context, key: ForeignKeyDef) -> bool:
        if ctx in self._alone:
            return False
        return key.is_deferred or bool(self._schema.session_settings.value(ctx.session, "sql_defer_foreign_keys"))

    # --- the parent's side ---

    async def act_on_children(
        self,
        ctx: Context,
        space: Space,
        old: list[Value],
        new: list[Value] | None,
        *,
        replaced_by: list[Value] | None = None,
    ) -> None:
        """Apply the actions of foreign keys to the children of a parent row that was changed, or removed (`new` is
        None).

        `replaced_by`: the row that has taken the place of a removed one. It cannot resolve a failed check, unless the
        key is deferred.

        Raises:
            ClientError: SQL_EXECUTE, a key refuses the change.
        """
        for key in self._of_parent(space):
            values = tuple(old[place] for _, place in key.links)
            if None in values or (new is not None and values == tuple(new[place] for _, place in key.links)):
                continue
            child = self._schema.space(key.child_id)
            action = key.on_delete if new is None else key.on_update
            rows = self._rows(ctx, child, [place for place, _ in key.links], values)
            if key.child_id == space.id and replaced_by in rows:
                rows.remove(replaced_by)
            if not rows:
                continue
            is_final = replaced_by is not None and action == "no_action" and not self._is_deferred(ctx, key)
            if action == "restrict" or is_final:
                raise execute_error("FOREIGN KEY constraint failed")
            if action == "no_action":
                self._doubt(ctx, _Doubt(key, values))
                continue
            for row in rows:
                await self._act(ctx, child, key, action, row, new)

    async def _act(
        self, ctx: Context, child: Space, key: ForeignKeyDef, action: str, row: list[Value], new: list[Value] | None
    ) -> None:
        if action == "cascade" and new is None:
            await self._change_child(ctx, child, key, row, None)
            return
        changed = list(row)
        types = [field.type.value for field in self._schema.space(key.parent_id).definition.fields]
        for own, place in key.links:
            if action == "cascade":
                assert new is not None
                changed[own] = in_trigger(new[place], types[place])
            else:
                changed[own] = self._default(child, own) if action == "set_default" else None
        await self._change_child(ctx, child, key, row, changed)

    async def _change_child(
        self, ctx: Context, child: Space, key: ForeignKeyDef, row: list[Value], changed: list[Value] | None
    ) -> None:
        work = self._changes.change_child(ctx, child, row, changed, [own for own, _ in key.links])
        await self._changes.triggers.run_inside(ctx, None, work)

    @staticmethod
    def _default(space: Space, place: int) -> Value:
        text = space.definition.fields[place].default
        if text is None:
            return None
        expr = parse_expression(text)
        if isinstance(expr, sql_nodes.Unary) and isinstance(expr.operand, sql_nodes.Literal):
            value = expr.operand.value
            return -value if isinstance(value, int | float) and expr.op == "-" else value
        return expr.value if isinstance(expr, sql_nodes.Literal) else None

    # --- the ends ---

    def begin_statement(self, ctx: Context, *, is_alone: bool) -> None:
        """Note the start of a statement. `is_alone` means that it is a whole transaction."""
        if is_alone:
            self._alone.add(ctx)

    def end_statement(self, ctx: Context) -> None:
        """Check the doubts of a complete statement.

        Raises:
            ClientError: SQL_EXECUTE, a child has no parent.
        """
        self._children.forget()
        for doubt in self._doubts.pop(ctx, {}):
            if self.is_broken(ctx, doubt):
                raise execute_error("FOREIGN KEY constraint failed")
        self._alone.discard(ctx)

    def forget_statement(self, ctx: Context) -> None:
        """Drop the doubts of a failed statement."""
        self._children.forget()
        self._doubts.pop(ctx, None)
        self._alone.discard(ctx)

    def is_broken(self, ctx: Context, doubt: _Doubt) -> bool:
        """Return whether a doubt is confirmed: its children still exist, and their parent does not."""
        key = doubt.definition
        if self._schema.foreign_keys.get((key.name, key.child_id)) is None:
            return False
        child = self._schema.space(key.child_id)
        children = self._rows(ctx, child, [place for place, _ in key.links], doubt.values, 1)
        return bool(children) and not self._has_parent(ctx, key, doubt.values)

    # --- finding rows ---

    def _rows(
        self, ctx: Context, space: Space, places: list[int], values: tuple[Value, ...], limit: int = 2**32
    ) -> list[list[Value]]:
        """Return the rows with these values in the fields at these places."""
        for index in space.indexes.values():
            parts = [part.fieldno for part in index.definition.parts if part.path is None]
            is_fit = sorted(parts[: len(places)]) == sorted(places) and index.definition.type.upper() == "TREE"
            if is_fit:
                key = [values[places.index(part)] for part in parts[: len(places)]]
                try:
                    found = self._dml.sql_reads.select(ctx, space, index.iid, IteratorType.EQ, 0, limit, key)
                except BoxError:  # the value has a type that the index cannot hold, so no row has it
                    return []
                return [unpack(raw) for raw in found]
        if not space.indexes:
            return []
        return self._children.find(ctx, space, places, values, limit)
