"""Spaces: their definition, indexes and triggers, as the data manipulation code uses them.

A `Space` object lives from the space's creation to its drop. An alter changes it in place by installing another
`Layout` (definition, tuple format, indexes), and a rollback installs the previous one again, so that every holder of
the object (a statement, a trigger, a handle in Lua) always sees the current space.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from box.data import codec
from box.errors import ErrorCode, client_error
from box.schema.access import Credentials, check_object
from box.schema.constraints import NO_RULES, FormatRules, ReferenceDef
from box.schema.ids import GROUP_LOCAL, is_system_id
from box.wire.constants import Key, RequestType

if TYPE_CHECKING:
    from box.data.format import FieldDef, TupleFormat
    from box.index import Index
    from box.schema.ddl.dictionary_change import DdlStatement, DdlTransaction
    from box.schema.rule_checks import RuleChecks
    from box.schema.sequence import Sequence
    from box.schema.sql_objects import CheckConstraint
    from box.schema.storage_engine import Engine
    from box.session import Context

    RowFilter = Callable[[Credentials, bytes], bool]
    SystemTrigger = Callable[
        [Credentials, DdlTransaction, DdlStatement], Coroutine[Any, Any, Callable[[], None]] | None
    ]


class _Nothing:
    """The type of NOTHING."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "NOTHING"


NOTHING: Final = _Nothing()
"""The result of a trigger that returned no value at all, which is not the same as nil."""


class Trigger(Protocol):
    """A user's on_replace or before_replace trigger."""

    async def call(
        self, ctx: Context, old: bytes | None, new: bytes | None, space_name: str, op: str
    ) -> bytes | _Nothing | None:
        """Run the trigger for one change.

        A before_replace trigger returns the tuple to store: the very object `old` or `new` if it leaves the stored
        tuple or the change as it is. The result of on_replace is ignored.
        """


@dataclass(frozen=True, slots=True)
class SpaceOpts:
    """The options of a space: the map in field 6 of a `_space` tuple."""

    group_id: int = 0
    temporary: bool = False
    view: bool = False
    is_sync: bool = False
    sql: str | None = None


@dataclass(frozen=True, slots=True)
class SpaceDef:
    """A decoded `_space` tuple. `format` has the stored maps, `fields` their meaning."""

    id: int
    owner: int
    name: str
    engine: str = "memtx"
    field_count: int = 0
    opts: SpaceOpts = field(default_factory=SpaceOpts)
    format: list[dict[str, Any]] = field(default_factory=list)
    fields: tuple[FieldDef, ...] = ()
    rules: FormatRules = NO_RULES
    """The constraints and foreign keys in the format."""


class Referrer(NamedTuple):
    """A foreign key in the format of `space`, of its field `number` or of the whole tuple (None)."""

    space: Space
    number: int | None
    key: ReferenceDef


class Layout(NamedTuple):
    """The part of a space that an alter replaces."""

    definition: SpaceDef
    format: TupleFormat
    indexes: dict[int, Index]


