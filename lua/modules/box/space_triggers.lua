-- space:on_replace() and space:before_replace().

local box_error = require('box.error')
local finish = require('box.finish')
local python = require('internal.python')
local registry = require('internal.registry')
local returned = require('internal.returned')
local trigger_list = require('box.trigger_list')
local current_fiber = require('internal.scheduler').current_fiber
local tuples = require('internal.tuple')

local tuple_new, tuple_raw, is_tuple = tuples.new, tuples.raw, tuples.is

local M = {}

-- Kind -> space id -> list.
local lists = {on_replace = {}, before_replace = {}}

local function copy(list)
    local result = {}
    for i, trigger in ipairs(list or {}) do
        result[i] = trigger
    end
    return result
end

-- Runs triggers; meanwhile the transaction of the statement, even an implicit one, is told about waits.
local function in_transaction(run)
    local function leave(fiber, before, ...)
        fiber.on_yield = before
        return returned(...)
    end
    return function(...)
        local fiber = current_fiber()
        local before = fiber.on_yield
        fiber.on_yield = python.txn_on_yield
        return leave(fiber, before, pcall(run, ...))
    end
end

local function image(raw, space_id)
    return raw ~= nil and tuple_new(raw, space_id) or nil
end

local function run_on_replace(space_id, old, new, ...)
    local old_tuple, new_tuple = image(old, space_id), image(new, space_id)
    for _, trigger in ipairs(copy(lists.on_replace[space_id])) do
        trigger(old_tuple, new_tuple, ...)
    end
end

-- Returns the tuple that the trigger wants instead of `new`. No result keeps `new`; nil means no tuple.
local function replaced(new, count, result)
    if count == 0 then
        return new
    elseif result == nil then
        return nil
    elseif not is_tuple(result) then
        box_error(box_error.BEFORE_REPLACE_RET, type(result))
    end
    return result
end

local function counted(...)
    return select('#', ...), (...)
end

-- Returns `true` for the new tuple itself, `false` for the old one itself, bytes for another one, nil for none.
local function run_before_replace(space_id, old, new, ...)
    local old_tuple, sent = image(old, space_id), image(new, space_id)
    local new_tuple = sent
    for _, trigger in ipairs(copy(lists.before_replace[space_id])) do
        new_tuple = replaced(new_tuple, counted(trigger(old_tuple, new_tuple, ...)))
    end
    if rawequal(new_tuple, sent) then
        return true
    elseif new_tuple ~= nil and rawequal(new_tuple, old_tuple) then
        return false
    end
    return new_tuple ~= nil and tuple_raw(new_tuple) or nil
end

python.entry('box.run_on_replace', registry.ref(in_transaction(run_on_replace)))
python.entry('box.run_before_replace', registry.ref(in_transaction(run_before_replace)))

-- Stores the changed list of triggers, and returns the result of the change; nothing for a removal.
local function store(kind, space_id, list, ...)
    lists[kind][space_id] = list
    finish.nothing(python.space_trigger_enable(space_id, kind, #list))
    return ...
end

local function reset(kind)
    return function(...)
        local space = ...
        if type(space) ~= 'table' then
            error('usage: space:' .. kind .. '(function | nil, [function | nil])', 0)
        end
        finish.nothing(python.space_check(space.id))
        local list = lists[kind][space.id] or {}
        return store(kind, space.id, list, trigger_list.reset(list, select(2, ...)))
    end
end

M.on_replace = reset('on_replace')
M.before_replace = reset('before_replace')

-- Called when the space is dropped.
function M.forget(space_id)
    lists.on_replace[space_id], lists.before_replace[space_id] = nil, nil
end

return M
