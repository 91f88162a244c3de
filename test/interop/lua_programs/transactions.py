"""Programs about transactions. No statement leaves one open: waiting for the next statement may end it, or not."""

from __future__ import annotations

from test.interop.lua_programs.source import Rules, steps_of

_TRY = "function try(f, ...) local r = {pcall(f, ...)} table.insert(log, r[1] and (r[2] or 'ok') or tostring(r[2])) end"
_RUN = "function run(f, ...) log = {} local r = {pcall(f, ...)} pcall(box.rollback) return log, unpack(r) end"
_RULES: Rules = {
    "id": ["1", "2", "3", "4", "5", "<value>"],
    "space": ["s", "s", "u"],
    "write": [
        "try(<space>.insert, <space>, {<id>, <plain>})",
        "try(<space>.replace, <space>, {<id>, <plain>})",
        "try(<space>.delete, <space>, <id>)",
        "try(<space>.update, <space>, <id>, {{'<operator>', 2, <plain>}})",
        "try(<space>.upsert, <space>, {<id>, 1}, {{'+', 2, <number>}})",
        "try(<space>.get, <space>, <id>)",
        "try(<space>.select, <space>)",
        "try(<space>.len, <space>)",
        "try(s.truncate, s)",
    ],
    "operator": ["=", "+", "-", "!", "#", "?"],
    "ddl": [
        "try(box.schema.space.create, 'n<small>')",
        "try(s.create_index, s, 'sk', {parts = {2, 'scalar'}, unique = <boolean>})",
        "try(s.format, s, {{'a', 'unsigned'}, {'b', 'any'}})",
        "try(box.schema.user.create, 'n<small>')",
        "try(u.drop, u)",
        "try(s.rename, s, 't<small>')",
    ],
    "control": [
        "try(box.begin)",
        "try(box.begin, <plain>)",
        "try(box.commit)",
        "try(box.commit, <value>)",
        "try(box.rollback)",
        "try(box.rollback, <value>)",
        "p = box.savepoint()",
        "try(box.rollback_to_savepoint, p)",
        "try(box.rollback_to_savepoint, q)",
        "try(box.rollback_to_savepoint, <value>)",
        "q = box.savepoint()",
        "try(box.is_in_txn)",
        "try(box.on_commit, function(i) <seen> end)",
        "try(box.on_rollback, function(i) <seen> end)",
        "try(box.on_commit, <args>)",
        "try(box.on_rollback, <args>)",
        "try(box.on_commit, function() error('in commit') end)",
        "try(box.atomic, function() <write> <write> end)",
        "try(box.atomic, function(...) s:replace{<id>, 1} return ... end, <args>)",
        "try(box.atomic, <plain>)",
        "try(box.atomic)",
        "try(box.atomic, function() error(<value>) end)",
        "fiber.yield()",
        "fiber.sleep(0.001)",
        "fiber.create(function() s:replace{<small>, 'other'} end)",
        "fiber.create(function() try(s.replace, s, {1, 'other'}) end)",
        "fiber.create(function() log[#log + 1] = box.is_in_txn() end)",
        "try(box.snapshot)",
        "try(error, 'own')",
        "error(<plain>)",
    ],
    "seen": [
        "for n, o, t, i in i() do log[#log + 1] = {n, o or 'none', t or 'none', i} end",
        "log[#log + 1] = type(i)",
    ],
    "act": ["<write>", "<write>", "<write>", "<control>", "<control>", "<ddl>"],
    "end": ["box.commit()", "box.commit()", "box.rollback()", "try(box.commit)", ""],
    "step": [
        "run(function() box.begin() <act> <act> <act> <end> end)",
        "run(function() box.begin() <act> <act> <end> end)",
        "run(function() box.begin() <write> p = box.savepoint() <act> <control> <write> <end> end)",
        "run(function() <control> <write> <control> end)",
        "run(function() box.begin() <write> fiber.yield() <write> <end> end)",
        "run(function() box.begin() <act> <act> error(<value>) end)",
        "run(function() box.begin() <act> <end> return s:select(), u:select() end)",
        "s:select(), u:select()",
        "run(box.<method>, <plain>, <value>)",
        "run(box.<method>, <plain>)",
        "run(function() box.begin() return type(box.savepoint(<args>)) end)",
        "box.is_in_txn()",
        "run(function() box.begin() <write> fiber.create(function() <write> end) <write> <end> end)",
        "run(function() local f = fiber.new(function() box.begin() <write> fiber.yield() <write> box.commit() end) "
        "f:set_joinable(true) fiber.yield() <write> return f:join() end)",
        "run(function() s:on_replace(function(o, n) <act> end) <write> s:on_replace(nil, s:on_replace()[1]) end)",
    ],
    "method": [
        "begin",
        "commit",
        "rollback",
        "rollback_to_savepoint",
        "atomic",
        "on_commit",
        "on_rollback",
    ],
}

transactions = steps_of(
    _RULES,
    start=[
        "s = box.schema.space.create('s') u = box.schema.space.create('u')",
        "_ = s:create_index('pk') _ = u:create_index('pk', {type = 'hash'})",
        f"log = {{}} {_TRY} {_RUN}",
    ],
)
"""Transactions with writes, DDL, savepoints, triggers, yields and errors."""
