-- box.on_commit() and box.on_rollback(): triggers of one transaction.

local box_error = require('box.error')
local decode = require('internal.msgpack').decode
local finish = require('box.finish')
local python = require('internal.python')
local registry = require('internal.registry')
local scheduler = require('internal.scheduler')
local trigger_list = require('box.trigger_list')
local tuple_new = require('internal.tuple').new

local M = {}

-- Kind -> transaction id -> list.
local lists = {commit = {}, rollback = {}}

local function image(raw, space_id)
    return raw ~= nil and tuple_new(raw, space_id) or nil
end

-- Makes the argument of a trigger: for number, old, new, space_id in iterate() do ... end. It is valid while
-- the triggers run.
local function statement_iterator(statements, state)
    return function()
        if state.is_over then
            box_error(box_error.CURSOR_NO_TRANSACTION)
        end
        return function(_, number)
            local statement = statements[number + 1]
            if statement ~= nil then
                local old, new, space_id = unpack(statement, 1, 3)
                return number + 1, image(old, space_id), image(new, space_id), space_id
            end
        end, nil, 0
    end
end

-- Returns the statements from the last to the first: a rollback undoes them in this order.
local function reversed(statements)
    local result, count = {}, #statements
    for i = 1, count do
        result[i] = statements[count + 1 - i]
    end
    return result
end

local function call_all(list, iterate)
    for _, trigger in ipairs(list) do
        trigger(iterate)
    end
end

-- Called by Python when the transaction has ended, either way. For its fiber it is still open: if a trigger could begin
-- another one and leave it open, that would contain the statements after the commit.
local function run(kind, txn_id, packed)
    local list = lists[kind][txn_id]
    lists.commit[txn_id], lists.rollback[txn_id] = nil, nil
    local state, fiber = {}, scheduler.current_fiber()
    local statements = decode(packed)
    if kind == 'rollback' then
        statements = reversed(statements)
    end
    fiber.ending_txns = (fiber.ending_txns or 0) + 1
    local ok, problem = pcall(call_all, list or {}, statement_iterator(statements, state))
    fiber.ending_txns = fiber.ending_txns - 1
    state.is_over = true
    if not ok then
        error(problem, 0)
    end
end

-- Returns whether the running fiber is in an on_commit or on_rollback trigger.
function M.are_running()
    return (scheduler.current_fiber().ending_txns or 0) > 0
end

python.entry('box.run_txn_triggers', registry.ref(run))

function M.reset(kind, txn_id, new, old)
    local list = lists[kind][txn_id]
    if list == nil then
        list = {}
        local result = trigger_list.reset(list, new, old)
        if #list > 0 then
            lists[kind][txn_id] = list
            finish.nothing(python.txn_trigger_enable(kind))
        end
        return result
    end
    local result = trigger_list.reset(list, new, old)
    return result
end

return M
