"""The evidence of whether a broker is live, in the order in which it decides, and how it is said."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pipelines.ingest.formats.checked_values import quote
from udfs.plurals import count_of, is_or_are

Broker = Mapping[str, Any]  # columns of REGISTRATIONS and USAGE, `others_are_registered`, `others_have_api_versions`


# What people and tools write in the state column of a broker list.
_LIVE = frozenset({"UP", "LIVE", "ALIVE", "ONLINE", "RUNNING", "ACTIVE", "AKTIV", "STARTED", "HEALTHY", "TRUE", "YES"})
_DOWN = frozenset({"DOWN", "DEAD", "OFFLINE", "STOPPED", "FAILED", "CRASHED", "TERMINATED", "FALSE", "NO"})


class Evidence(NamedTuple):
    """One kind of evidence: what it shows, on which brokers it exists, and how it is said."""

    live: bool | None  # None = it shows that the state is unknown
    exists: Callable[[Broker], Any]
    reason: Callable[[Broker], str]


def _say(text: str) -> Callable[[Broker], str]:
    return lambda _broker: text


def _count_voters(broker: Broker) -> int:
    """Count the replicas of which one would be in an ISR if the broker was live."""
    exempt = ("adding", "observer", "deleted", "waiting", "unknown", "filtered")
    return int(broker["replicas"] - sum(broker[f"{name}_replicas"] for name in exempt))


def _is_out_of_all_isrs(broker: Broker) -> bool:
    """Return whether a broker is surely down, because none of its replicas is in sync; a single one may only lag."""
    voters = _count_voters(broker)
    return voters > 1 or (voters == 1 and broker["answers"] is False)


def _is_in_use(broker: Broker) -> bool:
    return bool(broker["leaders"] or broker["in_sync"])


def _describe_use(broker: Broker) -> str:
    if broker["leaders"]:
        return f"leads {count_of(broker['leaders'], 'partition')}"
    verb = "has" if broker["in_sync"] == 1 else "have"
    return f"in the ISR of {count_of(broker['in_sync'], 'partition')} that {verb} a leader"


def _describe_latest_use(broker: Broker) -> str:
    use = _describe_use(broker)
    return f"{use}, which is later than its registration as fenced" if broker["fenced"] else use


def _lacks_registration(broker: Broker) -> bool:
    """Return whether a source that lists all live brokers lacks one, and no other source shows that it answers."""
    answers = broker["answers"] or broker["controller"] or broker["reported_live"]
    is_missing = broker["missing_from"] if broker["registered"] else broker["others_are_registered"]
    return bool(is_missing and not answers)


def _lacks_api_versions(broker: Broker) -> bool:
    """Return whether kafka-broker-api-versions, which asks all live brokers, lacks one. People may cut its output."""
    return bool(broker["others_have_api_versions"] and not broker["has_api_versions"])


def _describe_missing(broker: Broker) -> str:
    if not broker["registered"]:
        return "not registered"
    return f"not among the brokers in {broker['missing_from']}, which is of another moment"


def _is_in_use_offline(broker: Broker) -> bool:
    """Return whether all partitions in which a broker is in use list its replica as offline."""
    return bool(broker["offline_in_use"] and broker["offline_in_use"] >= max(broker["leaders"], broker["in_sync"]))


def _describe_offline_use(broker: Broker) -> str:
    replicas = "replica there is" if broker["offline_in_use"] == 1 else "replicas there are"
    return f"{_describe_use(broker)}, but its {replicas} listed as offline"


def _is_only_listed(broker: Broker) -> bool:
    """Return whether a broker is an entry of a list that people keep, and no source shows a replica of it."""
    return bool(broker["listed"] and not broker["in_model"] and not broker["replicas"])


def _find_listed_state(broker: Broker) -> bool | None:
    """Return what a broker list says of a broker's state: live, down, or None for nothing or neither."""
    word = (broker["listed_state"] or "").strip().upper()
    return True if word in _LIVE else False if word in _DOWN else None


def _quote_listed_state(broker: Broker) -> str:
    return f"listed as {quote(broker['listed_state'])}"


def _describe_unknown(broker: Broker) -> str:
    places = {
        "adding_replicas": "in Adding Replicas",
        "observer_replicas": "as an observer",
        "deleted_replicas": "in topics that are marked for deletion",
        "waiting_replicas": "in leaderless partitions, whose ISR no broker can join",
        "filtered_replicas": "in a filtered or incomplete listing",
        "unknown_replicas": "in partitions of which no source shows leader and ISR",
    }
    named = [text for name, text in places.items() if broker[name]]
    if named:
        return f"only {' and '.join(named)}"
    return "only in quarantined records" if broker["disputed_replicas"] else "no source shows what it does"


