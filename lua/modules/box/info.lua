-- box.info: fields are computed when they are read; box.info() and the console read all of them.

local finish = require('box.finish')
local idle = require('box.idle_stat')
local new_table = require('table.new')
local python = require('internal.python')

local MAPPING = {__serialize = 'mapping'}
local MAP = {__serialize = 'map'}

local function field(name)
    return finish.value(python.box_info(name))
end

local M = {version = field('version'), package = field('package')}

-- Returns a copy of a vector clock that a console shows in one line.
local function vclock(value)
    local ids = {}
    for id in pairs(value) do
        ids[#ids + 1] = id
    end
    table.sort(ids)
    -- Tarantool makes the table with this room, too, which decides the order of pairs().
    local result = new_table(0, #ids)
    for _, id in ipairs(ids) do
        result[id] = value[id]
    end
    return setmetatable(result, MAP)
end

-- Returns a copy with the fields assigned in this order, which is the order in which a console shows them.
local function ordered(result, names, source)
    for _, name in ipairs(names) do
        if source[name] ~= nil then
            result[name] = source[name]
        end
    end
    return result
end

local REPLICA = {'id', 'uuid', 'lsn', 'upstream', 'downstream'}
local UPSTREAM = {'status', 'lag', 'idle', 'peer', 'fetches', 'message', 'system_message'}
local DOWNSTREAM = {'status', 'vclock', 'idle', 'message', 'system_message'}

local function describe_replica(replica)
    local upstream, downstream = replica.upstream, replica.downstream
    replica.upstream = upstream and ordered({}, UPSTREAM, upstream)
    if downstream ~= nil then
        downstream.vclock = downstream.vclock and vclock(downstream.vclock)
        replica.downstream = ordered({}, DOWNSTREAM, downstream)
    end
    -- Tarantool makes the table with this room, which decides the order of pairs().
    return ordered(new_table(0, 16), REPLICA, replica)
end

local function describe_replicas(replicas)
    for id, replica in pairs(replicas) do
        replicas[id] = describe_replica(replica)
    end
    return setmetatable(replicas, MAPPING)
end

-- Makes a field that users call for its value, such as box.info.memory(), so that box.info itself stays short.
local function on_call(read)
    return function()
        return setmetatable({}, {__call = read})
    end
end

local GC = {'vclock', 'signature', 'checkpoint_is_in_progress', 'is_paused', 'checkpoints', 'consumers'}
local CHECKPOINT, CONSUMER = {'vclock', 'signature', 'references'}, {'name', 'vclock', 'signature'}

local function describe_all(list, names)
    local result = {}
    for i, entry in ipairs(list) do
        entry.vclock = vclock(entry.vclock)
        result[i] = ordered({}, names, entry)
    end
    return result
end

local function read_gc()
    local gc = field('gc')
    gc.vclock = vclock(gc.vclock)
    gc.checkpoints, gc.consumers = describe_all(gc.checkpoints, CHECKPOINT), describe_all(gc.consumers, CONSUMER)
    return ordered({}, GC, gc)
end

local function read_memory()
    local memory = field('memory')
    memory.lua = math.floor(collectgarbage('count') * 1024)
    return ordered(new_table(0, 6), {'data', 'index', 'cache', 'tx', 'net', 'lua'}, memory)
end

local readers = {
    vclock = function() return vclock(field('vclock')) end,
    replication = function() return describe_replicas(field('replication')) end,
    replication_anon = function()
        return setmetatable({count = field('anonymous_count')}, {
            __call = function() return describe_replicas(field('replication_anon')) end,
        })
    end,
    listen = function()
        local address = field('listen')
        return address ~= nil and address or nil
    end,
    election = function() return ordered({}, {'state', 'term', 'vote', 'leader'}, field('election')) end,
    synchro = function() return ordered({}, {'quorum', 'queue', 'contradiction'}, field('synchro')) end,
    memory = on_call(read_memory),
    gc = on_call(read_gc),
    vinyl = on_call(idle.vinyl),
    sql = on_call(function()
        local cache = finish.value(python.sql_cache())
        return {cache = {size = cache[2], stmt_count = cache[1]}}
    end),
}

-- In Tarantool's order, which a console shows.
local FIELDS = {
    'id', 'uuid', 'lsn', 'signature', 'vclock', 'ro', 'replication', 'replication_anon', 'status', 'uptime', 'pid',
    'cluster', 'memory', 'gc', 'vinyl', 'sql', 'listen', 'election', 'synchro',
}
for _, name in ipairs(FIELDS) do
    readers[name] = readers[name] or function() return field(name) end
end

-- A field of 2.11, which box.info() does not show.
function readers.schema_version()
    return box.internal.schema_version()
end

-- Returns the features of the 2.11 line that 2.8.1 lacks, by name: a field of Lunabox alone, which box.info() omits.
function readers.features()
    return require('box.features')()
end

-- Returns box.info.server, which Tarantool has kept from version 1.6.
function readers.server()
    return {id = field('id'), uuid = field('uuid'), lsn = field('lsn'), ro = field('ro')}
end

local function read(_, name)
    local reader = readers[name]
    return reader and reader()
end

local function read_all()
    local all = {}
    all.version, all.package = M.version, M.package
    for _, name in ipairs(FIELDS) do
        all[name] = readers[name]()
    end
    return setmetatable(all, {__index = {server = readers.server}})
end

return setmetatable(M, {__index = read, __call = read_all, __serialize = read_all})
