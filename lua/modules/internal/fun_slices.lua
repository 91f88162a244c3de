-- Methods of iterators that give a part of what they have: the first ones, the rest, those that fulfil something.
local core = require('internal.fun_core')

local methods, wrap, define, each, step_nothing = core.methods, core.wrap, core.define, core.each, core.step_nothing

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
