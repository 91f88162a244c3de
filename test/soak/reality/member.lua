-- A member of the campaign "elections", run by Lunabox or Tarantool. `options.json` in its directory has its options.
local json = require('json')

local file = io.open('options.json')
local options = json.decode(file:read('*a'))
file:close()

local founds = options.founds
options.founds = nil
box.cfg(options)

if founds then
    box.schema.user.grant('guest', 'super')
    box.schema.space.create('orders', {id = 512, is_sync = true}):create_index('pk')
    box.schema.space.create('notes', {id = 513}):create_index('pk')
end

-- Returns what the member reports of itself, as one table.
function state()
    local info = box.info
    local stopped, vclock = {}, {}
    for id, replica in pairs(info.replication) do
        local upstream = replica.upstream
        if upstream ~= nil and (upstream.status == 'stopped' or upstream.status == 'disconnected') then
            table.insert(stopped, ('%d %s: %s'):format(id, upstream.status, upstream.message or ''))
        end
    end
    for id, lsn in pairs(info.vclock) do
        if id ~= 0 then
            table.insert(vclock, {id, lsn})
        end
    end
    local queue = info.synchro ~= nil and info.synchro.queue or {}
    return {
        status = info.status, id = info.id, is_read_only = info.ro, term = info.election.term, role = info.election.state,
        leader = info.election.leader, vclock = vclock, waiting = queue.len or 0, stopped = stopped,
        contradiction = info.synchro ~= nil and info.synchro.contradiction or '',
    }
end

-- Returns the keys of all rows of a space.
function keys(space)
    local found = setmetatable({}, {__serialize = 'array'})
    for _, tuple in box.space[space]:pairs() do
        table.insert(found, tuple[1])
    end
    return found
end
