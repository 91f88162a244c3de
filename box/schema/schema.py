"""The in-memory data dictionary: the content of the system spaces, ready for use.

System triggers (package `box.schema.ddl`) keep it in step with the system spaces inside the changing transaction. So
the dictionary shows an uncommitted change at once, and the statement's rollback hooks undo it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from box.data import codec
from box.data.collation import COLLATIONS
from box.errinj import ErrorInjections
from box.errors import BoxError, ErrorCode, client_error, unsupported
from box.index import Index
from box.index.memory import MemoryQuota
from box.long_work import ProgressBoard
from box.schema.access import ALL_PRIVILEGES, UNIVERSE, Credentials, ObjectKey, User, refresh
from box.schema.collation_def import CollationDef
from box.schema.constraints import NO_RULES, FormatRules
from box.schema.function import Function
from box.schema.ids import SYSTEM_ID_MAX, UserId
from box.schema.rule_checks import RuleChecks
from box.schema.sequence import Sequence
from box.schema.session_settings import SessionSettings
from box.schema.space import Referrer, Space
from box.schema.sql_hooks import SqlHooks
from box.schema.sql_objects import ForeignKeyDef, TriggerDef
from box.schema.storage_engine import Engine

if TYPE_CHECKING:
    from box.session import Context


class Grant(NamedTuple):
    """A decoded `_priv` tuple without its key (grantee, object)."""

    grantor: int
    mask: int


def _clear(index: Index) -> None:
    index.clear()


_SHOWN_NAME_MAX: Final = 64
"""The bytes of an unknown name that an error shows."""


def _shown_name(name: str) -> str:
    """Return the beginning of a name, as errors of Tarantool show it."""
    data = name.encode("utf-8", "surrogateescape")
    return data[:_SHOWN_NAME_MAX].decode("utf-8", "surrogateescape")


class Schema:
    """Spaces, users, functions, sequences and collations of one instance.

    `version` grows with every change of a space or an index; clients re-read their schema when it differs. Hooks are
    called in the tx thread, synchronously, and must not fail.
    """

    def __init__(self, engines: Mapping[str, Engine]) -> None:
        self.version = 0
        self.engines = engines
        """The engines by name."""
        self.spaces: dict[int, Space] = {}
        self.users: dict[int, User] = {}
        self.functions: dict[int, Function] = {}
        self.sequences: dict[int, Sequence] = {}
        self.collations: dict[int, CollationDef] = {}
        self.grants: dict[tuple[int, ObjectKey], Grant] = {}
        """All rows of `_priv`, by grantee id and object."""
        self.foreign_keys: dict[tuple[str, int], ForeignKeyDef] = {}
        """Foreign keys by name and id of the child's space."""
        self.rule_checks = RuleChecks(self)
        self._referrers: dict[int, tuple[Referrer, ...]] = {}
        """The foreign keys in formats, by the id of the space that they refer to, which need not exist."""
        self.sql_triggers: dict[str, TriggerDef] = {}
        """SQL triggers by name, the newest first."""
        self.views: dict[int, list[int]] = {}
        """The ids of the spaces that each view reads, by the id of the view."""
        self.sql = SqlHooks()
        """The functions of SQL that check definitions. The node sets `find` in it."""
        self.index_functions: dict[tuple[int, int], int] = {}
        """All rows of `_func_index`: the function's id by the ids of space and index."""
        self.truncated: set[int] = set()
        """The ids of spaces that have a row in `_truncate`."""
        self.on_views: Callable[[], None] = lambda: None
        """Called before views of all spaces are opened, for a snapshot or a replica."""
        self.altered: set[int] = set()
        """The ids of spaces whose alteration is in progress, because it has to visit tuples (see
        `box.schema.ddl.build`)."""
        self.sequence_rows: set[int] = set()
        """The ids of sequences that have a row in `_sequence_data`."""
        self._spaces_by_name: dict[str, Space] = {}
        self._functions_by_name: dict[str, Function] = {}
        self._users_by_name: dict[str, User] = {}
        self._collations_by_name: dict[str, CollationDef] = {}
        self.own_collations: tuple[CollationDef, ...] = ()

        self.memory = MemoryQuota()
        """The quota for tuples and indexes."""
        self.errinj = ErrorInjections()
        """The error injections of the node, which sets them."""
        self.progress = ProgressBoard(lambda: 0.0)
        """The board of long work in progress, which the node sets."""
        self.session_settings = SessionSettings()
        """The settings that the space `_session_settings` reads and changes."""
        self.instance_id = 0
        """The id of this instance, whose own row in `_cluster` is protected; 0 while it is unknown. The node sets
        it."""
        self.is_joining = False
        """True while a replica joins: its own row in `_cluster` may still change then."""
        self.replicaset_uuid: UUID | None = None
        self.is_of_3 = False
        """True if the dictionary is of Tarantool 3.0 or later: see `box.schema.newer` and `box.sql.exact_names`."""
        self.replicas: dict[int, UUID] = {}
        """The UUIDs in the committed rows of `_cluster`, by instance id."""

        self.on_alter_spaces: list[Callable[[list[Space]], None]] = []
        """Called after spaces were created, altered, truncated or dropped (see `has_space`), with several only at the
        end of a load."""
        self._changed: dict[int, Space] | None = None
        """During a load, the changed spaces by id, which listeners get when it ends; otherwise None."""
        self._regranted: dict[int, User] = {}
        """During a load, the users by id whose privileges are computed when it ends."""
        self.on_change: list[Callable[[], None]] = []
        """Functions to call after a new version, the creation or drop of a function, and a change of the rights of a
        user.
        """
        self.on_alter_function: list[Callable[[Function], None]] = []
        self.on_alter_sequence: list[Callable[[Sequence], None]] = []
        self.on_cluster_change: list[Callable[[int, UUID, bool], None]] = []
        """Called after a commit with id, UUID, and whether the instance was registered (True) or removed (False)."""
        self.on_replicaset_uuid: list[Callable[[UUID], None]] = []
        self.load_function: Callable[[Function], None] | None = None
        """Compiles the body of a persistent function into its `handle`; it may raise ER_LOAD_FUNCTION."""
        self.unload_function: Callable[[Function], None] | None = None
        """Releases the `handle` of a function that was dropped for good."""
        self.call_function: Callable[[Function, bytes, int], list[Any] | BoxError] | None = None
        """Calls a persistent function with a tuple of the space with this id; see `box.index.functional`."""
        self.call_function_for: Callable[[Function, list[bytes], int], list[list[Any]]] | None = None
        """Calls a persistent function with several tuples; see `box.index.functional.KeyFunction`."""
        self.check_value: Callable[[Function, bytes, int | None, str], bool] | None = None
        """Calls a persistent Lua function of a constraint with a tuple of the space with this id, or with the only
        value of an array if the id is None, and with the constraint's name. Returns whether its result is true; raises
        its error."""
        self.run_function: Callable[[Context, Function, list[Any]], list[Any]] | None = None
        """Calls a Lua function with values of SQL and returns its results."""
        self.release: Callable[[Index], None] = _clear
        """Takes an index that is no longer used. The node sets a function that frees it little by little."""

        self._add_builtin_users()

    def _add_builtin_users(self) -> None:
        """Add guest and admin, who must exist before `_user` is read, because recovery itself runs as admin."""
        self.add_user(User(int(UserId.GUEST), int(UserId.ADMIN), "guest"))
        admin = User(int(UserId.ADMIN), int(UserId.ADMIN), "admin")
        admin.granted[UNIVERSE] = ALL_PRIVILEGES
        refresh(admin)
        self.add_user(admin)

    def engine(self, name: str) -> Engine:
        """Return the engine with a name.

        Raises:
            UnsupportedError: it is vinyl.
            ClientError: NO_SUCH_ENGINE.
        """
        found = self.engines.get(name)
        if found is not None:
            return found
        if name == "vinyl":
            raise unsupported("Lunabox", "the vinyl engine")
        raise client_error(ErrorCode.NO_SUCH_ENGINE, name)

    # --- spaces ---

    def space(self, space_id: int) -> Space:
        """Return the space with an id. Raises NO_SUCH_SPACE."""
        try:
            return self.spaces[space_id]
        except KeyError:
            raise client_error(ErrorCode.NO_SUCH_SPACE, str(space_id)) from None

    def tuples(self, space_id: int) -> Iterable[bytes]:
        """Return all present tuples of a space. Raises NO_SUCH_SPACE."""
        space = self.space(space_id)
        return space.engine.tuples(space)

    @property
    def has_user_spaces(self) -> bool:
        """True if a space exists that is not a system space."""
        return any(space_id > SYSTEM_ID_MAX for space_id in self.spaces)

    def space_by_name(self, name: str) -> Space:
        """Return the space with a name. Raises NO_SUCH_SPACE."""
        try:
            return self._spaces_by_name[name]
        except KeyError:
            raise client_error(ErrorCode.NO_SUCH_SPACE, name) from None

    def find_space(self, name: str) -> Space | None:
        """Return the space with a name, or None."""
        return self._spaces_by_name.get(name)

    def has_space(self, space_id: int) -> bool:
        """Return whether a space exists, uncommitted changes included."""
        return space_id in self.spaces

    def snapshot_spaces(self) -> list[Space]:
        """Return the spaces that a snapshot stores, in its order: system spaces by id, then the others by id."""
        self.on_views()
        return self._stored(space for space in self.spaces.values() if space.engine.keeps_tuples)

    def joined_spaces(self) -> list[Space]:
        """Return the spaces that a replica gets with a join, in the order of a snapshot."""
        self.on_views()
        return self._stored(space for space in self.spaces.values() if space.engine.is_joined and not space.is_local)

    def _stored(self, spaces: Iterable[Space]) -> list[Space]:
        stored = (space for space in spaces if not space.is_temporary)
        return sorted(stored, key=lambda space: (not space.is_system, space.id))

    def add_space(self, space: Space) -> None:
        """Add a space to the dictionary."""
        self.spaces[space.id] = space
        self._spaces_by_name[space.name] = space
        space.referrers = self._referrers.get(space.id, ())
        space.rule_checks = self.rule_checks
        self.link_references(space, NO_RULES)

    def remove_space(self, space: Space) -> None:
        """Remove a space from the dictionary."""
        del self.spaces[space.id]
        del self._spaces_by_name[space.name]
        self._set_references(space, space.rules, NO_RULES)

    def link_references(self, space: Space, former: FormatRules) -> None:
        """Follow a change of a space's format: tell the spaces that its foreign keys refer to; `former` are its rules
        before.
        """
        self._set_references(space, former, space.rules)

    def _set_references(self, space: Space, former: FormatRules, rules: FormatRules) -> None:
        if former is rules:
            return
        targets = {key.space_id or space.id for one in (former, rules) for _, key in one.references()}
        for target in targets:
            found = [one for one in self._referrers.get(target, ()) if one.space is not space]
            found += [
                Referrer(space, number, key)
                for number, key in rules.references()
                if (key.space_id or space.id) == target
            ]
            self._referrers[target] = tuple(found)
            if (referred := self.spaces.get(target)) is not None:
                referred.referrers = self._referrers[target]
                referred.write_plan = None

    def rename_space(self, space: Space, old_name: str) -> None:
        """Follow the change of a space's name."""
        if old_name != space.name:
            del self._spaces_by_name[old_name]
            self._spaces_by_name[space.name] = space

    def space_changed(self, space: Space) -> None:
        """Call the listeners for a space; during a load that is done at its end."""
        if self._changed is None:
            self._tell_of([space])
        else:
            self._changed[space.id] = space

    @property
    def is_loading(self) -> bool:
        """True while rows of system spaces are loaded from a snapshot."""
        return self._changed is not None

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Load rows of a system space, none of which runs code of users.

        Several rows may concern one space or user. Listeners are called once for each space, and the privileges of each
        user are computed once, at the end.
        """
        if self._changed is not None:
            yield
            return
        changed: dict[int, Space] = {}
        self._changed = changed
        try:
            yield
        finally:
            self._changed = None
            regranted, self._regranted = self._regranted, {}
            for user in regranted.values():
                refresh(user)
            if changed:
                self._tell_of(list(changed.values()))

    def new_version(self) -> None:
        """Count a change of the definition of a space or an index, and call the listeners of `on_change`."""
        self.version += 1
        self.tell_change()

    def tell_change(self) -> None:
        """Call the listeners of `on_change`."""
        for hook in self.on_change:
            hook()

    def privileges_changed(self, user: User) -> None:
        """Recompute the rights of a user and its members; during a load that is done at its end."""
        if self._changed is None:
            refresh(user)
            self.tell_change()
        else:
            self._regranted[user.uid] = user

    def _tell_of(self, spaces: list[Space]) -> None:
        for hook in self.on_alter_spaces:
            hook(spaces)

    # --- users ---

    @property
    def admin(self) -> Credentials:
        """The rights of the user admin."""
        return self.users[UserId.ADMIN].credentials

    @property
    def guest(self) -> Credentials:
        """The rights of the user guest."""
        return self.users[UserId.GUEST].credentials

    def user(self, uid: int) -> User:
        """Return the user or role with an id. Raises NO_SUCH_USER."""
        try:
            return self.users[uid]
        except KeyError:
            raise client_error(ErrorCode.NO_SUCH_USER, str(uid)) from None

    def user_by_name(self, name: str) -> User:
        """Return the user, not a role, with a name. Raises NO_SUCH_USER."""
        user = self._users_by_name.get(name)
        if user is None or user.is_role:
            raise client_error(ErrorCode.NO_SUCH_USER, _shown_name(name))
        return user

    def add_user(self, user: User) -> None:
        """Add a user or role to the dictionary."""
        self.users[user.uid] = user
        self._users_by_name[user.name] = user

    def remove_user(self, user: User) -> None:
        """Remove a user or role from the dictionary."""
        del self.users[user.uid]
        del self._users_by_name[user.name]

    def rename_user(self, user: User, old_name: str) -> None:
        """Follow the change of a user's name."""
        if old_name != user.name:
            del self._users_by_name[old_name]
            self._users_by_name[user.name] = user

    def has_grants(self, object_type: str, object_id: int) -> bool:
        """Return whether anyone holds a privilege on the object."""
        return any(key == (object_type, object_id) for _, key in self.grants)

    def object_name(self, key: ObjectKey) -> str:
        """Return the name of an object for a denial; '' for the universe, a whole type and unknown objects."""
        object_type, object_id = key
        if object_id is None or object_type == "universe":
            return ""
        tables: dict[str, dict[int, Any]] = {
            "space": self.spaces,
            "function": self.functions,
            "sequence": self.sequences,
            "user": self.users,
            "role": self.users,
            "collation": self.collations,
        }
        found = tables[object_type].get(object_id)
        return found.name if found is not None else ""

    # --- functions, sequences, collations ---

    def function_by_name(self, name: str) -> Function | None:
        """Return the stored function with a name, or None."""
        return self._functions_by_name.get(name)

    def add_function(self, function: Function) -> None:
        """Add a function to the dictionary and call the listeners."""
        self.functions[function.id] = function
        self._functions_by_name[function.name] = function
        self.tell_change()
        for hook in self.on_alter_function:
            hook(function)

    def remove_function(self, function: Function) -> None:
        """Remove a function from the dictionary and call the listeners."""
        del self.functions[function.id]
        del self._functions_by_name[function.name]
        self.tell_change()
        for hook in self.on_alter_function:
            hook(function)

    def sequence(self, sequence_id: int) -> Sequence:
        """Return the sequence with an id. Raises NO_SUCH_SEQUENCE."""
        try:
            return self.sequences[sequence_id]
        except KeyError:
            raise client_error(ErrorCode.NO_SUCH_SEQUENCE, str(sequence_id)) from None

    def sequence_data(self) -> list[bytes]:
        """Return the tuples of `_sequence_data` for a snapshot: the current values, not the rows in the space."""
        started = sorted((item.id, item.value) for item in self.sequences.values() if item.value is not None)
        return [codec.pack(list(row)) for row in started]

    def sequence_changed(self, sequence: Sequence) -> None:
        """Call the listeners for a sequence."""
        for hook in self.on_alter_sequence:
            hook(sequence)

    def collation_by_name(self, name: str) -> CollationDef | None:
        """Return the collation with a name, or None."""
        return self._collations_by_name.get(name)

    def add_collation(self, collation: CollationDef) -> None:
        """Add a collation to the dictionary."""
        self.collations[collation.id] = collation
        self._collations_by_name[collation.name] = collation
        if collation.id >= len(COLLATIONS):
            self.own_collations = (*self.own_collations, collation)

    def remove_collation(self, collation: CollationDef) -> None:
        """Remove a collation from the dictionary."""
        del self.collations[collation.id]
        del self._collations_by_name[collation.name]
        self.own_collations = tuple(item for item in self.own_collations if item is not collation)
