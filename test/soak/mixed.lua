-- The server of the campaign "mixed". Usage: EXECUTABLE mixed.lua DIRECTORY URI
-- Functions yield inside their transactions, so that transactions of other clients run in between.
local fiber = require('fiber')

box.cfg{
    work_dir = arg[1], listen = arg[2], log = 'mixed.log', log_level = 4, memtx_use_mvcc_engine = true,
    memtx_memory = 512 * 1024 * 1024, wal_max_size = 16 * 1024 * 1024, checkpoint_interval = 20, checkpoint_count = 2,
}

local ACCOUNTS, MONEY = 100, 1000

box.once('mixed', function()
    box.schema.user.grant('guest', 'super')
    local accounts = box.schema.space.create('accounts')
    accounts:create_index('pk')
    for id = 1, ACCOUNTS do
        accounts:insert{id, MONEY}
    end
    local rows = box.schema.space.create('rows', {id = 1000000})
    rows:create_index('pk')
    rows:create_index('text', {parts = {{3, 'string'}}, unique = false})
end)

local accounts = box.space.accounts

-- Moves money from one account to another in one transaction; a seventh of the calls roll back.
function transfer(from, to, amount)
    box.begin()
    local source, target = accounts:get(from), accounts:get(to)
    fiber.yield()
    accounts:replace{from, source[2] - amount}
    accounts:update(to, {{'=', 2, target[2] + amount}})
    if amount % 7 == 0 then
        box.rollback()
    else
        box.commit()
    end
end

-- Returns the sum of all accounts, read in one transaction.
function total()
    local sum = 0
    box.begin()
    for _, account in accounts:pairs() do
        sum = sum + account[2]
        if account[1] % 30 == 0 then
            fiber.yield()
        end
    end
    box.commit()
    return sum
end

-- Creates, fills, alters, truncates or drops the client's own space; `round` chooses the step.
function define(client, round)
    local name = 'own_' .. client
    local space = box.space[name]
    if space == nil then
        space = box.schema.space.create(name)
        space:create_index('pk')
        return
    end
    local kind = round % 6
    if kind == 0 then
        for first = 1, 300, 100 do
            box.begin()
            for id = first, first + 99 do
                space:replace{id, 'text ' .. (id % 50), round}
            end
            box.commit()
        end
    elseif kind == 1 and space.index.second == nil then
        space:create_index('second', {parts = {{2, 'string'}}, unique = false})
    elseif kind == 2 and space.index.second ~= nil then
        space.index.second:drop()
    elseif kind == 3 then
        space:format({{'id', 'unsigned'}, {'text', 'string', is_nullable = true}})
    elseif kind == 4 then
        space:truncate()
    elseif kind == 5 then
        space:drop()
    end
end

-- Pushes `count` messages of a kilobyte, then returns a large result.
function talk(count)
    for number = 1, count do
        box.session.push({number, ('x'):rep(1000)})
    end
    return ('y'):rep(count * 10000)
end

-- Returns the present numbers of fibers, rows and connections, and the sum of all accounts.
function report()
    local fibers = 0
    for _ in pairs(fiber.info({backtrace = false})) do
        fibers = fibers + 1
    end
    return {fibers = fibers, sum = total(), rows = box.space.rows:len(), connections = box.stat.net().CONNECTIONS.current}
end
