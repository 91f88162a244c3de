-- A node of `python -m test.bench.replication`. Usage: EXECUTABLE replication.lua DIRECTORY URI CONSOLE [SOURCE...]
local directory, uri, console_path = arg[1], arg[2], arg[3]
local sources = {}
for number = 4, #arg do
    sources[#sources + 1] = arg[number]
end

local clock = require('clock')
local fiber = require('fiber')

box.cfg{
    work_dir = directory,
    listen = uri,
    replication = #sources > 0 and sources or nil,
    replication_connect_quorum = tonumber(os.getenv('BENCH_QUORUM')),
    replication_connect_timeout = 30,
    replication_sync_timeout = 60,
    replication_synchro_timeout = 60,
    checkpoint_interval = 0,
    memtx_memory = 1024 * 1024 * 1024,
    log_level = 5,
    log = 'node.log',
}

-- The node that bootstraps grants guests everything, so that the others can join.
if box.info.id == 1 then
    box.schema.user.grant('guest', 'super', nil, nil, {if_not_exists = true})
end

-- Creates the spaces; called on one node alone.
function found()
    box.schema.space.create('plain'):create_index('pk')
    box.schema.space.create('synchronous', {is_sync = true}):create_index('pk')
    local two = box.schema.space.create('two')
    two:create_index('pk')
    two:create_index('name', {parts = {{2, 'string'}}})
end

-- Stores rows from `first` on, each in a transaction of its own, in so many fibers.
function fill(first, count, fibers)
    local done, s = 0, box.space.plain
    local waiting = fiber.cond()
    for number = 0, fibers - 1 do
        fiber.create(function()
            for id = first + number, first + count - 1, fibers do
                s:replace{id, 'name', id}
            end
            done = done + 1
            waiting:signal()
        end)
    end
    while done < fibers do
        waiting:wait()
    end
end

function fill_two(count)
    local s = box.space.two
    for first = 1, count, 1000 do
        box.begin()
        for id = first, math.min(count, first + 999) do
            s:replace{id, string.format('name %d', (id * 7919) % count), id}
        end
        box.commit()
    end
end

-- Stores rows in one transaction.
function fill_at_once(count)
    local s = box.space.plain
    box.begin()
    for id = 1, count do
        s:replace{id, 'name', id}
    end
    box.commit()
end

-- Returns the number of synchronous commits per second that `fibers` fibers make.
function commit_synchronously(fibers, seconds)
    local s, count, stop = box.space.synchronous, 0, clock.monotonic() + seconds
    local done, waiting = 0, fiber.cond()
    local start = clock.monotonic()
    for number = 1, fibers do
        fiber.create(function()
            local id = number
            while clock.monotonic() < stop do
                s:replace{id, 'name', id}
                count = count + 1
                id = id + fibers
            end
            done = done + 1
            waiting:signal()
        end)
    end
    while done < fibers do
        waiting:wait()
    end
    return count / (clock.monotonic() - start)
end

-- Stores `rate` rows a second, a few at a time, each with the time when it was written.
function trickle(rate, seconds)
    local s, written = box.space.plain, 0
    local start = clock.monotonic()
    while clock.monotonic() - start < seconds do
        -- At most 100 rows a step: a late writer that catches up at once would measure bursts.
        local due = math.min((clock.monotonic() - start) * rate, written + 100)
        while written < due do
            written = written + 1
            fiber.create(s.replace, s, {written % 100000, clock.realtime(), written})
        end
        fiber.sleep(0.0005)
    end
    return written / (clock.monotonic() - start)
end

-- Samples the age of the newest row on this replica; returns its 95th percentile and its maximum in seconds.
function watch_lag(seconds)
    local ages, stop = {}, clock.monotonic() + seconds
    while clock.monotonic() < stop do
        local upstream = box.info.replication[1].upstream
        ages[#ages + 1] = upstream and upstream.lag or 1000
        fiber.sleep(0.002)
    end
    table.sort(ages)
    return ages[math.ceil(#ages * 0.95)], ages[#ages]
end

function processor_time()
    return clock.proc()
end

-- `watch_turns` starts a fiber that sleeps a millisecond at a time; `longest_turn` returns by how many seconds it was
-- late at most since the last call.
local longest = 0
function watch_turns()
    longest = 0
    fiber.create(function()
        local last = clock.monotonic()
        while true do
            fiber.sleep(0.001)
            local now = clock.monotonic()
            longest = math.max(longest, now - last - 0.001)
            last = now
        end
    end)
end
function longest_turn()
    local result = longest
    longest = 0
    return result
end

require('console').listen(console_path)
