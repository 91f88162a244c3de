"""The nodes of a parsed statement. Names are in upper case unless quoted, and not yet looked up in the dictionary."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from operator import attrgetter
from typing import Any, Final, cast

from box.errors import BoxError

# --- expressions ---


@dataclass(slots=True)
class Literal:
    """A constant: None, bool, int, float, str or bytes.

    If it has a `place`, that is the index of the value which an execution gives it. Then `value` is that of the first
    statement of its shape (`box.sql.shared_statements`): only the type and the sign of it hold for all of them.
    """

    value: bool | int | float | str | bytes | None
    place: int | None = None


@dataclass(slots=True)
class Name:
    """A column, with its table if written: `a`, `t.a`."""

    name: str
    table: str | None = None


@dataclass(slots=True)
class Param:
    """A parameter. `index` counts from 0; `name` includes its mark: `:a`."""

    index: int
    name: str | None


@dataclass(slots=True)
class Unary:
    """`-a`, `+a`, `~a`, `NOT a`."""

    op: str
    operand: Expr


@dataclass(slots=True)
class Binary:
    """`a op b`, where `op` is an arithmetic, bit, comparison or logical operator, or `||`."""

    op: str
    left: Expr
    right: Expr


@dataclass(slots=True)
class Like:
    """`a [NOT] LIKE b [ESCAPE c]`; `word` is LIKE, REGEXP or MATCH."""

    word: str
    left: Expr
    pattern: Expr
    escape: Expr | None
    negated: bool


@dataclass(slots=True)
class IsNull:
    operand: Expr
    negated: bool


@dataclass(slots=True)
class Between:
    operand: Expr
    low: Expr
    high: Expr
    negated: bool


@dataclass(slots=True)
class InList:
    operand: Expr
    items: list[Expr]
    negated: bool


@dataclass(slots=True)
class InSelect:
    operand: Expr
    select: Select
    negated: bool


@dataclass(slots=True)
class Exists:
    select: Select


@dataclass(slots=True)
class Subquery:
    select: Select


@dataclass(slots=True)
class Case:
    operand: Expr | None
    whens: list[tuple[Expr, Expr]]
    otherwise: Expr | None


@dataclass(slots=True)
class Cast:
    operand: Expr
    type: str


@dataclass(slots=True)
class Collate:
    operand: Expr
    name: str


@dataclass(slots=True)
class FunctionCall:
    """A function call. `is_star` means `f(*)`; `trim` is the specification of a TRIM."""

    name: str
    args: list[Expr]
    is_distinct: bool = False
    is_star: bool = False
    trim: str | None = None


@dataclass(slots=True)
class RowValue:
    """`(a, b)`."""

    items: list[Expr]


@dataclass(slots=True)
class Raise:
    """`RAISE(IGNORE)`, `RAISE(ABORT, 'text')`."""

    action: str
    text: str | None


Expr = (
    Literal
    | Name
    | Param
    | Unary
    | Binary
    | Like
    | IsNull
    | Between
    | InList
    | InSelect
    | Exists
    | Subquery
    | Case
    | Cast
    | Collate
    | FunctionCall
    | RowValue
    | Raise
)

# --- queries ---


@dataclass(slots=True)
class Star:
    """`*` or `t.*`."""

    table: str | None


@dataclass(slots=True)
class ResultColumn:
    """An expression of a SELECT list; `span` is its text."""

    expr: Expr | Star
    alias: str | None
    span: str


@dataclass(slots=True)
class FromItem:
    """An item of FROM, and how it is joined with those before. It has a `name`, a `select` or nested `sources`."""

    name: str | None = None
    select: Select | None = None
    sources: list[FromItem] | None = None
    args: list[Expr] | None = None
    alias: str | None = None
    join: str = ""
    """The kind of join: '', 'INNER', 'LEFT' or 'CROSS', after 'NATURAL ' if that was written."""
    on: Expr | None = None
    using: list[str] | None = None
    indexed_by: str | None = None
    not_indexed: bool = False


@dataclass(slots=True)
class Core:
    """A SELECT without ORDER BY and LIMIT, or the rows of VALUES."""

    columns: list[ResultColumn] = field(default_factory=list)
    sources: list[FromItem] = field(default_factory=list)
    where: Expr | None = None
    group_by: list[Expr] | None = None
    having: Expr | None = None
    is_distinct: bool = False
    values: list[list[ResultColumn]] | None = None


@dataclass(slots=True)
class OrderTerm:
    expr: Expr
    is_desc: bool


@dataclass(slots=True)
class CommonTable:
    name: str
    columns: list[str] | None
    select: Select


@dataclass(slots=True)
class Select:
    """A query: cores with operators between them."""

    cores: list[Core]
    operators: list[str]
    order_by: list[OrderTerm] | None = None
    limit: Expr | None = None
    offset: Expr | None = None
    common: list[CommonTable] = field(default_factory=list)
    is_recursive: bool = False


# --- changes ---


@dataclass(slots=True)
class Insert:
    table: str
    columns: list[str] | None
    select: Select | None
    """The query, or None for DEFAULT VALUES."""
    action: str
    """The action after OR: ABORT, ROLLBACK, FAIL, IGNORE or REPLACE."""
    common: list[CommonTable] = field(default_factory=list)


@dataclass(slots=True)
class Update:
    table: str
    sets: list[tuple[list[str], Expr]]
    where: Expr | None
    action: str
    common: list[CommonTable] = field(default_factory=list)
    indexed_by: str | None = None


@dataclass(slots=True)
class Delete:
    table: str
    where: Expr | None
    common: list[CommonTable] = field(default_factory=list)
    indexed_by: str | None = None


@dataclass(slots=True)
class Truncate:
    table: str


# --- definitions ---


@dataclass(slots=True)
class ForeignKey:
    name: str | None
    columns: list[str]
    table: str
    parent_columns: list[str] | None
    match: str = "simple"
    on_delete: str = "no_action"
    on_update: str = "no_action"
    is_deferred: bool = False


@dataclass(slots=True)
class Check:
    name: str | None
    expr: Expr
    text: str


@dataclass(slots=True)
class KeyPart:
    column: Expr
    is_desc: bool


@dataclass(slots=True)
class TableKey:
    """PRIMARY KEY or UNIQUE."""

    name: str | None
    is_primary: bool
    parts: list[KeyPart]
    autoincrement: str | None = None


Constraint = TableKey | Check | ForeignKey


@dataclass(slots=True)
class TableColumn:
    name: str
    type: str
    nullable_action: str | None = None
    """'none' for NULL, the conflict action for NOT NULL, None if neither was written."""
    default: str | None = None
    default_expr: Expr | None = None
    collation: str | None = None
    is_autoincrement: bool = False
    constraints: list[Constraint] = field(default_factory=list)


@dataclass(slots=True)
class CreateTable:
    name: str
    if_not_exists: bool
    items: list[TableColumn | Constraint]
    engine: str | None
    is_cut: bool = False
    """True if the text is wrong after these items. Their errors come before that one."""


@dataclass(slots=True)
class CreateIndex:
    name: str
    table: str
    parts: list[KeyPart]
    is_unique: bool
    if_not_exists: bool


@dataclass(slots=True)
class CreateView:
    name: str
    columns: list[str] | None
    select: Select
    if_not_exists: bool
    text: str


TriggerStep = Insert | Update | Delete | Select


@dataclass(slots=True)
class CreateTrigger:
    name: str
    table: str
    time: str
    """The time of the trigger: BEFORE, AFTER or INSTEAD."""
    event: str
    columns: list[str] | None
    when: Expr | None
    steps: list[TriggerStep]
    if_not_exists: bool
    text: str
    table_place: tuple[int, int]
    """The offsets of the start and the end of the table's name in the text."""


