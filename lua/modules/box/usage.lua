-- How methods must be called, and what a space must have for them.

local box_error = require('box.error')

local M = {}

-- A check that the method of an object was called with a colon: check(object, method). `field` tells an object.
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

-- The index that methods of a space work with. NO_SUCH_INDEX_ID.
function M.primary_index(space)
    return space.index[0] or box_error(box_error.NO_SUCH_INDEX_ID, 0, space.name)
end

return M
