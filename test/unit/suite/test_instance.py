"""Nodes of a test, as the runner reaches them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from console.suite import instance
from console.suite.instance import InstanceProcess, Surroundings
from console.suite.suite_ini import Suite


def test_a_node_that_is_not_up_yet_is_left_alone_for_longer_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retries to reach a starting node become rarer, as in Tarantool's runner, so that a script finds it at work."""
    suite = cast(Suite, SimpleNamespace(unix_sockets=True, unix_sockets_iproto=True))
    node = InstanceProcess("late", tmp_path / "late.lua", Surroundings(suite, (), tmp_path, ("", 0)))
    monkeypatch.setattr(node, "_process", SimpleNamespace(returncode=None))
    refusals, pauses = [OSError("not there"), OSError("not there"), OSError("not there")], []

    async def connect() -> Any:
        if refusals:
            raise refusals.pop()
        return "console"

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(node, "connect", connect)
    monkeypatch.setattr(instance, "asyncio", SimpleNamespace(get_running_loop=asyncio.get_running_loop, sleep=sleep))
    assert cast(Any, asyncio.run(node.reach())) == "console"
    assert pauses == [0.1, 0.2, 0.4]
