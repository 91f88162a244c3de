-- box.ctl, box.snapshot, box.backup, box.once.

local arguments = require('internal.arguments')
local box_error = require('box.error')
local events = require('box.events')
local finish = require('box.finish')
local python = require('internal.python')

local ctl = {}

-- Returns the first argument as a number, nil if there is none. `level` is that of the caller, as for error().
local function optional_number(level, ...)
    if select('#', ...) == 0 then
        return nil
    end
    local number = arguments.number((...))
    if number == nil then
        arguments.bad(1, arguments.expected('number', ...), level + 1)
    end
    return number
end

function ctl.wait_ro(...)
    finish.nothing(python.ctl_wait_ro(optional_number(2, ...)))
end

function ctl.wait_rw(...)
    finish.nothing(python.ctl_wait_rw(optional_number(2, ...)))
end

function ctl.promote()
    finish.nothing(python.ctl_promote())
end

-- Finds where the data differs from that of another instance at one vclock. Tarantool has no such function.
function ctl.compare(uri)
    if type(uri) ~= 'string' then
        error('Usage: box.ctl.compare(uri)', 2)
    end
    local found = finish.value(python.ctl_compare(uri))
    setmetatable(found.vclock, {__serialize = 'map'})
    return found
end

-- Draws a tree that shows which instance fetches whose rows from where. Tarantool has no such function.
function ctl.replication_tree()
    return finish.value(python.ctl_replication_tree())
end

-- An older name of the function above.
ctl.clear_synchro_queue = ctl.promote

function ctl.is_recovery_finished()
    return python.ctl_is_recovery_finished() ~= 0
end

function ctl.on_shutdown(...)
    return events.reset('on_shutdown', ...)
end

function ctl.on_election(...)
    return events.reset('on_election', ...)
end

function ctl.on_recovery_state(...)
    return events.reset('on_recovery_state', ...)
end

function ctl.on_schema_init(...)
    return events.reset('on_schema_init', ...)
end

function ctl.set_on_shutdown_timeout(...)
    if select('#', ...) ~= 1 then
        error('function expected one argument', 0)
    end
    local timeout = ...
    if type(timeout) ~= 'number' then
        arguments.bad(1, arguments.expected('number', timeout), 2)
    elseif timeout <= 0 then
        error('on_shutdown timeout must be greater then zero', 2)
    end
    events.set_shutdown_timeout(timeout)
end

local M = {ctl = ctl}

function M.snapshot()
    return finish.plain(python.box_snapshot())
end

M.backup = {}

function M.backup.start(...)
    local checkpoint = optional_number(2, ...)
    if checkpoint ~= nil and not (checkpoint >= 0 and checkpoint < 2 ^ 31) then
        error('invalid checkpoint index', 2)
    end
    return finish.value(python.backup_start(checkpoint or 0))
end

function M.backup.stop()
    finish.nothing(python.backup_stop())
end

-- Runs a function once in the life of the replica set: _schema keeps the key.
function M.once(key, func, ...)
    if type(key) ~= 'string' or type(func) ~= 'function' then
        box_error(box_error.ILLEGAL_PARAMS, 'Usage: box.once(key, func, ...)')
    end
    key = 'once' .. key
    if box.space._schema:get{key} ~= nil then
        return
    end
    ctl.wait_rw()
    box.space._schema:put{key}
    return func(...)
end

return M
