-- Functions of require('fun') that consume an iterator at once: for a single result, or for an effect of each value.
-- Their last arguments are step, parameter and state.
local iterator = require('internal.fun_iterator')

local M = {}
local applied = iterator.applied

function M.each(fun, gen, param, state)
    repeat
        state = applied(fun, gen(param, state))
    until state == nil
end

-- ---- collections -----------------------------------------------------------------------------

-- Returns a list of the first values of all steps. As in Tarantool, the value after a nil takes its place.
function M.totable(gen_x, param, state)
    local list, value = {}, nil
    state, value = gen_x(param, state)
    while state ~= nil do
        list[#list + 1] = value
        state, value = gen_x(param, state)
    end
    return list
end

function M.tomap(gen_x, param, state)
    local map, key, value = {}, nil, nil
    state, key, value = gen_x(param, state)
    while state ~= nil do
        map[key] = value
        state, key, value = gen_x(param, state)
    end
    return map
end

-- ---- one value -------------------------------------------------------------------------------

local function folded(fun, result, state, ...)
    if state == nil then
        return nil, result
    end
    return state, fun(result, ...)
end

function M.foldl(combine, result, gen_x, param, state)
    repeat
        state, result = folded(combine, result, gen_x(param, state))
    until state == nil
    return result
end

-- Returns the sum of all values. Errors name the value as Tarantool's do: `r`.
function M.sum(gen, param, state)
    local total, r = 0, 0
    repeat
        total = total + r
        state, r = gen(param, state)
    until state == nil
    return total
end

function M.product(gen, param, state)
    local total, r = 1, 1
    repeat
        total = total * r
        state, r = gen(param, state)
    until state == nil
    return total
end

-- Returns the number of values. As in Tarantool, a list and a text count all that they have, holes and values before the
-- state included.
function M.length(gen, param, state)
    if gen == iterator.list_step or gen == iterator.text_step then
        return #param
    end
    local count = -1
    repeat
        count = count + 1
        state = gen(param, state)
    until state == nil
    return count
end

-- Returns the value that remains if `cmp(best so far, value)` chooses one of two again and again, beginning with the
-- values of the first step.
local function chosen(name, cmp, gen, param, following, best)
    if following == nil then
        error(name .. ': iterator is empty')
    end
    for _, value in gen, param, following do
        best = cmp(best, value)
    end
    return best
end

local function lesser(best, value)
    if type(best) == 'number' then
        return math.min(best, value)
    end
    return value < best and value or best
end

local function greater(best, value)
    if type(best) == 'number' then
        return math.max(best, value)
    end
    return value > best and value or best
end

function M.min(gen, param, state)
    return chosen('min', lesser, gen, param, gen(param, state))
end

function M.max(gen_x, param, state)
    return chosen('max', greater, gen_x, param, gen_x(param, state))
end

function M.min_by(cmp, gen_x, param, state)
    return chosen('min', cmp, gen_x, param, gen_x(param, state))
end

function M.max_by(cmp, gen_x, param, state)
    return chosen('max', cmp, gen_x, param, gen_x(param, state))
end

-- ---- questions -------------------------------------------------------------------------------

function M.any(fun, gen_x, param, state)
    local is_found
    repeat
        state, is_found = applied(fun, gen_x(param, state))
    until state == nil or is_found
    return is_found and true or false
end

function M.all(fun, gen_x, param, state)
    local does_hold
    repeat
        state, does_hold = applied(fun, gen_x(param, state))
    until state == nil or not does_hold
    return state == nil
end

function M.is_null(gen, param, state)
    return gen(param, state) == nil
end

-- How many values `is_prefix_of` compares; as in Tarantool, there is no answer if both have more.
local COMPARED = 10

function M.is_prefix_of(one, other)
    local gen_x, param_x, state_x = iterator.open(one)
    local gen_y, param_y, state_y = iterator.open(other)
    for _ = 1, COMPARED do
        local value, counterpart
        state_x, value = gen_x(param_x, state_x)
        state_y, counterpart = gen_y(param_y, state_y)
        if state_x == nil then
            return true
        elseif state_y == nil or value ~= counterpart then
            return false
        end
    end
end

-- ---- single steps ----------------------------------------------------------------------------

-- Returns the values of a step; nil after the end.
local function values_or_nil(state, ...)
    if state == nil then
        return nil
    end
    return ...
end

-- Returns the value at place `n`. As in Tarantool, a list and a text count from their beginning, not from the state.
function M.nth(n, gen_x, param, state)
    assert(n > 0, 'invalid first argument to nth')
    if gen_x == iterator.list_step then
        return param[n]
    elseif gen_x == iterator.text_step then
        return n <= #param and param:sub(n, n) or nil
    end
    for _ = 1, n - 1 do
        state = gen_x(param, state)
        if state == nil then
            return nil
        end
    end
    return values_or_nil(gen_x(param, state))
end

local function values_of_step(state, ...)
    if state == nil then
        error('head: iterator is empty')
    end
    return ...
end

-- Returns the values of the first step. It calls the generator only once, because a generator may be unable to go back.
function M.head(gen, param, state)
    return values_of_step(gen(param, state))
end

function M.index(wanted, gen, param, state)
    local number = 0
    for _, value in gen, param, state do
        number = number + 1
        if value == wanted then
            return number
        end
    end
    return nil
end

return M
