"""Access rights: grants, roles, owners, and the texts of refusals."""

from __future__ import annotations

from hashlib import sha1
from typing import Any

import pytest

from box.errors import BoxError
from box.schema import Privilege, SpaceId, User, UserId, check_session, check_universe, password_hash
from box.schema.access import ALL_PRIVILEGES, EMPTY_PASSWORD, check_ddl, privilege_name

from .harness import Dictionary, refusal

R, W, X, S, U, C, D, A = (int(Privilege[name]) for name in "RWXSUCDA")


@pytest.fixture
def user(dictionary: Dictionary) -> User:
    """Make a user who may log in and nothing else."""
    user = dictionary.create_user(32, "test")
    dictionary.grant(32, "universe", 0, S | U)
    return user


def test_password_hash() -> None:
    """The stored hash of a password is base64 of SHA-1 of SHA-1."""
    assert password_hash("") == EMPTY_PASSWORD
    assert password_hash("password") == password_hash(b"password") == "JHDAwG3uQv0WGLuZAFrcouydHhk="


def test_privilege_names() -> None:
    """A combination of privileges is named after its lowest bit."""
    assert [privilege_name(mask) for mask in (1, W | U, S, 16384, 0, 1 << 20)] == [
        "Read",
        "Write",
        "Session",
        "Revoke",
        "Any",
        "Any",
    ]


def test_space_access(dictionary: Dictionary, user: User) -> None:
    """A space is accessible by a grant on it, on all spaces or on the universe, and to its owner."""
    space = dictionary.create_space(512, "data")
    read = (user.credentials, Privilege.R)
    assert refusal(space.check_access, *read) == "Read access to space 'data' is denied for user 'test'"
    for object_type, object_id in (("space", 512), ("space", ""), ("universe", 0)):
        mask = R | (S | U if object_type == "universe" else 0)
        dictionary.grant(32, object_type, object_id, mask)
        assert refusal(space.check_access, *read) == ""
        assert refusal(space.check_access, user.credentials, Privilege.W).startswith("Write access")
        dictionary.grant(32, "universe", 0, S | U)
        if object_type == "space":
            dictionary.delete(SpaceId.PRIV, 32, object_type, object_id)
    owned = dictionary.create_space(513, "owned", owner=32)
    assert refusal(owned.check_access, user.credentials, Privilege.W) == ""
    with pytest.raises(BoxError) as caught:
        space.check_access(*read)
    assert (caught.value.type, caught.value.fields) == (
        "AccessDeniedError",
        {"access_type": "Read", "object_type": "space", "object_name": "data"},
    )


def test_usage_comes_first(dictionary: Dictionary, user: User) -> None:
    """Without usage not even the owner has access, and without session nobody can log in."""
    owned = dictionary.create_space(513, "owned", owner=32)
    dictionary.grant(32, "universe", 0, R | W)
    text = "Usage access to universe '' is denied for user 'test'"
    assert refusal(owned.check_access, user.credentials, Privilege.W) == text
    assert refusal(check_ddl, user.credentials, Privilege.A, ("space", 513), "owned", 32) == text
    assert refusal(check_session, user) == "Session access to universe '' is denied for user 'test'"
    assert refusal(check_universe, user.credentials, Privilege.X) == (
        "Execute access to universe '' is denied for user 'test'"
    )
    assert refusal(check_universe, user.credentials, Privilege.X, "function", "f") == (
        "Execute access to function 'f' is denied for user 'test'"
    )


def test_roles(dictionary: Dictionary, user: User) -> None:
    """The privileges of a role, direct or by other roles, follow every change of grants."""
    dictionary.create_space(512, "data")
    for uid, name in ((33, "outer"), (34, "inner")):
        dictionary.create_user(uid, name, "role")
    dictionary.grant(32, "role", 33, X)
    dictionary.grant(33, "role", 34, X)
    dictionary.grant(34, "space", 512, R)
    assert user.credentials.on("space", 512) == R
    dictionary.grant(33, "space", 512, W)
    dictionary.grant(34, "universe", 0, C)
    assert user.credentials.on("space", 512) == R | W
    assert user.credentials.universal == S | U | C
    dictionary.commit()
    dictionary.delete(SpaceId.PRIV, 33, "role", 34)
    assert user.credentials.on("space", 512) == W
    dictionary.rollback()
    assert user.credentials.on("space", 512) == R | W
    text = "Granting role 'outer' to role 'inner' would create a loop"
    assert dictionary.error(dictionary.grant, 34, "role", 33, X) == text
    text = "Granting role 'inner' to role 'inner' would create a loop"
    assert dictionary.error(dictionary.grant, 34, "role", 34, X) == text