class Space:
    """A space: definition, indexes, triggers. Attributes are plain; only this package assigns them."""

    __slots__ = (
        "before_replace",
        "checks",
        "definition",
        "engine",
        "format",
        "id",
        "indexes",
        "is_being_defined",
        "is_local",
        "is_plain",
        "is_sync",
        "is_system",
        "is_temporary",
        "key_prefix",
        "name",
        "on_replace",
        "owner",
        "primary",
        "referrers",
        "row_filter",
        "rule_checks",
        "rules",
        "run_triggers",
        "sequence",
        "sequence_field",
        "sequence_path",
        "system_trigger",
        "tuple_prefix",
        "write_plan",
    )

    name: str
    owner: int
    definition: SpaceDef
    format: TupleFormat
    indexes: dict[int, Index]
    """The indexes by id in ascending order. The dictionary is never changed: an alter installs another one."""
    primary: Index | None
    rules: FormatRules
    is_sync: bool
    is_local: bool
    is_temporary: bool

    def __init__(self, layout: Layout, engine: Engine) -> None:
        definition = layout.definition
        self.id = definition.id
        self.engine = engine
        self.is_system = is_system_id(definition.id)
        self.is_plain = engine.keeps_tuples
        """True if `indexes` holds the tuples, so that fast paths may go there instead of `engine`."""
        self.before_replace: list[Trigger] = []
        self.on_replace: list[Trigger] = []
        self.run_triggers = True
        self.checks: dict[str, CheckConstraint] = {}
        """The check constraints by name."""
        self.referrers: tuple[Referrer, ...] = ()
        """The foreign keys in formats that refer to this space, the oldest first."""
        self.rule_checks: RuleChecks | None = None
        """Checks `rules` and `referrers` of a space in the dictionary."""
        self.system_trigger: SystemTrigger | None = None
        self.row_filter: RowFilter | None = None
        """In a view of a system space: returns whether the reader may see a tuple."""
        self.sequence: Sequence | None = None
        self.sequence_field = 0
        self.sequence_path: str | None = None
        space_id = codec.pack(definition.id)
        self.tuple_prefix = bytes((0x82, Key.SPACE_ID)) + space_id + bytes((Key.TUPLE,))
        """The encoded request map of an INSERT or a REPLACE up to its tuple: {0x10: id, 0x21: <tuple>}."""
        self.key_prefix = bytes((0x82, Key.SPACE_ID)) + space_id + bytes((Key.KEY,))
        """The encoded request map of a DELETE up to its key: {0x10: id, 0x20: <key>}."""
        self.is_being_defined = False
        """True while an open transaction, which may wait, has changed the definition (`box.txn.open_definitions`)."""
        self.write_plan: Any = None
        """What the executor of changes has noted about this layout (`box.txn.write_plan`); None for a new layout."""
        self.install(layout)

    @property
    def layout(self) -> Layout:
        """The current layout, which a rollback may install again."""
        return Layout(self.definition, self.format, self.indexes)

    def install(self, layout: Layout) -> None:
        """Install a definition, a format and indexes, and update everything cached from them."""
        self.definition = definition = layout.definition
        self.format = layout.format
        self.indexes = layout.indexes
        self.primary = layout.indexes.get(0)
        self.write_plan = None
        self.name = definition.name
        self.owner = definition.owner
        self.rules = definition.rules
        self.is_sync = definition.opts.is_sync
        self.is_local = definition.opts.group_id == GROUP_LOCAL
        self.is_temporary = definition.opts.temporary
        for index in layout.indexes.values():
            index.space_name = definition.name
        self.engine.installed(self)

    def attach_sequence(self, sequence: Sequence | None, field_no: int = 0, path: str | None = None) -> None:
        """Use a sequence for a field (0-based, with a path inside it), or none.

        It counts as a change of the layout, because code that caches facts about the space compares the layout's parts.
        """
        self.sequence, self.sequence_field, self.sequence_path = sequence, field_no, path
        self.install(self.layout._replace(indexes=dict(self.indexes)))

    @property
    def has_triggers(self) -> bool:
        """True if a change must run user triggers, which may wait."""
        return bool(self.on_replace or self.before_replace) and self.run_triggers

    @property
    def runs_code(self) -> bool:
        """True if a change may run code of the program or the user: triggers, constraints, functions of indexes."""
        if self.on_replace or self.before_replace or self.checks or self.rules or self.system_trigger is not None:
            return True
        return any("func" in index.definition.opts for index in self.indexes.values())

    @property
    def is_followed(self) -> bool:
        """True if a view, an index build or a copy follows the changes of an index."""
        return any(index.is_followed for index in self.indexes.values())

    def index(self, iid: int) -> Index:
        """Return the index with an id. Raises NO_SUCH_INDEX_ID."""
        try:
            return self.indexes[iid]
        except KeyError:
            raise client_error(ErrorCode.NO_SUCH_INDEX_ID, iid, self.name) from None

    def index_by_name(self, name: str) -> Index:
        """Return the index with a name. Raises NO_SUCH_INDEX_NAME."""
        for index in self.indexes.values():
            if index.definition.name == name:
                return index
        raise client_error(ErrorCode.NO_SUCH_INDEX_NAME, name, self.name)

    def check_access(self, credentials: Credentials, privilege: int) -> None:
        """Check a privilege on the space; quick when the universe grants it."""
        # 16 is Privilege.U (usage), without which no other one counts; a literal, because every request comes here.
        if (privilege | 16) & ~credentials.universal:
            check_object(credentials, privilege, "space", self.id, self.name, self.owner)

    def body_prefix(self, request_type: int) -> bytes:
        """Return the beginning of a log row's body, up to the tuple of an INSERT or REPLACE, or up to the key of a
        DELETE.
        """
        return self.key_prefix if request_type == RequestType.DELETE else self.tuple_prefix

    def __repr__(self) -> str:
        return f"<space {self.id} {self.name!r} {self.engine.name} indexes {list(self.indexes)}>"
