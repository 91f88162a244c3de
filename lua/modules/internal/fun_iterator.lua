-- Iterator objects of require('fun').
--
-- An iterator is a step function, a parameter and a state: step(param, state) gives the next state and the values at
-- it, or nil at the end. The state is never changed in place, so an iteration may start again from any earlier state.
-- An object holds the three as `gen`, `param` and `state`. Functions that make an object also return the parameter and
-- the state, as a `for` loop expects.
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
    return getmetatable(value) == class
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

-- For each type: step, parameter and first state.
local source_of = {}

source_of['function'] = function(gen, param, state)
    return gen, param, state
end

source_of.string = function(text)
    return text_step, text, 0
end

source_of.table = function(object)
    local metatable = getmetatable(object)
    if metatable == class then
        return object.gen, object.param, object.state
    elseif metatable ~= nil and metatable.__pairs ~= nil then
        local gen, param, state = metatable.__pairs(object)
        return M.is_iterator(gen) and gen.gen or gen, param, state
    elseif #object == 0 then
        return map_step, object
    end
    return list_step, object, 0
end

-- Returns step, parameter and state of an iterator, a list, a map, a text, or the results of pairs() and similar.
function M.open(object, param, state)
    assert(object ~= nil, 'invalid iterator')
    local open = source_of[type(object)]
    local gen, its_param, its_state
    if open ~= nil then
        gen, its_param, its_state = open(object, param, state)
    end
    if gen == nil then
        error(('object %s of type "%s" is not iterable'):format(tostring(object), type(object)))
    end
    return gen, its_param, its_state
end

function M.iter(object, param, state)
    return M.new(M.open(object, param, state))
end

function M.none()
    return M.new(no_step)
end

-- The step of an empty iterator.
M.no_step = no_step

-- Makes iterator objects of all arguments. The last one may be followed by its parameter and state, as functions return
-- them.
function M.all_of(...)
    local count = select('#', ...)
    if count >= 3 then
        local object, param, state = select(count - 2, ...)
        if M.is_iterator(object) and object.param == param and object.state == state then
            count = count - 2
        end
    end
    local result = {}
    for i = 1, count do
        result[i] = M.iter((select(i, ...)))
    end
    return result
end

-- Returns the state of a step, and the result of `fun` for its values. Errors name the function as Tarantool's do:
-- `fun`.
function M.applied(fun, state, ...)
    if state ~= nil then
        return state, fun(...)
    end
end

return M
