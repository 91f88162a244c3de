-- How methods of spaces and indexes must be called.

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

return M
