"""What the campaign "definitions" compares: the rows of every space, and contradictions among them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from box import Node

VOLATILE: Final = "_sequence_data"
"""The space that has the values of sequences of primary keys only after a snapshot or a start, as in Tarantool."""
OWN: Final = ("_truncate",)
"""Spaces of which a replica lacks rows, as in Tarantool: truncations of temporary spaces are rows of one instance."""
ACKNOWLEDGED: Final = "acknowledged"
"""The space in which each task has the number of its last step of `test.soak.definition_child.Witness`."""

STATE: Final = """
local state = {}
for _, definition in box.space._space:pairs() do
    local space = box.space[definition.id]
    local is_kept = space ~= nil and space.index[0] ~= nil and definition.engine == 'memtx' and not space.temporary
    if is_kept then
        state[definition.name] = space:select()
    end
end
return require('json').encode(state)
"""
"""Returns the rows of all spaces but temporary ones as JSON."""

CHECK: Final = """
local json, wrong = require('json'), {}
for _, definition in box.space._space:pairs({512}, {iterator = 'GE'}) do
    local space = box.space[definition.id]
    local primary = space and space.index[0]
    if primary ~= nil then
        local rows = {}
        for _, row in primary:pairs() do rows[json.encode(row)] = true end
        for number, index in pairs(space.index) do
            -- A kill may leave a functional index without its row in _func_index: nobody reads it then.
            local options = type(number) == 'number' and box.space._index:get{definition.id, number}[5]
            if options and (options.func == nil or box.space._func_index:get{definition.id, number} ~= nil) then
                local found = 0
                for _, row in index:pairs() do
                    found = found + 1
                    if not rows[json.encode(row)] then
                        table.insert(wrong, definition.name .. '.' .. index.name .. ' has ' .. json.encode(row))
                    end
                end
                local is_multikey = (index.parts[1].path or ''):find('*', 1, true) ~= nil
                if index:len() ~= found or (found ~= primary:count() and not is_multikey) then
                    table.insert(wrong, ('%s.%s has %d of %d rows, len %d'):format(
                        definition.name, index.name, found, primary:count(), index:len()))
                end
            end
        end
    end
end
for _, key in box.space._fk_constraint:pairs() do
    local child, parent = box.space[key.child_id], box.space[key.parent_id]
    if child == nil or parent == nil then
        table.insert(wrong, 'a foreign key without its tables: ' .. key.name)
    else
        local parents = {}
        for _, row in parent:pairs() do parents[json.encode(row[key.parent_cols[1] + 1])] = true end
        for _, row in child:pairs() do
            local value = row[key.child_cols[1] + 1]
            if value ~= nil and not parents[json.encode(value)] then
                table.insert(wrong, 'a child without its parent: ' .. json.encode(row))
            end
        end
    end
end
for _, check in box.space._ck_constraint:pairs() do
    local table_name = box.space[check.space_id].name
    local bad, err = box.execute(('SELECT COUNT(*) FROM "%s" WHERE NOT (%s)'):format(table_name, check.code))
    if err ~= nil then
        table.insert(wrong, ('check %s of %s: %s'):format(check.code, table_name, tostring(err)))
    elseif bad.rows[1][1] ~= 0 then
        table.insert(wrong, ('%s has %d rows that its check %s refuses'):format(table_name, bad.rows[1][1], check.code))
    end
end
return wrong
"""
"""Returns the texts of all contradictions between indexes, foreign keys, checks and rows."""


def rows_of(state: str) -> dict[str, list[Any]]:
    """Return the rows of a state by name of their space; HASH indexes have another order in Tarantool."""
    rows: dict[str, list[Any]] = json.loads(state)
    return {name: sorted(rows[name], key=json.dumps) for name in rows.keys() - {VOLATILE}}


def differences(before: str, after: str, who: str, but: Sequence[str] = ()) -> list[str]:
    """Return a text for each space, but some, whose rows differ between two states; `who` has the second one."""
    one, two = rows_of(before), rows_of(after)
    names = [name for name in sorted({*one, *two} - {*but}) if one.get(name) != two.get(name)]
    return [f"{name} before: {one.get(name)}, in {who}: {two.get(name)}"[:2000] for name in names]


def lost(acknowledged: dict[int, int], state: str) -> list[str]:
    """Return a text for each step that was acknowledged and is not in a state: by task, the number of its last step."""
    rows = rows_of(state)
    found, names = dict(rows.get(ACKNOWLEDGED, [])), {row[2] for row in rows["_space"]}
    texts = []
    for task, number in acknowledged.items():
        there = found.get(task, 0)
        if not number <= there <= number + 1:
            texts.append(f"step {number} of task {task} was acknowledged, {there} is there")
        elif not {f"d{task}_{there}", f"d{task}_{there + 1}"} & names or f"d{task}_{there - 1}" in names:
            texts.append(f"tables of task {task} after its step {there}: {[n for n in names if n.startswith('d')]}")
    return texts


async def examine(directory: Path, **options: Any) -> tuple[list[str], str]:
    """Start a node from a directory, and return what contradicts in it, and its state in JSON."""
    async with Node(directory, **options) as node:
        return await node.eval(CHECK), await node.eval(STATE)
