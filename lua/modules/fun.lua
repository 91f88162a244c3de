-- require('fun'): functional iteration. internal/fun_iterator.lua describes the iterators.
local eager = require('internal.fun_eager')
local iterator = require('internal.fun_iterator')
local lazy = require('internal.fun_lazy')

local fun = {wrap = iterator.new, iter = iterator.iter}

-- ---- generators ----------------------------------------------------------------

-- The step of an ascending range. As in Tarantool, a range to NaN has no end.
local function range_up(param, state)
    local value = state + param[2]
    if not (value > param[1]) then
        return value, value
    end
end

local function range_down(param, state)
    local value = state + param[2]
    if not (value < param[1]) then
        return value, value
    end
end

-- Makes a range: range(stop) counts from 1, or down from -1; range(start, stop) counts towards stop, which is included
-- if a step ends on it.
function fun.range(start, stop, step)
    if step == nil then
        if stop == nil then
            if start == 0 then
                -- As in Tarantool, the bare step is returned, not an iterator.
                return iterator.no_step, nil, nil
            end
            start, stop = start > 0 and 1 or -1, start
        end
        step = start <= stop and 1 or -1
    end
    assert(type(start) == 'number', 'start must be a number')
    assert(type(stop) == 'number', 'stop must be a number')
    assert(type(step) == 'number', 'step must be a number')
    assert(step ~= 0, 'step must not be zero')
    if step > 0 then
        return iterator.new(range_up, {stop, step}, start - step)
    elseif step < 0 then
        return iterator.new(range_down, {stop, step}, start - step)
    end
end

local function one_step(value, count)
    return count + 1, value
end

local function list_step(values, count)
    return count + 1, unpack(values)
end

local function call_step(make, count)
    return count + 1, make(count)
end

function fun.duplicate(...)
    if select('#', ...) <= 1 then
        return iterator.new(one_step, (...), 0)
    end
    return iterator.new(list_step, {...}, 0)
end

function fun.tabulate(make)
    assert(type(make) == 'function')
    return iterator.new(call_step, make, 0)
end

function fun.zeros()
    return fun.duplicate(0)
end

function fun.ones()
    return fun.duplicate(1)
end

local function fraction_step()
    return 0, math.random()
end

local function whole_step(limits)
    return 0, math.random(limits[1], limits[2])
end

-- Makes random numbers: rands() in [0, 1); rands(limit) and rands(low, limit) whole numbers below the limit.
function fun.rands(low, limit)
    if low == nil and limit == nil then
        return iterator.new(fraction_step, 0, 0)
    end
    assert(type(low) == 'number', 'invalid first arg to rands')
    if limit == nil then
        low, limit = 0, low
    end
    assert(type(limit) == 'number', 'invalid second arg to rands')
    assert(low < limit, 'empty interval')
    return iterator.new(whole_step, {low, limit - 1}, 0)
end

-- ---- functions of iterators ------------------------------------------------------------------

-- Each name is a method and a function. The number in the list counts the arguments before the iterable, which may be
-- up to three values: step, parameter and state. The other names of a function follow it.
local FUNCTIONS = {
    [0] = {
        'cycle', 'enumerate', 'head car', 'is_null', 'length', 'max maximum', 'min minimum', 'product', 'sum', 'tail cdr',
        'tomap', 'totable',
    },
    [1] = {
        'all every', 'any some', 'drop', 'drop_n', 'drop_while', 'each for_each foreach', 'filter remove_if', 'grep',
        'index index_of elem_index', 'indexes indices elem_indexes elem_indices', 'intersperse', 'map',
        'max_by', 'min_by minimum_by', 'nth', 'partition', 'span split split_at', 'take', 'take_n',
        'take_while',
    },
    [2] = {'foldl reduce'},
}

-- By the number of arguments: a method, and a function, that call the function of a list with step, parameter and state.
local METHODS = {
    [0] = function(call)
        return function(self) return call(self.gen, self.param, self.state) end
    end,
    [1] = function(call)
        return function(self, argument) return call(argument, self.gen, self.param, self.state) end
    end,
    [2] = function(call)
        return function(self, first, second) return call(first, second, self.gen, self.param, self.state) end
    end,
}
local open = iterator.open
local CALLS = {
    [0] = function(call)
        return function(object, param, state) return call(open(object, param, state)) end
    end,
    [1] = function(call)
        return function(argument, object, param, state) return call(argument, open(object, param, state)) end
    end,
    [2] = function(call)
        return function(first, second, object, param, state)
            return call(first, second, open(object, param, state))
        end
    end,
}

for count, entries in pairs(FUNCTIONS) do
    for _, names in ipairs(entries) do
        local name = names:match('^%S+')
        local call = lazy[name] or eager[name]
        local method, exported = METHODS[count](call), CALLS[count](call)
        for alias in names:gmatch('%S+') do
            iterator.methods[alias], fun[alias] = method, exported
        end
    end
end

-- zip, chain and is_prefix_of take several iterables; as methods, the iterator is the first of them.
iterator.methods.zip, fun.zip = lazy.zip, lazy.zip
iterator.methods.chain, fun.chain = lazy.chain, lazy.chain
iterator.methods.is_prefix_of, fun.is_prefix_of = eager.is_prefix_of, eager.is_prefix_of

function iterator.methods.unwrap(self)
    return self.gen, self.param, self.state
end

fun.xrepeat, fun.replicate = fun.duplicate, fun.duplicate

-- ---- operators as functions ------------------------------------------------------------------

local operator = {}

for name, symbol in pairs({
    add = '+', sub = '-', mul = '*', div = '/', truediv = '/', mod = '%', pow = '^', concat = '..', land = 'and', lor = 'or',
    eq = '==', ne = '~=', lt = '<', le = '<=', gt = '>', ge = '>=',
}) do
    operator[name] = loadstring(('local a, b = ... return a %s b'):format(symbol), '=builtin/fun.lua')
end

for name, symbol in pairs({neq = '-', unm = '-', len = '#', length = '#', lnot = 'not', truth = 'not not'}) do
    operator[name] = loadstring(('local a = ... return %s a'):format(symbol), '=builtin/fun.lua')
end

function operator.floordiv(a, b)
    return math.floor(a / b)
end

-- Divides and rounds to a whole number. As in Tarantool, the sign of `a` alone decides the direction of rounding.
function operator.intdiv(a, b)
    local quotient = a / b
    return a < 0 and math.ceil(quotient) or math.floor(quotient)
end

fun.operator, fun.op = operator, operator
iterator.methods.operator, iterator.methods.op = operator, operator

-- require('fun')() makes all members of the module global. Globals that exist are left alone, unless `override` is set.
return setmetatable(fun, {__call = function(members, override)
    for name, member in pairs(members) do
        local is_new = rawget(_G, name) == nil
        if is_new or override then
            rawset(_G, name, member)
        end
        if not is_new then
            local said = 'function ' .. name .. ' already exists in global scope.'
            print((override and 'WARNING: %s Overwritten.' or 'NOTICE: %s Skipped.'):format(said))
        end
    end
end})
