-- box.stat and box.stat.net: counters of requests; box.slab and box.runtime: memory.

local direct = require('box.direct')
local errors = require('internal.error')
local finish = require('box.finish')
local idle = require('box.idle_stat')
local python = require('internal.python')

-- Reports to Python the reads that Lua has done alone, and the errors that Lua has made.
local function flush_counts()
    python.count_done(direct.reads, errors.made)
    direct.reads, errors.made = 0, 0
end

-- Fields are assigned in Tarantool's order, because a console shows them in the order of assignment.
local function read_all(read)
    local result = {}
    flush_counts()
    for _, entry in ipairs(finish.value(read())) do
        local counter, values = {}, entry[2]
        counter.rps = values.rps
        counter.total = values.total
        if values.current ~= nil then
            counter.current = values.current
        end
        result[entry[1]] = counter
    end
    return result
end

local function counters(read)
    return {
        __index = function(_, name)
            return read_all(read)[name]
        end,
        __call = function()
            return read_all(read)
        end,
    }
end

local stat = {
    net = setmetatable({}, counters(python.box_stat_net)),
    reset = function()
        flush_counts()
        finish.nothing(python.box_stat_reset())
    end,
    vinyl = idle.vinyl,
    sql = idle.sql,
}

local function percent(format, part, whole)
    return string.format(format .. '%%', 100 * part / (whole + 0.0001))
end

local slab, ceil = {}, math.ceil

-- Tarantool counts memory in units of this many bytes.
local QUOTA_UNIT = 1024

-- Tuples and indexes live in the heap of the process, which grows with them. So the size of the arena is the used
-- memory.
function slab.info()
    local memory = finish.value(python.box_slab())
    local used, quota = memory.used, memory.limit
    local info = {}
    info.items_size = memory.items
    info.items_used = memory.items
    info.items_used_ratio = percent('%0.2f', memory.items, memory.items)
    info.arena_size = used
    info.arena_used = used
    info.arena_used_ratio = percent('%0.1f', used, used)
    info.quota_size = ceil(quota / QUOTA_UNIT) * QUOTA_UNIT
    info.quota_used = used
    info.quota_used_ratio = percent('%0.2f', used, quota)
    return info
end

local LEAST_SLAB = 16384
-- A slab has room for at least this many tuples.
local LEAST_ITEMS = 100

-- Tuples of one size are shown as if slabs held them, as in Tarantool.
function slab.stats()
    local stats = {}
    for i, class in ipairs(finish.value(python.box_slab_classes())) do
        local size, count = class[1], class[2]
        local slab_size = LEAST_SLAB
        while slab_size < size * LEAST_ITEMS do
            slab_size = slab_size * 2
        end
        local used, slabs = size * count, ceil(size * count / slab_size)
        stats[i] = {
            item_size = size, item_count = count, slab_size = slab_size, slab_count = slabs,
            mem_used = used, mem_free = slabs * slab_size - used,
        }
    end
    return stats
end

function slab.check()
end

local runtime = {}

function runtime.info()
    local lua = math.floor(collectgarbage('count') * 1024)
    local info = {}
    info.used = lua
    info.maxalloc = 4398046510080
    info.lua = lua
    return info
end

return {stat = setmetatable(stat, counters(python.box_stat)), slab = slab, runtime = runtime}
