"""The events that a node makes itself: `box.id`, `box.status`, `box.election`, `box.schema`, `box.shutdown`.

```
box.id        id, instance_uuid, replicaset_uuid
box.status    is_ro, is_ro_cfg, status
box.election  term, role, is_ro, leader
box.schema    version
box.shutdown  true once the instance ends
```

Each is a map, empty before the instance has started. Source: observed on a 2.11.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from box.data.codec import pack

if TYPE_CHECKING:
    from box.events import Events
    from box.instance.config import Config
    from box.instance.instance_state import InstanceState
    from box.instance.mode import AccessMode
    from box.replication.elections import Elections
    from box.schema.schema import Schema

SHUTDOWN: Final = b"box.shutdown"
_NOTHING: Final[dict[str, Any]] = {}


class Describable(Protocol):
    """An instance whose state is the content of the events. Its parts are replaced when it starts again."""

    config: Config
    elections: Elections
    events: Events
    is_loading: bool
    mode: AccessMode
    schema: Schema
    state: InstanceState

    @property
    def is_configured(self) -> bool: ...

    @property
    def status(self) -> str: ...


def provide_system_events(node: Describable) -> None:
    """Register the system events of an instance."""

    def describe_id() -> dict[str, Any]:
        state = node.state
        return {
            "id": state.instance_id,
            "instance_uuid": state.instance_uuid,
            "replicaset_uuid": state.replicaset_uuid,
        }

    def describe_status() -> dict[str, Any]:
        return {
            "is_ro": node.mode.is_read_only,
            "is_ro_cfg": bool(node.config["read_only"]),
            "status": node.status,
        }

    def describe_election() -> dict[str, Any]:
        raft = node.elections.raft
        return {
            "term": raft.term,
            "role": str(node.elections.role),
            "is_ro": node.mode.is_read_only,
            "leader": raft.leader_id,
        }

    def describe_schema() -> dict[str, Any]:
        return {"version": node.schema.version}

    def maker(describe: Callable[[], dict[str, Any]], *, from_loading: bool = False) -> Callable[[], bytes]:
        def make() -> bytes:
            is_there = node.is_configured or (from_loading and node.is_loading)
            return pack(describe() if is_there else _NOTHING)

        return make

    node.events.provide(b"box.id", maker(describe_id))
    node.events.provide(b"box.status", maker(describe_status, from_loading=True))
    node.events.provide(b"box.election", maker(describe_election))
    node.events.provide(b"box.schema", maker(describe_schema))
