"""The sessions of a node and the triggers of `box.session`: on_connect, on_disconnect, on_auth."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from box.txn.context import Context, Session

if TYPE_CHECKING:
    from box.schema.access import Credentials

SessionHook = Callable[[Context], Awaitable[None]]
AuthHook = Callable[[Context, str, bool], Awaitable[None]]
"""Called with the user's name and whether the password was right; may raise to refuse the user."""


class RequestContext(Context):
    """The context of one CALL or EVAL: knows which request it answers, for `box.session.sync` and `push`."""

    __slots__ = ("sync",)

    def __init__(self, session: Session, sync: int) -> None:
        super().__init__(session)
        self.sync = sync


class Sessions:
    """All open sessions by id; ids grow from 1 and are never used again.

    The hooks run in order and may wait. An error of an on_connect or on_auth hook refuses the client; errors of
    on_disconnect hooks are the caller's to log.
    """

    def __init__(self) -> None:
        self.by_id: dict[int, Session] = {}
        self.on_connect: list[SessionHook] = []
        self.on_disconnect: list[SessionHook] = []
        self.on_auth: list[AuthHook] = []
        self._last_id = 0

    def open(
        self,
        session_type: str,
        credentials: Credentials,
        *,
        peer: str | None = None,
        fd: int = -1,
        push: Callable[[bytes, int], None] | None = None,
    ) -> Session:
        """A new session; see `Session` for the arguments. The on_connect hooks are the caller's business."""
        self._last_id += 1
        session = Session(self._last_id, session_type, credentials, peer=peer, fd=fd, push=push)
        self.by_id[session.id] = session
        return session

    async def run_on_connect(self, ctx: Context) -> None:
        """Run the on_connect hooks."""
        for hook in list(self.on_connect):
            await hook(ctx)

    async def run_on_auth(self, ctx: Context, user: str, is_authenticated: bool) -> None:
        """Run the on_auth hooks."""
        for hook in list(self.on_auth):
            await hook(ctx, user, is_authenticated)

    async def close(self, session: Session) -> None:
        """Run the on_disconnect hooks, all of them, and forget the session. Raises the first error at the end."""
        first_error: Exception | None = None
        for hook in list(self.on_disconnect):
            try:
                await hook(Context(session))
            except Exception as error:
                first_error = first_error or error
        for forget in session.on_disconnect:
            forget()
        self.by_id.pop(session.id, None)
        if first_error is not None:
            raise first_error
