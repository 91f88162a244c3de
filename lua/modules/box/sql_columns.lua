-- Tables that describe the columns of a result. They have room for their keys from the beginning, as Tarantool's have,
-- so that pairs() visits the keys in Tarantool's order; a constructor of LuaJIT would set them in another order.

local NAMES = {'name', 'type', 'collation', 'span', 'is_nullable', 'is_autoincrement'}

-- Set of keys, as their positions in NAMES ('12' is name and type) -> function(values...), which returns a table with
-- these keys.
local makers = {}

local function maker(mark)
    local arguments, items = {}, {}
    for number in mark:gmatch('%d') do
        table.insert(arguments, 'a' .. number)
        table.insert(items, ('%s = a%s'):format(NAMES[tonumber(number)], number))
    end
    local text = ('return function(%s) return {%s} end'):format(table.concat(arguments, ', '), table.concat(items, ', '))
    makers[mark] = assert(loadstring(text))()
    return makers[mark]
end

-- Returns a copy of a column's table whose keys stand in Tarantool's order.
return function(column)
    local mark, values, count = '', {}, 0
    for number, name in ipairs(NAMES) do
        if column[name] ~= nil then
            mark, count = mark .. number, count + 1
            values[count] = column[name]
        end
    end
    return (makers[mark] or maker(mark))(unpack(values, 1, count))
end
