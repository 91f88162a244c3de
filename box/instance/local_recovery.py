"""Recovery of an instance: its own snapshot and log, read into its parts."""

from __future__ import annotations

from box.errors import BoxError
from box.instance.instance_state import InstanceState
from box.instance.loader import LogLoader, SnapshotLoader, paused_collector
from box.instance.resources import Resources
from box.journal.directory import LogFile
from box.journal.recovery import Recovery
from box.journal.snapshot import SnapshotReader
from box.schema.ids import is_system_id


class LocalRecovery:
    """Reads one snapshot and the log after it. With `force_recovery`, what is broken is logged and passed over."""

    def __init__(
        self,
        resources: Resources,
        state: InstanceState,
        snapshot: LogFile,
        snapshot_loader: SnapshotLoader,
        log_loader: LogLoader,
    ) -> None:
        self._resources = resources
        self._state = state
        self._snapshot = snapshot
        self._snapshot_loader = snapshot_loader
        self._log_loader = log_loader
        self._is_forced = bool(resources.config["force_recovery"])
        self.log = Recovery(
            resources.disk,
            resources.paths.wal_dir,
            snapshot.vclock,
            instance_uuid=state.instance_uuid,
            force_recovery=self._is_forced,
            log=resources.log,
            errinj=resources.errinj,
        )

    def scan(self) -> None:
        """Find the files of the log. Until something is read, the state stands at the log's end."""
        self.log.scan()
        self._resources.log.info(f"instance vclock {self.log.end_vclock}")
        self._state.move(self.log.end_vclock)

    def read(self) -> None:
        """Read everything; the state stands at the end of what was read."""
        self._read_snapshot()
        self._state.move(self._snapshot.vclock)
        self._read_log()
        self._state.move(self.log.vclock)

    def _read_snapshot(self) -> None:
        resources, loader, force = self._resources, self._snapshot_loader, self._is_forced
        path = self._snapshot.path
        resources.log.info(f"recovering from `{path}'")
        snapshot = SnapshotReader(
            resources.disk, path, force_recovery=force, log=resources.log, errinj=resources.errinj
        )
        with paused_collector(), snapshot as reader:
            # The peer's rule: what defines the spaces must be whole, of their tuples some may be lost.
            reader.skip_broken(False)
            for runs, others in reader.tuples():
                for run in runs:
                    loader.add_run(run, force=force)
                reader.skip_broken(force and bool(runs) and not is_system_id(runs[-1].space_id))
                for row in others:
                    resources.log.verbose(f"skipping a row of type {row.type}")
            loader.finish()

    def _read_log(self) -> None:
        for rows in self.log.transactions():
            try:
                self._log_loader.add(rows)
            except BoxError as error:
                if not self._is_forced:
                    raise
                where = f"{{{rows[0].replica_id}: {rows[0].lsn}}}"
                self._resources.log.error(f"skipping row {where}: {error.message}")
