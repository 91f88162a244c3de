-- The program of `python -m test.bench.indexes`, on Lunabox and on Tarantool.
-- Usage: EXECUTABLE indexes.lua DIRECTORY COUNT [KIND [FIGURE]]; prints `name value` lines, the values in microseconds of
-- processor time an operation.
local directory, count, only, figure = arg[1], tonumber(arg[2]), arg[3] or '', arg[4] or ''
local clock = require('clock')

local function start_profiler()
    if figure ~= '' then require('internal.python').start_profiler() end
end

-- Prints the best time of some runs: other work on the machine only makes a run slower.
local function measure(name, operations, body, runs)
    if figure ~= '' and figure ~= name:match('[^.]+$') then
        if runs == 1 then body() end
        return
    end
    local best = math.huge
    for _ = 1, runs or 3 do
        collectgarbage()
        start_profiler()
        local start = clock.thread()
        body()
        best = math.min(best, tonumber(clock.thread() - start))
    end
    io.stdout:write(('%s %.9g\n'):format(name, best / operations * 1e6))
end

box.cfg{
    work_dir = directory, log = 'bench.log', log_level = 4, checkpoint_interval = 0, wal_mode = 'none',
    memtx_memory = 1024 * 1024 * 1024,
}

local seed = 12345
local function random(most)
    seed = (seed * 1103515245 + 12345) % 2147483648
    return math.floor(seed / 2147483648 * most)
end

local side = 1000
local queries = {}
for n = 1, 2000 do queries[n] = {random(side), random(side)} end

-- Makes a space with the index, and measures how long its rows take to be stored, changed and removed.
-- In a unique index a tuple moves to a value that no tuple had, in others to that of the next tuple.
local function measure_changes(kind, options, make)
    local space = box.schema.space.create(kind)
    space:create_index('pk')
    options.unique = options.unique or false
    space:create_index('sk', options)
    local rows = {}
    for id = 1, count do rows[id] = make(id) end
    measure(kind .. '.fill', count, function()
        for id = 1, count do space:replace(rows[id]) end
    end, 1)
    measure(kind .. '.move', count, function()
        for id = 1, count - 1 do
            if options.unique then
                rows[id][2] = rows[id][2] + count
            else
                rows[id][2], rows[id + 1][2] = rows[id + 1][2], rows[id][2]
            end
            space:replace(rows[id])
        end
        space:replace(rows[count])
    end)
    measure(kind .. '.delete_insert', count, function()
        for id = 1, count do
            space:delete(id)
            space:insert(rows[id])
        end
    end)
    return space.index.sk, space
end

local function measure_searches(kind, index, searches)
    for _, search in ipairs(searches) do
        local name, iterator, key_of, limit = unpack(search)
        local options = {iterator = iterator, limit = limit}
        measure(kind .. '.' .. name, #queries, function()
            for _, query in ipairs(queries) do index:select(key_of(query), options) end
        end)
        if not limit or iterator == 'EQ' then
            measure(kind .. '.' .. name .. '_count', #queries, function()
                for _, query in ipairs(queries) do index:count(key_of(query), options) end
            end)
        end
        measure(kind .. '.' .. name .. '_pairs', #queries, function()
            for _, query in ipairs(queries) do
                local seen = 0
                for _, tuple in index:pairs(key_of(query), options) do
                    seen = seen + 1
                    if seen == limit then break end
                end
            end
        end)
    end
    measure(kind .. '.everything', count, function() index:select({}, {iterator = 'ALL'}) end)
end

local kinds = {}

function kinds.tree()
    local index = measure_changes('tree', {parts = {{2, 'unsigned'}}}, function(id) return {id, random(side)} end)
    measure_searches('tree', index, {
        {'eq', 'EQ', function(query) return query[1] end, 10},
        {'range', 'GE', function(query) return query[1] end, 27},
    })
end

function kinds.hash()
    local index, space = measure_changes('hash', {type = 'HASH', unique = true, parts = {{2, 'unsigned'}}}, function(id)
        return {id, id * 7919 % count}
    end)
    local moved = space:get(1)[2] - 7919 % count
    measure_searches('hash', index, {{'eq', 'EQ', function(query) return query[1] + moved end, 10}})
    measure('hash.select', #queries, function()
        for _, query in ipairs(queries) do index:select(query[1] + moved) end
    end)
    measure('hash.get', #queries, function()
        for _, query in ipairs(queries) do index:get(query[1] + moved) end
    end)
end

function kinds.rtree()
    local index = measure_changes('rtree', {type = 'RTREE', parts = {{2, 'array'}}}, function(id)
        return {id, {random(side), random(side)}}
    end)
    -- A square that holds about 27 tuples.
    local half = math.sqrt(27 / count) * side / 2
    measure_searches('rtree', index, {
        {'neighbor', 'NEIGHBOR', function(query) return query end, 10},
        {'eq', 'EQ', function(query) return query end, 10},
        {'overlaps', 'OVERLAPS', function(query)
            local x, y = query[1], query[2]
            return {x - half, y - half, x + half, y + half}
        end},
    })
end

function kinds.bitset()
    local index = measure_changes('bitset', {type = 'BITSET', parts = {{2, 'unsigned'}}}, function(id)
        return {id, random(65536)}
    end)
    measure_searches('bitset', index, {
        {'all_set', 'BITS_ALL_SET', function(query) return query[1] % 64 * 256 + 7 end, 27},
        {'any_set', 'BITS_ANY_SET', function(query) return query[1] + 1 end, 27},
        {'eq', 'EQ', function(query) return query[1] end, 10},
    })
end

function kinds.multikey()
    local index = measure_changes('multikey', {parts = {{'[2][*]', 'unsigned'}}}, function(id)
        return {id, {random(side), side + random(side), 2 * side + random(side)}}
    end)
    measure_searches('multikey', index, {{'eq', 'EQ', function(query) return query[1] end, 10}})
end

function kinds.functional()
    box.schema.func.create('key_of', {
        body = 'function(tuple) return {tuple[2]} end', is_deterministic = true, is_sandboxed = true,
    })
    local index = measure_changes('functional', {parts = {{1, 'unsigned'}}, func = 'key_of'}, function(id)
        return {id, random(side)}
    end)
    measure_searches('functional', index, {{'eq', 'EQ', function(query) return query[1] end, 10}})
end

for _, kind in ipairs{'tree', 'hash', 'rtree', 'bitset', 'multikey', 'functional'} do
    if only == '' or only == kind then kinds[kind]() end
end
os.exit(0)
