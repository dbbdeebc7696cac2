"""Variables of the environment in texts of users, so that no secret is in a file or on a command line: ${env:NAME}."""

import os
import re
from collections.abc import Mapping

from pipelines.errors import SettingsError

VARIABLE = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")


def fill_variables(text: str, what: str, environment: Mapping[str, str] | None = None) -> str:
    """Replace each ${env:NAME} by the variable of the environment. Raises: SettingsError if there is none."""
    environment = os.environ if environment is None else environment

    def look_up(match: re.Match[str]) -> str:
        if match[1] not in environment:
            raise SettingsError(f"{what}: the environment has no variable {match[1]}. Set it: export {match[1]}=...")
        return environment[match[1]]

    return VARIABLE.sub(look_up, text)
