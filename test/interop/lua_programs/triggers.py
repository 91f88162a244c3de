"""Programs about triggers of spaces, transactions and sessions."""

from __future__ import annotations

from test.interop.lua_programs.source import Rules, steps_of

_RULES: Rules = {
    "on": ["before_replace", "on_replace"],
    "id": ["1", "2", "3", "<value>"],
    "change": [
        "s:insert{<id>, <plain>}",
        "s:replace{<id>, <plain>}",
        "s:delete(<id>)",
        "s:update(<id>, {{'=', 2, <plain>}})",
        "s:upsert({<id>, 1}, {{'=', 2, <plain>}})",
    ],
    "returned": [
        "n",
        "o",
        "nil",
        "box.NULL",
        "<value>",
        "box.tuple.new{<id>, 'changed'}",
        "n and n:update{{'=', 2, 'changed'}}",
        "n and n:update{{'+', 1, 1}}",
        "{1, 'a table'}",
        "n, o",
    ],
    "trigger": [
        "function(o, n) return <returned> end",
        "function(o, n, name, kind) log[#log + 1] = {o or 'none', n or 'none', name, kind} return <returned> end",
        "function(o, n, name, kind) log[#log + 1] = {name, kind} return n end",
        "function(...) log[#log + 1] = select('#', ...) return select(2, ...) end",
        "function(o, n) error(<value>) end",
        "function(o, n) box.error(box.error.ILLEGAL_PARAMS, 'mine') end",
        "function(o, n) u:insert{1, 'nested'} return n end",
        "function(o, n) fiber.yield() return n end",
        "function(o, n) box.rollback() return n end",
        "function(o, n) box.commit() return n end",
        "function(o, n) if o == nil then s:replace{9, 'inner'} end return n end",
        "function(o, n) log[#log + 1] = box.is_in_txn() return n end",
        "<value>",
        "f",
        "g",
    ],
    "session": ["on_connect", "on_disconnect", "on_auth"],
    "control": ["on_shutdown", "on_schema_init"],
    "step": [
        "f = <trigger>",
        "g = <trigger>",
        "s:<on>(<trigger>) ~= nil",
        "s:<on>(<trigger>) ~= nil",
        "s:<on>(<trigger>, f) == f",
        "s:<on>(nil, f)",
        "s:<on>(<args>)",
        "s:<on>(<value>, <trigger>)",
        "pcall(s.<on>, <value>)",
        "#s:<on>(), s:<on>()[1] == f",
        "for _, old in ipairs(s:<on>()) do s:<on>(nil, old) end",
        "log = {} <change> return log",
        "log = {} local r = {pcall(function() return <change> end)} return r, log",
        "<change>",
        "box.begin() <change>",
        "log = {} box.begin() s:<on>(<trigger>) <change> box.rollback() return log, #s:<on>()",
        "log = {} box.begin() <change> <change> box.commit() return log",
        "s:select(), u:select()",
        "s:run_triggers(<boolean>)",
        "s:run_triggers(<args>)",
        "u:<on>(function(o, n) s:replace{7, 'from u'} return n end) ~= nil",
        "u:replace{<id>, 1}",
        "s:truncate()",
        "box.session.<session>(<args>)",
        "pcall(box.session.<session>, <value>, <value>)",
        "type(box.session.<session>(f)), #box.session.<session>(), box.session.<session>(nil, f)",
        "box.ctl.<control>(<args>)",
        "type(box.ctl.on_shutdown(print)), box.ctl.on_shutdown(nil, print)",
        "box.on_commit(<args>)",
        "log = {} box.begin() box.on_<end>(<trigger>) <change> box.<end>() return #log",
        "log = {} box.begin() box.on_commit(function(i) for n, o, w, id in i() do log[#log + 1] = {n, o or 'none', "
        "w or 'none'} end end) <change> <change> box.commit() return log",
        "log = {} box.begin() box.on_rollback(function(i) for n, o, w, id in i() do log[#log + 1] = {n, o or 'none', "
        "w or 'none'} end end) <change> <change> box.rollback() return log",
        "box.begin() box.on_<end>(f) box.on_<end>(g, f) return box.on_<end>()[1] == g, #box.on_<end>()",
        "s:drop()",
    ],
    "end": ["commit", "rollback"],
}

triggers = steps_of(
    _RULES,
    start=[
        "s = box.schema.space.create('s') u = box.schema.space.create('u')",
        "_ = s:create_index('pk') _ = u:create_index('pk')",
        "log = {} f = function(o, n) log[#log + 1] = 'f' return n end g = function() log[#log + 1] = 'g' end",
    ],
)
"""Sets, replaces and removes triggers, and makes them return, raise and write everything that they may not."""
