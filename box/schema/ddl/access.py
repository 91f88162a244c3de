"""`_user` and `_priv`: users, roles and grants."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from box.errors import BoxError, ErrorCode, access_denied, client_error
from box.schema.access import (
    ALL_PRIVILEGES,
    EMPTY_PASSWORD,
    HASH_SIZE,
    Credentials,
    ObjectKey,
    Privilege,
    User,
    check_ddl,
    check_role_loop,
    decode_hash,
    privilege_name,
    refresh,
)
from box.schema.ddl.dictionary_change import DdlStatement, DdlTransaction
from box.schema.fields import Fields
from box.schema.identifier import check_identifier, too_long
from box.schema.ids import NAME_MAX, USER_MAX, UserId
from box.schema.newer import grants_newer_object
from box.schema.schema import Grant, Schema
from box.schema.upgrade import ALL_OF_ADMIN, is_older

_OBJECT_TYPES = frozenset(("universe", "space", "function", "user", "role", "sequence", "collation"))
_ENCODED_HASH_SIZE = 28
"""The length of a SHA-1 digest in base64."""


# --- _user ---


def on_replace_user(schema: Schema, credentials: Credentials, txn: DdlTransaction, stmt: DdlStatement) -> None:
    """Create, change or drop a user or a role."""
    uid = Fields(stmt.first).u32(0)
    user = schema.users.get(uid)
    if stmt.new is None:
        _drop_user(schema, credentials, stmt, schema.user(uid))
    elif user is None:
        _create_user(schema, credentials, stmt)
    else:
        _alter_user(schema, credentials, stmt, user)


def _create_user(schema: Schema, credentials: Credentials, stmt: DdlStatement) -> None:
    user = decode_user(stmt.last)
    check_ddl(credentials, Privilege.C, (user.type, user.uid), user.name, user.owner)
    if len(schema.users) >= USER_MAX:
        raise client_error(ErrorCode.USER_MAX, USER_MAX)
    schema.add_user(user)

    def undo() -> None:
        user.dropped = True
        schema.remove_user(user)
        refresh(user)
        schema.tell_change()

    stmt.on_rollback.append(undo)


def _drop_user(schema: Schema, credentials: Credentials, stmt: DdlStatement, user: User) -> None:
    check_ddl(credentials, Privilege.D, (user.type, user.uid), user.name, user.owner)
    if user.uid <= UserId.PUBLIC or user.uid == UserId.SUPER:
        raise client_error(ErrorCode.DROP_USER, user.name, "the user or the role is a system")
    if _has_objects(schema, user):
        raise client_error(ErrorCode.DROP_USER, user.name, "the user has objects")
    schema.remove_user(user)
    user.dropped = True
    refresh(user)
    schema.tell_change()

    def undo() -> None:
        user.dropped = False
        schema.add_user(user)
        refresh(user)
        schema.tell_change()

    stmt.on_rollback.append(undo)


def _has_objects(schema: Schema, user: User) -> bool:
    """Return whether the user owns something, has granted or been granted something, or is granted as a role."""
    owned = (schema.spaces, schema.functions, schema.sequences)
    return (
        any(item.owner == user.uid for table in owned for item in table.values())
        or any(user.uid in (grantee, grant.grantor) for (grantee, _), grant in schema.grants.items())
        or bool(user.members)
    )


def _alter_user(schema: Schema, credentials: Credentials, stmt: DdlStatement, user: User) -> None:
    changed = decode_user(stmt.last)
    check_ddl(credentials, Privilege.A, (user.type, user.uid), changed.name, changed.uid)
    saved = (user.name, user.owner, user.type, user.hash2)

    def assign(name: str, owner: int, kind: str, hash2: bytes) -> None:
        old_name = user.name
        user.name, user.owner, user.type, user.hash2 = name, owner, kind, hash2
        schema.rename_user(user, old_name)

    assign(changed.name, changed.owner, changed.type, changed.hash2)
    stmt.on_rollback.append(lambda: assign(*saved))


def decode_user(raw: bytes) -> User:
    """Decode and check a `_user` tuple."""
    fields = Fields(raw)
    name = fields.string(2)
    encoded = name.encode("utf-8", "surrogateescape")
    if len(encoded) > NAME_MAX:
        raise too_long(encoded, ErrorCode.CREATE_USER, "user")
    user = User(fields.u32(0), fields.u32(1), name, fields.string(3))
    if user.type not in ("user", "role"):
        raise client_error(ErrorCode.CREATE_USER, name, "unknown user type")
    check_identifier(name)
    if len(fields) > 4:
        auth = fields.any(4)
        if user.is_role and auth not in ({}, []):
            raise client_error(ErrorCode.CREATE_ROLE, name, "authentication data can not be set for a role")
        user.hash2 = _decode_auth(user, auth)
    return user


def _decode_auth(user: User, auth: Any) -> bytes:
    """Decode the hash of the password. An array is an empty Lua table and means that there is no password; then no
    login with a password is possible.
    """
    if auth is None or isinstance(auth, list):
        return bytes(HASH_SIZE)
    if not isinstance(auth, dict):
        text = "invalid password format, use box.schema.user.passwd() to reset password"
        raise client_error(ErrorCode.CREATE_USER, user.name, text)
    for mechanism, value in auth.items():
        if isinstance(mechanism, str) and mechanism.lower() == "chap-sha1":
            return _decode_password(user, value)
    return bytes(HASH_SIZE)


def _decode_password(user: User, value: Any) -> bytes:
    def wrong() -> BoxError:
        return client_error(ErrorCode.CREATE_USER, user.name, "invalid user password")

    if not isinstance(value, str) or len(value) not in (0, _ENCODED_HASH_SIZE):
        raise wrong()
    if user.uid == UserId.GUEST and value not in ("", EMPTY_PASSWORD):
        raise client_error(ErrorCode.GUEST_USER_PASSWORD)
    if not value:
        return bytes(HASH_SIZE)
    try:
        return decode_hash(value)
    except ValueError:
        raise wrong() from None


# --- _priv ---


def on_replace_priv(schema: Schema, credentials: Credentials, txn: DdlTransaction, stmt: DdlStatement) -> None:
    """Grant, change or revoke a privilege."""
    if grants_newer_object(schema, stmt.last):
        return
    action = Privilege.REVOKE if stmt.new is None else Privilege.GRANT
    grantee_id, key, grant = decode_grant(stmt.last)
    grantee = _check_grant(schema, credentials, grantee_id, key, grant, action)
    slot = (grantee_id, key)
    before = (schema.grants.get(slot), grantee.granted.get(key, 0), set(grantee.roles))
    _set_grant(schema, grantee, key, None if stmt.new is None else grant)

    def undo() -> None:
        old_grant, old_mask, old_roles = before
        _store_grant(schema, grantee, key, old_grant, old_mask)
        _set_roles(grantee, old_roles)
        refresh(grantee)
        schema.tell_change()

    stmt.on_rollback.append(undo)


@lru_cache(256)
def decode_grant(raw: bytes) -> tuple[int, ObjectKey, Grant]:
    """Decode a `_priv` tuple to (grantee, object, grant). An empty string as object id means every object of the type.

    The result is cached, because each bootstrap and each snapshot has the same 82 rows.
    """
    fields = Fields(raw)
    grantor, grantee, object_type = fields.u32(0), fields.u32(1), fields.string(2)
    object_id: int | None = None
    is_entity = fields.any(3) == ""
    if not is_entity:
        object_id = fields.u32(3)
    if object_type not in _OBJECT_TYPES or (is_entity and object_type == "universe"):
        raise client_error(ErrorCode.UNKNOWN_SCHEMA_OBJECT, object_type)
    return grantee, (object_type, object_id), Grant(grantor, fields.u32(4) & ALL_PRIVILEGES)


def _check_grant(
    schema: Schema, credentials: Credentials, grantee_id: int, key: ObjectKey, grant: Grant, action: Privilege
) -> User:
    """Check that both users and the object exist, and that the grantor may grant the privilege. Returns the grantee."""
    grantor, grantee = schema.user(grant.grantor), schema.user(grantee_id)
    name = schema.object_name(key)
    check_ddl(credentials, action, key, name, grantor.uid)
    if not _may_give(schema, grantor, key, grant):
        raise access_denied(privilege_name(action), key[0], name, grantor.name)
    if key[0] == "role" and key[1] is not None:
        check_role_loop(grantee, schema.users[key[1]])
    if grant.mask == 0:
        raise client_error(ErrorCode.GRANT, "the grant tuple has no privileges")
    return grantee


def _may_give(schema: Schema, grantor: User, key: ObjectKey, grant: Grant) -> bool:
    """Return whether a user may grant: admin anything that exists, an owner on the object, everyone the role public."""
    object_type, object_id = key
    if object_type == "collation":
        return True
    if object_type == "universe" or object_id is None:
        return grantor.uid == UserId.ADMIN
    found = _object(schema, object_type, object_id)
    is_public = object_type == "role" and object_id == UserId.PUBLIC and grant.mask == Privilege.X
    return bool(grantor.uid in (found.owner, UserId.ADMIN) or is_public)


def _object(schema: Schema, object_type: str, object_id: int) -> Any:
    """Return the object of a grant, or raise the error that it does not exist."""
    if object_type == "space":
        return schema.space(object_id)
    if object_type == "sequence":
        return schema.sequence(object_id)
    if object_type == "function":
        if object_id not in schema.functions:
            raise client_error(ErrorCode.NO_SUCH_FUNCTION, str(object_id))
        return schema.functions[object_id]
    user = schema.users.get(object_id)
    if user is None or user.type != object_type:
        code = ErrorCode.NO_SUCH_ROLE if object_type == "role" else ErrorCode.NO_SUCH_USER
        raise client_error(code, str(object_id) if user is None else user.name)
    return user


def _set_grant(schema: Schema, grantee: User, key: ObjectKey, grant: Grant | None) -> None:
    """Set the grant that the grantee holds on the object; None removes it.

    Execute alone on a role gives the role itself. Other privileges concern the role as an object, and do not change
    whether the grantee has it.
    """
    mask = grant.mask if grant is not None else 0
    if grantee.uid == UserId.ADMIN and key[0] == "universe" and mask != ALL_PRIVILEGES:
        if not is_older(schema, ALL_OF_ADMIN):
            raise client_error(ErrorCode.GRANT, "can't revoke universe from the admin user")
        mask = ALL_PRIVILEGES  # the old row names only the three privileges of its time; the upgrade writes all
    if key[0] == "role" and key[1] is not None and not mask & ~Privilege.X:
        role = schema.users[key[1]]
        _set_roles(grantee, grantee.roles | {role} if mask else grantee.roles - {role})
        mask = 0
    _store_grant(schema, grantee, key, grant, mask)
    schema.privileges_changed(grantee)


def _store_grant(schema: Schema, grantee: User, key: ObjectKey, grant: Grant | None, mask: int) -> None:
    if mask:
        grantee.granted[key] = mask
    else:
        grantee.granted.pop(key, None)
    if grant is not None:
        schema.grants[grantee.uid, key] = grant
    else:
        schema.grants.pop((grantee.uid, key), None)


def _set_roles(grantee: User, roles: set[User]) -> None:
    for role in grantee.roles - roles:
        role.members.discard(grantee)
    for role in roles - grantee.roles:
        role.members.add(grantee)
    grantee.roles = roles
