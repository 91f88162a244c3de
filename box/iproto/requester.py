"""The requester: a connection, or one of its streams; it sends requests and gets their replies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from box.errors import BoxError
    from box.index.long_read import LongRead
    from box.session import Context, RequestContext, Session
    from box.txn.pending import Outcome


class Requester(Protocol):
    """The methods that request handlers use of a connection or a stream. Each request gets one reply."""

    @property
    def session(self) -> Session: ...

    @property
    def ctx(self) -> Context:
        """The context of requests that do not wait. The context of a stream holds its transaction."""

    @property
    def keeps_transactions(self) -> bool:
        """True if a request may leave a transaction open for later requests."""

    def request_context(self, sync: int) -> RequestContext:
        """Return the context of a request that may wait."""

    def reply(self, packet: bytes) -> None: ...

    def reply_rows(self, sync: int, rows: Sequence[bytes]) -> None: ...

    def reply_page(self, sync: int, rows: list[bytes], position: bytes | None) -> None: ...

    def reply_read(self, sync: int, read: LongRead) -> None: ...

    def reply_array(self, sync: int, array: bytes) -> None: ...

    def reply_error(self, sync: int, error: BoxError) -> None: ...

    def finish_write(self, sync: int, outcome: Outcome) -> None: ...

    def look_soon(self) -> None: ...

    def call_waits(self) -> None: ...

    def call_ended(self, size: int) -> None: ...