def test_everyone_gets_public(dictionary: Dictionary) -> None:
    """Only guest has the role public from the start; a new user gets it by a grant that anybody may give."""
    dictionary.create_user(32, "giver")
    dictionary.create_user(33, "taker")
    dictionary.grant(32, "universe", 0, S | U | W)
    dictionary.act_as(dictionary.schema.users[32])
    dictionary.insert(SpaceId.PRIV, 32, 33, "role", int(UserId.PUBLIC), X)
    assert dictionary.schema.users[33].credentials.on("space", SpaceId.VSPACE) == R
    text = "Grant access to role 'super' is denied for user 'giver'"
    assert dictionary.error(dictionary.insert, SpaceId.PRIV, 32, 33, "role", int(UserId.SUPER), X) == text


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ((1, 0, "space", 5000, 1), "Space '5000' does not exist"),
        ((1, 0, "function", 5000, 1), "Function '5000' does not exist"),
        ((1, 0, "sequence", 5000, 1), "Sequence '5000' does not exist"),
        ((1, 0, "role", 5000, 4), "Role '5000' is not found"),
        ((1, 0, "role", 1, 4), "Role 'admin' is not found"),
        ((1, 0, "user", 5000, 1), "User '5000' is not found"),
        ((1, 0, "user", 2, 1), "User 'public' is not found"),
        ((1, 77, "space", 280, 1), "User '77' is not found"),
        ((77, 0, "space", 280, 1), "User '77' is not found"),
        ((1, 0, "everywhere", 1, 1), "Unknown object type 'everywhere'"),
        ((1, 0, "universe", "", 1), "Unknown object type 'universe'"),
        ((1, 0, "user", 1, 0), "Incorrect grant arguments: the grant tuple has no privileges"),
        (
            (1, 0, "space", "x", 1),
            "Tuple field 4 type does not match one required by operation: expected unsigned, got string",
        ),
        ((1, 1, "universe", 0, 1), "Incorrect grant arguments: can't revoke universe from the admin user"),
    ],
)
def test_refused_grants(dictionary: Dictionary, row: tuple[Any, ...], text: str) -> None:
    """Grants need an existing user and object."""
    assert dictionary.error(dictionary.replace, SpaceId.PRIV, *row) == text
    assert dictionary.schema.admin.universal == ALL_PRIVILEGES


def test_admin_cannot_be_disarmed(dictionary: Dictionary) -> None:
    """The rights of admin cannot be revoked by deleting their rows."""
    text = "Incorrect grant arguments: can't revoke universe from the admin user"
    assert dictionary.error(dictionary.delete, SpaceId.PRIV, 1, "universe", 0) == text


def test_grants_belong_to_owners(dictionary: Dictionary, user: User) -> None:
    """A user may grant rights on objects that it owns; only admin may grant rights on whole types and on the
    universe.
    """
    dictionary.create_space(512, "admins")
    dictionary.create_space(513, "owned", owner=32)
    dictionary.act_as(user)
    dictionary.insert(SpaceId.PRIV, 32, 0, "space", 513, R)

    def refused(*row: Any) -> str:
        return dictionary.error(dictionary.insert, SpaceId.PRIV, 32, 0, *row)

    assert refused("space", 512, R) == "Grant access to space 'admins' is denied for user 'test'"
    assert refused("space", "", R) == "Grant access to space '' is denied for user 'test'"
    dictionary.act_as(dictionary.schema.users[1])
    assert "Grant access to universe ''" in dictionary.error(dictionary.replace, SpaceId.PRIV, 32, 0, "universe", 0, R)
    dictionary.act_as(user)
    error = dictionary.error(dictionary.delete, SpaceId.PRIV, 2, "space", int(SpaceId.VSPACE))
    assert error == "Revoke access to space '_vspace' is denied for user 'test'"


