"""The fork server of campaigns: it has imported their child programs, so that each child starts at once."""

from __future__ import annotations

from multiprocessing import get_context
from typing import Final

PROCESSES: Final = get_context("forkserver")
PROCESSES.set_forkserver_preload(
    ["test.soak.kill_child", "test.soak.reality.node_server", "box.testing.simulation.workloads"]
)
