"""Upgrades system spaces of an older version when an instance starts with them."""

from __future__ import annotations

from box.instance.instance_state import InstanceState
from box.instance.resources import Resources
from box.schema.newer import newer_notes
from box.schema.schema import Schema
from box.schema.upgrade import SchemaUpgrade, needs_upgrade, version_text
from box.session import Context
from box.txn.dml import Dml
from box.wire.tarantool_version import PACKAGE_VERSION


async def upgrade_at_start(resources: Resources, state: InstanceState, schema: Schema, dml: Dml, ctx: Context) -> None:
    """Upgrade the dictionary of an instance that is alone; in a replica set, which needs a decision, only log a
    message.
    """
    for note in newer_notes(schema):
        resources.log.info(note)
    if not needs_upgrade(schema):
        return
    is_alone = not resources.config["replication"]
    if is_alone and not state.is_read_only and not resources.errinj.values["ERRINJ_AUTO_UPGRADE"]:
        await SchemaUpgrade(schema, dml, ctx, resources.log, resources.clock).run()
    if needs_upgrade(schema):
        resources.log.warn(
            f"Your schema version is {version_text(schema)} while Tarantool {PACKAGE_VERSION} requires a more recent "
            "schema version. Please, consider using box.schema.upgrade()."
        )
