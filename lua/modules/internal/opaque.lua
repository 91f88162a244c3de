-- Objects that are userdata to the user and a table to us: fibers, conditions, channels.
--
-- A weak map leads from the userdata to the table. The table must not refer back, which would keep both for ever.
local setmetatable = setmetatable

-- Makes a class `name`, which getmetatable() shows, with `methods`. Returns new(state) and state_of(object).
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
