-- Methods of iterators that consume them at once: for a single result, or for an effect of each value.
local iterator = require('internal.fun_iterator')

local M = {}
local walk = iterator.walk

function M.unwrap(self)
    return self.gen, self.param, self.state
end

function M.each(self, visit)
    walk(self, function(...)
        visit(...)
        return false
    end)
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

function M.foldl(self, combine, result)
    walk(self, function(...)
        result = combine(result, ...)
    end)
    return result
end

function M.sum(self)
    return M.foldl(self, function(total, value) return total + value end, 0)
end

function M.product(self)
    return M.foldl(self, function(total, value) return total * value end, 1)
end

function M.length(self)
    local count = 0
    for _ in M.unwrap(self) do
        count = count + 1
    end
    return count
end

-- Reduces all values by `choose(best so far, value)`.
local function chosen(self, name, choose)
    local is_found, best = false, nil
    for _, value in M.unwrap(self) do
        if is_found then
            best = choose(best, value)
        else
            is_found, best = true, value
        end
    end
    if not is_found then
        error(name .. ': iterator is empty')
    end
    return best
end

-- Numbers are compared like math.min and math.max, other values by Lua's operators.
function M.min(self)
    return chosen(self, 'min', function(best, value)
        if type(best) == 'number' then
            return math.min(best, value)
        end
        return value < best and value or best
    end)
end

function M.max(self)
    return chosen(self, 'max', function(best, value)
        if type(best) == 'number' then
            return math.max(best, value)
        end
        return best < value and value or best
    end)
end

function M.min_by(self, choose)
    return chosen(self, 'min', choose)
end

function M.max_by(self, choose)
    return chosen(self, 'max', choose)
end

-- ---- questions -------------------------------------------------------------------------------

-- Returns whether `predicate` holds for the values of some step.
local function holds_once(self, predicate)
    local is_found = false
    walk(self, function(...)
        is_found = predicate(...) and true or false
        return is_found
    end)
    return is_found
end

M.any = holds_once

function M.all(self, predicate)
    return not holds_once(self, function(...) return not predicate(...) end)
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

-- Returns the values of the first step for which `is_wanted(number)`; nothing if there is no such step.
local function values_at(self, is_wanted)
    local number, found = 0, nil
    walk(self, function(...)
        number = number + 1
        if is_wanted(number) then
            found = {n = select('#', ...), ...}
        end
        return found ~= nil
    end)
    if found ~= nil then
        return unpack(found, 1, found.n)
    end
end

function M.nth(self, n)
    assert(n > 0, 'invalid first argument to nth')
    return values_at(self, function(number) return number >= math.floor(n) end)
end

local function values_of_step(state, ...)
    if state == nil then
        error('head: iterator is empty')
    end
    return ...
end

-- Makes one step. Calls the generator only once, as it may be one that cannot go back.
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
end

return M
