"""Finds what lines that no reader knows mention all the same: a problem, a later change, a broker's setting.

An answer may be wrong because of it, so the records stay ignored, but get a warning.
"""

import re
from typing import Any

from pipelines.ingest.text import ELLIPSIS, LOG_LINE, MARKUP, MAX_LOOK, PROMPT, PROSE, STATE_MESSAGE, TOOL_MESSAGE

PROBLEM = "a line that is not read mentions a problem"
OMISSION = "lines were left out here: paste the whole output"
CHANGE = "a line below the listing shows a later change of the cluster: list the partitions again"
MENTIONS = (PROBLEM, CHANGE, OMISSION)

_UNREAD = (PROSE, LOG_LINE, TOOL_MESSAGE, STATE_MESSAGE)
_PROBLEM = re.compile(
    r"\b(?:errors?|failed|failure|fatal|unavailable|not available|unreachable|timed ?out|time ?out(?!=)"
    r"|connection re(?:fused|set)|could not be established"
    r"|fenced|fencing|crash\w*+|under-?replicated\w*+(?=[^\n]*[0-9])"
    r"|exit(?:ed)?+ (?:with )?+(?:code|status) [1-9])\b"
    r"|(?<![a-z])offline(?![a-z]*+\W{1,3}\[\])(?=[^\n]*[0-9])|exception\b"
    r"|\bleader(?:id)?+[\"']?\W{1,3}(?:none\b|-1\b)",
    re.I,
)
_ZERO = re.compile(r"[\s=:]0(?:\.0+)?[\s;,]*\Z")  # a counter that is zero mentions no problem
_CHANGE = re.compile(
    r"\bshrinking ISR\b|\bISR (?:updated|shrunk|expanded)\b|\bexpanding ISR\b|\bshut(?:ting)?[ _]?down\b"
    r"|\bdeleted brokers?: ?[0-9]"
    r"|\bpartition reassignments? for\b|\breassignment of partition \S++ (?:is completed|completed successfully)"
    r"|\b(?:broker|node|kafka)[ -]?[0-9]++ (?:is|was|went|has|just) (?:now )?"
    r"(?:down|stopped|gone|restarted|removed)\b"
    r"|\bcompleted updating config\b|\bcreated topic\b"
    r"|\bsuccessfully (?:completed leader election|started preferred replica election)\b"
    r"|\bstate from \w+ to Offline(?:Partition|Replica)\b|\bis OfflinePartition\b"
    r"|\bstarts at leader epoch\b|\bpartition change for\b"
    r"|\btransition from STARTED to\b|\bterminating process due to signal\b|\bexited \([0-9]",
    re.I,
)
# Commands that stop brokers or change topics.
_CHANGE_COMMAND = re.compile(
    r"\b(?:docker|podman|nerdctl)(?:[- ]compose)?+ (?:container )?(?:stop|ki[l]{2}|rm|restart|pause|down)\b"
    r"|\bsystemctl (?:[-\w]++ )*?(?:stop|restart|ki[l]{2})\b|\bservice \S++ (?:stop|restart)\b|\bkafka-server-stop\b"
    r"|\bki[l]{2} -?[0-9]"
    r"|\b(?:kubectl|oc) (?:[-\w=]++ )*?(?:scale|delete|drain|rollout|cordon)\b"
    r"|\bpki[l]{2} .*kafka|\bbrew services (?:stop|restart)\b|\bkafka-cluster\S*+ unregister\b"
    r"|\brpk .*(?:decommission|maintenance enable)\b|\b(?:rmr|delete|deleteall) /(?:\S*?/)?brokers/"
    r"|(?:remove|add|demote)_broker\b.*\bdryrun=false\b|\brebalance\b.*\bdryrun=false\b"
    r"|\bkafka-(?:leader-election|preferred-replica-election)\b"
    r"|--execute\b|--alter\b|--delete\b|--create\b|--create-partitions\b"
)
# What people write where they cut a paste, as in <snip>, (output truncated), [... 40 more lines ...]; and the prompts
# of more and less, below which more would follow.
_OMISSION = re.compile(
    r"--More--(?:\([0-9]{1,3}%\))?|:|[\W_]{0,20}(?:snip(?:ped)?"
    r"|(?:the )?(?:output|list|rest)?[ ]?(?:is |was )?(?:truncated|omitted|shortened|cut(?: off)?)"
    r"|(?:and |there are |[0-9]++ )*+(?:more|other) (?:topics|partitions|lines|rows|brokers)"
    r"(?: (?:omitted|here|follow))?+)"
    r"[\W_]{0,20}",
    re.I,
)
_MIN_ISR = re.compile(r"(?<![a-z])min[._]insync[._]replicas\b[\"'`]?[^\w\n]{1,5}([0-9]{1,3})\b", re.I)


def find_mention(reason: str, raw: str) -> dict[str, Any]:
    """Return `warning`, and perhaps `until_listing`, for a record that is ignored for this reason; {} without any."""
    is_unread = reason in _UNREAD or reason.endswith(": not used")
    line = raw[:MAX_LOOK]
    if reason == ELLIPSIS or ((is_unread or reason == MARKUP) and _OMISSION.fullmatch(line.strip())):
        return {"warning": OMISSION}
    if not (is_unread or reason == PROMPT):
        return {}
    if _CHANGE.search(line) if is_unread else _CHANGE_COMMAND.search(line):
        return {"warning": CHANGE, "until_listing": True}
    if not is_unread or reason == STATE_MESSAGE:  # their reader knows the problems that they report
        return {}
    if (match := _MIN_ISR.search(line)) is not None:
        setting = f"if brokers set it for all topics, use --set topics.min_insync_replicas={match[1]}"
        return {"warning": f"a line that is not read sets min.insync.replicas to {match[1]}: {setting}"}
    if _PROBLEM.search(line) and not _ZERO.search(line):
        return {"warning": PROBLEM}
    return {}
