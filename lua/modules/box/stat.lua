-- box.stat and box.stat.net: counters of requests; box.slab and box.runtime: memory.

local finish = require('box.finish')
local python = require('internal.python')

local function counters(read)
    return {
        __index = function(_, name)
            return finish.value(read())[name]
        end,
        __call = function()
            return finish.value(read())
        end,
    }
end

local stat = {
    net = setmetatable({}, counters(python.box_stat_net)),
    reset = function() finish.nothing(python.box_stat_reset()) end,
    vinyl = function() return {} end,
    sql = function() return {} end,
}

local function percent(format, part, whole)
    return string.format(format .. '%%', 100 * part / (whole + 0.0001))
end

local slab = {}

-- Tuples and indexes live in the process's heap: what the peer's slabs hold is the sum of both.
function slab.info()
    local memory = finish.value(python.box_info('memory'))
    local used, quota = memory.data + memory.index, box.cfg.memtx_memory
    return {
        items_size = memory.data, items_used = memory.data,
        items_used_ratio = percent('%0.2f', memory.data, memory.data),
        arena_size = used, arena_used = used, arena_used_ratio = percent('%0.1f', used, used),
        quota_size = quota, quota_used = used, quota_used_ratio = percent('%0.2f', used, quota),
    }
end

-- There are no slab classes.
function slab.stats()
    return {}
end

function slab.check()
end

local runtime = {}

function runtime.info()
    local lua = math.floor(collectgarbage('count') * 1024)
    return {used = lua, maxalloc = 4398046510080, lua = lua}
end

return {stat = setmetatable(stat, counters(python.box_stat)), slab = slab, runtime = runtime}
