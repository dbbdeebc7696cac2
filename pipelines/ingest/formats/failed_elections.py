"""What kafka-leader-election prints of partitions whose election failed, as warnings of what the cluster lacks.

Source: LeaderElectionCommand of Kafka 4.1, PreferredReplicaLeaderElectionCommand of Kafka 2.3.
"""

import re

_FAILED = re.compile(
    r"^[\s>|#`]*+Error completing [a-z ]{0,40}?election (?:\([A-Z]++\) )?for partition:? (?P<partition>[^\s:]++): "
    r"(?P<error>[\w.]++)",
    re.M,
)
_CHECK = "check that the listing is of the same time"


def describe_failed_elections(text: str) -> dict[int, str | None]:
    """Return {line number: warning} of each failed election: one warning per exception, None for its other lines."""
    warnings: dict[int, str | None] = {}
    first_lines: dict[str, int] = {}
    partitions: dict[str, list[str]] = {}
    line = 1
    at = 0
    for match in _FAILED.finditer(text) if "Error completing" in text else ():
        line += text.count("\n", at, at := match.start("partition"))
        error = match["error"].rpartition(".")[2]
        first_lines.setdefault(error, line)
        partitions.setdefault(error, []).append(match["partition"])
        warnings[line] = None
    return warnings | {first_lines[error]: _describe(error, names) for error, names in partitions.items()}


def _describe(error: str, partitions: list[str]) -> str:
    is_one = len(partitions) == 1
    of_partitions = (
        f"partition {partitions[0]}" if is_one else f"{len(partitions)} partitions, such as {partitions[0]},"
    )
    if error == "EligibleLeadersNotAvailableException":
        return (
            f"{of_partitions} had no live replica that could lead, and {'was' if is_one else 'were'} offline: {_CHECK}"
        )
    if error == "PreferredLeaderNotAvailableException":
        replicas = "the preferred replica of" if is_one else "the preferred replicas of"
        return f"{replicas} {of_partitions} {'was' if is_one else 'were'} down or out of the ISR: {_CHECK}"
    return f"the leader election of {of_partitions.removesuffix(',')} failed ({error}): {_CHECK}"
