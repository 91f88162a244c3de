-- require('table.new'): an empty table. The sizes are hints, which only the newer compiler takes.
local function new()
    return {}
end

table.new = table.new or new

return table.new
