"""The outcome of a test."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum


class RunOutcome(Enum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    NEW = "new"
    UPDATED = "updated"


@dataclass(frozen=True, slots=True)
class TestPart:
    """One of several tests in a file (luatest)."""

    __test__ = False

    name: str
    outcome: RunOutcome
    text: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """`text` explains what is not a pass: a diff, a crash, the reason of a skip. `note` is said of a pass too;
    `output` is what was compared; `seconds` are those of all tries."""

    outcome: RunOutcome
    text: str = ""
    note: str = ""
    parts: tuple[TestPart, ...] = ()
    output: str = field(default="", repr=False)
    seconds: float = 0.0

    def with_note(self, note: str) -> Report:
        """The same with one more note."""
        return replace(self, note=f"{self.note}, {note}" if self.note else note)
