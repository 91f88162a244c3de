-- require('table.clear'): removes every key of a table.
local function clear(value)
    for key in next, value do
        value[key] = nil
    end
end

table.clear = table.clear or clear

return table.clear
