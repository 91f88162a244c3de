-- Functions of require('fun') that give iterators. They take values from their source only when a value is taken from
-- them. Their last arguments are step, parameter and state of the source.
--
-- Each keeps what it works with in its parameter and nothing in closures, so that a program that shows an iterator sees
-- in it what Tarantool's iterators hold. A state that is a pair has a count first and the source's state behind it.
local iterator = require('internal.fun_iterator')

local M = {}
local new, none, applied = iterator.new, iterator.none, iterator.applied

local function is_function(value, method)
    assert(type(value) == 'function', 'invalid first argument to ' .. method)
end

-- Returns the next state of an iterator that counts, which is a pair, followed by the values of the step.
local function counted(count, state, ...)
    if state ~= nil then
        return {count, state}, ...
    end
end

-- ---- every value, changed or among others ----------------------------------------------------

local function map_step(param, state)
    local gen_x = param[1]
    return applied(param[3], gen_x(param[2], state))
end

function M.map(transform, gen, param, state)
    return new(map_step, {gen, param, transform}, state)
end

local function numbered(number, state, ...)
    if state ~= nil then
        return {number + 1, state}, number, ...
    end
end

local function enumerate_step(param, state)
    local gen_x = param[1]
    return numbered(state[1], gen_x(param[2], state[2]))
end

function M.enumerate(gen, param, state)
    return new(enumerate_step, {gen, param}, {1, state})
end

-- The step of `intersperse`. An odd count means that `between` comes next.
local function intersperse_step(param, state)
    local count, gen_x = state[1] + 1, param[2]
    if count % 2 == 0 then
        return {count, state[2]}, param[1]
    end
    return counted(count, gen_x(param[3], state[2]))
end

-- Returns an iterator with `between` after every value.
function M.intersperse(between, gen, param, state)
    return new(intersperse_step, {between, gen, param}, {0, state})
end

-- ---- some of the values ----------------------------------------------------------------------

-- Returns the first step with a value that `fun` accepts, out of the given one and those after it.
local function first_fit(fun, gen_x, param, state, value)
    while state ~= nil and not fun(value) do
        state, value = gen_x(param, state)
    end
    return state, value
end

-- Does the same for steps with several values.
local function first_fit_of_many(fun, gen_x, param, state, ...)
    if state == nil then
        return nil
    elseif fun(...) then
        return state, ...
    end
    return first_fit_of_many(fun, gen_x, param, gen_x(param, state))
end

-- The number of values of the first step decides whether there is one value or several, as in Tarantool.
local function fit(fun, gen_x, param, state, ...)
    if select('#', ...) < 2 then
        return first_fit(fun, gen_x, param, state, ...)
    end
    return first_fit_of_many(fun, gen_x, param, state, ...)
end

local function filter_step(param, state)
    local gen_x, source = param[2], param[3]
    return fit(param[1], gen_x, source, gen_x(source, state))
end

function M.filter(predicate, gen, param, state)
    return new(filter_step, {predicate, gen, param}, state)
end

function M.partition(fun, gen, param, state)
    return (M.filter(fun, gen, param, state)), M.filter(function(...) return not fun(...) end, gen, param, state)
end

-- Returns an iterator over the texts in which a pattern is found; with anything else than a pattern it is `filter`.
function M.grep(what, gen, param, state)
    if type(what) ~= 'string' then
        return M.filter(what, gen, param, state)
    end
    return M.filter(function(text) return string.find(text, what) ~= nil end, gen, param, state)
end

local function indexes_step(param, state)
    local wanted, gen_x, source = param[1], param[2], param[3]
    local count, value = state[1], nil
    state = state[2]
    repeat
        count = count + 1
        state, value = gen_x(source, state)
        if state ~= nil and value == wanted then
            return {count, state}, count
        end
    until state == nil
end

function M.indexes(wanted, gen, param, state)
    return new(indexes_step, {wanted, gen, param}, {0, state})
end

-- ---- the beginning and the rest --------------------------------------------------------------

local function take_n_step(param, state)
    local gen_x = param[2]
    if param[1] <= state[1] then
        return
    end
    return counted(state[1] + 1, gen_x(param[3], state[2]))
end

function M.take_n(count, gen, param, state)
    assert(count >= 0, 'invalid first argument to take_n')
    return new(take_n_step, {count, gen, param}, {0, state})
end

local function while_fit(fun, state, ...)
    if state ~= nil and fun(...) then
        return state, ...
    end
