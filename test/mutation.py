"""A mutation: a replaced text in a file of the product that breaks a promise, and the runs that should notice it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Edit(NamedTuple):
    """A replacement: a text that occurs once in a file, and the text that takes its place."""

    path: str
    old: str
    new: str


class Mutation(NamedTuple):
    """A mutation; the module describes it. `faults` are kinds and groups of faults, as `lunabox-sim --faults` takes
    them.

    If noticing the mutation would take many seeds, `story` names the test that has to fail instead, as pytest takes it.
    """

    name: str
    path: str
    old: str
    new: str
    workload: str = ""
    faults: str = ""
    nodes: int = 3
    elections: str = "off"
    seconds: int = 8
    first: int = 1
    """The first seed to play. If few runs notice the mutation, it is a little before a seed that did."""
    rate: int | None = None
    """The limit for the calls a second of all clients; None for no limit."""
    fetch_once: bool = False
    hazards: bool = False
    """True if synchronous timeouts are shorter than elections."""
    corpus: str = ""
    """The file of the corpus that fails with the mutation, which undoes the remedy of a fault."""
    also: tuple[Edit, ...] = ()
    """Further replacements, needed if several remedies each prevent the fault."""
    story: str = ""

    @property
    def edits(self) -> tuple[Edit, ...]:
        """Return all replacements."""
        return Edit(self.path, self.old, self.new), *self.also

    def apply(self, root: Path) -> None:
        """Change the files below `root`. Raises ValueError if a text does not occur exactly once in its file."""
        for edit in self.edits:
            path = root / edit.path
            text = path.read_text()
            if text.count(edit.old) != 1:
                raise ValueError(f"{self.name}: {edit.path} has its text {text.count(edit.old)} times")
            path.write_text(text.replace(edit.old, edit.new))
