"""The quorum of synchronous transactions: `replication_synchro_quorum`, a number or a formula.

A formula is a Lua expression over `N`, the number of registered replicas, such as `N / 2 + 1`. Python evaluates it:
everything allowed in it has the same notation in both languages, except `^`. Wrong formulas get the texts of Lua in
`lua/modules/box/quorum_formula.lua`.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable

from box.errors import BoxError, ErrorCode, client_error
from box.schema.ids import REPLICA_MAX


def _quotient(left: float, right: float) -> float:
    """Divide as Lua does, which knows infinity."""
    if right:
        return left / right
    return math.nan if left == 0 or math.isnan(left) else math.copysign(math.inf, left)


def _power(base: float, exponent: float) -> float:
    """Raise to a power as Lua does, which knows infinity."""
    try:
        return math.pow(base, exponent)
    except ValueError:
        return math.inf if base == 0 else math.nan
    except OverflowError:
        return math.inf


_OPERATORS: dict[type[ast.AST], Callable[..., float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _quotient,
    ast.Mod: lambda left, right: left % right if right else math.nan,
    ast.Pow: _power,
    ast.USub: operator.neg,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
}
_FUNCTIONS: dict[str, Callable[..., float]] = {
    "abs": abs,
    "ceil": math.ceil,
    "floor": math.floor,
    "fmod": lambda left, right: math.fmod(left, right) if right and math.isfinite(left) else math.nan,
    "max": max,
    "min": min,
    "sqrt": math.sqrt,
}


def _rounded(value: float) -> int:
    """Round down to an integer of 64 bits. What is none of these becomes the least one, as in C."""
    return math.floor(value) if -(2.0**63) <= value < 2.0**63 else -(2**63)


def _wrong(reason: str) -> BoxError:
    return client_error(ErrorCode.CFG, "replication_synchro_quorum", reason)


def _evaluate(node: ast.AST, n: int) -> float:
    match node:
        case ast.Expression(body=body):
            return _evaluate(body, n)
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.Name(id="N"):
            return n
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_evaluate(left, n), _evaluate(right, n))
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_evaluate(operand, n))
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARISONS:
            return _COMPARISONS[type(op)](_evaluate(left, n), _evaluate(right, n))
        case ast.BoolOp(op=op, values=operands):
            return _evaluate_choice(operands, isinstance(op, ast.And), n)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="math"), attr=name), args=args) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*(_evaluate(arg, n) for arg in args))
    raise ValueError("only arithmetic over N and math functions is allowed")


def _no_number(formula: str) -> BoxError:
    """Return the error for a formula whose value is not a number.

    Tarantool evaluates it in Lua, where an unknown name is nil, and reports the place in its own script.
    """
    return _wrong(f'[string "local expr = [[{formula}]]..."]:7: Expression should return a number')


def _evaluate_choice(operands: list[ast.expr], is_and: bool, n: int) -> float:
    """Evaluate `and` and `or` as in Lua: return the operand that decides; every number counts as true."""
    value: float = is_and
    for operand in operands:
        value = _evaluate(operand, n)
        if (value is not False) != is_and:
            break
    return value


def synchro_quorum(value: str | float, replica_count: int) -> int:
    """Return the number of instances that must have a synchronous transaction.

    `value` is a number or a formula; `replica_count` is the number of registered replicas, at least 1.
    """
    if not isinstance(value, str):
        return int(value)
    try:
        if "**" in value:
            raise ValueError("** is no operator")
        # In Lua `^` means exponentiation, and binds as `**` of Python does.
        formula = ast.parse(value.strip().replace("^", "**"), mode="eval")
        if isinstance(formula.body, ast.Name) and formula.body.id != "N":
            raise _no_number(value)
        evaluated = _evaluate(formula, replica_count)
        if isinstance(evaluated, bool):
            raise _no_number(value)
        quorum = _rounded(evaluated)
    except (SyntaxError, ValueError, TypeError, OverflowError) as error:
        raise _wrong(f"failed to evaluate the formula '{value}': {error}") from None
    if not 0 < quorum < REPLICA_MAX:
        text = f"the formula is evaluated to the quorum {quorum} for replica number {replica_count}"
        raise _wrong(f"{text}, which is out of range [1;{REPLICA_MAX - 1}]")
    return quorum


def check_synchro_quorum(value: str | float) -> None:
    """Check that a formula gives a quorum for every possible size of the replica set. A text may also be a plain
    number.
    """
    if isinstance(value, str) and re.fullmatch(r"\s*-?[\d.]+\s*", value):
        value = float(value)
    if isinstance(value, str):
        for count in range(1, REPLICA_MAX):
            synchro_quorum(value, count)
    elif not 1 <= value < REPLICA_MAX:
        raise _wrong("the value must be greater than zero and less than maximal number of replicas")
