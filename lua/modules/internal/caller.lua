-- Finds the place in the user's code that has called one of our own modules.
local raw_getinfo = debug.getinfo
local sub = string.sub

local BUILTIN = '@builtin/'
-- The file name of the methods of spaces and indexes in error texts.
local DATA = '@builtin/box/schema.lua'
local NET_BOX = '@builtin/box/net_box.lua'

local M = {}

-- Returns the problem of an argument that cannot be encoded. 'file:line: ' comes before it if Lua code has called a
-- method of a space or an index with it, except by a tail call, which leaves no frame. For a request of net.box it is the
-- place there.
function M.located(problem)
    local level, inner = 2, nil
    local frame = raw_getinfo(level, 'Sl')
    while frame and sub(frame.source, 1, #BUILTIN) == BUILTIN do
        if frame.source == NET_BOX then
            return ('%s:%d: %s'):format(frame.short_src, frame.currentline, problem)
        end
        level, inner = level + 1, frame
        frame = raw_getinfo(level, 'Sl')
    end
    if frame and inner and inner.source == DATA and frame.currentline > 0 then
        return ('%s:%d: %s'):format(frame.short_src, frame.currentline, problem)
    end
    return problem
end

return M
