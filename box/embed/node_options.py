"""The options of a node as typed keywords: the options of `box.cfg` with the types of their registry.

A test holds `NodeOptions` equal to `box.instance.option_registry.OPTIONS`. None selects the default.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Literal, TypedDict

from box.instance.option_registry import DEPRECATED_NAMES, OPTIONS

WalMode = Literal["none", "write", "fsync"]
ElectionMode = Literal["off", "voter", "candidate", "manual"]
LogFormat = Literal["plain", "json"]


class NodeOptions(TypedDict, total=False):
    """The keywords of `Node` and `Node.configure`, documented with `box.cfg`. Times are in seconds, sizes in bytes."""

    background: bool | None
    checkpoint_count: float | None
    checkpoint_interval: float | None
    checkpoint_wal_threshold: float | None
    coredump: bool | None
    custom_proc_title: str | None
    election_mode: ElectionMode | None
    election_timeout: float | None
    feedback_crashinfo: bool | None
    feedback_enabled: bool | None
    feedback_host: str | None
    feedback_interval: float | None
    force_recovery: bool | None
    hot_standby: bool | None
    instance_uuid: str | None
    io_collect_interval: float | None
    iproto_greeting_version: str | None
    iproto_threads: float | None
    listen: str | float | None
    log: str | None
    log_format: LogFormat | None
    log_level: float | str | None
    log_nonblock: bool | None
    memtx_dir: str | None
    memtx_max_tuple_size: float | None
    memtx_memory: float | None
    memtx_min_tuple_size: float | None
    memtx_use_mvcc_engine: bool | None
    net_msg_max: float | None
    pid_file: str | None
    read_only: bool | None
    readahead: float | None
    replicaset_uuid: str | None
    replication: str | float | Sequence[str | int] | None
    replication_anon: bool | None
    replication_connect_quorum: float | None
    replication_connect_timeout: float | None
    replication_fetch_once: bool | None
    replication_keep_promotions: bool | None
    replication_promote_quorum: bool | None
    replication_skip_conflict: bool | None
    replication_sync_lag: float | None
    replication_sync_timeout: float | None
    replication_synchro_quorum: str | float | None
    replication_synchro_timeout: float | None
    replication_timeout: float | None
    slab_alloc_factor: float | None
    slab_alloc_granularity: float | None
    snap_io_rate_limit: float | None
    sql_cache_size: float | None
    strip_core: bool | None
    too_long_threshold: float | None
    txn_isolation: str | float | None
    txn_timeout: float | None
    username: str | None
    vinyl_bloom_fpr: float | None
    vinyl_cache: float | None
    vinyl_dir: str | None
    vinyl_max_tuple_size: float | None
    vinyl_memory: float | None
    vinyl_page_size: float | None
    vinyl_range_size: float | None
    vinyl_read_threads: float | None
    vinyl_run_count_per_level: float | None
    vinyl_run_size_ratio: float | None
    vinyl_timeout: float | None
    vinyl_write_threads: float | None
    wal_cleanup_delay: float | None
    wal_dir: str | None
    wal_dir_rescan_delay: float | None
    wal_max_size: float | None
    wal_mode: WalMode | None
    wal_queue_max_size: float | None
    work_dir: str | None
    worker_pool_threads: float | None


def check_names(caller: str, options: Iterable[str]) -> None:
    """Refuse keywords that are not options.

    Raises:
        TypeError: a keyword is unknown; the text names it and the most similar option.
    """
    for name in options:
        if name in OPTIONS:
            continue
        if name in DEPRECATED_NAMES:
            raise TypeError(f"{caller} takes no option {name!r} any more: it is called {DEPRECATED_NAMES[name]!r}")
        near = get_close_matches(name, OPTIONS, 1)
        raise TypeError(f"{caller} got an unknown option {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
