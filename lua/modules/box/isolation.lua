-- box.txn_isolation_level of the 2.11 line: the levels by name, and the number of a level given by name or number.

local box_error = require('box.error')

local M = {levels = {}}
local level_of = {}

for level, name in pairs({[0] = 'default', 'read-committed', 'read-confirmed', 'best-effort', 'linearizable'}) do
    level_of[level] = level
    for _, key in ipairs({name, (name:gsub('-', '_'):upper())}) do
        M.levels[key], level_of[key] = level, level
    end
end

function M.number_of(level)
    local number = level_of[level]
    if number == nil then
        box_error(box_error.ILLEGAL_PARAMS, 'txn_isolation must be one of box.txn_isolation_level (keys or values)')
    end
    return number
end

return M
