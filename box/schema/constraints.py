"""Constraints and foreign keys in formats, which Tarantool has from 2.10 on: their definitions, decoded from `_space`.

```
options of a space    constraint  {name: function id}                     the function gets the tuple and the name
                      foreign_key {name: {space: id, field: {own field: field there, ...}}}
options of a field    constraint  {name: function id}                     the function gets the value and the name
                      foreign_key {name: {space: id, field: field there}}
```

Fields are numbers from 0 on, or names. Without `space` a foreign key refers to its own space.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from box.errors import BoxError
from box.schema.identifier import check_identifier
from box.schema.ids import NAME_MAX

FieldName = int | str
"""A field by its number from 0 on, or by its name."""
CONSTRAINT: Final = "constraint"
FOREIGN_KEY: Final = "foreign_key"
_FORM: Final = "foreign key definition is expected to be {[space=..,] field=..}"


class MisfitError(Exception):
    """A definition of the wrong form; the text is Tarantool's."""


@dataclass(frozen=True, slots=True)
class ConstraintDef:
    """A function that has to return true for each tuple, or for each value of a field."""

    name: str
    function_id: int

    @property
    def content(self) -> object:
        """What the constraint says; the name is no part of it."""
        return self.function_id


@dataclass(frozen=True, slots=True)
class ReferenceDef:
    """A foreign key: a tuple of `space_id` has to exist whose fields equal some of this space's.

    `links` are (own field, field there). A foreign key of a single field has one link and no own field. `space_id` is 0
    for the space itself.
    """

    name: str
    space_id: int
    links: tuple[tuple[FieldName | None, FieldName], ...]

    @property
    def content(self) -> object:
        """What the foreign key says; the name is no part of it."""
        return self.space_id, self.links


Rule = ConstraintDef | ReferenceDef


@dataclass(frozen=True, slots=True)
class FormatRules:
    """All constraints and foreign keys of a space, in Tarantool's order of checks.

    `of_fields` maps the number of a field, from 0 on, to its rules.
    """

    of_tuple: tuple[Rule, ...] = ()
    of_fields: tuple[tuple[int, tuple[Rule, ...]], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.of_tuple or self.of_fields)

    def all(self) -> Iterator[tuple[int | None, Rule]]:
        """Yield each rule with the number of its field, or None for a rule of the whole tuple."""
        for rule in self.of_tuple:
            yield None, rule
        for number, rules in self.of_fields:
            for rule in rules:
                yield number, rule

    def references(self) -> Iterator[tuple[int | None, ReferenceDef]]:
        """Yield each foreign key with the number of its field, or None."""
        for number, rule in self.all():
            if isinstance(rule, ReferenceDef):
                yield number, rule

    def functions(self) -> Iterator[int]:
        """Yield the id of each function."""
        for _, rule in self.all():
            if isinstance(rule, ConstraintDef):
                yield rule.function_id

    def adds_to(self, former: FormatRules) -> bool:
        """Return True if a tuple may satisfy all of `former` and not these."""
        known = {(number, type(rule), rule.content) for number, rule in former.all()}
        return any((number, type(rule), rule.content) not in known for number, rule in self.all())


NO_RULES: Final = FormatRules()


def decode_rules(options: dict[Any, Any], *, is_field: bool) -> tuple[Rule, ...]:
    """Decode the constraints and foreign keys among the options of a field or a space.

    Raises:
        MisfitError: the form is wrong.
    """
    rules: list[Rule] = []
    for key, value in options.items():
        if key == CONSTRAINT:
            rules += _constraints(value)
        elif key == FOREIGN_KEY:
            rules += _references(value, is_field)
    return tuple(rules)


def _misfit(text: str) -> NoReturn:
    raise MisfitError(text)


def _constraints(value: Any) -> Iterator[ConstraintDef]:
    if not isinstance(value, dict):
        _misfit("constraint field is expected to be a MAP")
    for name, function_id in value.items():
        _check_name(name, "constraint")
        if type(function_id) is not int or function_id < 0:
            _misfit("constraint function ID is expected to be a number")
        yield ConstraintDef(name, function_id)


def _references(value: Any, is_field: bool) -> Iterator[ReferenceDef]:
    if not isinstance(value, dict):
        _misfit("foreign key field is expected to be a MAP")
    for name, definition in value.items():
        _check_name(name, "foreign key")
        if not isinstance(definition, dict):
            _misfit("foreign key definition is expected to be a map")
        yield _reference(name, definition, is_field)


def _reference(name: str, definition: dict[Any, Any], is_field: bool) -> ReferenceDef:
    space_id, links = 0, None
    for key, value in definition.items():
        if not isinstance(key, str):
            _misfit("foreign key definition key is expected to be a string")
        if key == "space":
            if type(value) is not int or value < 0:
                _misfit("foreign key: space must be a number")
            space_id = value
        elif key == "field":
            links = ((None, _field(value)),) if is_field else _mapping(value)
        else:
            _misfit(_FORM)
    if links is None:
        _misfit(_FORM)
    return ReferenceDef(name, space_id, links)


def _mapping(value: Any) -> tuple[tuple[FieldName | None, FieldName], ...]:
    if not isinstance(value, dict) or not value:
        _misfit("field mapping is expected to be a map")
    return tuple((_field(own), _field(there)) for own, there in value.items())


def _field(value: Any) -> FieldName:
    if isinstance(value, str) or (type(value) is int and value >= 0):
        found: FieldName = value
        return found
    _misfit("foreign key: field must be number or string")


def _check_name(name: Any, what: str) -> None:
    if not isinstance(name, str):
        _misfit(f"{what} name is expected to be a string")
    if len(name.encode("utf-8", "surrogateescape")) > NAME_MAX:
        _misfit(f"{what} name is too long")
    try:
        check_identifier(name)
    except BoxError:
        _misfit(f"{what} name isn't a valid identifier")
