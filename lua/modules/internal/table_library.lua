-- Members that Tarantool adds to `table`: copies, comparison, move.
local arguments = require('internal.arguments')

local getmetatable, setmetatable, pairs, rawget, type = getmetatable, setmetatable, pairs, rawget, type

local function hook(value, name)
    local metatable = getmetatable(value)
    return type(metatable) == 'table' and rawget(metatable, name) or nil
end

-- Returns a copy of a table, with the same metatable. A metamethod `__copy` makes the copy itself.
function table.copy(value)
    if type(value) ~= 'table' then
        return value
    end
    local copy_hook = hook(value, '__copy')
    if copy_hook then
        return copy_hook(value)
    end
    local result = {}
    for key, item in pairs(value) do
        result[key] = item
    end
    return setmetatable(result, getmetatable(value))
end

local function deep(value, done)
    if type(value) ~= 'table' then
        return value
    elseif done[value] then
        return done[value]
    end
    local copy_hook = hook(value, '__copy')
    if copy_hook then
        local result = copy_hook(value)
        done[value] = result
        return result
    end
    local result = {}
    done[value] = result
    for key, item in pairs(value) do
        result[deep(key, done)] = deep(item, done)
    end
    return setmetatable(result, getmetatable(value))
end

-- Returns a copy with copies of nested tables. A table that occurs twice is copied once.
function table.deepcopy(value)
    return deep(value, {})
end

local equals

local function all_in(left, right)
    for key, item in pairs(left) do
        if not equals(item, right[key]) then
            return false
        end
    end
    return true
end

local function same_keys(left, right)
    for key in pairs(right) do
        if type(left[key]) == 'nil' then
            return false
        end
    end
    return true
end

-- Returns whether two values are equal; tables are compared by their contents.
function equals(left, right)
    if type(left) ~= 'table' or type(right) ~= 'table' then
        return type(left) == type(right) and left == right
    end
    local left_hook, right_hook = hook(left, '__eq'), hook(right, '__eq')
    if left_hook or right_hook then
        return left == right
    end
    return all_in(left, right) and same_keys(left, right)
end

table.equals = equals

-- Raises an error for an argument of a wrong type; as in Tarantool, an absent one is nil.
local function bad(position, kind, value)
    arguments.bad(position, kind .. ' expected, got ' .. type(value), 3)
end

local function whole(number)
    return number - math.fmod(number, 1)
end

-- Copies the elements first..last of `from` to `target` (default: `from`), at `position` and after it.
local function move(from, first, last, position, target)
    if type(from) ~= 'table' then
        bad(1, 'table', from)
    end
    first = whole(arguments.number(first) or bad(2, 'number', first))
    last = whole(arguments.number(last) or bad(3, 'number', last))
    position = whole(arguments.number(position) or bad(4, 'number', position))
    if target == nil then
        target = from
    elseif type(target) ~= 'table' then
        bad(5, 'table', target)
    end
    if position > first and target == from then
        for i = last - first, 0, -1 do
            target[position + i] = from[first + i]
        end
    else
        for i = 0, last - first do
            target[position + i] = from[first + i]
        end
    end
    return target
end

table.move = table.move or move

return table
