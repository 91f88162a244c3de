-- The statistics of the vinyl engine in box.stat and box.info. The engine is missing, so these are Tarantool's values
-- while nothing uses it. Programs that collect metrics read these fields on every node.

-- Bytes per second: the speed of a dump that Tarantool assumes before the first one, and the limit of writes from it.
local DUMP_BANDWIDTH = 10485760

-- Sections and counters in Tarantool's order, which a console shows.
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

-- The memory in bytes at which a dump would begin: the part of `vinyl_memory` for a write rate of one byte.
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
