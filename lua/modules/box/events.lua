-- The triggers of the instance: sessions, shutdown, schema initialisation. Python runs them by name.

local python = require('internal.python')
local registry = require('internal.registry')
local trigger_list = require('box.trigger_list')

local M = {}

local lists = {}

local function list_of(name)
    lists[name] = lists[name] or {}
    return lists[name]
end

-- Returns the results of a change of the list; nothing if a trigger was removed.
local function enable(name, list, ...)
    python.event_enable(name, #list)
    return ...
end

-- Changes a list, see box.trigger_list. Python learns whether the list is empty.
function M.reset(name, ...)
    local list = list_of(name)
    return enable(name, list, trigger_list.reset(list, ...))
end

-- Called by Python: runs the triggers of an event.
local function fire(name, ...)
    local list = list_of(name)
    local snapshot = {}
    for i, trigger in ipairs(list) do
        snapshot[i] = trigger
    end
    for _, trigger in ipairs(snapshot) do
        trigger(...)
    end
end

M.fire = fire

function M.set_shutdown_timeout(timeout)
    python.event_shutdown_timeout(timeout)
end

python.entry('box.fire', registry.ref(fire))

return M
