"""`box.session`: the session and user of the running fiber."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from box.data import codec
from box.errors import ErrorCode, client_error
from box.schema.session_settings import DEFAULTS, LATER, SessionSettings
from lua.bindings.binding import Binding, Outcome, exported, guarded, text

if TYPE_CHECKING:
    from box.instance.node import Instance
    from box.schema.access import Credentials
    from box.session import Context, Session
    from lua.runtime import Runtime


_SETTINGS = SessionSettings()
_NOBODY = -1


def _user_number(value: float | None) -> int:
    """Convert a number from Lua to a user id. Nil, NaN and infinity become `_NOBODY`, which no user has."""
    return int(value) if value is not None and isfinite(value) else _NOBODY


class SessionBinding(Binding):
    """The session and the effective user of the running fiber."""

    def __init__(self, runtime: Runtime, node: Instance) -> None:
        super().__init__(runtime, node)
        self._saved: list[tuple[Context, Credentials | None] | None] = []

    def _user_name(self, uid: int) -> str | None:
        user = self.node.schema.users.get(uid)
        return None if user is None else user.name

    def _find(self, session_id: int | None) -> Session | None:
        current = self.ctx.session
        if session_id is None or current.id == session_id:
            return current
        return self.node.sessions.by_id.get(int(session_id)) if isfinite(session_id) else None

    @exported("session_id")
    def session_id(self) -> int:
        """Return the session's id, 0 for none."""
        return self.ctx.session.id

    @exported("session_sync")
    def sync(self) -> int:
        """Return the sync of the running request, 0 outside of the binary protocol.

        Lua gets the lower 32 bits of it as a signed number, as in Tarantool 2.8.1.
        """
        low = _sync_of(self.ctx) & 0xFFFFFFFF
        return low - 2**32 if low >= 2**31 else low

    @exported("session_uid")
    def uid(self) -> int:
        """Return the authenticated user's id."""
        return self.ctx.session.uid

    @exported("session_euid")
    def euid(self) -> int:
        """Return the effective user's id, which differs in `su` and setuid functions."""
        return self.ctx.credentials.uid

    @guarded("session_strings")
    def strings(self) -> bytes:
        """Return type, user name and effective user name."""
        ctx = self.ctx
        return codec.pack([ctx.session.type, self._user_name(ctx.session.uid), self._user_name(ctx.credentials.uid)])

    @exported("session_exists")
    def exists(self, session_id: int | None = None) -> bytes:
        """Return whether a session exists, packed."""
        return codec.pack(self._find(session_id) is not None)

    @exported("session_fd")
    def fd(self, session_id: int | None = None) -> bytes:
        """Return the descriptor of a session, -1 for none; nil if the session does not exist."""
        session = self._find(session_id)
        return codec.pack(None if session is None else session.fd)

    @exported("session_peer")
    def peer(self, session_id: int | None = None) -> bytes:
        """Return whether a session exists, and its other side's address or nil."""
        session = self._find(session_id)
        return codec.pack([session is not None, None if session is None else session.peer])

    @guarded("session_create")
    def create(self, session_type: bytes, fd: int) -> Outcome:
        """Set the type of the running session. Returns its id."""
        session = self.ctx.session
        session.type = text(session_type)
        if fd >= 0:
            session.fd = int(fd)
        return session.id

    # Another user

    def _credentials(self, user: bytes | float) -> Credentials:
        from box.schema.access import check_session

        schema = self.node.schema
        found = schema.user_by_name(text(user)) if isinstance(user, bytes) else schema.user(_user_number(user))
        check_session(found)
        return found.credentials

    @guarded("session_su")
    def su(self, user: bytes | float) -> Outcome:
        """Change the session's user permanently."""
        credentials = self._credentials(user)
        ctx = self.ctx
        ctx.session.credentials = credentials
        ctx.credentials = credentials
        return None

    @guarded("session_su_enter")
    def su_enter(self, user: bytes | float) -> Outcome:
        """Change the effective user. Returns the number for `su_leave`."""
        return self.enter(self._credentials(user))

    def enter(self, credentials: Credentials) -> int:
        """Change the effective user of the running fiber. Returns the number for `su_leave`."""
        ctx = self.ctx
        is_session = ctx.credentials is ctx.session.credentials
        self._saved.append((ctx, None if is_session else ctx.credentials))
        ctx.credentials = credentials
        return len(self._saved)

    @exported("session_su_leave")
    def su_leave(self, number: int) -> None:
        """Restore the effective user that a fiber had before `enter`. Fibers may leave in any order.

        If that was the session's user, the fiber gets the user that the session has now.
        """
        saved = self._saved[number - 1]
        assert saved is not None  # each number is used once
        ctx, credentials = saved
        ctx.credentials = ctx.session.credentials if credentials is None else credentials
        self._saved[number - 1] = None
        while self._saved and self._saved[-1] is None:
            self._saved.pop()

    # Messages and settings

    @exported("session_push_kind")
    def push_kind(self) -> int:
        """Return the kind of value that `push` takes: 0 nothing, 1 MessagePack, 2 the text that a console shows."""
        session = self.ctx.session
        return 0 if session.push is None else 2 if session.pushes_text else 1

    @guarded("session_push")
    def push(self, data: bytes) -> Outcome:
        """Send a message out of band. Returns True, or a token if the receiver is slow.

        Inside a transaction, which would not survive a wait, it returns True.

        Raises:
            UnsupportedError: the session takes no messages.
            OutOfMemory: the receiver is too far behind.
        """
        ctx = self.ctx
        session = ctx.session
        if session.push is None:
            raise client_error(ErrorCode.UNSUPPORTED, f"Session '{session.type}'", "push()")
        token = session.push(data, _sync_of(ctx))
        if token is not None:
            return token
        behind = session.until_read() if session.until_read is not None and ctx.txn is None else None
        return True if behind is None else self.runtime.drive(behind)

    @guarded("session_settings")
    def settings(self) -> bytes:
        """Return two maps of settings by name: those of 2.8.1, and those of 2.11 that no list shows."""
        values = _SETTINGS.values(self.ctx.session)
        return codec.pack([{name: values[name] for name in names} for names in (DEFAULTS, LATER)])

    @guarded("session_setting_set")
    def set_setting(self, name: bytes, value: bytes) -> Outcome:
        """Change a setting of the session.

        Raises:
            ClientError: NO_SUCH_SESSION_SETTING or SESSION_SETTING_INVALID_VALUE.
        """
        from box.schema.ids import SpaceId
        from box.wire.change import Request

        if text(name) not in DEFAULTS and text(name) not in LATER:
            raise client_error(ErrorCode.NO_SUCH_SESSION_SETTING, text(name))
        ops = [["=", 2, codec.unpack(value)]]
        space = self.node.schema.space(SpaceId.SESSION_SETTINGS)
        self.node.dml.write(self.ctx, space, Request.update([text(name)], ops))
        return None


def _sync_of(ctx: Context) -> int:
    """Return the sync of the request that the context serves; a session may have several requests at once."""
    sync: int = getattr(ctx, "sync", ctx.session.sync)
    return sync
