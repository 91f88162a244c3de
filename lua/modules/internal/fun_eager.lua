-- Methods of iterators that consume them at once: for a single result, or for an effect of each value.
local iterator = require('internal.fun_iterator')

local M = {}
local applied = iterator.applied

function M.unwrap(self)
    return self.gen, self.param, self.state
end

function M.each(self, visit)
    local gen, param, state = M.unwrap(self)
    repeat
        state = applied(visit, gen(param, state))
    until state == nil
end

-- ---- collections -----------------------------------------------------------------------------

function M.totable(self)
    local list, size = {}, 0
    for _, value in M.unwrap(self) do
        size = size + 1
        list[size] = value
    end
    return list
end

function M.tomap(self)
    local map = {}
    for _, key, value in M.unwrap(self) do
        map[key] = value
    end
    return map
end

-- ---- one value -------------------------------------------------------------------------------

local function folded(fun, result, state, ...)
    if state == nil then
        return nil, result
    end
    return state, fun(result, ...)
end

function M.foldl(self, combine, result)
    local gen, param, state = M.unwrap(self)
    repeat
        state, result = folded(combine, result, gen(param, state))
    until state == nil
    return result
end

-- Returns the sum of all values. Errors name the value as Tarantool's do: `r`.
function M.sum(self)
    local total = 0
    for _, r in M.unwrap(self) do
        total = total + r
    end
    return total
end

function M.product(self)
    local total = 1
    for _, r in M.unwrap(self) do
        total = total * r
    end
    return total
end

-- Returns the number of values. A list and a text know their length, holes included.
function M.length(self)
    local count, gen = 0, self.gen
    if gen == iterator.list_step or gen == iterator.text_step then
        return math.max(0, #self.param - self.state)
    end
    for _ in M.unwrap(self) do
        count = count + 1
    end
    return count
end

-- Returns the value that remains if `cmp(best so far, value)` chooses one of two again and again. If the first value is
-- a number, `cmp_numbers` is used instead, if it is given.
local function chosen(self, name, cmp, cmp_numbers)
    local gen, param, state = M.unwrap(self)
    local following, best = gen(param, state)
    if following == nil then
        error(name .. ': iterator is empty')
    end
    cmp = type(best) == 'number' and cmp_numbers or cmp
    for _, value in gen, param, following do
        best = cmp(best, value)
    end
    return best
end

local function lesser(best, value)
    return value < best and value or best
end

local function greater(best, value)
    return best < value and value or best
end

function M.min(self)
    return chosen(self, 'min', lesser, math.min)
end

function M.max(self)
    return chosen(self, 'max', greater, math.max)
end

function M.min_by(self, cmp)
    return chosen(self, 'min', cmp)
end

function M.max_by(self, cmp)
    return chosen(self, 'max', cmp)
end

-- ---- questions -------------------------------------------------------------------------------

function M.any(self, predicate)
    local gen, param, state = M.unwrap(self)
    local is_found
    repeat
        state, is_found = applied(predicate, gen(param, state))
    until state == nil or is_found
    return is_found and true or false
end

function M.all(self, predicate)
    local gen, param, state = M.unwrap(self)
    local does_hold
    repeat
        state, does_hold = applied(predicate, gen(param, state))
    until state == nil or not does_hold
    return state == nil
end

function M.is_null(self)
    return self.gen(self.param, self.state) == nil
end

function M.is_prefix_of(self, other)
    local gen, param, state = iterator.open(other)
    for _, value in M.unwrap(self) do
        local counterpart
        state, counterpart = gen(param, state)
        if state == nil or counterpart ~= value then
            return false
        end
    end
    return true
end

-- ---- single steps ----------------------------------------------------------------------------

-- Returns the values of a step; nil after the end.
local function values_or_nil(state, ...)
    if state == nil then
        return nil
    end
    return ...
end

-- Returns the value at place `n`. The fraction of a place is ignored, except that a list and a text have values only at
-- whole numbers.
function M.nth(self, n)
    assert(n > 0, 'invalid first argument to nth')
    local gen, param, state = M.unwrap(self)
    if n % 1 ~= 0 and (gen == iterator.list_step or gen == iterator.text_step) then
        return nil
    end
    for _ = 2, n do
        state = gen(param, state)
        if state == nil then
            return nil
        end
    end
    return values_or_nil(gen(param, state))
end

local function values_of_step(state, ...)
    if state == nil then
        error('head: iterator is empty')
    end
    return ...
end

-- Returns the values of the first step. It calls the generator only once, because a generator may be unable to go back.
function M.head(self)
    return values_of_step(self.gen(self.param, self.state))
end

function M.index(self, wanted)
    local number = 0
    for _, value in M.unwrap(self) do
        number = number + 1
        if value == wanted then
            return number
        end
    end
    return nil
end

return M
