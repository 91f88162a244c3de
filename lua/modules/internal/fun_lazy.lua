-- Methods of iterators that return iterators. They take values from their source only when a value is taken from them.
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
    return applied(param[3], param[1](param[2], state))
end

function M.map(self, transform)
    return new(map_step, {self.gen, self.param, transform}, self.state)
end

local function numbered(number, state, ...)
    if state ~= nil then
        return {number + 1, state}, number, ...
    end
end

local function enumerate_step(param, state)
    return numbered(state[1], param[1](param[2], state[2]))
end

function M.enumerate(self)
    return new(enumerate_step, {self.gen, self.param}, {1, self.state})
end

-- The step of `intersperse`. An odd count means that `between` comes next.
local function intersperse_step(param, state)
    local count = state[1] + 1
    if count % 2 == 0 then
        return {count, state[2]}, param[1]
    end
    return counted(count, param[2](param[3], state[2]))
end

-- Returns an iterator with `between` after every value.
function M.intersperse(self, between)
    return new(intersperse_step, {between, self.gen, self.param}, {0, self.state})
end

-- ---- some of the values ----------------------------------------------------------------------

-- Returns the first step that `fun` accepts, out of the given step and those after it.
local function first_fit(fun, gen, param, state, ...)
    if state == nil or fun(...) then
        return state, ...
    end
    return first_fit(fun, gen, param, gen(param, state))
end

local function filter_step(param, state)
    local gen, source = param[2], param[3]
    return first_fit(param[1], gen, source, gen(source, state))
end

function M.filter(self, predicate)
    return new(filter_step, {predicate, self.gen, self.param}, self.state)
end

function M.partition(self, predicate)
    return (M.filter(self, predicate)), M.filter(self, function(...) return not predicate(...) end)
end

-- Returns an iterator over the texts in which a pattern is found; with a function it is `filter`.
function M.grep(self, what)
    return M.filter(self, type(what) ~= 'string' and what or function(text) return string.find(text, what) ~= nil end)
end

local function indexes_step(param, state)
    local wanted, gen, source = param[1], param[2], param[3]
    local count, value = state[1], nil
    state = state[2]
    repeat
        count = count + 1
        state, value = gen(source, state)
        if state ~= nil and value == wanted then
            return {count, state}, count
        end
    until state == nil
end

function M.indexes(self, wanted)
    return new(indexes_step, {wanted, self.gen, self.param}, {0, self.state})
end

-- ---- the beginning and the rest --------------------------------------------------------------

local function take_n_step(param, state)
    if state[1] < param[1] then
        return counted(state[1] + 1, param[2](param[3], state[2]))
    end
end

function M.take_n(self, count)
    assert(count >= 0, 'invalid first argument to take_n')
    return new(take_n_step, {count, self.gen, self.param}, {0, self.state})
end

local function while_fit(fun, state, ...)
    if state ~= nil and fun(...) then
        return state, ...
    end
end

local function take_while_step(param, state)
    return while_fit(param[1], param[2](param[3], state))
end

function M.take_while(self, predicate)
    is_function(predicate, 'take_while')
    return new(take_while_step, {predicate, self.gen, self.param}, self.state)
end

function M.drop_n(self, count)
    assert(count >= 0, 'invalid first argument to drop_n')
    local gen, param, state = self.gen, self.param, self.state
    for _ = 1, count do
        state = gen(param, state)
        if state == nil then
            return none()
        end
    end
    return new(gen, param, state)
end

function M.tail(self)
    local state = self.gen(self.param, self.state)
    if state == nil then
        return none()
    end
    return new(self.gen, self.param, state)
end

function M.drop_while(self, predicate)
    is_function(predicate, 'drop_while')
    local gen, param, before = self.gen, self.param, self.state
    local state, is_dropped = applied(predicate, gen(param, before))
    while is_dropped do
        before = state
        state, is_dropped = applied(predicate, gen(param, before))
    end
    if state == nil then
        return none()
    end
    return new(gen, param, before)
end

function M.take(self, what)
    return M[type(what) == 'number' and 'take_n' or 'take_while'](self, what)
end

function M.drop(self, what)
    return M[type(what) == 'number' and 'drop_n' or 'drop_while'](self, what)
end

function M.span(self, what)
    return (M.take(self, what)), M.drop(self, what)
end

-- ---- several iterators -----------------------------------------------------------------------

local function again(gen, param, first, state, ...)
    if state == nil then
        return gen(param, first)
    end
    return state, ...
end

local function cycle_step(param, state)
    local gen, source = param[1], param[2]
    return again(gen, source, param[3], gen(source, state))
end

function M.cycle(self)
    return new(cycle_step, {self.gen, self.param, self.state}, self.state)
end

-- The step of `zip`. The last iterator comes first, both in the parameter and in the states.
local function zip_step(param, states)
    local following, values, width = {}, {}, #param / 2
    for i = width, 1, -1 do
        local place = width + 1 - i
        following[i], values[place] = param[2 * i - 1](param[2 * i], states[i])
        if following[i] == nil then
            return nil
        end
    end
    return following, unpack(values, 1, width)
end

-- Returns an iterator over the first values of all iterators, then the second ones, and so on, while each has one.
function M.zip(...)
    local all = iterator.all_of(...)
    local param, states = {}, {}
    for i = #all, 1, -1 do
        local place = #states + 1
        param[2 * place - 1], param[2 * place], states[place] = all[i].gen, all[i].param, all[i].state
    end
    if #all == 0 then
        return none()
    end
    return new(zip_step, param, states)
end

local chain_step

local function chained(param, place, state, ...)
    if state ~= nil then
        return {place, state}, ...
    elseif param[3 * place + 1] ~= nil then
        return chain_step(param, {place + 1, param[3 * place + 3]})
    end
end

-- The step of `chain`. A state is the number of an iterator and its state. The parameter holds gen, param and state of
-- each.
function chain_step(param, state)
    local place = state[1]
    return chained(param, place, param[3 * place - 2](param[3 * place - 1], state[2]))
end

-- Returns an iterator over the values of all iterators, one iterator after the other.
function M.chain(...)
    local all = iterator.all_of(...)
    if #all == 0 then
        return none()
    end
    local param = {}
    for i, one in ipairs(all) do
        param[3 * i - 2], param[3 * i - 1], param[3 * i] = one, one.param, one.state
    end
    return new(chain_step, param, {1, all[1].state})
end

return M
