"""The state of an instance: who it is, where its log stands, and whether it takes changes."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from box.instance.mode import AccessMode, ReadOnlyReason
from box.wire.vclock import VClock

NO_UUID = UUID(int=0)


class InstanceState:
    """Shared by all parts of one start; found out as the start goes on.

    `vclock` tells the rows that are in the log; the object stays the same. `instance_id` is the id under which
    `_cluster` knows this instance, 0 for none. `is_configured` becomes true when the start has succeeded.
    """

    def __init__(self, mode: AccessMode) -> None:
        self.mode = mode
        self.instance_uuid = NO_UUID
        self.replicaset_uuid = NO_UUID
        self.instance_id = 0
        self.vclock = VClock()
        self.is_configured = False
        self.on_instance_id: list[Callable[[int], None]] = []
        """Told of the id: those who sign rows with it or compare it often."""

    @property
    def is_read_only(self) -> bool:
        """Whether changes are refused, whatever the reason."""
        return self.mode.is_read_only

    def set_orphan(self, is_orphan: bool) -> None:
        """Whether the instance is out of sync with its replica set."""
        self.mode.set(ReadOnlyReason.ORPHAN, is_orphan)

    def set_replicaset_uuid(self, uuid: UUID) -> None:
        """The row of `_schema` with the UUID of the replica set is here."""
        self.replicaset_uuid = uuid

    def set_instance_id(self, instance_id: int) -> None:
        """The id of this instance's row in `_cluster`, 0 if it has none."""
        self.instance_id = instance_id
        for listener in self.on_instance_id:
            listener(instance_id)
        self.mode.look_again()

    def move(self, vclock: VClock) -> None:
        """Take note that memory holds what the log holds up to `vclock`: before the log is open."""
        if vclock is not self.vclock:
            self.vclock.clear()
            self.vclock.update(vclock)

    def configured(self) -> None:
        """The start has succeeded."""
        self.is_configured = True
        self.mode.set(ReadOnlyReason.LOADING, False)
