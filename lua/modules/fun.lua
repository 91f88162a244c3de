-- Functional iteration: require('fun').
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

-- ---- slices ---------------------------------------------------------------------------------

define('nth', 1, function(self, n)
    assert(n > 0, 'invalid first argument to nth')
    local found
    each(self, function(...)
        n = n - 1
        if n == 0 then
            found = {n = select('#', ...), ...}
            return false
        end
    end)
    if found then
        return unpack(found, 1, found.n)
    end
end)

define('head car', 0, function(self)
    local function values(state, ...)
        if state == nil then
            error('head: iterator is empty', 3)
        end
        return ...
    end
    return values(self.gen(self.param, self.state))
end)

define('tail cdr', 0, function(self)
    local state = self.gen(self.param, self.state)
    if state == nil then
        return wrap(step_nothing)
    end
    return wrap(self.gen, self.param, state)
end)

define('take_n', 1, function(self, n)
    assert(n >= 0, 'invalid first argument to take_n')
    local gen, param = self.gen, self.param
    local function count(left, state, ...)
        if state == nil then
            return nil
        end
        return {left - 1, state}, ...
    end
    return wrap(function(_, state)
        if state[1] <= 0 then
            return nil
        end
        return count(state[1], gen(param, state[2]))
    end, nil, {n, self.state})
end)

define('take_while', 1, function(self, predicate)
    local gen = self.gen
    local function check(state, ...)
        if state == nil or not predicate(...) then
            return nil
        end
        return state, ...
    end
    return wrap(function(param, state) return check(gen(param, state)) end, self.param, self.state)
end)

define('drop_n', 1, function(self, n)
    assert(n >= 0, 'invalid first argument to drop_n')
    local state = self.state
    for _ = 1, n do
        state = self.gen(self.param, state)
        if state == nil then
            return wrap(step_nothing)
        end
    end
    return wrap(self.gen, self.param, state)
end)

define('drop_while', 1, function(self, predicate)
    local gen, param, before = self.gen, self.param, self.state
    local function check(state, ...)
        return state, state ~= nil and predicate(...)
    end
    while true do
        local state, holds = check(gen(param, before))
        if state == nil then
            return wrap(step_nothing)
        elseif not holds then
            return wrap(gen, param, before)
        end
        before = state
    end
end)

local function by_number_or_predicate(number_method, predicate_method)
    return function(self, what)
        if type(what) == 'number' then
            return methods[number_method](self, what)
        end
        return methods[predicate_method](self, what)
    end
end

define('take', 1, by_number_or_predicate('take_n', 'take_while'))
define('drop', 1, by_number_or_predicate('drop_n', 'drop_while'))
define('span split split_at', 1, function(self, what)
    return (methods.take(self, what)), (methods.drop(self, what))
end)

define('index index_of elem_index', 1, function(self, wanted)
    local index, found = 0, nil
    each(self, function(value)
        index = index + 1
        if value == wanted then
            found = index
            return false
        end
    end)
    return found
end)

define('indexes indices elem_indexes elem_indices', 1, function(self, wanted)
    local gen, param = self.gen, self.param
    return wrap(function(_, state)
        local index, inner, value = state[1], state[2], nil
        repeat
            inner, value = gen(param, inner)
            index = index + 1
        until inner == nil or value == wanted
        if inner == nil then
            return nil
        end
        return {index, inner}, index
    end, nil, {0, self.state})
end)

-- ---- filters --------------------------------------------------------------------------------

define('filter remove_unless', 1, function(self, predicate)
    local gen = self.gen
    local step
    local function check(param, state, ...)
        if state == nil then
            return nil
        elseif predicate(...) then
            return state, ...
        end
        return step(param, state)
    end
    step = function(param, state)
        return check(param, gen(param, state))
    end
    return wrap(step, self.param, self.state)
end)

define('remove_if', 1, function(self, predicate)
    return methods.filter(self, function(...) return not predicate(...) end)
end)

define('grep', 1, function(self, what)
    if type(what) == 'string' then
        return methods.filter(self, function(text) return text:find(what) ~= nil end)
    end
    return methods.filter(self, what)
end)

define('partition', 1, function(self, predicate)
    return (methods.filter(self, predicate)), (methods.remove_if(self, predicate))
end)

-- ---- reductions -----------------------------------------------------------------------------

define('foldl reduce', 2, function(self, combine, result)
    each(self, function(...) result = combine(result, ...) end)
    return result
end)

define('length', 0, function(self)
    local count = 0
    each(self, function() count = count + 1 end)
    return count
end)

define('is_null', 0, function(self)
    return self.gen(self.param, self.state) == nil
end)

function methods.is_prefix_of(self, other)
    other = fun.iter(other)
    local mine, theirs, value, other_value = self.state, other.state, nil, nil
    while true do
        mine, value = self.gen(self.param, mine)
        if mine == nil then
            return true
        end
        theirs, other_value = other.gen(other.param, theirs)
        if theirs == nil or value ~= other_value then
            return false
        end
    end
end

function fun.is_prefix_of(one, other)
    return methods.is_prefix_of(fun.iter(one), other)
end

define('all every', 1, function(self, predicate)
    local result = true
    each(self, function(...)
        result = predicate(...) and true or false
        return result
    end)
    return result
end)

define('any some', 1, function(self, predicate)
    local result = false
    each(self, function(...)
        result = predicate(...) and true or false
        return not result
    end)
    return result
end)

define('sum', 0, function(self)
    return methods.foldl(self, function(total, value) return total + value end, 0)
end)

define('product', 0, function(self)
    return methods.foldl(self, function(total, value) return total * value end, 1)
end)

local function extreme(name, is_better)
    return function(self)
        local best
        each(self, function(value)
            if best == nil or is_better(value, best) then
                best = value
            end
        end)
        if best == nil then
            error(name .. ': iterator is empty', 2)
        end
        return best
    end
end

define('min minimum', 0, extreme('min', function(one, other) return one < other end))
define('max maximum', 0, extreme('max', function(one, other) return one > other end))

local function extreme_by(name)
    return function(self, choose)
        local best
        each(self, function(value)
            if best == nil then
                best = value
            else
                best = choose(best, value)
            end
        end)
        if best == nil then
            error(name .. ': iterator is empty', 2)
        end
        return best
    end
end

define('min_by minimum_by', 1, extreme_by('min_by'))
define('max_by maximum_by', 1, extreme_by('max_by'))

define('totable', 0, function(self)
    local result = {}
    each(self, function(value) result[#result + 1] = value end)
    return result
end)

define('tomap', 0, function(self)
    local result = {}
    each(self, function(key, value) result[key] = value end)
    return result
end)

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
