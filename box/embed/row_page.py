"""Pages of a select: some rows, and the position from which the next page goes on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from box.embed.named_rows import NamedRow

    R = TypeVar("R", default=NamedRow)
else:
    from typing import TypeVar

    R = TypeVar("R")

PAGE_SIZE = 100
"""The number of rows in a page if the caller gives no limit."""


@dataclass(frozen=True, slots=True)
class RowPage(Generic[R]):
    """The result of `page`: its `rows`, and the `position` just after the last row, or None for an empty page.

    A position is a short text, which may be kept or sent to a client. It has the form of Tarantool 2.11.
    """

    rows: list[R]
    position: str | None
