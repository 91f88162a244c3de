"""Distribution of tests to processes: whole files, the long ones first.

A file stays in one process, because its tests may share a node. Files that share more, such as the Java of Spark or the
parsed source of the product, stay together. The tests of Spark follow those that compile the loops of `box.spark` by
numba. So Spark's processes find these in the cache, and do not all compile them at the same time, for 15 s each. Long
files begin first, so that at the end processes without work wait for a short test only.
"""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

TOGETHER = (
    (
        "test/interop/test_examples_of_",
        "test/interop/test_notebook",
        "test/interop/test_spark",
        "test/unit/spark/test_compiled_log",
        "test/unit/spark/test_decoders",
    ),
    ("test/unit/house/",),
)
"""Groups of prefixes of file names; all files with a prefix of the same group run in one process."""
COMPILING = ("test_compiled_log.py", "test_decoders.py")
"""The names of the files whose tests compile the loops of `box.spark`."""


class TogetherScheduling(LoadFileScheduling):  # type: ignore[misc]
    """A scheduler whose units of work are files, or groups of files by `TOGETHER`, in the order of collection."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        config.option.loadscopereorder = False  # xdist would begin with the file that has the most tests
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        path: str = super()._split_scope(nodeid)
        return next((group[0] for group in TOGETHER if path.startswith(group)), path)
