-- require('table.clear'): removes every key of a table.
local arguments = require('internal.arguments')

local type = type

local function clear(...)
    local value = ...
    if type(value) ~= 'table' then
        arguments.bad(1, 'table expected, got ' .. (select('#', ...) == 0 and 'no value' or type(value)), 2)
    end
    for key in next, value do
        value[key] = nil
    end
end

table.clear = table.clear or clear

return table.clear
