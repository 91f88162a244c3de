-- Checks that methods are called correctly, and that their space has the needed index.

local box_error = require('box.error')

local M = {}

-- Makes check(object, method), which raises an error unless the method was called with a colon. An object is recognised
-- by its field `field`.
function M.of(kind, field)
    local text = ('Use %s:%%s(...) instead of %s.%%s(...)'):format(kind, kind)
    return function(object, method)
        if type(object) == 'table' and object[field] ~= nil then
            return
        end
        error(text:format(method, method))
    end
end

M.space, M.index = M.of('space', 'id'), M.of('index', 'id')

-- Returns the index that methods of a space use. Raises NO_SUCH_INDEX_ID.
function M.primary_index(space)
    return space.index[0] or box_error(box_error.NO_SUCH_INDEX_ID, 0, space.name)
end

return M
