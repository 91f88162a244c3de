-- require('strict'): after on() the use of an undeclared global is an error, until off().
--
-- A global is declared by an assignment in a main chunk or in C code.
local getinfo, rawget, rawset, error = debug.getinfo, rawget, rawset, error

local declared = {}
local guard = {}

-- Returns the kind of the function that uses the global; it is three levels above getinfo.
local function toucher()
    local info = getinfo(3, 'S')
    return info and info.what or 'C'
end

-- Errors of Lua call the name of the global `n`, as in Tarantool.
function guard.__newindex(globals, n, value)
    if not declared[n] then
        local kind = toucher()
        if kind ~= 'main' and kind ~= 'C' then
            error("assign to undeclared variable '" .. n .. "'", 2)
        end
        declared[n] = true
    end
    rawset(globals, n, value)
end

function guard.__index(globals, n)
    if not declared[n] and toucher() ~= 'C' then
        error("variable '" .. n .. "' is not declared", 2)
    end
    return rawget(globals, n)
end

local function set(index, newindex)
    local metatable = getmetatable(_G)
    if metatable == nil then
        metatable = {}
        setmetatable(_G, metatable)
    end
    metatable.__index, metatable.__newindex = index, newindex
end

local function on()
    set(guard.__index, guard.__newindex)
end

local function off()
    declared = {}
    set(nil, nil)
end

return {on = on, off = off}
