"""Scripts that set each option of `box.cfg`, for `command_line_cases`: wrong values, a right one, and later changes."""

from __future__ import annotations

VALUES: dict[str, tuple[str, ...]] = {
    "background": ("false",),
    "checkpoint_count": ("3", "1", "2.5", "0", "-1"),
    "checkpoint_interval": ("100", "0", "0.5", "-1"),
    "checkpoint_wal_threshold": ("1000", "1e6", "0", "-1"),
    "coredump": ("false", "true"),
    "custom_proc_title": ("'title'", "''"),
    "election_mode": ("'off'", "'voter'", "'manual'", "'candidate'", "'nope'"),
    "election_timeout": ("3", "0.1", "0", "-1"),
    "feedback_crashinfo": ("false", "true"),
    "feedback_enabled": ("false", "true"),
    "feedback_host": ("'http://localhost:1'", "''"),
    "feedback_interval": ("100", "0", "-1"),
    "force_recovery": ("true", "false"),
    "hot_standby": ("false", "true"),
    "instance_uuid": ("'11111111-1111-4111-8111-111111111111'", "'nope'", "'00000000-0000-0000-0000-000000000000'"),
    "io_collect_interval": ("0.01", "0", "-1"),
    "iproto_threads": ("2", "0", "1001", "1.5"),
    "listen": ("'unix/:./sock'", "'nope:nope'", "''", "'a b'"),
    "memtx_dir": ("'d'", "'.'"),
    "memtx_max_tuple_size": ("100000", "0", "-1", "1e12"),
    "memtx_memory": ("100000000", "200000000", "0", "-1", "1e30"),
    "memtx_min_tuple_size": ("32", "7", "2000000", "-1"),
    "memtx_use_mvcc_engine": ("true", "false"),
    "net_msg_max": ("1000", "2", "1", "-5"),
    "pid_file": ("'p.pid'", "'q.pid'"),
    "read_only": ("true", "false"),
    "readahead": ("20000", "127", "128", "-1", "1e30"),
    "replicaset_uuid": ("'11111111-1111-4111-8111-111111111111'", "'nope'", "'00000000-0000-0000-0000-000000000000'"),
    "replication": ("{}", "''", "'nope nope'", "{{}}", "{'unix/:./a', 5, {}}"),
    "replication_anon": ("false", "true"),
    "replication_connect_quorum": ("0", "1", "-1"),
    "replication_connect_timeout": ("5", "0.5", "0", "-1"),
    "replication_skip_conflict": ("true", "false"),
    "replication_sync_lag": ("5", "0.1", "0", "-1"),
    "replication_sync_timeout": ("5", "0.1", "0", "-1"),
    "replication_synchro_quorum": ("1", "2", "'N'", "'N / 2 + 1'", "'N +'", "'x'", "0", "33", "'os.exit()'"),
    "replication_synchro_timeout": ("3", "0.1", "0", "-1"),
    "replication_timeout": ("2", "0.1", "0", "-1"),
    "slab_alloc_factor": ("1.1", "2", "1", "0.5", "3"),
    "slab_alloc_granularity": ("16", "4", "3", "24", "32768"),
    "snap_io_rate_limit": ("10", "0", "-1"),
    "sql_cache_size": ("1000000", "0", "-1"),
    "strip_core": ("false", "true"),
    "too_long_threshold": ("1", "0.01", "0", "-1"),
    "username": ("''",),
    "vinyl_bloom_fpr": ("0.1", "1", "0", "2"),
    "vinyl_cache": ("1000000", "0", "-1"),
    "vinyl_dir": ("'d'", "'.'"),
    "vinyl_max_tuple_size": ("100000", "0", "-1"),
    "vinyl_memory": ("100000000", "200000000", "-1", "1e30"),
    "vinyl_page_size": ("4096", "0", "-1"),
    "vinyl_range_size": ("1000000", "100", "0"),
    "vinyl_read_threads": ("2", "0", "-1"),
    "vinyl_run_count_per_level": ("3", "0", "-1"),
    "vinyl_run_size_ratio": ("2", "1", "0.5"),
    "vinyl_timeout": ("10", "0", "-1"),
    "vinyl_write_threads": ("3", "1", "-1"),
    "wal_cleanup_delay": ("100", "0", "0.5", "-1"),
    "wal_dir": ("'e'", "'.'"),
    "wal_dir_rescan_delay": ("1", "0", "-1"),
    "wal_max_size": ("1000000", "1", "0", "-1"),
    "wal_mode": ("'none'", "'write'", "'fsync'", "'nope'", "'WRITE'"),
    "wal_queue_max_size": ("1000000", "0", "-1"),
    "work_dir": ("'d'",),
    "worker_pool_threads": ("2", "0", "-1"),
}
"""The options with values: first one that a start accepts, then others."""

_WRONG_TYPES = ("{}", "{1}", "true", "'text'", "5", "5LL", "print", "box.NULL")
_TYPES = {"true": "boolean", "'text'": "text", "5": "number", "box.NULL": "null"}


def _kind(value: str) -> str:
    if value in ("true", "false"):
        return "boolean"
    if value.startswith("'"):
        return "text"
    return "table" if value.startswith("{") else "number"


def _wrong(option: str, values: tuple[str, ...]) -> str:
    """Try values of wrong types. `nope` comes with each, so that no start happens."""
    kinds = {_kind(value) for value in values}
    wrong = [value for value in _WRONG_TYPES if _TYPES.get(value, "other") not in kinds]
    return " ".join(f"print(pcall(box.cfg, {{log = 'l', {option} = {value}}}))" for value in wrong[:-1])


def _start(option: str, values: tuple[str, ...]) -> str:
    tries = "".join(f"print(pcall(box.cfg, {{log = 'l', {option} = {value}}})) " for value in reversed(values))
    return f"{tries} print(require('json').encode(box.cfg.{option})) os.exit()"


def _change(option: str, values: tuple[str, ...]) -> str:
    tries = "".join(
        f"print(pcall(box.cfg, {{{option} = {value}}})) print(require('json').encode(box.cfg.{option})) "
        for value in (*values, "{}", "'x'", "true", "box.NULL")
    )
    return f"box.cfg{{log = 'l', replication_connect_timeout = 0.1}} {tries} os.exit()"


WRONG = {option: _wrong(option, values) for option, values in VALUES.items()}
STARTS = {option: _start(option, values) for option, values in VALUES.items()}
CHANGES = {option: _change(option, values) for option, values in VALUES.items()}
