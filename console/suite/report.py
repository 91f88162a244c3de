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
    """A test in a file with several tests (luatest)."""

    __test__ = False

    name: str
    outcome: RunOutcome
    text: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of a test case.

    `text` explains anything but a pass: a diff, a crash, the reason of a skip. `note` may also be given for a pass.
    `output` is what was compared; `seconds` include all tries.
    """

    outcome: RunOutcome
    text: str = ""
    note: str = ""
    parts: tuple[TestPart, ...] = ()
    output: str = field(default="", repr=False)
    seconds: float = 0.0

    def with_note(self, note: str) -> Report:
        """Return a copy with one more note."""
        return replace(self, note=f"{self.note}, {note}" if self.note else note)
