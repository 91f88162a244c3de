-- The table `box`: its members, and the guard that hides most of them until box.cfg{}. The first box.cfg{} loads those
-- that programs cannot use before it: `box.opened`.

local box = {}

-- box.internal loads when one of its members is read for the first time, because it needs most of `box`.
local function load_internal(members, name)
    setmetatable(members, nil)
    for key, member in pairs(require('box.internal')) do
        members[key] = member
    end
    return members[name]
end

package.loaded.box = box
rawset(_G, 'box', box)

box.NULL = require('internal.msgpack').NULL
box.error = require('box.error')
box.tuple = require('box.tuple')
box.index = require('box.iterator_type').types
box.session = require('box.session')
box.internal = setmetatable({}, {__index = load_internal})

for name, member in pairs(require('box.txn')) do
    box[name] = member
end

for name, member in pairs(require('box.watch')) do
    box[name] = member
end
box.iproto = require('box.iproto')

local control = require('box.ctl')
box.ctl, box.snapshot, box.backup, box.once = control.ctl, control.snapshot, control.backup, control.once

local counters = require('box.stat')
box.stat, box.slab, box.runtime = counters.stat, counters.slab, counters.runtime

local function load_c_module(...)
    local name = ...
    if select('#', ...) ~= 1 or (type(name) ~= 'string' and type(name) ~= 'number') or name == '' then
        error(require('internal.error').new_here({
            type = 'IllegalParams', message = "Expects box.lib.load('name') but no name passed",
        }), 0)
    end
    require('box.finish').nothing(require('internal.python').c_module_load(tostring(name)))
end

for name, member in pairs(require('box.sql')) do
    box[name] = member
end
box.lib = {load = load_c_module}

box.feedback = {}

-- Saves nothing, because there is no feedback.
function box.feedback.save(path)
    if type(path) ~= 'string' then
        error('Usage: box.feedback.save(path)')
    end
end

for name, member in pairs({ctl = box.ctl, stat = box.stat, slab = box.slab, backup = box.backup}) do
    package.loaded['box.' .. name] = member
end

require('box.load_cfg').close_box(box)

return box
