"""The current options of `box.cfg`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from box.errors import ErrorCode, client_error
from box.instance.option_registry import OPTIONS, Value, Values


class Config:
    """The current options: `config["listen"]`."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Reset every option to its default, as before the first `box.cfg`."""
        self.values: Values = {name: option.default for name, option in OPTIONS.items()}
        self.is_loaded = False

    def __getitem__(self, name: str) -> Value:
        return self.values[name]

    def load(self, options: Mapping[str, Value], warn: Callable[[str], None]) -> None:
        """Handle the first `box.cfg`: take defaults, then the user's values, then run every check."""
        # The checks need more modules than a program without box.cfg.
        from box.instance.option_checks import check, prepare

        values = {name: option.default for name, option in OPTIONS.items()}
        values.update(prepare(options, warn))
        check(values)
        self.values = values
        self.is_loaded = True

    def check_start(self) -> None:
        """Make the checks that come after the log was opened, so that their failures end the start.

        Raises:
            ConfigError: CFG.
        """
        from box.instance.option_checks import check_message_limit, check_read_only

        check_message_limit(self.values)
        check_read_only(self.values)

    def changes(self, options: Mapping[str, Value], warn: Callable[[str], None]) -> list[tuple[str, Value]]:
        """Return what a later `box.cfg` changes, in the order of application.

        Raises:
            ConfigError: RELOAD_CFG, an option cannot change at run time; CFG, a value is wrong.
        """
        from box.instance.option_checks import prepare

        # As in Tarantool, the type of a later `log` is not looked at.
        if options.get("log") is not None and options["log"] != self.values["log"]:
            if options["log"] == "":
                raise client_error(ErrorCode.RELOAD_CFG, "log")
            raise client_error(ErrorCode.CFG, "log", "can't be set dynamically")
        prepared = prepare(options, warn)
        for name, value in prepared.items():
            given = options.get(name, value)
            if OPTIONS[name].dynamic or self.values[name] == (given if given in (None, "") else value):
                continue
            if name in ("log", "log_nonblock"):
                raise client_error(ErrorCode.CFG, name, "can't be set dynamically")
            raise client_error(ErrorCode.RELOAD_CFG, name)
        changed = [(name, value) for name, value in prepared.items() if self.values[name] != value]
        changed.sort(key=lambda item: (OPTIONS[item[0]].order, item[0]))
        return changed

    def check_change(self, name: str, value: Value) -> None:
        """Run the range checks for one option that is about to change."""
        from box.instance.option_checks import check_change

        check_change(self.values, name, value)
