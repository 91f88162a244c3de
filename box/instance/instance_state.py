"""The state of an instance: its identity, the position of its log, and whether it accepts changes."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from box.instance.mode import AccessMode, ReadOnlyReason
from box.wire.vclock import VClock

NO_UUID = UUID(int=0)


class InstanceState:
    """The state that all parts of one start share; it is completed as the start proceeds.

    `vclock` covers the rows in the log; it is always the same object. `instance_id` is the instance's id in `_cluster`,
    or 0. `is_configured` becomes true when the start has succeeded.
    """

    def __init__(self, mode: AccessMode) -> None:
        self.mode = mode
        self.instance_uuid = NO_UUID
        self.replicaset_uuid = NO_UUID
        self.instance_id = 0
        self.vclock = VClock()
        self.is_configured = False
        self.on_instance_id: list[Callable[[int], None]] = []
        """Called with each new id of the instance, for code that keeps a copy because it needs the id often."""
        self.on_replicaset_uuid: Callable[[UUID], None] | None = None
        """Called with the UUID of the replica set when its row is executed."""

    @property
    def is_read_only(self) -> bool:
        """True if changes are refused, for any reason."""
        return self.mode.is_read_only

    def set_orphan(self, is_orphan: bool) -> None:
        """Set whether the instance is out of sync with its replica set."""
        self.mode.set(ReadOnlyReason.ORPHAN, is_orphan)

    def set_replicaset_uuid(self, uuid: UUID) -> None:
        """Set the UUID of the replica set, from its row in `_schema`."""
        self.replicaset_uuid = uuid
        if self.on_replicaset_uuid is not None:
            self.on_replicaset_uuid(uuid)

    def set_instance_id(self, instance_id: int) -> None:
        """Set the id of this instance from its row in `_cluster`; 0 means that it has none."""
        self.instance_id = instance_id
        for listener in self.on_instance_id:
            listener(instance_id)
        self.mode.look_again()

    def move(self, vclock: VClock) -> None:
        """Note, before the log is open, that memory has the content of the log up to `vclock`."""
        if vclock is not self.vclock:
            self.vclock.clear()
            self.vclock.update(vclock)

    def configured(self) -> None:
        """Note that the start has succeeded."""
        self.is_configured = True
        self.mode.set(ReadOnlyReason.LOADING, False)
