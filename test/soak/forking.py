"""The server from which the processes of campaigns are forked."""

from __future__ import annotations

from multiprocessing import get_context
from typing import Final

PROCESSES: Final = get_context("forkserver")
PROCESSES.set_forkserver_preload(
    ["test.soak.kill_child", "test.soak.reality.servant", "box.testing.simulation.workloads"]
)
