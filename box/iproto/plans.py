"""Remembered beginnings of request bodies.

A client sends the same body again and again up to the key or the tuple: `82 10 cd 0200 21 <tuple>`. MessagePack is a
prefix code, so two bodies that begin with the same bytes mean the same up to there. The general decoder leaves here
what such a beginning means, and the next request needs one dictionary look-up instead of a decoder. What comes behind
the beginning is the last value of the map; whoever decodes it finds out whether it is well formed.

A change of the schema makes everything remembered void, because a plan holds the space itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from box.wire.constants import RequestType

if TYPE_CHECKING:
    from box.iproto.interface import SpaceLike

_MAX_PLANS: Final = 4096
PLANNED_TYPES: Final = (RequestType.SELECT, RequestType.INSERT, RequestType.REPLACE)


class BodyPlan(NamedTuple):
    """The meaning of one beginning: arguments of `Dml.select` up to the key, or the space of a write."""

    space: SpaceLike
    index_id: int = 0
    iterator: int = 0
    offset: int = 0
    limit: int = 0


class Plans:
    """Plans by request type and beginning. All beginnings of a type that are in use have the size `sizes[type]`: a
    beginning of another size takes the place of the others, which suits clients of one kind and hurts nobody."""

    def __init__(self) -> None:
        self.version = -1
        self.sizes = [0] * (max(PLANNED_TYPES) + 1)
        self.tables: list[dict[bytes, BodyPlan]] = [{} for _ in self.sizes]

    def learn(self, version: int, request_type: int, beginning: bytes, plan: BodyPlan) -> None:
        """Remember a beginning under the given schema version."""
        if version != self.version:
            self.version = version
            for table in self.tables:
                table.clear()
        table = self.tables[request_type]
        if self.sizes[request_type] != len(beginning) or len(table) >= _MAX_PLANS:
            table.clear()
            self.sizes[request_type] = len(beginning)
        table[beginning] = plan
