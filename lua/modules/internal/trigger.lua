-- Lists of triggers for Lua modules (vshard has them): `list(new, old)` changes one or shows it, `list:run(...)`
-- calls its members, the oldest first. Errors and returned values are those of Tarantool's `internal.trigger`.

local methods = {}

local function is_callable(value)
    if type(value) == 'table' then
        local metatable = getmetatable(value)
        return metatable ~= nil and type(metatable.__call) == 'function'
    end
    return type(value) == 'function'
end

local function members(list)
    local copy = {}
    for i, trigger in ipairs(list) do
        copy[i] = trigger
    end
    return copy
end

local function change(list, new, old)
    if new ~= nil and not is_callable(new) then
        error(('Usage: %s(callable)'):format(list.name))
    elseif old ~= nil and not is_callable(old) then
        error('Usage: trigger(new_callable, old_callable)')
    elseif old == nil then
        if new == nil then
            return members(list)
        end
        table.insert(list, new)
        return
    end
    for i, trigger in ipairs(list) do
        if trigger == old then
            if new == nil then
                table.remove(list, i)
            else
                list[i] = new
            end
            return old
        end
    end
    error(('%s: trigger is not found'):format(list.name))
end

function methods.run(list, ...)
    for _, trigger in ipairs(list) do
        trigger(...)
    end
end

local metatable = {__call = change, __index = methods}

return {
    new = function(name)
        return setmetatable({name = name}, metatable)
    end,
}
