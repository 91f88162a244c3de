-- Lists of trigger functions. A list is an array in the order of running: the newest first.

local M = {}

local function position_of(list, trigger)
    for i, other in ipairs(list) do
        if other == trigger then
            return i
        end
    end
end

local function is_function_or_nil(value)
    return type(value) == 'function' or type(value) == 'nil'
end

-- Placeholder function of a trigger that was given with too many arguments -> {the value that was given}.
local given = setmetatable({}, {__mode = 'k'})

-- As in Tarantool, a third argument pushes the new trigger away: the argument before the last one is registered in its
-- place, whatever it is, and calling it fails if it is not a function.
local function last_but_one(...)
    local value = select(select('#', ...) - 1, ...)
    if type(value) == 'function' then
        return value, value
    end
    local problem = ('attempt to call a %s value'):format(type(value))
    local function call()
        error(problem, 0)
    end
    given[call] = {value}
    return call, value
end

local function oldest_first(list)
    local copy = {}
    for i = #list, 1, -1 do
        local trigger = list[i]
        copy[#list - i + 1] = not given[trigger] and trigger or given[trigger][1]
    end
    return copy
end

-- Changes a list: reset(list) returns all triggers, reset(list, new) adds one, reset(list, new, old) replaces one,
-- reset(list, nil, old) removes one.
function M.reset(list, new, old, ...)
    if not is_function_or_nil(new) or not is_function_or_nil(old) then
        error('trigger reset: incorrect arguments', 3)
    elseif type(new) == 'nil' and type(old) == 'nil' then
        return oldest_first(list)
    end
    local position = old ~= nil and position_of(list, old)
    if position == nil then
        error('trigger reset: Trigger is not found', 3)
    elseif new == nil then
        table.remove(list, position)
        return
    end
    local result = new
    if select('#', ...) > 0 then
        new, result = last_but_one(new, old, ...)
    end
    if position then
        list[position] = new
    else
        table.insert(list, 1, new)
    end
    return result
end

return M
