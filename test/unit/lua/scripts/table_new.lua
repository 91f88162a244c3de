-- The room that a table is made with decides the order of pairs().
local new_table = require('table.new')
local names = {'type', 'sync', 'lsn', 'replica_id', 'group_id', 'timestamp', 'tsn', 'commit', 'id', 'uuid', 'name'}
for room = 0, 20 do
    for count = 1, #names do
        local filled, order = new_table(0, room), {}
        for i = 1, count do
            filled[names[i]] = i
        end
        for name in pairs(filled) do
            order[#order + 1] = name
        end
        print(room, count, table.concat(order, ' '))
    end
end
