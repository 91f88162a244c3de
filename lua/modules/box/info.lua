-- box.info: fields are computed when they are read; box.info() and the console get them all.

local finish = require('box.finish')
local python = require('internal.python')

local MAPPING = {__serialize = 'mapping'}
local MAP = {__serialize = 'map'}

local function field(name)
    return finish.value(python.box_info(name))
end

local M = {version = field('version'), package = field('package')}

-- A vector clock is shown in one line; its lsns are numbers.
local function vclock(value)
    return setmetatable(value, MAP)
end

local function describe_replica(replica)
    if replica.downstream ~= nil and replica.downstream.vclock ~= nil then
        vclock(replica.downstream.vclock)
    end
    local ordered = {}
    for _, name in ipairs({'id', 'uuid', 'lsn', 'upstream', 'downstream'}) do
        ordered[name] = replica[name]
    end
    return ordered
end

local function describe_replicas(replicas)
    for id, replica in pairs(replicas) do
        replicas[id] = describe_replica(replica)
    end
    return setmetatable(replicas, MAPPING)
end

-- A field that is called for its value, so that box.info itself stays short.
local function on_call(read)
    return function()
        return setmetatable({}, {__call = read})
    end
end

local function read_gc()
    local gc = field('gc')
    vclock(gc.vclock)
    for _, list in ipairs({gc.checkpoints, gc.consumers}) do
        for _, entry in ipairs(list) do
            vclock(entry.vclock)
        end
    end
    return gc
end

local function read_memory()
    local memory = field('memory')
    memory.lua = math.floor(collectgarbage('count') * 1024)
    return memory
end

local function nothing()
    return {}
end

local readers = {
    vclock = function() return vclock(field('vclock')) end,
    replication = function() return describe_replicas(field('replication')) end,
    replication_anon = function()
        return setmetatable({count = field('anonymous_count')}, {
            __call = function() return describe_replicas(field('replication_anon')) end,
        })
    end,
    memory = on_call(read_memory),
    gc = on_call(read_gc),
    vinyl = on_call(nothing),
    sql = on_call(nothing),
}

-- In the peer's order, which decides how a console shows them.
local FIELDS = {
    'id', 'uuid', 'lsn', 'signature', 'vclock', 'ro', 'replication', 'replication_anon', 'status', 'uptime', 'pid',
    'cluster', 'memory', 'gc', 'vinyl', 'sql', 'listen', 'election', 'synchro',
}
for _, name in ipairs(FIELDS) do
    readers[name] = readers[name] or function() return field(name) end
end

-- Of 1.6.
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
