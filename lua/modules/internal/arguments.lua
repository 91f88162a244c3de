-- Arguments as C functions take them, and errors of wrong ones. Errors show the place of the caller, and the name by which it
-- called the function; '?' if the caller is not a Lua function or made a tail call.
local getinfo, error, select, type, tonumber, tostring = debug.getinfo, error, select, type, tonumber, tostring
local ceil, floor = math.ceil, math.floor

local SMALLEST = -2 ^ 63

local M = {}

-- Raises an error for a wrong argument. `level` is that of the function that got it, as for error().
function M.bad(position, reason, level)
    local info = getinfo(level, 'n')
    error(("bad argument #%d to '%s' (%s)"):format(position, info and info.name or '?', reason), level + 1)
end

-- Returns the error text for the first of `...`, whose type is wrong.
function M.expected(kind, ...)
    return kind .. ' expected, got ' .. (select('#', ...) == 0 and 'no value' or type((...)))
end

-- Converts an argument to a number; nil unless it is a number or a text of one. Unlike tonumber() it refuses cdata.
function M.number(value)
    local kind = type(value)
    return (kind == 'number' or kind == 'string') and tonumber(value) or nil
end

-- Returns the text of an argument that is a text or a number; nil for any other value.
function M.text(value)
    local kind = type(value)
    return (kind == 'string' or kind == 'number') and tostring(value) or nil
end

-- Converts an argument to 64 bits as C does: the fraction of a number is cut off, a number that does not fit becomes the
-- smallest one, and any other value counts as 0.
function M.whole(value)
    local number = M.number(value) or 0
    if not (number >= SMALLEST and number < -SMALLEST) then
        return SMALLEST
    end
    return number < 0 and ceil(number) or floor(number)
end

-- Converts an argument to the 32 bits of a C int: the low ones of its 64 bits.
function M.whole_int(value)
    local number = M.whole(value) % 2 ^ 32
    return number < 2 ^ 31 and number or number - 2 ^ 32
end

-- Converts an argument straight to a C int: a number that does not fit becomes the smallest one.
function M.c_int(value)
    local number = M.whole(value)
    return number >= -2 ^ 31 and number < 2 ^ 31 and number or -2 ^ 31
end

-- Returns the 32 lower bits of a number, as in C: 0 if it has more than 64.
function M.uint32(number)
    local whole = number - math.fmod(number, 1)
    return whole >= -2 ^ 63 and whole < 2 ^ 63 and whole % 2 ^ 32 or 0
end

-- Returns the text of an argument as C reads it: it ends at a zero byte.
function M.c_text(value)
    return (tostring(value):gsub('%z.*', ''))
end

return M