def test_ddl_rights(dictionary: Dictionary, user: User) -> None:
    """Creating an object needs the right; altering and dropping one's own does not."""
    dictionary.create_space(512, "admins")
    dictionary.create_space(513, "owned", owner=32)
    dictionary.act_as(user)
    text = "Create access to space 'new' is denied for user 'test'"
    assert dictionary.error(dictionary.create_space, 514, "new", owner=32) == text
    text = "Create access to space 'owned' is denied for user 'test'"
    assert dictionary.error(dictionary.create_index, 513, 0, (0, "unsigned")) == text
    dictionary.replace(SpaceId.SPACE, 513, 32, "owned", "memtx", 1, {}, [])
    text = "Drop access to space 'admins' is denied for user 'test'"
    assert dictionary.error(dictionary.delete, SpaceId.SPACE, 512) == text
    dictionary.delete(SpaceId.SPACE, 513)


def test_users(dictionary: Dictionary) -> None:
    """A user can be renamed, given a password, and dropped when unused; each step can be undone."""
    schema = dictionary.schema
    user = dictionary.create_user(32, "one")
    dictionary.commit()
    row = [32, 1, "two", "user", {"chap-sha1": password_hash("secret")}]
    dictionary.replace(SpaceId.USER, *row)
    assert schema.user_by_name("two") is user
    assert user.hash2 == sha1(sha1(b"secret").digest()).digest()
    dictionary.rollback()
    assert schema.user_by_name("one") is user
    assert not any(user.hash2)
    dictionary.delete(SpaceId.USER, 32)
    assert refusal(schema.user_by_name, "one") == "User 'one' is not found"
    assert refusal(check_universe, user.credentials, Privilege.R) == "User '32' is not found"
    dictionary.rollback()
    assert schema.user(32) is user
    assert refusal(schema.user_by_name, "public") == "User 'public' is not found"


def test_drop_user_rules(dictionary: Dictionary) -> None:
    """System users, and users with objects or grants, cannot be dropped."""

    def refused(uid: int) -> str:
        return dictionary.error(dictionary.delete, SpaceId.USER, uid).removeprefix("Failed to drop user or role ")

    assert refused(0) == "'guest': the user or the role is a system"
    assert refused(int(UserId.SUPER)) == "'super': the user or the role is a system"
    assert refused(3) == "'replication': the user has objects"
    dictionary.create_user(32, "owner")
    dictionary.create_user(33, "granted")
    dictionary.create_user(34, "role", "role")
    dictionary.create_space(512, "owned", owner=32)
    dictionary.grant(33, "role", 34, X)
    assert {refused(uid).split(": ")[1] for uid in (32, 33, 34)} == {"the user has objects"}


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ((60, 1, "x", "foo", {}), "Failed to create user 'x': unknown user type"),
        ((60, 1, "x" * 65001, "user", {}), f"Failed to create user '{'x' * 64}': user name is too long"),
        ((60, 1, "", "user", {}), "Invalid identifier '' (expected printable symbols only or it is too long)"),
        (
            (60, 1, "x", "role", {"chap-sha1": "x"}),
            "Failed to create role 'x': authentication data can not be set for a role",
        ),
        ((60, 1, "x", "user", {"chap-sha1": "x"}), "Failed to create user 'x': invalid user password"),
        ((60, 1, "x", "user", {"chap-sha1": "*" * 28}), "Failed to create user 'x': invalid user password"),
    ],
)
def test_refused_users(dictionary: Dictionary, row: tuple[Any, ...], text: str) -> None:
    """Each wrong row of a user has Tarantool's text."""
    assert dictionary.error(dictionary.insert, SpaceId.USER, *row) == text


def test_guest_has_no_password(dictionary: Dictionary) -> None:
    """Guest may have the empty password only."""
    auth = {"chap-sha1": password_hash("x")}
    text = "Setting password for guest user has no effect"
    assert dictionary.error(dictionary.replace, SpaceId.USER, 0, 1, "guest", "user", auth) == text


def test_user_limit(dictionary: Dictionary) -> None:
    """There are at most 32 users and roles."""
    for uid in range(32, 32 + 27):
        dictionary.create_user(uid, f"user{uid}")
    text = "A limit on the total number of users has been reached: 32"
    assert dictionary.error(dictionary.create_user, 99, "one too many") == text
