"""A mutation of the product that breaks a promise: a replaced text of a file, and the runs that should notice it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Mutation(NamedTuple):
    """See the module's text. `faults` are kinds and groups as `lunabox-sim --faults` takes them."""

    name: str
    path: str
    old: str
    new: str
    workload: str
    faults: str
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

    def apply(self, root: Path) -> None:
        """Change the file below `root`. ValueError if the text is not there once."""
        path = root / self.path
        text = path.read_text()
        if text.count(self.old) != 1:
            raise ValueError(f"{self.name}: {self.path} has its text {text.count(self.old)} times")
        path.write_text(text.replace(self.old, self.new))
