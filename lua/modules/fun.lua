-- Functional iteration: require('fun'). What an iterator is: internal/fun_core.lua.
local core = require('internal.fun_core')
require('internal.fun_slices')
require('internal.fun_reductions')

local fun, methods, meta, wrap, define = core.fun, core.methods, core.meta, core.wrap, core.define

-- ---- transformations ------------------------------------------------------------------------

define('map', 1, function(self, transform)
    local gen = self.gen
    local function apply(state, ...)
        if state == nil then
            return nil
        end
        return state, transform(...)
    end
    return wrap(function(param, state) return apply(gen(param, state)) end, self.param, self.state)
end)

define('enumerate', 0, function(self)
    local gen, param = self.gen, self.param
    local function number(index, state, ...)
        if state == nil then
            return nil
        end
        return {index + 1, state}, index, ...
    end
    return wrap(function(_, state) return number(state[1], gen(param, state[2])) end, nil, {1, self.state})
end)

define('intersperse', 1, function(self, between)
    local gen, param = self.gen, self.param
    return wrap(function(_, state)
        local following, value = gen(param, state[2])
        if following == nil then
            return nil
        elseif state[1] then
            return {false, state[2]}, between
        end
        return {true, following}, value
    end, nil, {false, self.state})
end)

-- ---- compositions ---------------------------------------------------------------------------

local function iterators_of(...)
    local count = select('#', ...)
    if count >= 3 then
        -- An iterator that a function returned last brings its parameter and state along.
        local last, param, state = select(count - 2, ...)
        if getmetatable(last) == meta and last.param == param and last.state == state then
            count = count - 2
        end
    end
    local result = {}
    for index = 1, count do
        result[index] = (fun.iter((select(index, ...))))
    end
    return result
end

function fun.zip(...)
    local all = iterators_of(...)
    local states = {}
    for index, one in ipairs(all) do
        states[index] = one.state
    end
    return wrap(function(_, before)
        local after, values = {}, {}
        for index, one in ipairs(all) do
            after[index], values[index] = one.gen(one.param, before[index])
            if after[index] == nil then
                return nil
            end
        end
        return #all > 0 and after or nil, unpack(values, 1, #all)
    end, nil, states)
end

methods.zip = fun.zip

define('cycle', 0, function(self)
    local gen, param, first = self.gen, self.param, self.state
    local function again(state, ...)
        if state == nil then
            return gen(param, first)
        end
        return state, ...
    end
    return wrap(function(_, state) return again(gen(param, state)) end, nil, first)
end)

function fun.chain(...)
    local all = iterators_of(...)
    local step
    local function check(number, state, ...)
        if state ~= nil then
            return {number, state}, ...
        end
        local following = all[number + 1]
        if following == nil then
            return nil
        end
        return step(nil, {number + 1, following.state})
    end
    step = function(_, state)
        local one = all[state[1]]
        if one == nil then
            return nil
        end
        return check(state[1], one.gen(one.param, state[2]))
    end
    return wrap(step, nil, {1, all[1] and all[1].state})
end

methods.chain = fun.chain

-- ---- operators ------------------------------------------------------------------------------

fun.operator = {
    lt = function(a, b) return a < b end,
    le = function(a, b) return a <= b end,
    eq = function(a, b) return a == b end,
    ne = function(a, b) return a ~= b end,
    ge = function(a, b) return a >= b end,
    gt = function(a, b) return a > b end,
    add = function(a, b) return a + b end,
    sub = function(a, b) return a - b end,
    mul = function(a, b) return a * b end,
    div = function(a, b) return a / b end,
    floordiv = function(a, b) return math.floor(a / b) end,
    intdiv = function(a, b)
        local quotient = a / b
        return quotient >= 0 and math.floor(quotient) or math.ceil(quotient)
    end,
    truediv = function(a, b) return a / b end,
    mod = function(a, b) return a % b end,
    neg = function(a) return -a end,
    unm = function(a) return -a end,
    pow = function(a, b) return a ^ b end,
    concat = function(a, b) return a .. b end,
    len = function(a) return #a end,
    length = function(a) return #a end,
    land = function(a, b) return a and b end,
    lor = function(a, b) return a or b end,
    lnot = function(a) return not a end,
    truth = function(a) return not not a end,
}
fun.op = fun.operator

return setmetatable(fun, {
    -- require('fun')() puts everything into the global table.
    __call = function(self, target)
        for name, member in pairs(self) do
            (target or _G)[name] = member
        end
    end,
})
