"""The option registry of `box.cfg`: name, type, default, and whether it changes at run time.

Names and defaults were observed on Tarantool (2.8.1). `option_checks.py` has the checks.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

NUMBER: Final = "number"
STRING: Final = "string"
BOOLEAN: Final = "boolean"

Value = Any
Values = dict[str, Value]


_LAST: Final = 1000
"""The `order` of an option that has none: after all others."""


class Option(NamedTuple):
    """An option of `box.cfg`. `types` is Tarantool's text for its Lua types; `order` sorts the application of
    changes: options without one are the last.
    """

    name: str
    types: str
    default: Value = None
    dynamic: bool = False
    order: int = _LAST


def _options(*rows: Option) -> dict[str, Option]:
    return {row.name: row for row in rows}


OPTIONS: dict[str, Option] = _options(
    Option("background", BOOLEAN, False),
    Option("checkpoint_count", NUMBER, 2, dynamic=True),
    Option("checkpoint_interval", NUMBER, 3600, dynamic=True),
    Option("checkpoint_wal_threshold", NUMBER, 1e18, dynamic=True),
    Option("coredump", BOOLEAN, False),
    Option("custom_proc_title", STRING, dynamic=True),
    Option("election_mode", STRING, "off", dynamic=True, order=300),
    Option("election_timeout", NUMBER, 5, dynamic=True, order=320),
    Option("feedback_crashinfo", BOOLEAN, True, dynamic=True),
    Option("feedback_enabled", BOOLEAN, True, dynamic=True),
    Option("feedback_host", STRING, "https://feedback.tarantool.io", dynamic=True),
    Option("feedback_interval", NUMBER, 3600, dynamic=True),
    Option("force_recovery", BOOLEAN, False, dynamic=True),
    Option("hot_standby", BOOLEAN, False),
    Option("instance_uuid", STRING, dynamic=True),
    Option("io_collect_interval", NUMBER, dynamic=True),
    Option("iproto_greeting_version", STRING, dynamic=True),
    Option("iproto_threads", NUMBER, 1),
    Option("listen", "string, number", dynamic=True, order=100),
    Option("log", STRING),
    Option("log_format", STRING, "plain", dynamic=True),
    Option("log_level", "number, string", 5, dynamic=True),
    Option("log_nonblock", BOOLEAN),
    Option("memtx_dir", STRING, "."),
    Option("memtx_max_tuple_size", NUMBER, 1048576, dynamic=True),
    Option("memtx_memory", NUMBER, 268435456, dynamic=True),
    Option("memtx_min_tuple_size", NUMBER, 16),
    Option("memtx_use_mvcc_engine", BOOLEAN, False),
    Option("net_msg_max", NUMBER, 768, dynamic=True),
    Option("pid_file", STRING),
    Option("read_only", BOOLEAN, False, dynamic=True),
    Option("readahead", NUMBER, 16320, dynamic=True),
    Option("replicaset_uuid", STRING, dynamic=True),
    Option("replication", "string, number, table", dynamic=True, order=200),
    Option("replication_anon", BOOLEAN, False, dynamic=True, order=250),
    Option("replication_connect_quorum", NUMBER, dynamic=True, order=150),
    Option("replication_connect_timeout", NUMBER, 30, dynamic=True, order=150),
    Option("replication_fetch_once", BOOLEAN, dynamic=True, order=150),
    Option("replication_keep_promotions", BOOLEAN, dynamic=True),
    Option("replication_promote_quorum", BOOLEAN, dynamic=True),
    Option("replication_skip_conflict", BOOLEAN, False, dynamic=True),
    Option("replication_sync_lag", NUMBER, 10, dynamic=True, order=150),
    Option("replication_sync_timeout", NUMBER, 300, dynamic=True, order=150),
    Option("replication_synchro_quorum", "string, number", 1, dynamic=True, order=150),
    Option("replication_synchro_timeout", NUMBER, 5, dynamic=True, order=150),
    Option("replication_timeout", NUMBER, 1, dynamic=True, order=150),
    Option("slab_alloc_factor", NUMBER, 1.05),
    Option("slab_alloc_granularity", NUMBER, 8),
    Option("snap_io_rate_limit", NUMBER, dynamic=True),
    Option("sql_cache_size", NUMBER, 5242880, dynamic=True),
    Option("strip_core", BOOLEAN, True),
    Option("too_long_threshold", NUMBER, 0.5, dynamic=True),
    Option("txn_isolation", "string, number", dynamic=True),
    Option("txn_timeout", NUMBER, dynamic=True),
    Option("username", STRING),
    Option("vinyl_bloom_fpr", NUMBER, 0.05),
    Option("vinyl_cache", NUMBER, 134217728, dynamic=True),
    Option("vinyl_dir", STRING, "."),
    Option("vinyl_max_tuple_size", NUMBER, 1048576, dynamic=True),
    Option("vinyl_memory", NUMBER, 134217728, dynamic=True),
    Option("vinyl_page_size", NUMBER, 8192),
    Option("vinyl_range_size", NUMBER),
    Option("vinyl_read_threads", NUMBER, 1),
    Option("vinyl_run_count_per_level", NUMBER, 2),
    Option("vinyl_run_size_ratio", NUMBER, 3.5),
    Option("vinyl_timeout", NUMBER, 60, dynamic=True),
    Option("vinyl_write_threads", NUMBER, 4),
    Option("wal_cleanup_delay", NUMBER, 14400, dynamic=True, order=260),
    Option("wal_dir", STRING, "."),
    Option("wal_dir_rescan_delay", NUMBER, 2, dynamic=True),
    Option("wal_max_size", NUMBER, 268435456),
    Option("wal_mode", STRING, "write"),
    Option("wal_queue_max_size", NUMBER, 16777216, dynamic=True),
    Option("work_dir", STRING),
    Option("worker_pool_threads", NUMBER, 4, dynamic=True),
)

DEPRECATED_NAMES: dict[str, str] = {
    "logger": "log",
    "logger_nonblock": "log_nonblock",
    "panic_on_snap_error": "force_recovery",
    "panic_on_wal_error": "force_recovery",
    "replication_source": "replication",
    "rows_per_wal": "wal_max_size",
    "slab_alloc_arena": "memtx_memory",
    "slab_alloc_maximal": "memtx_max_tuple_size",
    "slab_alloc_minimal": "memtx_min_tuple_size",
    "snap_dir": "memtx_dir",
    "snapshot_count": "checkpoint_count",
    "snapshot_period": "checkpoint_interval",
}

_TARANTOOL_ORDER: Final = (
    "io_collect_interval checkpoint_count wal_queue_max_size feedback_host custom_proc_title log_level "
    "checkpoint_interval replication_anon replication_connect_timeout feedback_crashinfo wal_cleanup_delay "
    "replication_timeout election_timeout election_mode feedback_enabled too_long_threshold memtx_memory "
    "replication_sync_timeout vinyl_cache vinyl_max_tuple_size snap_io_rate_limit vinyl_timeout net_msg_max listen "
    "replication_synchro_quorum replication instance_uuid replication_skip_conflict force_recovery "
    "memtx_max_tuple_size replication_synchro_timeout feedback_interval sql_cache_size replication_sync_lag "
    "worker_pool_threads replication_connect_quorum read_only vinyl_memory log_format readahead "
    "checkpoint_wal_threshold replicaset_uuid wal_dir_rescan_delay"
).split()
START_ORDER: Final = (
    *_TARANTOOL_ORDER,
    *(name for name, option in OPTIONS.items() if option.dynamic and name not in _TARANTOOL_ORDER),
)
"""The options that may change, in the order in which Tarantool's log names them after a start: that of a hash table."""
PAUSES: Final = ("feedback_crashinfo", "checkpoint_wal_threshold")
"""The options of `START_ORDER` before which Tarantool lets other fibers run for the first time: with a feedback daemon,
which it starts anew there, and without one, when it tells the thread of the log the threshold."""
