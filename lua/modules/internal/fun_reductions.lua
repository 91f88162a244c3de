-- Methods of iterators that make one value of all.
local core = require('internal.fun_core')

local fun, methods, define, each = core.fun, core.methods, core.define, core.each

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

-- What `choose(best so far, value)` leaves of all values. A method ends with this call, so that level 2 is its caller.
local function best_of(self, name, choose)
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

define('min minimum', 0, function(self)
    return best_of(self, 'min', function(best, value) return value < best and value or best end)
end)

define('max maximum', 0, function(self)
    return best_of(self, 'max', function(best, value) return value > best and value or best end)
end)

define('min_by minimum_by', 1, function(self, choose)
    return best_of(self, 'min_by', choose)
end)

define('max_by maximum_by', 1, function(self, choose)
    return best_of(self, 'max_by', choose)
end)

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
