-- Lua values that Python refers to by number, as it keeps no Lua objects.
local values = {}
local free = {}
local last = 0

local registry = {values = values}

-- Returns a new handle of a value, which is valid until `release`.
function registry.ref(value)
    local handle = table.remove(free)
    if handle == nil then
        last = last + 1
        handle = last
    end
    values[handle] = value
    return handle
end

function registry.get(handle)
    return values[handle]
end

function registry.release(handle)
    if values[handle] ~= nil then
        values[handle] = nil
        table.insert(free, handle)
    end
end

return registry
