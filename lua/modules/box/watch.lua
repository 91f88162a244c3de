-- box.watch(key, function), box.broadcast(key[, value]): values under keys, and functions that watch them.

local arguments = require('internal.arguments')
local finish = require('box.finish')
local msgpack = require('internal.msgpack')
local python = require('internal.python')
local registry = require('internal.registry')

local M = {}

local watcher_methods = {}
local watcher_mt = {
    __index = watcher_methods, __tostring = function() return 'box.watcher' end,
    __serialize = function() return 'box.watcher' end,
}

-- Watcher -> {number, handle of the function}. Kept out of the object, which the user sees.
local registered = setmetatable({}, {__mode = 'k'})

local function text(position, value, level)
    if type(value) ~= 'string' and type(value) ~= 'number' then
        arguments.bad(position, arguments.expected('string', value), level + 1)
    end
    return tostring(value)
end

function M.watch(...)
    if select('#', ...) ~= 2 then
        error('Usage: box.watch(key, function)', 0)
    end
    local key, run = ...
    key = text(1, key, 2)
    if type(run) ~= 'function' then
        arguments.bad(2, arguments.expected('function', run), 2)
    end
    local watcher, handle = setmetatable({}, watcher_mt), registry.ref(run)
    registered[watcher] = {python.event_watch(key, handle), handle}
    return watcher
end

function watcher_methods.unregister(...)
    local watcher = ...
    if getmetatable(watcher) ~= watcher_mt then
        arguments.bad(1, arguments.expected('box.watcher', ...), 2)
    end
    local known = registered[watcher]
    if known == nil then
        error('Watcher is already unregistered', 0)
    end
    registered[watcher] = nil
    python.event_unwatch(known[1])
    registry.release(known[2])
end

function M.broadcast(...)
    local count = select('#', ...)
    if count ~= 1 and count ~= 2 then
        error('Usage: box.broadcast(key[, value])', 0)
    end
    local key, value = ...
    key = text(1, key, 2)
    if key:sub(1, 4) == 'box.' then
        error("System event can't be override", 0)
    end
    local packed
    if value ~= nil then
        packed = finish.encode(value)
    end
    python.event_broadcast(key, packed)
end

-- Called by Python: runs the function of a watcher in a fiber of its own.
local function run(handle, key, packed)
    local call = registry.get(handle)
    if packed == nil then
        call(key)
    else
        call(key, (msgpack.decode(packed)))
    end
end

python.entry('box.run_watcher', registry.ref(run))

return M
