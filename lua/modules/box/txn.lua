-- box.begin, box.commit, box.rollback, savepoints, transaction triggers, box.atomic.

local box_error = require('box.error')
local changes = require('box.changes')
local finish = require('box.finish')
local isolation = require('box.isolation')
local python = require('internal.python')
local triggers = require('box.txn_triggers')

local M = {}

local running = require('internal.scheduler').running
local wait = require('internal.wait')

local txn_begin, txn_id, txn_on_yield = python.txn_begin, python.txn_id, python.txn_on_yield

M.txn_isolation_level = isolation.levels

-- Returns the timeout and the number of the isolation level in the options of box.begin.
local function read_options(options)
    if type(options) ~= 'table' then
        return nil, 0 -- 2.8.1 takes any argument
    end
    for name in pairs(options) do
        if name ~= 'timeout' and name ~= 'txn_isolation' then
            box_error(box_error.ILLEGAL_PARAMS, ("unexpected option '%s'"):format(tostring(name)))
        end
    end
    local timeout, level = options.timeout, options.txn_isolation
    if timeout ~= nil and (type(timeout) ~= 'number' or timeout <= 0) then
        box_error(box_error.ILLEGAL_PARAMS, 'timeout must be a number greater than 0')
    end
    return timeout, level ~= nil and isolation.number_of(level) or 0
end

-- Sets or removes the hook that tells an open transaction about every switch to another fiber. After that `box.direct`
-- checks anew how the fiber may read.
local function set_hook(hook)
    local fiber = running.fiber
    fiber.reads_directly, fiber.on_yield = nil, hook
end

local function check_begun(result, problem)
    if result ~= nil then
        wait(result, problem)
    end
    set_hook(txn_on_yield)
end

function M.begin(options)
    if triggers.are_running() then
        if options then
            read_options(options)
        end
        box_error(box_error.ACTIVE_TRANSACTION)
    elseif options then
        check_begun(txn_begin(read_options(options)))
    else
        check_begun(txn_begin())
    end
end

-- Wraps a call that ends the transaction. A failed commit undoes changes of data; after an error the transaction may
-- still be open.
local function ending(call)
    return function()
        local result, problem = call()
        changes.count = changes.count + 1
        if result == nil then
            set_hook(nil)
            return
        elseif result ~= false or txn_id() == 0 then
            set_hook(nil)
        end
        wait(result, problem)
    end
end

M.commit = ending(python.txn_commit)
M.rollback = ending(python.txn_rollback)

function M.is_in_txn(...)
    if select('#', ...) > 0 then
        error('wrong number of arguments for function call', 2)
    end
    return txn_id() ~= 0 or triggers.are_running()
end

-- The metatable shows that a table is a savepoint.
local savepoint_mt = {}

function M.savepoint()
    local number = finish.plain(python.txn_savepoint())
    return setmetatable({csavepoint = number, txn_id = txn_id()}, savepoint_mt)
end

function M.rollback_to_savepoint(...)
    local savepoint = ...
    if select('#', ...) ~= 1 or getmetatable(savepoint) ~= savepoint_mt then
        error('Usage: box.rollback_to_savepoint(savepoint)', 2)
    end
    changes.count = changes.count + 1
    finish.nothing(python.txn_rollback_to_savepoint(savepoint.txn_id, savepoint.csavepoint))
end

-- Returns the number of the open transaction, nil without one.
function M.txn_id()
    local id = txn_id()
    return id ~= 0 and id or nil
end

local function finish_atomic(ok, ...)
    if not ok then
        M.rollback()
        error((...), 2)
    end
    M.commit()
    return ...
end

-- Runs a function in a transaction: box.atomic([options, ]function, ...).
function M.atomic(first, ...)
    if type(first) == 'table' and debug.getmetatable(first) == nil then
        M.begin(first)
        return finish_atomic(pcall(...))
    end
    M.begin()
    return finish_atomic(pcall(first, ...))
end

local function trigger_function(kind)
    local usage = 'Usage inside a transaction: box.on_' .. kind .. '([function | nil, [function | nil]])'
    return function(...)
        local id = txn_id()
        if id == 0 or select('#', ...) > 2 then
            error(usage, 2)
        end
        return triggers.reset(kind, id, ...)
    end
end

M.on_commit = trigger_function('commit')
M.on_rollback = trigger_function('rollback')

return M
