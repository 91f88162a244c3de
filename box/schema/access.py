"""Users, roles and privileges.

A privilege is a bit mask that a grantee holds on an object key. The effective mask of a user combines the masks granted
to the user and to all roles that the user has, directly or through other roles:

    effective(user)[key] = granted(user)[key] | effective(role)[key] for each role of the user

When a grant changes, `refresh` recomputes the masks of the grantee and of all users that have it as a role, roles
first. A check is then one dictionary look-up. Sessions share their user's `Credentials` object, so a change of grants
reaches open sessions at once.

Source of the rules and texts: Tarantool's behaviour; the numbers are `box.priv`.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from enum import IntEnum

from box.errors import BoxError, ErrorCode, access_denied, client_error
from box.schema.ids import UserId


class Privilege(IntEnum):
    """The privileges, one bit each. GRANT and REVOKE are never stored: they name the action in a denial."""

    R = 1
    W = 2
    X = 4
    S = 8
    U = 16
    C = 32
    D = 64
    A = 128
    REFERENCE = 256
    TRIGGER = 512
    INSERT = 1024
    UPDATE = 2048
    DELETE = 4096
    GRANT = 8192
    REVOKE = 16384


ALL_PRIVILEGES = 0xFFFF
"""All privileges. Stored masks are cut to these 16 bits, because `box.priv.ALL` is 4294967295 in `_priv`."""

_NAMES = (
    "Read",
    "Write",
    "Execute",
    "Session",
    "Usage",
    "Create",
    "Drop",
    "Alter",
    "Reference",
    "Trigger",
    "Insert",
    "Update",
    "Delete",
    "Grant",
    "Revoke",
)
_USAGE = int(Privilege.U)

ObjectKey = tuple[str, int | None]
"""The type and the id of an object; the id None stands for all objects of the type (a grant on `''`)."""

UNIVERSE: ObjectKey = ("universe", 0)
EMPTY_PASSWORD = "vhvewKp0tNyweZQ+cFKAlsyphfg="
"""`password_hash('')`, which is the only password that guest may have."""
HASH_SIZE = 20
"""The size of a SHA-1 digest, in bytes."""


def privilege_name(mask: int) -> str:
    """Return the name of the lowest bit, for the text of a denial."""
    lowest = (mask & -mask).bit_length() - 1
    return _NAMES[lowest] if 0 <= lowest < len(_NAMES) else "Any"


def password_hash(password: str | bytes) -> str:
    """Return the value of `chap-sha1` in `_user`: base64 of sha1(sha1(password))."""
    # Imported here because it loads libcrypto, which an instance without passwords does not need.
    from hashlib import sha1

    raw = password.encode("utf-8", "surrogateescape") if isinstance(password, str) else password
    return b64encode(sha1(sha1(raw).digest()).digest()).decode("ascii")


def decode_hash(text: str) -> bytes:
    """Decode a stored hash to its 20 bytes. Raises ValueError for anything else."""
    raw = b64decode(text, validate=True)
    if len(raw) != HASH_SIZE:
        raise ValueError("not a SHA-1 digest")
    return raw


class User:
    """A user or a role."""

    __slots__ = (
        "credentials",
        "dropped",
        "effective",
        "granted",
        "hash2",
        "members",
        "name",
        "owner",
        "roles",
        "type",
        "uid",
    )

    def __init__(self, uid: int, owner: int, name: str, type: str = "user", hash2: bytes = bytes(HASH_SIZE)) -> None:
        self.uid = uid
        self.owner = owner
        self.name = name
        self.type = type
        self.hash2 = hash2
        self.granted: dict[ObjectKey, int] = {}
        self.effective: dict[ObjectKey, int] = {}
        self.roles: set[User] = set()
        """The roles granted to this user."""
        self.members: set[User] = set()
        """The users and roles that have this role."""
        self.dropped = False
        self.credentials = Credentials(self)

    @property
    def is_role(self) -> bool:
        """True if it is a role."""
        return self.type == "role"

    def __repr__(self) -> str:
        return f"<{self.type} {self.uid} {self.name!r}>"


class Credentials:
    """The rights of a request. `universal` caches the mask on the universe, which decides most checks."""

    __slots__ = ("uid", "universal", "user")

    def __init__(self, user: User) -> None:
        self.uid = user.uid
        self.universal = 0
        self.user = user

    @property
    def is_admin(self) -> bool:
        """True for the user admin."""
        return self.uid == UserId.ADMIN

    def on(self, object_type: str, object_id: int | None) -> int:
        """Return the effective mask on one object, without privileges on the universe or on all objects of its type."""
        return self.user.effective.get((object_type, object_id), 0)

    def __repr__(self) -> str:
        return f"<credentials of {self.user!r}, universe {self.universal:#x}>"


def refresh(grantee: User) -> None:
    """Recompute the effective masks of a user and of everyone who has it as a role."""
    for user in _members_first_last(grantee):
        effective = dict(user.granted)
        for role in user.roles:
            for key, mask in role.effective.items():
                effective[key] = effective.get(key, 0) | mask
        user.effective = effective
        user.credentials.universal = 0 if user.dropped else effective.get(UNIVERSE, 0)


def _members_first_last(start: User) -> list[User]:
    """Return the user and its transitive members, every role before its members."""
    order: list[User] = []
    _visit(start, set(), order)
    order.reverse()
    return order


def _visit(user: User, seen: set[User], order: list[User]) -> None:
    """Append the members, then the user, to `order`."""
    seen.add(user)
    for member in user.members:
        if member not in seen:
            _visit(member, seen, order)
    order.append(user)


def check_role_loop(grantee: User, role: User) -> None:
    """Raise ROLE_LOOP if the role is the grantee or has, directly or not, the grantee as a role."""
    if role in _members_first_last(grantee):
        raise client_error(ErrorCode.ROLE_LOOP, role.name, grantee.name)


def denied(credentials: Credentials, mask: int, object_type: str, object_name: str) -> BoxError:
    """Make the error of a refused access; NO_SUCH_USER if the user no longer exists."""
    if credentials.user.dropped:
        return client_error(ErrorCode.NO_SUCH_USER, str(credentials.uid))
    return access_denied(privilege_name(mask), object_type, object_name, credentials.user.name)


def check_universe(
    credentials: Credentials, privileges: int, object_type: str = "universe", object_name: str = ""
) -> None:
    """Check that the user has usage and the given privileges on the universe. The error may name another object."""
    missing = (privileges | _USAGE) & ~credentials.universal
    if missing:
        raise denied(credentials, missing, object_type, object_name)


def may_execute_all(credentials: Credentials) -> bool:
    """Return whether the user may execute every function and expression."""
    return not (Privilege.X | _USAGE) & ~credentials.universal


def check_session(user: User) -> None:
    """Check that the user may open a session, at authentication."""
    if not user.credentials.universal & Privilege.S:
        raise denied(user.credentials, Privilege.S, "universe", "")


def check_object(
    credentials: Credentials, privileges: int, object_type: str, object_id: int, object_name: str, owner: int
) -> None:
    """Check that the user has usage on the universe and the privileges on a space or a sequence. The owner has all."""
    privileges |= _USAGE
    missing = privileges & ~credentials.universal & ~credentials.on(object_type, None)
    if not missing:
        return
    if not missing & _USAGE and (owner == credentials.uid or not missing & ~credentials.on(object_type, object_id)):
        return
    if not credentials.universal & _USAGE:
        raise denied(credentials, _USAGE, "universe", "")
    raise denied(credentials, privileges, object_type, object_name)


def check_function(credentials: Credentials, function_id: int, name: str, owner: int) -> None:
    """Check that the user may execute a function. Without usage the error has the text for missing execute."""
    required = Privilege.X | Privilege.U
    missing = required & ~credentials.universal & ~credentials.on("function", None)
    if not missing:
        return
    if not missing & _USAGE and (owner == credentials.uid or not missing & ~credentials.on("function", function_id)):
        return
    raise denied(credentials, Privilege.X, "function", name)


def check_ddl(credentials: Credentials, privilege: int, key: ObjectKey, name: str, owner: int) -> None:
    """Check a privilege that changes the dictionary.

    The owner may alter and drop. Creating needs the privilege even for the future owner. Usage can only be granted on
    the universe.
    """
    missing = (_USAGE | privilege) & ~credentials.universal
    if not missing:
        return
    object_type, object_id = key
    missing &= ~credentials.on(object_type, None)
    is_owner = owner == credentials.uid or credentials.is_admin
    if not missing or (is_owner and not missing & (_USAGE | Privilege.C)):
        return
    if missing & _USAGE:
        raise denied(credentials, _USAGE, "universe", "")
    missing &= ~credentials.on(object_type, object_id)
    if missing:
        raise denied(credentials, missing, object_type, name)
