-- The order in which pairs(box.cfg) visits the options, which the console shows. In Tarantool it follows from the order in
-- which they come into a table: first those of the user, then the defaults, then those of the log.
local python = require('internal.python')

-- The options in the order of Tarantool's table of defaults. Those without one have a place in the table, too.
local DEFAULTS = {
    listen = nil, memtx_memory = 1, strip_core = 1, memtx_min_tuple_size = 1, memtx_max_tuple_size = 1,
    slab_alloc_granularity = 1, slab_alloc_factor = 1, iproto_threads = 1, work_dir = nil, memtx_dir = 1, wal_dir = 1,
    vinyl_dir = 1, vinyl_memory = 1, vinyl_cache = 1, vinyl_max_tuple_size = 1, vinyl_read_threads = 1,
    vinyl_write_threads = 1, vinyl_timeout = 1, vinyl_run_count_per_level = 1, vinyl_run_size_ratio = 1,
    vinyl_range_size = nil, vinyl_page_size = 1, vinyl_bloom_fpr = 1, io_collect_interval = nil, readahead = 1,
    snap_io_rate_limit = nil, too_long_threshold = 1, wal_mode = 1, wal_max_size = 1, wal_dir_rescan_delay = 1,
    wal_queue_max_size = 1, wal_cleanup_delay = 1, force_recovery = 1, replication = nil, instance_uuid = nil,
    replicaset_uuid = nil, custom_proc_title = nil, pid_file = nil, background = 1, username = nil, coredump = 1,
    read_only = 1, hot_standby = 1, memtx_use_mvcc_engine = 1, checkpoint_interval = 1, checkpoint_wal_threshold = 1,
    checkpoint_count = 1, worker_pool_threads = 1, election_mode = 1, election_timeout = 1, replication_timeout = 1,
    replication_sync_lag = 1, replication_sync_timeout = 1, replication_synchro_quorum = 1,
    replication_synchro_timeout = 1, replication_connect_timeout = 1, replication_connect_quorum = nil,
    replication_skip_conflict = 1, replication_anon = 1, feedback_enabled = 1, feedback_crashinfo = 1,
    feedback_host = 1, feedback_interval = 1, net_msg_max = 1, sql_cache_size = 1,
}
local OF_LOG = {log = 1, log_nonblock = 1, log_level = 1, log_format = 1}

-- Returns the names of the user's options as keys, with the present names of those that have former ones.
local function given_names(options)
    local names = {}
    for name in pairs(options) do
        local present = python.box_option_name(name)
        if present ~= name then
            names[name] = nil -- takes a place in the table, as in Tarantool
        end
        names[present] = 1
    end
    return names
end

-- Returns a table with the values of the first box.cfg, which the user has called with `options`.
return function(options, values)
    local ordered = {}
    for name in pairs(given_names(options)) do
        ordered[name] = values[name] -- nil takes a place, too
    end
    for _, names in ipairs({DEFAULTS, OF_LOG, values}) do
        for name in pairs(names) do
            if ordered[name] == nil then
                ordered[name] = values[name]
            end
        end
    end
    return ordered
end
