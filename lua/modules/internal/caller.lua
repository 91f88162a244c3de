-- The place of the user's code that has called into the modules of this product.
local raw_getinfo = debug.getinfo
local sub = string.sub

local BUILTIN = '@builtin/'
-- The file that the methods of spaces and indexes show to users.
local DATA = '@builtin/box/schema.lua'

local M = {}

-- The problem of an argument that cannot be encoded, with 'file:line: ' before it if a method of a space or an index has
-- been called with it, by Lua code. A tail call leaves no frame.
function M.located(problem)
    local level, inner = 2, nil
    local frame = raw_getinfo(level, 'Sl')
    while frame and sub(frame.source, 1, #BUILTIN) == BUILTIN do
        level, inner = level + 1, frame
        frame = raw_getinfo(level, 'Sl')
    end
    if frame and inner and inner.source == DATA and frame.currentline > 0 then
        return ('%s:%d: %s'):format(frame.short_src, frame.currentline, problem)
    end
    return problem
end

return M
