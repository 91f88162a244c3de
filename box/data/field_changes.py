"""Operations that set whole top-level fields or add to them, applied to decoded fields, for many updates of a space.

What a place means, and which values may stand there, is found once for each place.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Any, Final

from box.data.format import TupleFormat
from box.data.update import sum_of

_Place = tuple[int, Callable[[Any], bool]]
"""The 0-based number of a field, and a predicate of its values."""
_PLACES_MAX: Final = 128
"""The number of fields whose places are kept."""
_OPERATION_SIZE: Final = 3
"""The number of elements of an operation that sets or adds: its name, the place and the argument."""


class FieldChanges:
    """Applies operations to tuples of one format, except to the fields in `excluded`.

    `index_base` is the number that operations use for the first field.
    """

    __slots__ = ("_doubles", "_places", "index_base")

    def __init__(self, fmt: TupleFormat, index_base: int, excluded: Set[int]) -> None:
        self.index_base = index_base
        self._doubles = fmt.double_fields
        self._places: dict[Any, _Place] = {}
        numbers = {name: number for name, number in fmt.names.items() if number < _PLACES_MAX}
        for place, number in (*((number + index_base, number) for number in range(_PLACES_MAX)), *numbers.items()):
            check = None if number in excluded else fmt.field_checker(number)
            if check is not None:
                self._places[place] = number, check

    def apply(self, fields: list[Any], ops: Any) -> bool:
        """Apply operations if each sets, or adds to, another existing field and gives a value that fits.

        Returns False, having done nothing, in all other cases, also for wrong operations.
        """
        if type(ops) is not list:
            return False
        if len(ops) == 1:
            # As below, without a call and a dictionary: most updates have one operation.
            op = ops[0]
            if type(op) is list and len(op) == _OPERATION_SIZE and op[0] == "=":
                _, place, value = op
                found = self._places.get(place) if type(place) is int or type(place) is str else None
                if found is None or found[0] >= len(fields) or not found[1](value):
                    return False
                fields[found[0]] = value
                return True
        changes: dict[int, Any] = {}
        for op in ops:
            change = self._change(fields, op)
            if change is None or change[0] in changes:
                return False
            changes[change[0]] = change[1]
        for number, value in changes.items():
            fields[number] = value
        return True

    def _change(self, fields: list[Any], op: Any) -> tuple[int, Any] | None:
        """Return the number of the field that an operation changes, and its new value; None if it is not usual."""
        if type(op) is not list or len(op) != _OPERATION_SIZE:
            return None
        opcode, place, argument = op
        # 2.0 and True are equal to numbers, but name no field.
        if type(place) is not int and type(place) is not str:
            return None
        found = self._places.get(place)
        if found is None:
            return None
        number, check = found
        if number >= len(fields):
            return None
        if opcode != "=":
            argument = sum_of(opcode, fields[number], argument, self._doubles, number)
            if argument is None:
                return None
        return (number, argument) if check(argument) else None
