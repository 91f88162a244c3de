-- Writes a log, or measures a start from it: `EXECUTABLE log_start.lua DIRECTORY fill COUNT SIZE` writes COUNT rows in
-- transactions of SIZE rows, `... start` prints the seconds of processor time of `box.cfg`.
local directory, what, count, size = arg[1], arg[2], tonumber(arg[3]), tonumber(arg[4])
local clock = require('clock')

local before = clock.proc()
box.cfg{work_dir = directory, log = 'bench.log', log_level = 4, checkpoint_interval = 0}
if what == 'start' then
    print(clock.proc() - before)
    os.exit()
end
local space = box.schema.space.create('bench', {format = {{'id', 'unsigned'}, {'name', 'string'}, {'value', 'double'}}})
space:create_index('pk')
for first = 1, count, size do
    box.begin()
    for id = first, math.min(count, first + size - 1) do space:replace{id, 'name', 1.5} end
    box.commit()
end
os.exit()
