-- Iterator objects of require('fun'): how they are made, from what, and how methods are defined.
--
-- An iterator is a step function, a parameter and a state: step(param, state) returns the next state and
-- the values at it, or nil at the end, so that a `for` loop over an iterator object gives the state first.
-- An object holds the three as `gen`, `param` and `state`; every method is a function of the module too,
-- with what it iterates as its last argument.
local fun = {}
local methods = {}
local meta = {__index = methods}

local function wrap(gen, param, state)
    return setmetatable({gen = gen, param = param, state = state}, meta), param, state
end

function meta.__call(self, param, state)
    return self.gen(param, state)
end

function meta.__tostring()
    return '<generator>'
end

-- ---- sources --------------------------------------------------------------------------------

local function step_nothing()
    return nil
end

local function step_array(array, index)
    index = index + 1
    local value = array[index]
    if value == nil then
        return nil
    end
    return index, value
end

local function step_map(map, key)
    local value
    key, value = next(map, key)
    return key, key, value
end

local function step_string(text, index)
    index = index + 1
    if index > #text then
        return nil
    end
    return index, text:sub(index, index)
end

local function triple(source, param, state)
    if type(source) == 'table' then
        local class = getmetatable(source)
        if class == meta then
            return source.gen, source.param, source.state
        end
        if class ~= nil and class.__pairs ~= nil then
            local gen, its_param, its_state = class.__pairs(source)
            if getmetatable(gen) == meta then
                return gen.gen, its_param, its_state
            end
            return gen, its_param, its_state
        end
        if #source > 0 or type(next(source)) == 'nil' then
            return step_array, source, 0
        end
        return step_map, source, nil
    elseif type(source) == 'function' then
        return source, param, state
    elseif type(source) == 'string' then
        return #source > 0 and step_string or step_nothing, source, 0
    elseif type(source) == 'cdata' and pcall(function() return source.pairs end) and source.pairs then
        return triple(source:pairs())
    end
    error(('object %s of type "%s" is not iterable'):format(tostring(source), type(source)), 3)
end

function fun.wrap(gen, param, state)
    return wrap(gen, param, state)
end

function fun.iter(source, param, state)
    return wrap(triple(source, param, state))
end

function fun.range(start, stop, step)
    if stop == nil then
        if start == 0 then
            return wrap(step_nothing)
        end
        start, stop = start > 0 and 1 or -1, start
    end
    step = step or (start <= stop and 1 or -1)
    assert(step ~= 0, 'step must not be zero')
    local function next_number(_, value)
        value = value + step
        if (step > 0 and value > stop) or (step < 0 and value < stop) then
            return nil
        end
        return value, value
    end
    return wrap(next_number, stop, start - step)
end

function fun.duplicate(...)
    local values, count = {...}, select('#', ...)
    return wrap(function(_, state)
        return state + 1, unpack(values, 1, count)
    end, nil, 0)
end

fun.replicate, fun.xrepeat = fun.duplicate, fun.duplicate

function fun.tabulate(make)
    return wrap(function(_, state)
        return state + 1, make(state)
    end, nil, 0)
end

function fun.zeros()
    return fun.duplicate(0)
end

function fun.ones()
    return fun.duplicate(1)
end

function fun.rands(low, high)
    assert(low == nil or high ~= nil or low >= 1, 'invalid first arg to rands')
    return wrap(function()
        if low == nil then
            return 0, math.random()
        elseif high == nil then
            return 0, math.random(0, low - 1)
        end
        return 0, math.random(low, high - 1)
    end, nil, 0)
end

-- A method gets its iterator first, then `count` arguments; the function of the same name gets what it
-- iterates last, maybe as the three values of an iterator.
local function define(names, count, method)
    for name in names:gmatch('%S+') do
        methods[name] = method
        if count == 0 then
            fun[name] = function(...)
                return method((fun.iter(...)))
            end
        elseif count == 1 then
            fun[name] = function(argument, ...)
                return method((fun.iter(...)), argument)
            end
        else
            fun[name] = function(first, second, ...)
                return method((fun.iter(...)), first, second)
            end
        end
    end
end

local function each(self, visit)
    local gen, param = self.gen, self.param
    local function go_on(state, ...)
        if state == nil or visit(...) == false then
            return nil
        end
        return state
    end
    local state = self.state
    repeat
        state = go_on(gen(param, state))
    until state == nil
end

methods.unwrap = function(self)
    return self.gen, self.param, self.state
end

define('each for_each foreach', 1, function(self, visit)
    each(self, function(...) visit(...) end)
end)

return {
    fun = fun, methods = methods, meta = meta, wrap = wrap, define = define, each = each, step_nothing = step_nothing,
}
