"""Descriptions of the schema for Lua: the content of `box.space`, `box.sequence` and `box.func`.

The dictionary's hooks name what changed. Lua gets the descriptions inside the statement that makes the change, so that
its next line sees them. Nothing is sent while the instance starts; afterwards everything is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from box.data import codec
from box.data.collation import name_of
from box.schema.access import password_hash
from box.schema.constraints import FieldName, ReferenceDef
from lua.bindings.binding import Binding, guarded, waiting

if TYPE_CHECKING:
    from box.data.keydef import PartDef
    from box.index import IndexDef
    from box.instance.node import Instance
    from box.schema.function import Function
    from box.schema.schema import Schema
    from box.schema.sequence import Sequence
    from box.schema.space import Space
    from lua.bindings.functions import FunctionBinding
    from lua.runtime import Runtime

_RTREE = "RTREE"
Change = tuple[str, int, dict[str, Any] | None]
"""A change of the schema: kind and id of the object, and its description, None if it was dropped."""


def _describe_part(part: PartDef) -> dict[str, Any]:
    described: dict[str, Any] = {"type": part.type.value, "fieldno": part.fieldno + 1, "is_nullable": part.is_nullable}
    if part.path:
        described["path"] = part.path
    if part.exclude_null:
        described["exclude_null"] = True
    if part.collation_id:
        described["collation"] = name_of(part.collation_id)
    return described


def _describe_index(definition: IndexDef, space: Space, functions: Mapping[int, Function]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "id": definition.iid,
        "name": definition.name,
        "type": definition.type,
        "parts": [_describe_part(part) for part in definition.parts],
    }
    if definition.type == _RTREE:
        described["dimension"] = definition.opts.get("dimension", 2)
    else:
        described["unique"] = definition.unique
    if definition.type == "TREE" and space.engine.keeps_tuples:
        described["hint"] = definition.opts.get("hint", True)
    if function_id := definition.opts.get("func"):
        described["func"] = {"fid": function_id}
        if function_id in functions:
            described["func"]["name"] = functions[function_id].definition.name
    if definition.iid == 0 and space.sequence is not None:
        described["sequence_id"] = space.sequence.id
        described["sequence_fieldno"] = space.sequence_field + 1
        if space.sequence_path:
            described["sequence_path"] = space.sequence_path
    return described


def _describe_rules(space: Space) -> dict[str, Any]:
    """Describe the constraints and foreign keys of whole tuples; fields of foreign keys are counted from 1."""

    def shown(field: FieldName | None) -> FieldName | None:
        return field + 1 if isinstance(field, int) else field

    constraints: dict[str, Any] = {}
    keys: dict[str, Any] = {}
    for rule in space.rules.of_tuple:
        if isinstance(rule, ReferenceDef):
            keys[rule.name] = {"field": {shown(own): shown(there) for own, there in rule.links}}
            if rule.space_id:
                keys[rule.name]["space"] = rule.space_id
        else:
            constraints[rule.name] = rule.function_id
    found = {"constraint": constraints, "foreign_key": keys}
    return {name: described for name, described in found.items() if described}


def describe_space(space: Space, functions: Mapping[int, Function]) -> dict[str, Any]:
    """Describe a space for `box.space.<name>`; `names` are the fields' numbers, counted from 1."""
    return {
        "id": space.id,
        "name": space.name,
        "engine": space.engine.name,
        "field_count": space.definition.field_count,
        "is_local": space.is_local,
        "is_sync": space.is_sync,
        "temporary": space.is_temporary,
        "names": {name: number + 1 for name, number in space.format.names.items()},
        "indexes": [_describe_index(index.definition, space, functions) for index in space.indexes.values()],
        "constraints": [
            {"name": name, "expr": check.definition.code, "is_enabled": check.definition.is_enabled}
            for name, check in space.checks.items()
        ],
        **(_describe_rules(space) if space.rules else {}),
    }


def describe_sequence(sequence: Sequence) -> dict[str, Any]:
    """Describe a sequence for `box.sequence.<name>`."""
    definition = sequence.definition
    return {
        "id": definition.id,
        "uid": definition.owner,
        "name": definition.name,
        "step": definition.step,
        "min": definition.min,
        "max": definition.max,
        "start": definition.start,
        "cache": definition.cache,
        "cycle": definition.cycle,
    }


