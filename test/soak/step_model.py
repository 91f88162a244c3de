"""The model of work that consists of numbered steps: the state after a step depends on its number alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class StepModel(ABC):
    """The state after the steps 1 to `step`."""

    def __init__(self) -> None:
        self.step = 0

    def advance(self, step: int) -> Self:
        """Make the steps up to `step`."""
        while self.step < step:
            self.step += 1
            self._make(self.step)
        return self

    @abstractmethod
    def _make(self, n: int) -> None:
        """Make the step `n`."""
