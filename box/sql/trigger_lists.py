"""The triggers of a space as they run, with what their runs share under one version of the dictionary."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from box.sql import sql_nodes
from box.sql.casts import in_trigger
from box.sql.catalogue import columns_of
from box.sql.scope import KnownColumn, Special
from box.sql.stored_values import Value

if TYPE_CHECKING:
    from box.schema.space import Space
    from box.sql.reading import Compiled

StepKey = tuple[str, int]
"""The text of a trigger and the number of a step: what is known of the step is kept under it."""


class RowTrigger:
    """A trigger of a space, with what its runs share under one version of the dictionary."""

    __slots__ = (
        "_columns",
        "_has_new",
        "_has_old",
        "_steps",
        "condition",
        "condition_key",
        "name",
        "queries",
        "text",
        "time",
        "when",
    )

    def __init__(self, space: Space, trigger: sql_nodes.CreateTrigger) -> None:
        self.name = trigger.name
        self.text = trigger.text
        self.time = trigger.time
        self.when = trigger.when
        self.condition = trigger.when and sql_nodes.Binary("AND", trigger.when, sql_nodes.Literal(True))
        """The WHEN as a condition; None without one."""
        self.condition_key = trigger.text, "when"
        self.queries: dict[StepKey, Compiled] = {}
        """The analysed queries of the steps that are a SELECT."""
        self._has_new = trigger.event != "DELETE"
        self._has_old = trigger.event != "INSERT"
        self._columns = _SpecialColumns(space, self._has_new, self._has_old)
        self._steps: dict[str, list[tuple[StepKey, sql_nodes.Change | sql_nodes.Select]]] = {}
        keyed = [((trigger.text, number), step) for number, step in enumerate(trigger.steps)]
        self._steps["ABORT"] = keyed

    def special(self, old: list[Value] | None, new: list[Value] | None) -> Special:
        """Return NEW and OLD as parameters; those of NEW come first."""
        columns = self._columns
        values = columns.values(new if self._has_new else None, old if self._has_old else None)
        return Special(columns.columns, values, self.name)

    def steps(self, action: str) -> list[tuple[StepKey, sql_nodes.Change | sql_nodes.Select]]:
        """Return the steps with their keys, for a statement with this OR clause."""
        steps = self._steps.get(action)
        if steps is None:
            steps = self._steps[action] = [(key, _with_action(step, action)) for key, step in self._steps["ABORT"]]
        return steps


class RowTriggerList:
    """The triggers of a space for one event, the newest first: all, and those of each time."""

    __slots__ = ("after", "all", "before", "instead")

    def __init__(self, triggers: list[RowTrigger]) -> None:
        self.all = triggers
        self.before = [trigger for trigger in triggers if trigger.time == "BEFORE"]
        self.after = [trigger for trigger in triggers if trigger.time == "AFTER"]
        self.instead = [trigger for trigger in triggers if trigger.time == "INSTEAD"]

    def __bool__(self) -> bool:
        return bool(self.all)


NONE: Final = RowTriggerList([])


def _with_action(step: sql_nodes.Change | sql_nodes.Select, action: str) -> sql_nodes.Change | sql_nodes.Select:
    return replace(step, action=action) if isinstance(step, sql_nodes.Insert | sql_nodes.Update) else step


class _SpecialColumns:
    """The columns of NEW, OLD or both as parameters, in this order."""

    __slots__ = ("_count", "_numbers", "columns")

    def __init__(self, space: Space, has_new: bool, has_old: bool) -> None:
        self.columns: dict[str, list[KnownColumn]] = {}
        self._count = len(space.definition.fields)
        self._numbers: list[int] = []
        """The places of the values that `in_trigger` may change: those of NUMBER."""
        place = 0
        for name in [name for name, is_there in (("NEW", has_new), ("OLD", has_old)) if is_there]:
            self.columns[name] = columns_of(space)
            for column in self.columns[name]:
                if column.type == "number":
                    self._numbers.append(place)
                place += 1
                column.sql = f"lb_truth(:p{place})" if column.kind == "bool" else f":p{place}"

    def values(self, new: list[Value] | None, old: list[Value] | None) -> list[Value]:
        """Return the values of the parameters."""
        values: list[Value] = []
        for row in (new, old):
            if row is not None:
                values += row[: self._count]
                values += [None] * (self._count - len(row))
        for place in self._numbers:
            values[place] = in_trigger(values[place], "number")
        return values
