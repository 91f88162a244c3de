"""EXPLAIN and EXPLAIN QUERY PLAN: how SQLite runs the query of a statement, with the names of the tables.

```
EXPLAIN             the program of SQLite: addr, opcode, p1, p2, p3, p4, p5, comment
EXPLAIN QUERY PLAN  selectid  the number of the step, from 1 on
                    order     its place among the children of the same step, from 0 on
                    from      the number of its parent step, or 0
                    detail    `SCAN TABLE T`, `SEARCH TABLE T USING INDEX I (A=? AND B>?)`, ...
```

The columns are those of Tarantool; their contents differ. For a change, the query that finds its rows is shown. A
statement without a query gives no rows.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from box.sql.result import ResultField

if TYPE_CHECKING:
    from collections.abc import Sequence

    from box.schema.space import Space
    from box.session import Context
    from box.sql.reading import Compiled, QueryRunner
    from box.sql.stored_values import Value

PLAN_FIELDS: Final = [
    ResultField("selectid", "integer"),
    ResultField("order", "integer"),
    ResultField("from", "integer"),
    ResultField("detail", "text"),
]
PROGRAM_FIELDS: Final = [
    ResultField("addr", "integer"),
    ResultField("opcode", "text"),
    ResultField("p1", "integer"),
    ResultField("p2", "integer"),
    ResultField("p3", "integer"),
    ResultField("p4", "text"),
    ResultField("p5", "text"),
    ResultField("comment", "text"),
]

_ALIAS: Final = re.compile(r"\bspaces\.t(\d+) AS (s\d+)\b")
_TABLE_STEP: Final = re.compile(r"(?:SCAN|SEARCH) (s\d+) VIRTUAL TABLE INDEX \d+:(.*)")
_INNER: Final = re.compile(r"\bw?s\d+\b")
_OPERATORS: Final = {"GT": ">?", "GE": ">=?", "LT": "<?", "LE": "<=?"}


def explain_fields(is_plan: bool) -> list[ResultField]:
    """Return the result columns of EXPLAIN or EXPLAIN QUERY PLAN."""
    return PLAN_FIELDS if is_plan else PROGRAM_FIELDS


def explain(
    queries: QueryRunner, ctx: Context, compiled: Compiled | None, params: Sequence[Value], *, is_plan: bool
) -> list[list[Value]]:
    """Return the rows that describe how a query runs. `compiled` is None for a statement without a query."""
    if compiled is None:
        return []
    word = "EXPLAIN QUERY PLAN" if is_plan else "EXPLAIN"
    rows = queries.plain_rows(ctx, compiled, f"{word} {compiled.sql}", params)
    if not is_plan:
        return [[*row[:6], f"{row[6]:02d}", row[7]] for row in rows]
    return _plan(rows, compiled)


def _plan(rows: list[list[Any]], compiled: Compiled) -> list[list[Value]]:
    spaces = {f"t{space.id}": space for space in compiled.used}
    aliases = {alias: spaces[f"t{number}"] for number, alias in _ALIAS.findall(compiled.sql)}
    numbers = {0: 0}
    repeated: set[int] = set()
    siblings: Counter[int] = Counter()
    found: list[list[Value]] = []
    for step, parent, _, detail in rows:
        if detail == "SCAN CONSTANT ROW":  # a query without FROM reads nothing
            continue
        numbers[step] = len(numbers)
        above = numbers.get(parent, 0)
        if detail.startswith("CORRELATED"):
            repeated.add(numbers[step])
        is_repeated = siblings[above] > 0 or above in repeated
        found.append([numbers[step], siblings[above], above, _shown(detail, aliases, is_repeated)])
        siblings[above] += 1
    return found


def _shown(detail: str, aliases: dict[str, Space], is_repeated: bool) -> str:
    step = _TABLE_STEP.fullmatch(detail.removesuffix(" LEFT-JOIN"))
    if step is None or step[1] not in aliases:
        return _INNER.sub("SUBQUERY", detail)
    return _access(aliases[step[1]], step[2], is_repeated)


def _access(space: Space, plan: str, is_repeated: bool) -> str:
    """Describe how a table is read, from the plan text of `space_table`. A scan that SQLite begins once needs no
    automatic index.
    """
    chosen = json.loads(plan)
    index = space.indexes.get(chosen["index"])
    if index is None:
        return f"SCAN TABLE {space.name}"
    fields, parts = space.definition.fields, index.definition.parts
    names = [fields[part.fieldno].name for part in parts]
    equal = chosen.get("equal", 0)
    terms = [f"{name}=?" for name in names[:equal]]
    if chosen.get("like"):
        terms += [f"{names[equal]}>?", f"{names[equal]}<?"]
    for bound in ("low", "high"):
        if chosen.get(bound):
            terms.append(f"{names[equal]}{_OPERATORS[chosen[bound]]}")
    if is_repeated and chosen.get("match"):
        terms += [f"{fields[column].name}=?" for column in chosen["match"]]
        return f"SEARCH TABLE {space.name} USING EPHEMERAL INDEX ({' AND '.join(terms)})"
    using = "PRIMARY KEY" if index.iid == 0 else f"INDEX {index.name}"
    if terms:
        return f"SEARCH TABLE {space.name} USING {using} ({' AND '.join(terms)})"
    return f"SCAN TABLE {space.name}" + (f" USING {using}" if index.iid else "")
