-- The figures of `make bench` that need no client, on Lunabox and on Tarantool.
-- Usage: EXECUTABLE inprocess.lua DIRECTORY MODE COUNT [FIGURE]; prints `name value` lines, the values in microseconds an
-- operation, seconds or bytes a tuple.
local directory, mode, count, only = arg[1], arg[2], tonumber(arg[3]), arg[4] or ''
local clock, fiber = require('clock'), require('fiber')

local function rss()
    for line in io.lines('/proc/self/status') do
        local kilobytes = line:match('^VmRSS:%s+(%d+) kB')
        if kilobytes then return tonumber(kilobytes) * 1024 end
    end
end

local function report(name, value)
    io.stdout:write(('%s %.9g\n'):format(name, value))
end

-- With a FIGURE the program runs under a profiler; see profiles.py.
local function start_profiler()
    if only ~= '' then require('internal.python').start_profiler() end
end

-- Prints the best time of three runs: other work on the machine only makes a run slower.
local function measure(name, operations, body)
    if only ~= '' and only ~= name then return end
    local best = math.huge
    for _ = 1, 3 do
        collectgarbage()
        start_profiler()
        local start = clock.monotonic()
        body()
        best = math.min(best, tonumber(clock.monotonic() - start))
    end
    report(name, best / operations * 1e6)
end

box.cfg{
    work_dir = directory, log = 'bench.log', log_level = 4, checkpoint_interval = 0,
    wal_mode = mode == 'journal' and 'write' or 'none', memtx_memory = 1024 * 1024 * 1024,
}

local function new_space(name)
    local space = box.schema.space.create(name, {format = {
        {'id', 'unsigned'}, {'name', 'string'}, {'value', 'double'},
    }})
    space:create_index('pk')
    return space
end

local function fill(space, count)
    for id = 1, count do space:replace{id, 'name of ' .. id, id + 0.5} end
end

local function measure_reads(space, count)
    measure('get', count, function()
        for id = 1, count do space:get(id) end
    end)
    measure('get_table', count, function()
        for id = 1, count do space:get{id} end
    end)
    measure('pairs', count, function()
        local seen = 0
        for _, tuple in space:pairs() do seen = seen + 1 end
        assert(seen == count)
    end)
    measure('select', count, function() assert(#space:select() == count) end)
end

local function measure_writes(space, count)
    measure('replace', count, function()
        for id = 1, count do space:replace{id, 'name', 1.5} end
    end)
    measure('update', count, function()
        for id = 1, count do space:update(id, {{'=', 2, 'new name'}}) end
    end)
    measure('update_two', count, function()
        for id = 1, count do space:update({id}, {{'+', 3, 1}, {'=', 'name', 'name'}}) end
    end)
    measure('upsert', count, function()
        for id = 1, count do space:upsert({id, 'name', 1.5}, {{'+', 3, 1}}) end
    end)
    measure('transaction', count, function()
        for id = 1, count - 9, 10 do
            box.begin()
            for n = id, id + 9 do space:replace{n, 'name', 1.5} end
            box.commit()
        end
    end)
    measure('delete_insert', count, function()
        for id = 1, count do
            space:delete(id)
            space:insert{id, 'name', 1.5}
        end
    end)
end

local function measure_secondary(space, count)
    space:create_index('by_name', {parts = {{2, 'string'}}, unique = false})
    fill(space, count)
    measure('replace_secondary', count, function()
        for id = 1, count do space:replace{id, 'name', 1.5} end
    end)
end

if mode == 'data' then
    local space = new_space('bench')
    fill(space, count)
    measure_reads(space, count)
    measure_writes(space, count)
    if only == '' or only == 'replace_secondary' then measure_secondary(new_space('indexed'), count) end
elseif mode == 'journal' then
    local space = new_space('bench')
    measure('replace_one_fiber', count, function()
        for id = 1, count do space:replace{id, 'name', 1.5} end
    end)
    measure('replace_100_fibers', count, function()
        local left = fiber.channel(100)
        for n = 1, 100 do
            fiber.create(function()
                for id = n, count, 100 do space:replace{id, 'name', 1.5} end
                left:put(true)
            end)
        end
        for _ = 1, 100 do left:get() end
    end)
elseif mode == 'fill' then
    local space = new_space('bench')
    collectgarbage()
    local before = rss()
    fill(space, count)
    collectgarbage() collectgarbage()
    report('memory', (rss() - before) / count)
    start_profiler()
    local start = clock.monotonic()
    box.snapshot()
    report('snapshot', tonumber(clock.monotonic() - start))
elseif mode == 'recover' then
    assert(box.space.bench:len() == count)
end
os.exit(0)
