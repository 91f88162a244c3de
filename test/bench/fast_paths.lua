-- Measures one figure of `python -m test.bench.fast_paths`: prints microseconds of processor time an operation, the best
-- of five runs.
-- Usage: EXECUTABLE fast_paths.lua DIRECTORY WAL_MODE COUNT FIGURE; the WAL_MODE `versions` is `none` with MVCC.
local directory, wal_mode, count, figure = arg[1], arg[2], tonumber(arg[3]), arg[4]
local has_versions = wal_mode == 'versions'
if has_versions then wal_mode = 'none' end
local clock = require('clock')
local fiber = require('fiber')

box.cfg{work_dir = directory, log = 'bench.log', log_level = 4, checkpoint_interval = 0, wal_mode = wal_mode,
    memtx_use_mvcc_engine = has_versions}
local space = box.schema.space.create('bench', {format = {
    {'id', 'unsigned'}, {'name', 'string'}, {'value', 'double'},
}})
space:create_index('pk')
for id = 1, count do space:replace{id, 'name', 1.5} end

-- Makes a space with the secondary index `other`, whose parts are in the second field.
local function indexed(options, value_of)
    if box.space.indexed == nil then
        local made = box.schema.space.create('indexed')
        made:create_index('pk')
        made:create_index('other', options)
        for id = 1, count do made:replace{id, value_of(id)} end
    end
    return box.space.indexed.index.other
end

local function index_of_points()
    local options = {type = 'RTREE', unique = false, parts = {{2, 'array'}}}
    return indexed(options, function(id) return {id % 100, math.floor(id / 100)} end)
end

-- Calls `work` for all ids in 100 fibers, so that the log writes their rows in batches.
local function of_fibers(work)
    local done, waiting = 0, fiber.cond()
    for number = 1, 100 do
        fiber.create(function()
            for id = number, count, 100 do work(id) end
            done = done + 1
            waiting:signal()
        end)
    end
    while done < 100 do waiting:wait() end
end

-- Executes statements with other constants each time.
local texts = 0
local function execute(text)
    for _ = 1, count do
        texts = texts + 1
        local _, err = box.execute(text:format(texts))
        if err ~= nil then error(err) end
    end
end

local figures = {
    new_point_texts = function() execute('SELECT * FROM "bench" WHERE "id" = %d') end,
    new_texts = function() execute('SELECT "id" + 1 FROM "bench" WHERE "id" > %d LIMIT 1') end,
    new_changes = function() execute('UPDATE "bench" SET "value" = "value" + 1 WHERE "id" = %d') end,
    synchronous = function()
        if box.space.synchronous == nil then
            box.schema.space.create('synchronous', {is_sync = true}):create_index('pk')
        end
        local synchronous = box.space.synchronous
        of_fibers(function(id) synchronous:replace{id, 'name', 1.5} end)
    end,
    get = function() for id = 1, count do space:get(id) end end,
    get_pair = function()
        local options = {type = 'HASH', parts = {{1, 'unsigned'}, {2, 'string'}}}
        local index = indexed(options, function(id) return 'name ' .. id end)
        for id = 1, count do index:get{id, 'name 1'} end
    end,
    select_some = function()
        local index = indexed({unique = false, parts = {{2, 'unsigned'}}}, function(id) return math.floor(id / 10) end)
        for id = 1, count do index:select(math.floor(id / 10), {limit = 10}) end
    end,
    select_point = function()
        local index = index_of_points()
        for id = 1, count do index:select{id % 100, math.floor(id / 100)} end
    end,
    count_point = function()
        local index = index_of_points()
        for id = 1, count do index:count{id % 100, math.floor(id / 100)} end
    end,
    pairs_one = function()
        local index = indexed({type = 'HASH', parts = {{2, 'unsigned'}}}, function(id) return id end)
        for id = 1, count do for _, _ in index:pairs(id) do end end
    end,
    get_in_transaction = function()
        box.begin()
        for id = 1, count do space:get(id) end
        box.commit()
    end,
    pairs = function() for _, _ in space:pairs() do end end,
    replace = function() for id = 1, count do space:replace{id, 'name', 1.5} end end,
    update = function() for id = 1, count do space:update(id, {{'=', 2, 'new name'}}) end end,
    upsert = function() for id = 1, count do space:upsert({id, 'name', 1.5}, {{'+', 3, 1}}) end end,
    delete_insert = function()
        for id = 1, count do
            space:delete(id)
            space:insert{id, 'name', 1.5}
        end
    end,
    transaction = function()
        for first = 1, count - 9, 10 do
            box.begin()
            for id = first, first + 9 do space:replace{id, 'name', 1.5} end
            box.commit()
        end
    end,
}

local best = math.huge
for _ = 1, 5 do
    collectgarbage()
    local start = clock.proc()
    figures[figure]()
    best = math.min(best, clock.proc() - start)
end
print(('%.6g'):format(best / count * 1e6))
os.exit(0)