@dataclass(slots=True)
class Drop:
    """DROP of a TABLE, VIEW, INDEX (of `table`) or TRIGGER."""

    kind: str
    name: str
    table: str | None
    if_exists: bool


@dataclass(slots=True)
class AddColumn:
    table: str
    column: TableColumn


@dataclass(slots=True)
class AddConstraint:
    table: str
    constraint: Constraint


@dataclass(slots=True)
class DropConstraint:
    table: str
    name: str


@dataclass(slots=True)
class RenameTable:
    table: str
    name: str


@dataclass(slots=True)
class EnableCheck:
    table: str
    name: str
    is_enabled: bool


# --- other statements ---


@dataclass(slots=True)
class TransactionStep:
    """START, COMMIT, ROLLBACK, SAVEPOINT, RELEASE or ROLLBACK TO; the last three have a name."""

    verb: str
    name: str | None = None


@dataclass(slots=True)
class Pragma:
    name: str
    args: list[str]


@dataclass(slots=True)
class SetSession:
    name: str
    value: bool | int | float | str | bytes | None


@dataclass(slots=True)
class Explain:
    statement: Statement
    is_plan: bool


Change = Insert | Update | Delete
Definition = (
    CreateTable
    | CreateIndex
    | CreateView
    | CreateTrigger
    | Drop
    | AddColumn
    | AddConstraint
    | DropConstraint
    | RenameTable
    | EnableCheck
)
Statement = Select | Insert | Update | Delete | Truncate | Definition | TransactionStep | Pragma | SetSession | Explain


@dataclass(slots=True)
class Parsed:
    """A statement and the names of its parameters in order.

    A name is None for `?`. Numbered parameters may leave gaps.
    """

    statement: Statement
    parameters: list[str | None]
    key: Hashable
    """What identifies the statement where its analysis is kept: its text, unless it stands for many texts."""
    trailing: BoxError | None = None
    """A syntax error after the complete statement. Errors of the statement itself come first."""
    literals: list[tuple[int, Literal]] = field(default_factory=list)
    """The constants of the text, and where each begins in it."""
    constants: int = 0
    """The number of values that an execution gives to constants."""


def children(node: object) -> Sequence[object]:
    """Return what is directly inside a node or a list; names, numbers and texts have nothing inside."""
    kind = type(node)
    if kind is list or kind is tuple:
        return cast("Sequence[object]", node)
    values_of = _VALUES.get(kind)
    if values_of is None:
        values_of = _VALUES[kind] = _values_of(kind)
    return values_of(node)


_VALUES: Final[dict[type, Callable[[Any], Sequence[object]]]] = {}
"""For each type of objects, the function that returns what is inside of one."""
_WORD: Final = re.compile(r"\w+")
_PLAIN: Final = frozenset("None bool int float str bytes list tuple field default_factory".split())
"""Words of the types of fields that hold no nodes."""


def _values_of(kind: type) -> Callable[[Any], Sequence[object]]:
    """Return the function that returns the values of those fields of a node that may hold nodes."""
    declared = fields(kind) if is_dataclass(kind) else ()
    names = [item.name for item in declared if not _PLAIN.issuperset(_WORD.findall(str(item.type)))]
    if not names:
        return lambda node: ()
    if len(names) == 1:
        get = attrgetter(names[0])
        return lambda node: (get(node),)
    found: Callable[[Any], Sequence[object]] = attrgetter(*names)
    return found
