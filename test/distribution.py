"""How tests are shared out among processes: whole files, the long ones first.

A file stays in one process, because its tests may share a node. Files that share more than that, a Spark session or the
parsed source of the product, stay together. What takes long begins first: at the end, whoever has nothing left to do
waits for a short test and not for a long one.
"""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

TOGETHER = ("test/interop/test_spark", "test/unit/house/")
"""Beginnings of the names of files that go to one process."""


class TogetherScheduling(LoadFileScheduling):  # type: ignore[misc]
    """Units of work are files, or those of `TOGETHER`, in the order in which they were collected."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        config.option.loadscopereorder = False  # not the file with the most tests first
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        path: str = super()._split_scope(nodeid)
        return next((group for group in TOGETHER if path.startswith(group)), path)
