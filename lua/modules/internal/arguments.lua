-- Errors of wrong arguments as those of C functions are: they name the function as its caller did, '?' where the
-- caller is no Lua function or has left its frame to the call, and stand where the caller is.
local getinfo, error, type, tonumber = debug.getinfo, error, type, tonumber

local M = {}

-- `level` is that of the function whose argument is wrong, as for error().
function M.bad(position, reason, level)
    local info = getinfo(level, 'n')
    error(("bad argument #%d to '%s' (%s)"):format(position, info and info.name or '?', reason), level + 1)
end

-- The reason for a value of a wrong type; nil counts as absent.
function M.expected(kind, value)
    return kind .. ' expected, got ' .. (type(value) == 'nil' and 'no value' or type(value))
end

-- The number that an argument is, also as text, nil for anything else: unlike tonumber() it takes no cdata.
function M.number(value)
    local kind = type(value)
    return (kind == 'number' or kind == 'string') and tonumber(value) or nil
end

-- The text that an argument is, also a number's; nil for anything else.
function M.text(value)
    local kind = type(value)
    return (kind == 'string' or kind == 'number') and tostring(value) or nil
end

return M
