"""Sessions of connected users, and the contexts of the lines of execution that act for them.

A `Context` stands for one fiber of Tarantool: a Lua fiber, a request of a binary connection, an applier or the
embedding program. It carries the open transaction from call to call; nothing in the core is looked up globally.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from box.errors import BoxError
    from box.schema.access import Credentials
    from box.txn.transaction import Transaction

SESSION_TYPES = frozenset({"binary", "console", "repl", "applier", "relay", "background"})
"""The values of `box.session.type()`."""


class Session:
    """One connection, console or daemon. `credentials` are those of the authenticated user.

    `id` grows by one with each session, `peer` is the remote address as text, `fd` the descriptor or -1, `sync` the
    request that is running. `push` sends an out-of-band message (None where the transport has none) and may return the
    token of a wait for a slow receiver; its argument is MessagePack or, with `pushes_text`, the text that a console
    shows. `until_read`, if set, returns an awaitable to wait for after a push, or None if the receiver is up to date.
    """

    __slots__ = (
        "credentials",
        "fd",
        "id",
        "on_disconnect",
        "peer",
        "push",
        "pushes_text",
        "storage",
        "sync",
        "type",
        "until_read",
    )

    def __init__(
        self,
        session_id: int,
        session_type: str,
        credentials: Credentials,
        *,
        peer: str | None = None,
        fd: int = -1,
        push: Callable[[bytes, int], int | None] | None = None,
    ) -> None:
        if session_type not in SESSION_TYPES:
            raise AssertionError(f"unknown session type {session_type!r}")
        self.id = session_id
        self.type = session_type
        self.credentials = credentials
        self.peer = peer
        self.fd = fd
        self.sync = 0
        self.push = push
        self.pushes_text = False
        self.until_read: Callable[[], Coroutine[Any, Any, None] | None] | None = None
        self.on_disconnect: list[Callable[[], Any]] = []
        self.storage: dict[str, Any] = {}
        """Values that Python code keeps for the life of the session; Lua's `box.session.storage` lives in Lua."""

    @property
    def uid(self) -> int:
        """The id of the session's user."""
        return self.credentials.uid

    @property
    def user(self) -> str:
        """The name of the session's user."""
        return self.credentials.user.name

    def __repr__(self) -> str:
        return f"<session {self.id} {self.type} of {self.user!r}>"


class Context:
    """One line of execution: at most one open transaction, one effective user, one last error.

    `credentials` are those of the effective user: `box.session.su` and setuid functions change them, but not the
    credentials of the session.
    """

    __slots__ = ("credentials", "error", "session", "txn")

    def __init__(self, session: Session, credentials: Credentials | None = None) -> None:
        self.session = session
        self.credentials = session.credentials if credentials is None else credentials
        self.txn: Transaction | None = None
        self.error: BoxError | None = None

    @property
    def lasting(self) -> Context:
        """The context for work that changes or keeps its context: this one, unless it serves many fibers at once."""
        return self

    @classmethod
    def admin(cls, credentials: Credentials, session_type: str = "background", session_id: int = 0) -> Context:
        """Return a context for the node's own work, in a session of its own; `credentials` are those of the user
        admin.
        """
        return cls(Session(session_id, session_type, credentials))

    def __repr__(self) -> str:
        return f"<context {self.session!r} {self.txn!r}>"


SessionHook = Callable[[Context], Awaitable[None]]
AuthHook = Callable[[Context, str, bool], Awaitable[None]]
"""Called with the user's name and whether the password was right; raises an error to refuse the user."""
DeniedHook = Callable[[Context, "BoxError"], None]
"""Called with the error of a denied access. Must not raise."""


class RequestContext(Context):
    """The context of one CALL or EVAL. It knows which request it answers, for `box.session.sync` and `push`."""

    __slots__ = ("has_ended", "has_waited", "sync")

    def __init__(self, session: Session, sync: int) -> None:
        super().__init__(session)
        self.sync = sync
        self.has_ended = False
        self.has_waited = False
        """True if the function was still running when its starter went on with other work."""


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
        self.on_access_denied: list[DeniedHook] = []
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
        """Open a session; see `Session` for the arguments. The caller runs the on_connect hooks."""
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

    def tell_denied(self, ctx: Context, error: BoxError) -> None:
        """Run the on_access_denied hooks for a refused request, if it was refused for lack of a privilege."""
        if error.type == "AccessDeniedError":
            for hook in list(self.on_access_denied):
                hook(ctx, error)

    async def close(self, session: Session) -> None:
        """Run all on_disconnect hooks and forget the session. Raises the first error at the end."""
        first_error: Exception | None = None
        for hook in list(self.on_disconnect):
            try:
                await hook(Context(session))
            except Exception as error:
                first_error = first_error or error
        self.forget(session)
        if first_error is not None:
            raise first_error

    def forget(self, session: Session) -> None:
        """Forget a session without running any hooks."""
        for forget in session.on_disconnect:
            forget()
        self.by_id.pop(session.id, None)
