"""Skips lines of a log that no format can claim, many at once: a log of a broker has a hundred thousand of them.

What a format claims begins as its own lines do, unless its signature searches a line. Behind a time and a level, it has
one of the signs below; a test holds them against all signatures.
"""

import re

from pipelines.ingest.formats.describe_labels import looks_like_data

_RETRY = 5_000  # characters after a sign until lines are skipped again
_LINES = re.compile(
    r"(?:\[?[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}[0-9.,]*+Z?\]? "
    r"\[?(?:TRACE|DEBUG|INFO|WARN|WARNING)\b(?! *+[0-9])[^\n\t<&\\\x80-\U0010ffff]{0,1000}+\n){1,64}+"
)
_NAMES = ("topic", "name", "topicname", "brokerid", "id", "broker", "nodeid")  # of the first columns of lists
_CELLS = "|".join(r"[ _.-]*+".join(name) for name in _NAMES)
# Of lower-case text. They begin with fixed letters, for a fast search.
_SIGNS = tuple(
    re.compile(sign)
    for sign in (
        *("received log directory", "querying brokers for log dir", "zkcli", "zookeeper-shell", r"\(id: "),
        *(", internal=", r"\(partition=", r"partition\(topic", r"partitionmetadata\("),
        *("partition [0-9]", 'topic ["&]', "broker -?[0-9]", "metadata for ", "(?:broker|topic)s:"),
        " with [0-9]{1,9} partition",
        "leader[_ ]?not[_ ]?available",
        *("kafka-", "kcat", "kafkacat", "rpk "),
        rf'[,;][ "_.-]*+(?:{_CELLS})[ "_.-]*+[,;\n]',
    )
)
# Two colons behind what may be labels of a describe.
_LABEL_END = r":(?:(?<=[*`_ ]:)|(?<=(?:opic|tion|ount|ctor|icas|line|figs|ader|vers):)|(?<=(?:elr|isr):)|(?<=id:))"
_LABELS = re.compile(rf"{_LABEL_END}[^:\n]*+(?:(?!{_LABEL_END}):[^:\n]*+)*+{_LABEL_END}[^\n]*+\n")


class LogSkipper:
    """Goes through a text once and skips runs of log lines."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._retry_at = 0

    def skip(self, position: int) -> int:
        """Return the end of the log lines that begin here and that no format can claim: the position without any."""
        match = _LINES.match(self._text, position) if position >= self._retry_at else None
        if match is None:
            return position
        lines = match[0].lower()
        signs = [sign.start() for pattern in _SIGNS if (sign := pattern.search(lines))]
        end = lines.rfind("\n", 0, min(signs)) + 1 if signs else len(lines)
        for labels in _LABELS.finditer(lines, 0, end):
            begin = lines.rfind("\n", 0, labels.start()) + 1
            if looks_like_data(match[0][begin : labels.end() - 1]):
                end = begin
                break
        if end < len(lines):
            self._retry_at = position + end + _RETRY
        return position + end
