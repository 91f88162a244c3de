"""The entry point of `lunabox-sim`, which imports the simulation quietly: Ctrl-C in that time shows no traceback."""

from __future__ import annotations

from box.exit_status import end_at_interrupt, raise_at_interrupt


def main() -> int:
    """Run `lunabox-sim` and return its exit status."""
    end_at_interrupt()
    from box.testing.simulation import command

    raise_at_interrupt()
    return command.main()
