"""Programs that configure the instance and ask about it."""

from __future__ import annotations

from test.interop.lua_programs.source import Source

_OPTIONS = [
    "read_only",
    "log_level",
    "too_long_threshold",
    "net_msg_max",
    "readahead",
    "nope",
    "checkpoint_count",
    "worker_pool_threads",
    "replication_timeout",
    "memtx_memory",
]


def info(source: Source) -> list[str]:
    """Options of `box.cfg`, members of `box.info`, `box.session` and `box.schema`."""
    asked = source.one("user", "id", "type", "exists", "peer", "su", "has_role")
    return [
        source.one(
            f"box.cfg{{{source.random.choice(_OPTIONS)} = {source.value()}}}",
            "type(box.info.uuid), box.info.id, box.info.status, box.info.ro",
            f"box.info[{source.text()}], box.stat[{source.text()}]",
            f"box.space[{source.value()}]",
            "box.slab.check()",
            f"box.session.{asked}({source.values(1)}) ~= nil",
            f"box.schema.{source.one('user', 'role', 'func')}.exists({source.value()})",
            f"box.space._vspace:get({source.value()})",
            "box.cfg{read_only = false}",
        )
    ]
