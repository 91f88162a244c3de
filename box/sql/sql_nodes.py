"""The nodes of a parsed statement. Names are folded already; nothing is resolved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass

from box.errors import BoxError

# --- expressions ---


@dataclass(slots=True)
class Literal:
    """A constant: None, bool, int, float, str or bytes."""

    value: bool | int | float | str | bytes | None


@dataclass(slots=True)
class Name:
    """A column, maybe with its table: `a`, `t.a`."""

    name: str
    table: str | None = None


@dataclass(slots=True)
class Param:
    """A place for a value; `index` counts from 0. `name` has its first character: `:a`."""

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
    """A function call; `is_star` is `f(*)`, `trim` the specification of a TRIM."""

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
    """An item of FROM: a table by `name`, a `select`, or nested `sources`, and how it is joined with those before."""

    name: str | None = None
    select: Select | None = None
    sources: list[FromItem] | None = None
    args: list[Expr] | None = None
    alias: str | None = None
    join: str = ""
    """'', 'INNER', 'LEFT', 'CROSS', with 'NATURAL ' before it maybe."""
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
    """A query: cores joined by the operators, of which there is one less."""

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
    """None: DEFAULT VALUES."""
    action: str
    """ABORT, ROLLBACK, FAIL, IGNORE or REPLACE."""
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
    """'none' after NULL, else the action of NOT NULL; None if neither is written."""
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


@dataclass(slots=True)
class CreateTrigger:
    name: str
    table: str
    time: str
    """BEFORE, AFTER or INSTEAD."""
    event: str
    columns: list[str] | None
    when: Expr | None
    steps: list[Insert | Update | Delete | Select]
    if_not_exists: bool
    text: str
    table_place: tuple[int, int]
    """The beginning and the end of the table's name in the text."""


@dataclass(slots=True)
class Drop:
    """DROP TABLE, VIEW, INDEX (of `table`) or TRIGGER."""

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


# --- the rest ---


@dataclass(slots=True)
class TransactionStep:
    """START, COMMIT, ROLLBACK, SAVEPOINT, RELEASE or ROLLBACK TO, the last three with a name."""

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
    """A statement and its parameters in order: None for `?`, else the name; numbered ones leave gaps."""

    statement: Statement
    parameters: list[str | None]
    text: str
    trailing: BoxError | None = None
    """A syntax error of what follows the statement: it is raised if the statement itself has none."""


def children(node: object) -> Iterator[object]:
    """The nodes right inside a node."""
    if isinstance(node, list | tuple):
        yield from node
    elif is_dataclass(node):
        for item in fields(node):
            yield getattr(node, item.name)
