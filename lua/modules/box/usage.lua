-- How methods of spaces and indexes must be called, and what a space must have for them.

local box_error = require('box.error')

local M = {}

function M.space(space, method)
    if type(space) ~= 'table' or space.id == nil then
        error(string.format('Use space:%s(...) instead of space.%s(...)', method, method))
    end
end

function M.index(index, method)
    if type(index) ~= 'table' or index.id == nil then
        error(string.format('Use index:%s(...) instead of index.%s(...)', method, method))
    end
end

-- The index that methods of a space work with. NO_SUCH_INDEX_ID.
function M.primary_index(space)
    local index = space.index[0]
    if index == nil then
        box_error(box_error.NO_SUCH_INDEX_ID, 0, space.name)
    end
    return index
end

return M
