"""The engines of a node: each is a `box.schema.storage_engine.Engine`.

```
memtx      tuples in indexes in memory                            memtx.py
blackhole  no tuples; changes go to the log and to replicas       blackhole.py
sysview    tuples of system spaces that the reader may see        system_views.py
service    the settings of the reader's session                   session_values.py
```
"""

from __future__ import annotations

from collections.abc import Mapping

from box.schema.storage_engine import Engine
from box.txn.engines.blackhole import BlackholeEngine
from box.txn.engines.memtx import MemtxEngine
from box.txn.engines.session_values import SessionValuesEngine
from box.txn.engines.system_views import SystemViewEngine

__all__ = ["MemtxEngine", "make_engines", "memtx_of"]


def make_engines() -> dict[str, Engine]:
    """Make the engines of one node, by name."""
    memtx = MemtxEngine()
    engines: list[Engine] = [memtx, BlackholeEngine(), SystemViewEngine(memtx), SessionValuesEngine()]
    return {engine.name: engine for engine in engines}


def memtx_of(engines: Mapping[str, Engine]) -> MemtxEngine:
    """Return the engine that keeps tuples in memory."""
    memtx = engines["memtx"]
    assert isinstance(memtx, MemtxEngine)
    return memtx