_REPORTED_DOWN = "shown as down by rpk, Cruise Control or a Java client"
_NO_ANSWER = "did not answer kafka-broker-api-versions"
# The first evidence that exists on a broker decides. It is ordered from what Kafka itself states to what follows from
# absence; an inventory is weaker than an absence, because people do not update it when a broker fails.
EVIDENCE = (
    Evidence(False, lambda b: b["registered"] is False, _say("unregistered")),
    # Redpanda gives Kafka's tools all replicas as the ISR, so that the ISR shows nothing of a broker.
    Evidence(False, lambda b: b["redpanda_live"] is False and not b["leaders"], _say(_REPORTED_DOWN)),
    # A broker is in use, but another source shows that it is not live: they are of two moments or of two clusters, and
    # nothing shows which one is now.
    Evidence(
        None,
        lambda b: _is_in_use(b) and _lacks_registration(b),
        lambda b: f"{_describe_use(b)}, but {_describe_missing(b)}",
    ),
    Evidence(
        None,
        lambda b: _is_in_use(b) and b["shown_fenced"],  # Kafka takes a broker out of the ISRs when it fences it
        lambda b: f"{_describe_use(b)}, but shown as fenced",
    ),
    Evidence(
        None, lambda b: _is_in_use(b) and b["answers"] is False, lambda b: f"{_describe_use(b)}, but {_NO_ANSWER}"
    ),
    Evidence(
        None,
        lambda b: _is_in_use(b) and _lacks_api_versions(b),
        lambda b: f"{_describe_use(b)}, but not in the output of kafka-broker-api-versions",
    ),
    # Kafka takes a replica that is offline out of the ISR: the listing was made in between.
    Evidence(None, _is_in_use_offline, _describe_offline_use),
    Evidence(
        None,
        lambda b: _is_in_use(b) and b["reported_live"] is False,
        lambda b: f"{_describe_use(b)}, but {_REPORTED_DOWN}",
    ),
    Evidence(
        None,
        lambda b: _is_in_use(b) and _find_listed_state(b) is False,
        lambda b: f"{_describe_use(b)}, but {_quote_listed_state(b)}",
    ),
    Evidence(True, _is_in_use, _describe_latest_use),
    Evidence(
        True,  # with some replicas offline, a log directory failed, and not the broker
        lambda b: b["online_replicas"],
        lambda b: f"{b['online_replicas']} of its replicas {is_or_are(b['online_replicas'])} listed as online",
    ),
    Evidence(
        False,
        lambda b: b["offline_replicas"],
        lambda b: (
            f"its {count_of(b['offline_replicas'], 'replica')} {is_or_are(b['offline_replicas'])} listed as offline"
        ),
    ),
    Evidence(False, lambda b: b["fenced"], _say("fenced")),
    Evidence(False, lambda b: b["reported_live"] is False, _say(_REPORTED_DOWN)),
    Evidence(
        None, lambda b: b["registered"] and _lacks_registration(b), lambda b: f"registered, but {_describe_missing(b)}"
    ),
    Evidence(True, lambda b: b["registered"], _say("registered")),
    Evidence(True, lambda b: b["reported_live"], _say("shown as live by rpk or Cruise Control")),
    Evidence(True, lambda b: b["answers"], _say("answers kafka-log-dirs or kafka-broker-api-versions")),
    Evidence(True, lambda b: b["controller"], _say("the active controller")),
    Evidence(False, lambda b: _find_listed_state(b) is False, _quote_listed_state),
    Evidence(False, lambda b: b["listed"] is False, _say("not in the broker list")),  # a model's `removed` names it
    Evidence(False, lambda b: b["others_are_registered"], _say("not registered")),
    # Members of the ISR or ELR of a leaderless partition were the last in sync: one that was live would lead.
    Evidence(False, lambda b: b["leaderless_isr"], _say("only in the ISR of leaderless partitions")),
    Evidence(False, _is_out_of_all_isrs, lambda b: f"in no ISR of its {count_of(_count_voters(b), 'replica')}"),
    Evidence(False, lambda b: b["leaderless_elr"], _say("only in the ELR of leaderless partitions")),
    # A new partition is led by any live replica, and its ISR never becomes empty after that.
    Evidence(False, lambda b: b["leaderless_empty"], _say("only in leaderless partitions with an empty ISR")),
    Evidence(None, lambda b: _count_voters(b) == 1, _say("in no ISR of its 1 replica, which may only lag")),
    Evidence(None, lambda b: b["answers"] is False, _say(_NO_ANSWER)),
    Evidence(None, lambda b: b["filtered_replicas"], _describe_unknown),
    Evidence(True, _find_listed_state, _quote_listed_state),
    Evidence(None, lambda b: b["listed_state"] is not None, _quote_listed_state),
    Evidence(None, _is_only_listed, _say("only in a broker list, which does not show whether it is live")),
    Evidence(True, lambda b: b["listed"], _say("in the broker list")),
    Evidence(None, lambda _: True, _describe_unknown),
)


def find_evidence(broker: Broker) -> tuple[bool | None, str]:
    """Return whether a broker is live (None: unknown), and the reason."""
    evidence = next(evidence for evidence in EVIDENCE if evidence.exists(broker))
    return evidence.live, evidence.reason(broker)
