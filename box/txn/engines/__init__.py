"""The engines of a node: each is a `box.schema.storage_engine.Engine`.

```
memtx      tuples in indexes in memory                            memtx.py
blackhole  no tuples; changes go to the log and to replicas       blackhole.py
sysview    tuples of system spaces that the reader may see        system_views.py
service    the settings of the reader's session                   session_values.py
```
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from box.schema.storage_engine import Engine
from box.txn.engines.blackhole import BlackholeEngine
from box.txn.engines.memtx import MemtxEngine
from box.txn.engines.session_values import SessionValuesEngine
from box.txn.engines.system_views import SystemViewEngine

__all__ = ["HASH_ORDER", "MemtxEngine", "make_engines", "memtx_of"]

HASH_ORDER: Final = "LUNABOX_HASH_ORDER"
"""The environment variable that chooses the order of HASH indexes: `slots`, or `keys` (the default)."""


def make_engines() -> dict[str, Engine]:
    """Make the engines of one node, by name. HASH indexes have Tarantool's order if `LUNABOX_HASH_ORDER` is `slots`."""
    memtx = MemtxEngine(hash_slots=os.environ.get(HASH_ORDER) == "slots")
    engines: list[Engine] = [memtx, BlackholeEngine(), SystemViewEngine(memtx), SessionValuesEngine()]
    return {engine.name: engine for engine in engines}


def memtx_of(engines: Mapping[str, Engine]) -> MemtxEngine:
    """Return the engine that keeps tuples in memory."""
    memtx = engines["memtx"]
    assert isinstance(memtx, MemtxEngine)
    return memtx