end

local function take_while_step(param, state)
    local gen_x = param[2]
    return while_fit(param[1], gen_x(param[3], state))
end

function M.take_while(predicate, gen, param, state)
    is_function(predicate, 'take_while')
    return new(take_while_step, {predicate, gen, param}, state)
end

function M.drop_n(count, gen, param, state)
    assert(count >= 0, 'invalid first argument to drop_n')
    for _ = 1, count do
        state = gen(param, state)
        if state == nil then
            return none()
        end
    end
    return new(gen, param, state)
end

function M.tail(gen, param, state)
    state = gen(param, state)
    if state == nil then
        return none()
    end
    return new(gen, param, state)
end

function M.drop_while(predicate, gen_x, param, before)
    is_function(predicate, 'drop_while')
    local state, is_dropped = applied(predicate, gen_x(param, before))
    while is_dropped do
        before = state
        state, is_dropped = applied(predicate, gen_x(param, before))
    end
    if state == nil then
        return none()
    end
    return new(gen_x, param, before)
end

function M.take(what, gen, param, state)
    return M[type(what) == 'number' and 'take_n' or 'take_while'](what, gen, param, state)
end

function M.drop(what, gen, param, state)
    return M[type(what) == 'number' and 'drop_n' or 'drop_while'](what, gen, param, state)
end

function M.span(what, gen, param, state)
    return (M.take(what, gen, param, state)), M.drop(what, gen, param, state)
end

-- ---- several iterators -----------------------------------------------------------------------

-- Returns a copy of a state and of what is in it, so that steps that change their state in place may begin again. Objects
-- are no such states: a copy would lack their metatable.
local function copy_of(state)
    if type(state) ~= 'table' or getmetatable(state) ~= nil then
        return state
    end
    local copy = {}
    for key, value in next, state do
        copy[copy_of(key)] = copy_of(value)
    end
    return copy
end

local function again(gen_x, param, first, state, ...)
    if state == nil then
        return gen_x(param, copy_of(first))
    end
    return state, ...
end

local function cycle_step(param, state)
    local gen_x, source = param[1], param[2]
    return again(gen_x, source, param[3], gen_x(source, state))
end

function M.cycle(gen, param, state)
    return new(cycle_step, {gen, param, state}, copy_of(state))
end

-- The step of `zip`. The last iterator comes first, both in the parameter and in the states. As in Tarantool, the length
-- of the parameter says how many there are.
local function zip_step(param, states)
    local following, values, width = {}, {}, #param / 2
    local count = 0
    while count ~= width do
        count = count + 1
        local gen_x = param[2 * count - 1]
        local state, value = gen_x(param[2 * count], states[count])
        if state == nil then
            return nil
        end
        following[count], values[count] = state, value
    end
    local ordered = {}
    for i = 1, count do
        ordered[i] = values[count + 1 - i]
    end
    return following, unpack(ordered, 1, count)
end

-- Returns an iterator over the first values of all iterators, then the second ones, and so on, while each has one.
function M.zip(...)
    local count = iterator.count(...)
    if count == 0 then
        return none()
    end
    -- Their last elements are set at once, because the length of a list with holes depends on its room.
    local param, states = {[2 * count] = 0}, {[count] = 0}
    for i = 1, count do
        param[2 * i - 1], param[2 * i], states[i] = iterator.open((select(count + 1 - i, ...)))
    end
    return new(zip_step, param, states)
end

local chain_step

local function chained(param, place, state, ...)
    if state ~= nil then
        return {place, state}, ...
    elseif param[3 * place + 2] ~= nil then
        return chain_step(param, {place + 1, param[3 * place + 3]})
    end
end

-- The step of `chain`. A state is the number of an iterator and its state. The parameter holds gen, param and state of
-- each. As in Tarantool, an iterator without a parameter ends the chain.
function chain_step(param, state)
    local place = state[1]
    local gen_x = param[3 * place - 2]
    return chained(param, place, gen_x(param[3 * place - 1], state[2]))
end

-- Returns an iterator over the values of all iterators, one iterator after the other.
function M.chain(...)
    local count = iterator.count(...)
    if count == 0 then
        return none()
    end
    local param = {}
    for i = 1, count do
        param[3 * i - 2], param[3 * i - 1], param[3 * i] = iterator.iter((select(i, ...)))
    end
    return new(chain_step, param, {1, param[3]})
end

return M
