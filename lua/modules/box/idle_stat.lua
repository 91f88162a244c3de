-- What box.stat and box.info tell of the vinyl engine and of SQL, which are not here: what Tarantool tells while nothing
-- uses them. Programs that gather metrics read these fields wherever they run.

-- Bytes per second: Tarantool's guess of a dump's speed until it has seen one, and the limit of writes that follows.
local DUMP_BANDWIDTH = 10485760

-- Sections and their counters in Tarantool's order, which decides how a console shows them.
local SECTIONS = {
    {'tx', 'commit', 'rollback', 'conflict', 'transactions', 'statements', 'gap_locks', 'read_views'},
    {'memory', 'tx', 'level0', 'tuple_cache', 'page_index', 'bloom_filter'},
    {'disk', 'data', 'index', 'data_compacted'},
    {
        'scheduler', 'tasks_inprogress', 'tasks_completed', 'tasks_failed', 'dump_count', 'dump_time', 'dump_input',
        'dump_output', 'compaction_time', 'compaction_input', 'compaction_output', 'compaction_queue',
    },
    {'regulator', 'write_rate', 'dump_bandwidth', 'dump_watermark', 'rate_limit'},
}

local M = {}

-- The memory at which a dump would begin, in bytes: what is left of `vinyl_memory` for a write rate of one byte.
local function dump_watermark()
    return math.floor(box.cfg.vinyl_memory * DUMP_BANDWIDTH / (DUMP_BANDWIDTH + 1))
end

function M.vinyl()
    local result = {}
    for _, names in ipairs(SECTIONS) do
        local section = {}
        for i = 2, #names do
            section[names[i]] = 0
        end
        result[names[1]] = section
    end
    local regulator = result.regulator
    regulator.dump_bandwidth, regulator.rate_limit = DUMP_BANDWIDTH, DUMP_BANDWIDTH
    regulator.dump_watermark = dump_watermark()
    return result
end

function M.sql()
    local result = {}
    for _, name in ipairs({'search', 'sort', 'found', 'xfer'}) do
        result[('sql_%s_count'):format(name)] = 0
    end
    return result
end

return M
