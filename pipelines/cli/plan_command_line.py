"""The command line of `plan` again, with other options: as a remedy, or for an alternative."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace

_JOINED = ("--add-brokers",)  # options whose values are lists, to which new values are added
_REPEATED = ("--after", "--set", "--ignore-topics")  # options that may be written several times


@dataclass(frozen=True)
class PlanCommandLine:
    """A command line of `plan` as it was written."""

    source: str
    options: Mapping[str, tuple[str, ...]]  # Their values; none = a flag

    def with_other_folder(self, suffix: str) -> "PlanCommandLine":
        """Return the command with another folder for its plan, if it writes one, so that it overwrites no other."""
        folders = self.options.get("--out", ())
        if not folders or folders == ("-",):
            return self
        others = tuple(folder.rstrip("/") + suffix for folder in folders)
        return replace(self, options={**self.options, "--out": others})

    def with_flag(self, option: str) -> "PlanCommandLine":
        """Return the command with one more option that has no value."""
        return replace(self, options={**self.options, option: ()})

    def change(self, changes: Mapping[str, tuple[str, ...]]) -> str:
        """Return the command with other values of some options; without a value, an option is left out."""
        options = {option: value for option, value in self.options.items() if changes.get(option, value) or not value}
        for option, value in changes.items():
            if option in _REPEATED:
                options[option] = (*self.options.get(option, ()), *value)
            elif option in _JOINED and option in options:
                options[option] = (",".join((*options[option], *value)),)
            elif value:
                options[option] = value
        words = [self.source]
        for option, value in options.items():
            words += [word for one in value for word in (option, one)] or [option]
        return f"kafka-placement plan {' '.join(map(shlex.quote, words))}"
