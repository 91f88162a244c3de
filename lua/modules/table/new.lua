-- require('table.new'): an empty table with room for fields. The compiler of version 2.0 lacks it; what sees the sizes is
-- the order in which pairs() visits the fields, so the room is made by filling and clearing.
local function name_of(i)
    -- Neighbouring letters fall into different slots, and leave no traces of collisions behind.
    return i <= 26 and string.char(96 + i) or 'field' .. i
end

local function new(_, fields)
    local result = {}
    for i = 1, fields do
        result[name_of(i)] = true
    end
    for i = 1, fields do
        result[name_of(i)] = nil
    end
    return result
end

table.new = table.new or new

return table.new
