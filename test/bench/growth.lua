-- The program of `python -m test.bench.growth`: times scenarios with growing data, on Lunabox and on Tarantool.
-- Usage: EXECUTABLE growth.lua DIRECTORY SCALE [NAME ...]; for each scenario it prints a line with the name, then a line
-- `name size microseconds` for each size. With SCALE `list` it prints the names of all scenarios.
--
-- A scenario is {name, size, prepare}: `prepare(n)` returns the function that is timed with n, 10 n and, if it is quick,
-- 100 n items. Times are processor time, which other programs hardly change. A short function is repeated until its
-- time can be measured; the best of a few runs counts.
local directory, scale = arg[1], tonumber(arg[2]) or 1
local only = {}
for i = 3, #arg do only[arg[i]] = true end

local clock = require('clock')

-- Processor seconds: a function that takes less than SHORTEST is repeated; after LONGEST no larger size is tried.
local SHORTEST, LONGEST, RUNS = 0.002, 0.25, 3

local function best_of(body)
    local times, best = 1, math.huge
    for run = 1, RUNS do
        collectgarbage()
        local start = clock.proc()
        for _ = 1, times do body() end
        local spent = tonumber(clock.proc() - start)
        best = math.min(best, spent / times)
        if run == 1 and spent < SHORTEST then times = math.ceil(SHORTEST / math.max(spent, 1e-6)) end
        if best > LONGEST then break end
    end
    return best
end

local scenarios = {}

local function scenario(name, size, prepare)
    scenarios[#scenarios + 1] = {name = name, size = math.max(1, math.floor(size * scale)), prepare = prepare}
end

local function run(entry)
    local size = entry.size
    for _ = 1, 3 do
        local body, finish = entry.prepare(size)
        local spent = best_of(body)
        if finish then finish() end
        io.stdout:write(('%s %d %.3f\n'):format(entry.name, size, spent * 1e6))
        io.stdout:flush()
        if spent > LONGEST / 10 then return end
        size = size * 10
    end
end

local here = arg[0]:match('^(.*)/') .. '/scenarios/'
local given = dofile(here .. 'values.lua')
for _, name in ipairs({'codecs', 'tuples', 'texts', 'modules', 'fibers', 'spaces', 'clients'}) do
    assert(loadfile(here .. name .. '.lua'))(scenario, directory, given)
end

if arg[2] == 'list' then
    for _, entry in ipairs(scenarios) do print(entry.name) end
    os.exit(0)
end

box.cfg{
    work_dir = directory, log = 'growth.log', log_level = 5, checkpoint_interval = 0, wal_mode = 'none',
    memtx_memory = 1024 * 1024 * 1024, net_msg_max = 2048,
}

for _, entry in ipairs(scenarios) do
    if next(only) == nil or only[entry.name] then
        io.stdout:write(entry.name, '\n')
        io.stdout:flush()
        local ok, problem = pcall(run, entry)
        if not ok then io.stderr:write(('%s: %s\n'):format(entry.name, tostring(problem))) end
    end
end
os.exit(0)
