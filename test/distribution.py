"""Distribution of tests to processes: whole files, the long ones first.

A file stays in one process, because its tests may share a node. Files that share more, such as the Java of Spark or the
parsed source of the product, stay together. Long files begin first, so that at the end processes without work wait for
a short test only.
"""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

TOGETHER = (
    ("test/interop/test_examples_of_spark", "test/interop/test_notebook", "test/interop/test_spark"),
    ("test/unit/house/",),
)
"""Groups of prefixes of file names; all files with a prefix of the same group run in one process."""


class TogetherScheduling(LoadFileScheduling):  # type: ignore[misc]
    """A scheduler whose units of work are files, or groups of files by `TOGETHER`, in the order of collection."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        config.option.loadscopereorder = False  # xdist would begin with the file that has the most tests
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        path: str = super()._split_scope(nodeid)
        return next((group[0] for group in TOGETHER if path.startswith(group)), path)
