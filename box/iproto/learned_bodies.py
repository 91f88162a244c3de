"""Remembered beginnings of request bodies.

A client repeats the same body up to the key or the tuple: `82 10 cd 0200 21 <tuple>`. MessagePack is a prefix code, so
two bodies with the same first bytes mean the same up to there. The general decoder stores what a beginning means, so
the next request needs a dictionary look-up instead of decoding. What follows the beginning is the last value of the
map; the code that decodes it checks that it is well formed.

A change of the schema makes everything learned void, because a meaning holds the space itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from box.wire.constants import RequestType

if TYPE_CHECKING:
    from box.iproto.interface import SpaceLike

_MAX_BEGINNINGS: Final = 4096
"""The beginnings of a request type after which all of them are dropped, so that clients cannot fill the memory."""
LEARNED_TYPES: Final = (RequestType.SELECT, RequestType.INSERT, RequestType.REPLACE)
"""The request types whose bodies are learned."""


class BodyMeaning(NamedTuple):
    """The meaning of a beginning: the arguments of a select up to the key, or the space of a change."""

    space: SpaceLike
    index_id: int = 0
    iterator: int = 0
    offset: int = 0
    limit: int = 0


class LearnedBodies:
    """Meanings by request type and beginning.

    All beginnings of a type have the same size, `sizes[type]`. A beginning of another size replaces the others: that
    serves clients of one kind well, and with mixed clients only the gain is lost.
    """

    def __init__(self) -> None:
        self.version = -1
        self.sizes = [0] * (max(LEARNED_TYPES) + 1)
        self.tables: list[dict[bytes, BodyMeaning]] = [{} for _ in self.sizes]

    def learn(self, version: int, request_type: int, beginning: bytes, meaning: BodyMeaning) -> None:
        """Remember the meaning of a beginning, for this version of the schema."""
        if version != self.version:
            self.version = version
            for table in self.tables:
                table.clear()
        table = self.tables[request_type]
        if self.sizes[request_type] != len(beginning) or len(table) >= _MAX_BEGINNINGS:
            table.clear()
            self.sizes[request_type] = len(beginning)
        table[beginning] = meaning
