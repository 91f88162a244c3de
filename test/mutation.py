"""A mutation of the product that breaks a promise: a replaced text of a file, and the runs that should notice it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Edit(NamedTuple):
    """A text of a file that occurs once, and what stands there instead."""

    path: str
    old: str
    new: str


class Mutation(NamedTuple):
    """See the module's text. `faults` are kinds and groups as `lunabox-sim --faults` takes them.

    Where seeds would have to be many, `story` is the test that is to fail instead, as pytest takes it.
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
    """The seed to begin with: where few runs show it, some before the one that did."""
    rate: int | None = None
    """Calls a second, at most."""
    fetch_once: bool = False
    hazards: bool = False
    """Synchronous timeouts are shorter than elections."""
    corpus: str = ""
    """The file of the corpus that fails with it: the mutation takes the remedy of a fault back."""
    also: tuple[Edit, ...] = ()
    """What is replaced besides, where one remedy is enough of several."""
    story: str = ""

    @property
    def edits(self) -> tuple[Edit, ...]:
        """All replacements."""
        return Edit(self.path, self.old, self.new), *self.also

    def apply(self, root: Path) -> None:
        """Change the files below `root`. ValueError if a text is not there once."""
        for edit in self.edits:
            path = root / edit.path
            text = path.read_text()
            if text.count(edit.old) != 1:
                raise ValueError(f"{self.name}: {edit.path} has its text {text.count(edit.old)} times")
            path.write_text(text.replace(edit.old, edit.new))
