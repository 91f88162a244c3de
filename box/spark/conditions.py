"""Evaluates conditions that Spark pushes down: the rows of a batch that pass, and the range of the primary key.

`source` translates Spark's own classes; here a condition is a column, an operator and a value.

| operator | rows that pass |
|---|---|
| `=` `<` `<=` `>` `>=` | the comparison with the value is true; null never passes |
| `in` | the value is one of a list |
| `is null`, `is not null` | |
| `starts with`, `ends with`, `contains` | text with this prefix, suffix or part |

A negated condition passes the rows for which the condition is false. Null passes neither the condition nor its
negation, except for `is null` and `is not null`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from box.spark.key_ranges import KeyRange, sort_key


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition on a column; a row has to meet all conditions."""

    column: str
    operator: str
    value: Any = None
    is_negated: bool = False


def mask_of(conditions: Sequence[Condition], arrays: Mapping[str, pa.Array]) -> pa.BooleanArray:
    """Return a mask of the rows that meet all conditions; it has no nulls."""
    masks = [_mask(item, arrays[item.column]) for item in conditions]
    return pc.fill_null(functools.reduce(pc.and_, masks), False)


def _mask(item: Condition, array: pa.Array) -> pa.BooleanArray:
    mask = _plain_mask(item, array)
    # The mask is null where the value is null. Inverted it stays null, so that null passes neither way.
    return pc.invert(mask) if item.is_negated else mask


def _plain_mask(item: Condition, array: pa.Array) -> pa.BooleanArray:
    match item.operator:
        case "is null":
            return pc.is_null(array)
        case "is not null":
            return pc.is_valid(array)
        case "in":
            found = pc.is_in(array, value_set=pa.array(item.value, type=array.type))
            return pc.if_else(pc.is_valid(array), found, pa.scalar(None, pa.bool_()))
        case "starts with":
            return pc.starts_with(array, item.value)
        case "ends with":
            return pc.ends_with(array, item.value)
        case "contains":
            return pc.match_substring(array, item.value)
    mask = _COMPARISONS[item.operator](array, pa.scalar(item.value, type=array.type))
    if pa.types.is_floating(array.type) and item.operator in (">", ">="):
        return pc.or_(mask, pc.is_nan(array))  # Spark sorts NaN above all numbers.
    return mask


_COMPARISONS = {
    "=": pc.equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def key_range(conditions: Iterable[Condition], column: str) -> KeyRange | None:
    """Return the range of keys that the conditions on `column` allow; None if they allow all."""
    low: list[Any] = []
    high: list[Any] = []
    for item in conditions:
        if item.column != column or item.is_negated:
            continue
        if item.operator in ("=", ">", ">="):
            low.append(sort_key(item.value))
        if item.operator in ("=", "<", "<="):
            high.append(sort_key(item.value))
        if item.operator == "in" and item.value:
            low.append(min(map(sort_key, item.value)))
            high.append(max(map(sort_key, item.value)))
        if item.operator == "starts with" and item.value:
            low.append(sort_key(item.value))
            # 0xFF is greater than any byte of UTF-8, so this bound is above all texts with the prefix.
            high.append(sort_key(item.value) + b"\xff")
    if not low and not high:
        return None
    return KeyRange(max(low, default=None), min(high, default=None))