def describe_function(function: Function) -> dict[str, Any]:
    """Describe a function for `box.func.<name>`."""
    definition = function.definition
    described = {
        "id": definition.id,
        "name": definition.name,
        "setuid": definition.setuid,
        "language": definition.language,
        "returns": definition.returns,
        "aggregate": definition.aggregate,
        "exports": {"lua": "LUA" in definition.exports, "sql": "SQL" in definition.exports},
        "is_deterministic": definition.is_deterministic,
        "is_multikey": definition.is_multikey,
    }
    if definition.takes_raw_args:
        described["takes_raw_args"] = True
    if definition.body:
        described["body"] = definition.body
        described["is_sandboxed"] = definition.is_sandboxed
    if definition.comment:
        described["comment"] = definition.comment
    return described


class SchemaBinding(Binding):
    """Keeps Lua's copies of the schema up to date."""

    def __init__(self, runtime: Runtime, node: Instance, functions: FunctionBinding) -> None:
        super().__init__(runtime, node)
        self._functions = functions
        self._schema: Schema | None = None

    @guarded("schema_attach")
    def attach(self) -> None:
        """Send everything that exists, and every change from now on."""
        schema = self.node.schema
        if schema is not self._schema:
            self._schema = schema
            schema.on_alter_spaces.append(self._spaces_changed)
            schema.on_alter_sequence.append(self._sequence_changed)
            schema.on_alter_function.append(self._function_changed)
            schema.load_function = self._functions.load
            schema.unload_function = self._functions.unload
            schema.call_function = self._functions.make_keys
            schema.call_function_for = self._functions.make_many_keys
            schema.run_function = self._functions.run_in_sql
            schema.check_value = self._functions.check_value
        changes: list[Change] = [("space", space.id, self._space(space)) for space in schema.spaces.values()]
        changes += [("sequence", item.id, describe_sequence(item)) for item in schema.sequences.values()]
        changes += [
            ("function", item.id, describe_function(item)) for item in schema.functions.values() if _is_lua(item)
        ]
        self._apply(changes)

    def _space(self, space: Space) -> dict[str, Any]:
        return describe_space(space, self.node.schema.functions)

    def _apply(self, changes: list[Change]) -> None:
        self.runtime.invoke_now(self.runtime.handle_of("box.apply_schema"), codec.pack(changes))

    def _spaces_changed(self, spaces: list[Space]) -> None:
        exists = self.node.schema.has_space
        self._apply([("space", space.id, self._space(space) if exists(space.id) else None) for space in spaces])

    def _sequence_changed(self, sequence: Sequence) -> None:
        exists = sequence.id in self.node.schema.sequences
        self._apply([("sequence", sequence.id, describe_sequence(sequence) if exists else None)])

    def _function_changed(self, function: Function) -> None:
        if _is_lua(function):
            exists = function.id in self.node.schema.functions
            self._apply([("function", function.id, describe_function(function) if exists else None)])

    @guarded("password_hash")
    def password_hash(self, password: bytes) -> bytes:
        """Return base64(sha1(sha1(password)))."""
        return password_hash(password).encode()

    @waiting("schema_upgrade")
    async def upgrade(self) -> None:
        """Run `box.schema.upgrade()`."""
        from box.schema.upgrade import SchemaUpgrade

        node = self.node
        await SchemaUpgrade(node.schema, node.dml, self.ctx, node.log, node.clock).run()

    @guarded("schema_dictionary")
    def dictionary(self) -> bytes:
        """Return whether the dictionary has an older version, and its version as text."""
        from box.schema.upgrade import needs_upgrade, version_text

        schema = self.node.schema
        return codec.pack([needs_upgrade(schema), version_text(schema)])

    @guarded("schema_version")
    def schema_version(self) -> int:
        """Return `box.internal.schema_version()`."""
        return self.node.schema.version


def _is_lua(function: Function) -> bool:
    """True for a function that Lua may call; others are not shown."""
    return "LUA" in function.definition.exports
