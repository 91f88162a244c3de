-- The data of an instance for `lunabox top`.
--
-- This text is sent to nodes, Tarantool's too, so it only uses what every node offers to users. Data that the user may
-- not see is left out.
--
--   sample(limit, is_timed) -> a table; lists of spaces and fibers have at most `limit` entries, the largest first.
--       `is_timed` starts to measure times of fibers; `began_timing` in the table means that they were not measured before
--   stop_timing()
local MOST_SPACES = 20000

local M = {}

local function guarded(read, ...)
    local ok, value = pcall(read, ...)
    return ok and value or nil
end

local function first(list, limit, is_before)
    table.sort(list, is_before)
    for i = #list, limit + 1, -1 do
        list[i] = nil
    end
    return list
end

-- Returns a map whose keys are texts, because a map with numbers as keys would cross as a list with holes.
local function texts(map)
    local result = {}
    for key, value in pairs(map or {}) do
        result[tostring(key)] = value
    end
    return result
end

local function side(described)
    if described == nil then
        return nil
    end
    return {
        status = described.status, lag = described.lag, idle = described.idle, peer = described.peer,
        message = described.message, vclock = described.vclock and texts(described.vclock) or nil,
    }
end

local function replicas(info)
    local list = {}
    for _, replica in pairs(info.replication or {}) do
        list[#list + 1] = {
            id = replica.id, uuid = replica.uuid, lsn = tonumber(replica.lsn),
            upstream = side(replica.upstream), downstream = side(replica.downstream),
        }
    end
    return first(list, 64, function(left, right) return left.id < right.id end)
end

local function spaces(limit)
    local list, seen = {}, 0
    for id, space in pairs(box.space) do
        seen = seen + 1
        if seen > MOST_SPACES then
            break
        elseif type(id) == 'number' and id >= 512 and space.index[0] ~= nil then
            local rows = guarded(space.len, space)
            if rows ~= nil then
                list[#list + 1] = {name = space.name, rows = tonumber(rows), space = space}
            end
        end
    end
    first(list, limit, function(left, right)
        return left.rows > right.rows or left.rows == right.rows and left.name < right.name
    end)
    for _, entry in ipairs(list) do
        entry.bytes, entry.engine = tonumber(guarded(entry.space.bsize, entry.space) or 0), entry.space.engine
        entry.space = nil
    end
    return list
end

local function fibers(limit)
    local list = {}
    local fiber = require('fiber')
    local ok, top = pcall(fiber.top)
    local times = ok and top.cpu or {}
    local function add(id, name, switches, time)
        local measured = times[('%d/%s'):format(id, name)] or {}
        list[#list + 1] = {
            id = id, name = name, switches = tonumber(switches), time = tonumber(measured.time or time or 0),
            share = tonumber(measured.average),
        }
    end
    for _, entry in pairs(fiber.info()) do
        add(entry.fid, entry.name, entry.csw, entry.time)
    end
    if times['1/sched'] then
        add(1, 'sched', 0)
    end
    return first(list, limit, function(left, right)
        if left.time ~= right.time then
            return left.time > right.time
        end
        return left.switches > right.switches or left.switches == right.switches and left.id < right.id
    end)
end

local function counters(read)
    local result = {}
    for name, entry in pairs(read() or {}) do
        result[name] = {total = tonumber(entry.total), rps = tonumber(entry.rps), current = tonumber(entry.current)}
    end
    return result
end

local function checkpoints(gc)
    local last = gc.checkpoints and gc.checkpoints[#gc.checkpoints]
    return {
        is_writing = gc.checkpoint_is_in_progress, count = gc.checkpoints and #gc.checkpoints or 0,
        last = last and tonumber(last.signature) or nil, consumers = gc.consumers and #gc.consumers or 0,
    }
end

-- Starts to measure times of fibers. Returns whether they were not measured before.
local function begin_timing()
    local fiber = require('fiber')
    if pcall(fiber.top) then
        return false
    end
    return (pcall(fiber.top_enable))
end

function M.stop_timing()
    require('fiber').top_disable()
end

function M.sample(limit, is_timed)
    local began_timing = is_timed and begin_timing() or nil
    if type(box.cfg) ~= 'table' then
        return {
            status = 'unconfigured', spaces = {}, fibers = fibers(limit), replication = {}, began_timing = began_timing,
        }
    end
    local info = box.info
    local synchro = guarded(function() return info.synchro end)
    local election = guarded(function() return info.election end)
    local slab = guarded(box.slab.info) or {}
    local sample = {
        id = info.id, uuid = info.uuid, cluster = info.cluster and info.cluster.uuid, status = info.status,
        version = info.version, ro = info.ro, uptime = tonumber(info.uptime), pid = info.pid, lsn = tonumber(info.lsn),
        signature = tonumber(info.signature), vclock = texts(info.vclock), listen = info.listen,
        election = election and {
            state = election.state, term = tonumber(election.term), vote = election.vote, leader = election.leader,
        },
        queue = synchro and synchro.queue and {
            length = tonumber(synchro.queue.len), owner = synchro.queue.owner, quorum = synchro.quorum,
        },
        memory = {
            used = tonumber(slab.arena_used or 0), quota = tonumber(slab.quota_size or 0),
            lua = math.floor(collectgarbage('count') * 1024),
        },
        wal = {mode = box.cfg.wal_mode, directory = box.cfg.wal_dir},
        snapshot = guarded(function() return checkpoints(info.gc()) end) or {},
        requests = guarded(counters, box.stat) or {}, net = guarded(counters, box.stat.net) or {},
        spaces = guarded(spaces, limit) or {}, fibers = guarded(fibers, limit) or {}, replication = replicas(info),
        began_timing = began_timing,
    }
    return sample
end

return M
