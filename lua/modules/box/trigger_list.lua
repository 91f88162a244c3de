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

local function oldest_first(list)
    local copy = {}
    for i = #list, 1, -1 do
        copy[#copy + 1] = list[i]
    end
    return copy
end

-- reset(list) returns all, reset(list, new) adds, reset(list, new, old) replaces, reset(list, nil, old) removes.
function M.reset(list, new, old)
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
    elseif position then
        list[position] = new
    else
        table.insert(list, 1, new)
    end
    return new
end

return M
