-- Iterator objects of require('fun').
--
-- An iterator is a step function, a parameter and a state: step(param, state) gives the next state and the values at
-- it, or nil at the end. The state is never changed in place, so an iteration may start again from any earlier state.
-- An object holds the three as `gen`, `param` and `state`. Functions that make an object also return the parameter and
-- the state, as a `for` loop expects.
--
-- Errors of Lua name local variables. Those that hold a step are therefore called `gen` or `gen_x`, and those that hold
-- a function of the user `fun`, where Tarantool's errors say so.
local M = {methods = {}}

local class = {
    __index = M.methods,
    __tostring = function() return '<generator>' end,
    __call = function(self, param, state) return self.gen(param, state) end,
}

function M.new(gen, param, state)
    return setmetatable({gen = gen, param = param, state = state}, class), param, state
end

function M.is_iterator(value)
    return type(value) == 'table' and getmetatable(value) == class
end

local function no_step()
    return nil
end

-- The step function of ipairs(); programs that print an iterator over a list expect this one.
local list_step = ipairs({})

local function map_step(map, key)
    local following, value = next(map, key)
    return following, following, value
end

local function text_step(text, index)
    if index < #text then
        return index + 1, text:sub(index + 1, index + 1)
    end
end

M.list_step, M.text_step = list_step, text_step

-- For each type that can be iterated: a function that returns step, parameter and first state.
local source_of = {}

source_of['function'] = function(gen, param, state)
    return gen, param, state
end

source_of.string = function(text)
    if #text == 0 then
        return no_step
    end
    return text_step, text, 0
end

source_of.table = function(object)
    local metatable = getmetatable(object)
    if metatable == class then
        return object.gen, object.param, object.state
    elseif metatable ~= nil and (metatable.__ipairs or metatable.__pairs) ~= nil then
        return (metatable.__ipairs or metatable.__pairs)(object)
    elseif #object == 0 then
        return map_step, object
    end
    return list_step, object, 0
end

-- Returns step, parameter and state of an iterator, a list, a map, a text, or the results of pairs() and similar.
function M.open(object, param, state)
    assert(object ~= nil, 'invalid iterator')
    local open = source_of[type(object)]
    if open == nil then
        error(('object %s of type "%s" is not iterable'):format(tostring(object), type(object)))
    end
    return open(object, param, state)
end

function M.iter(object, param, state)
    return M.new(M.open(object, param, state))
end

function M.none()
    return M.new(no_step)
end

-- The step of an empty iterator.
M.no_step = no_step

-- Returns how many of the arguments are iterables. The last one may be followed by its parameter and state, as
-- functions return them.
function M.count(...)
    local count = select('#', ...)
    if count >= 3 then
        local object, param, state = select(count - 2, ...)
        if M.is_iterator(object) and object.param == param and object.state == state then
            return count - 2
        end
    end
    return count
end

-- Returns the state of a step, and the result of `fun` for its values.
function M.applied(fun, state, ...)
    if state ~= nil then
        return state, fun(...)
    end
end

return M
