-- Objects that are userdata for the user and a table for us: fibers, conditions, channels.
--
-- The table belongs to the userdata by a weak map and must not point back to it: that would keep both for ever.
local setmetatable = setmetatable

-- A class `name` (what getmetatable() shows) with `methods`. Returns new(state) and state_of(object).
return function(name, methods)
    local states = setmetatable({}, {__mode = 'k'})
    local prototype = newproxy(true)
    local metatable = debug.getmetatable(prototype)
    for key, method in pairs(methods) do
        metatable[key] = method
    end
    metatable.__metatable = name
    metatable.__index = metatable.__index or metatable

    local function new(state)
        local object = newproxy(prototype)
        states[object] = state
        return object
    end

    local function state_of(object)
        return states[object]
    end

    return new, state_of
end
