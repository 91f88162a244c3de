-- `math` of LuaJIT 2.0 computes sines, cosines, tangents and decimal logarithms by processor instructions, which are wrong for
-- large numbers: math.sin(1e22) is 1e22. These are the functions of the C library, as in Tarantool. math.deg and math.rad are Lua
-- functions there, and have the errors of such.
local ffi = require('ffi')

local tonumber, type = tonumber, type

local LARGE = 1e22

-- Returns a function of C. Wrong arguments are left to LuaJIT's own function, by a tail call.
local function precise(own, of_c)
    return function(...)
        local number = ...
        if type(number) == 'string' then
            number = tonumber(number)
        end
        if type(number) == 'number' then
            return of_c(number)
        end
        return own(...)
    end
end

-- Returns a function without names and lines, like one of LuaJIT 2.1 that is built in.
local function built_in(name, factor)
    local source = ('local number = ... return number * %.17g'):format(factor)
    return loadstring(string.dump(loadstring(source), true), ('=[builtin:%s]'):format(name))
end

if math.sin(LARGE) == LARGE then
    ffi.cdef([[
        double sin(double number);
        double cos(double number);
        double tan(double number);
        double log10(double number);
    ]])
    for _, name in ipairs({'sin', 'cos', 'tan', 'log10'}) do
        math[name] = precise(math[name], ffi.C[name])
    end
    math.deg, math.rad = built_in('deg', 180 / math.pi), built_in('rad', math.pi / 180)
end

return math
