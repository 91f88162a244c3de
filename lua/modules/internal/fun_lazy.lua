-- Methods of iterators that return iterators. They are lazy: they take values of the source only when they are asked.
local iterator = require('internal.fun_iterator')

local M = {}
local new, none = iterator.new, iterator.none

-- Makes an iterator with the states of its source. rule(state, values...) returns what a step of the source becomes.
local function reshaped(self, rule)
    local gen = self.gen
    return new(function(param, state) return rule(gen(param, state)) end, self.param, self.state)
end

-- Makes an iterator whose states are pairs of a part of its own and the state of the source.
-- rule(own, state, values...) returns the next own part, then the values.
local function accompanied(self, own, rule)
    local gen, param = self.gen, self.param
    local function joined(state, following, ...)
        return {following, state}, ...
    end
    local function step(before, state, ...)
        if state ~= nil then
            return joined(state, rule(before, state, ...))
        end
    end
    return new(function(_, both) return step(both[1], gen(param, both[2])) end, nil, {own, self.state})
end

local function is_function(value, method)
    assert(type(value) == 'function', 'invalid first argument to ' .. method)
end

-- ---- every value, changed or among others ----------------------------------------------------

function M.map(self, transform)
    return reshaped(self, function(state, ...)
        if state ~= nil then
            return state, transform(...)
        end
    end)
end

function M.enumerate(self)
    return accompanied(self, 1, function(number, _, ...) return number + 1, number, ... end)
end

-- Yields each step, then `between`. The own part of a state is true when `between` is next.
function M.intersperse(self, between)
    local gen, param = self.gen, self.param
    local function step(state, ...)
        if state ~= nil then
            return {true, state}, ...
        end
    end
    return new(function(_, both)
        if both[1] then
            return {false, both[2]}, between
        end
        return step(gen(param, both[2]))
    end, nil, {false, self.state})
end

-- ---- some of the values ----------------------------------------------------------------------

function M.filter(self, predicate)
    local gen = self.gen
    local function first_fit(param, state, ...)
        if state == nil or predicate(...) then
            return state, ...
        end
        return first_fit(param, gen(param, state))
    end
    return new(function(param, state) return first_fit(param, gen(param, state)) end, self.param, self.state)
end

function M.partition(self, predicate)
    return (M.filter(self, predicate)), M.filter(self, function(...) return not predicate(...) end)
end

-- Yields texts that match a pattern. With a function it is filter().
function M.grep(self, what)
    return M.filter(self, type(what) ~= 'string' and what or function(text) return string.find(text, what) ~= nil end)
end

function M.indexes(self, wanted)
    local places = M.filter(M.enumerate(self), function(_, value) return value == wanted end)
    return reshaped(places, function(state, number) return state, number end)
end

-- ---- the beginning and the rest --------------------------------------------------------------

function M.take_n(self, count)
    assert(count >= 0, 'invalid first argument to take_n')
    local counted = accompanied(self, count, function(left, _, ...) return left - 1, ... end)
    local gen = counted.gen
    return new(function(_, both)
        if both[1] > 0 then
            return gen(nil, both)
        end
    end, nil, counted.state)
end

function M.take_while(self, predicate)
    is_function(predicate, 'take_while')
    return reshaped(self, function(state, ...)
        if state ~= nil and predicate(...) then
            return state, ...
        end
    end)
end

-- Returns the iterator from another state; an empty one if there is none.
local function from(self, state)
    if state == nil then
        return none()
    end
    return new(self.gen, self.param, state)
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
    return from(self, (self.gen(self.param, self.state)))
end

function M.drop_while(self, predicate)
    is_function(predicate, 'drop_while')
    local gen, param, before = self.gen, self.param, self.state
    local function look(state, ...)
        return state, state ~= nil and predicate(...)
    end
    local state, is_dropped = look(gen(param, before))
    while is_dropped do
        before = state
        state, is_dropped = look(gen(param, before))
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

function M.cycle(self)
    local gen, param, first = self.gen, self.param, self.state
    return reshaped(self, function(state, ...)
        if state == nil then
            return gen(param, first)
        end
        return state, ...
    end)
end

-- Yields the first values of all iterators side by side, until one ends.
function M.zip(...)
    local all = iterator.all_of(...)
    local width, start = #all, {}
    for i, one in ipairs(all) do
        start[i] = one.state
    end
    return new(function(_, states)
        local following, values = {}, {}
        for i, one in ipairs(all) do
            following[i], values[i] = one.gen(one.param, states[i])
            if following[i] == nil then
                return nil
            end
        end
        if width > 0 then
            return following, unpack(values, 1, width)
        end
    end, nil, start)
end

-- Yields the values of one iterator after the other. The own part of a state is the number of the iterator.
function M.chain(...)
    local all = iterator.all_of(...)
    local advance
    local function step(number, state, ...)
        if state ~= nil then
            return {number, state}, ...
        elseif number < #all then
            return advance(nil, {number + 1, all[number + 1].state})
        end
    end
    function advance(_, both)
        local one = all[both[1]]
        if one ~= nil then
            return step(both[1], one.gen(one.param, both[2]))
        end
    end
    return new(advance, nil, {1, all[1] and all[1].state})
end

return M
