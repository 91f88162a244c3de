"""The history of a campaign's writes, and the rows that it allows in the end.

Every key has one writer, so the order of its changes is known. A change is

    acknowledged   it must be there, unless a later change of its key is
    refused        it must not be there
    open           it may be there or not: its writer crashed before the answer, or the answer was "unknown"

The rows of one transaction are there together or not at all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from box.errors import BoxError

Key = tuple[int, int]
"""Space id and primary key."""


class Outcome(Enum):
    """The outcome of a change, as the module's docstring defines it."""

    OPEN = auto()
    ACKNOWLEDGED = auto()
    REFUSED = auto()


@dataclass(eq=False)
class Change:
    """One transaction: the new row of each key, None for a delete."""

    rows: dict[Key, list[Any] | None]
    outcome: Outcome = Outcome.OPEN
    is_frozen: bool = False
    """True if the writer has crashed: outcomes that it reports later do not count."""

    def settle(self, error: object) -> None:
        """Record the outcome that the writer reports, unless it has crashed."""
        is_unknown = isinstance(error, BoxError) and error.type == "FiberIsCancelled"
        if not (self.is_frozen or is_unknown):
            self.outcome = Outcome.ACKNOWLEDGED if error is None else Outcome.REFUSED


@dataclass
class History:
    """All changes of a campaign, in the order of their writes."""

    changes: list[Change] = field(default_factory=list)

    def add(self, rows: dict[Key, list[Any] | None]) -> Change:
        change = Change(rows)
        self.changes.append(change)
        return change

    def count(self, outcome: Outcome) -> int:
        return sum(change.outcome is outcome for change in self.changes)

    def errors(self, found: dict[Key, list[Any]]) -> list[str]:
        """Return a text for each row of the replicated spaces in `found` that the history does not
        allow or that lacks.
        """
        allowed: dict[Key, list[list[Any] | None]] = {}
        for change in self.changes:
            for key, row in change.rows.items():
                if change.outcome is Outcome.ACKNOWLEDGED:
                    allowed[key] = [row]
                elif change.outcome is Outcome.OPEN:
                    allowed.setdefault(key, [None]).append(row)
                else:
                    allowed.setdefault(key, [None])
        problems = [
            f"{key}: {found.get(key)} instead of {rows}" for key, rows in allowed.items() if found.get(key) not in rows
        ]
        problems += [f"{key}: {row} was never written" for key, row in found.items() if key not in allowed]
        return problems + self._torn(found)

    def _torn(self, found: dict[Key, list[Any]]) -> list[str]:
        """Yield transactions of which only a part is there, among those whose keys nobody has written again."""
        last: dict[Key, Change] = {}
        for change in self.changes:
            if change.outcome is not Outcome.REFUSED:
                last.update(dict.fromkeys(change.rows, change))
        torn = []
        for change in self.changes:
            keys = [key for key, row in change.rows.items() if last.get(key) is change and row is not None]
            present = [key for key in keys if found.get(key) == change.rows[key]]
            if present and len(present) < len(keys):
                torn.append(f"only {present} of the transaction {keys}")
        return torn
