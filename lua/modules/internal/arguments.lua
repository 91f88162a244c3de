-- Errors of wrong arguments, like those of C functions. They show the place of the caller, and the name by which it
-- called the function; '?' if the caller is not a Lua function or made a tail call.
local getinfo, error, type, tonumber = debug.getinfo, error, type, tonumber

local M = {}

-- Raises an error for a wrong argument. `level` is that of the function that got it, as for error().
function M.bad(position, reason, level)
    local info = getinfo(level, 'n')
    error(("bad argument #%d to '%s' (%s)"):format(position, info and info.name or '?', reason), level + 1)
end

-- Returns the error text for a value of a wrong type. nil counts as absent.
function M.expected(kind, value)
    return kind .. ' expected, got ' .. (type(value) == 'nil' and 'no value' or type(value))
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

return M
