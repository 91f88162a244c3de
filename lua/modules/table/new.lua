-- require('table.new'): returns an empty table with room for elements and fields. LuaJIT 2.0 lacks the function. The
-- room is visible, because it decides the order in which pairs() visits the fields. The bytecode of the constructor
-- `{}` has the room as an operand. No source text sets it without leaving fields in the table, so the bytecode is
-- patched.
local arguments = require('internal.arguments')

local char, floor = string.char, math.floor

-- The first instruction makes the table: the opcode, a register, and 16 bits of room.
local compiled = string.dump(function() return {} end, true)
local ROOM_AT = 16
local before, after = compiled:sub(1, ROOM_AT - 1), compiled:sub(ROOM_AT + 2)

-- The low 11 bits are the number of elements, counting the element 0; the upper 5 are the logarithm of the fields.
local MOST_ELEMENTS = 2046
local FIELDS_UNIT = 2048
local MOST_FIELDS = 2 ^ 26      -- LuaJIT's own limit

-- Operand -> a function that makes such a table.
local makers = {}

local function maker_of(operand)
    local maker = assert(loadstring(before .. char(operand % 256, floor(operand / 256)) .. after, '=table.new'))
    makers[operand] = maker
    return maker
end

local function kind_of(position, ...)
    return select('#', ...) < position and 'no value' or type((select(position, ...)))
end

local function new(...)
    local elements, fields = ...
    -- Converts the sizes. With a 64-bit integer the loop below would not end: doubles wrap around when they are
    -- compared with it.
    elements = arguments.number(elements) or arguments.bad(1, 'number expected, got ' .. kind_of(1, ...), 2)
    fields = arguments.number(fields) or arguments.bad(2, 'number expected, got ' .. kind_of(2, ...), 2)
    elements, fields = arguments.c_int(elements), arguments.c_int(fields)
    if fields < 0 or fields > MOST_FIELDS then
        error('table overflow', 0)
    end
    local operand = 0
    if elements > 0 then
        operand = (elements < MOST_ELEMENTS and elements or MOST_ELEMENTS) + 1
    end
    local bits, room = fields > 0 and 1 or 0, 2
    while room < fields do
        bits, room = bits + 1, room * 2
    end
    operand = operand + bits * FIELDS_UNIT
    return (makers[operand] or maker_of(operand))()
end

table.new = table.new or new

return table.new
