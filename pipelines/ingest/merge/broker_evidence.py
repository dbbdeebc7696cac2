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
    reason: str  # with the names of _write_texts


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


def _lacks_registration(broker: Broker) -> bool:
    """Return whether a source that lists all live brokers lacks one, and no other source shows that it answers."""
    answers = broker["answers"] or broker["controller"] or broker["reported_live"]
    is_missing = broker["missing_from"] if broker["registered"] else broker["others_are_registered"]
    return bool(is_missing and not answers)


def _doubt(exists: Callable[[Broker], Any], text: str) -> Evidence:
    """Make the evidence that a broker in use is not live: the sources are of two moments, and neither is surely now."""
    return Evidence(None, lambda broker: _is_in_use(broker) and exists(broker), f"{{use}}, but {text}")


def _find_listed_state(broker: Broker) -> bool | None:
    """Return what a broker list says of a broker's state: live, down, or None for nothing or neither."""
    word = (broker["listed_state"] or "").strip().upper()
    return True if word in _LIVE else False if word in _DOWN else None


_PLACES = {
    "adding_replicas": "in Adding Replicas",
    "observer_replicas": "as an observer",
    "deleted_replicas": "in topics that are marked for deletion",
    "waiting_replicas": "in leaderless partitions, whose ISR no broker can join",
    "filtered_replicas": "in a filtered or incomplete listing",
    "unknown_replicas": "in partitions of which no source shows leader and ISR",
}


def _write_texts(broker: Broker) -> dict[str, str]:
    """Write what reasons name of a broker."""
    in_sync, online, offline, there = (
        broker[name] for name in ("in_sync", "online_replicas", "offline_replicas", "offline_in_use")
    )
    use = f"in the ISR of {count_of(in_sync, 'partition')} that {'has' if in_sync == 1 else 'have'} a leader"
    missing = "not registered"
    if broker["registered"]:
        missing = f"not among the brokers in {broker['missing_from']}, which is of another moment"
    places = " and ".join(text for name, text in _PLACES.items() if broker[name])
    unknown = "only in quarantined records" if broker["disputed_replicas"] else "no source shows what it does"
    return {
        "use": f"leads {count_of(broker['leaders'], 'partition')}" if broker["leaders"] else use,
        "missing": missing,
        "listed": f"listed as {quote(broker['listed_state'] or '')}",
        "online": f"{online} of its replicas {is_or_are(online)}",
        "offline": f"its {count_of(offline, 'replica')} {is_or_are(offline)}",
        "offline_there": f"its {'replica' if there == 1 else 'replicas'} there {is_or_are(there)}",
        "voters": count_of(_count_voters(broker), "replica"),
        "unknown": f"only {places}" if places else unknown,
    }


_REPORTED_DOWN = "shown as down by rpk, Cruise Control or a Java client"
_NO_ANSWER = "did not answer kafka-broker-api-versions"
# The first evidence that exists on a broker decides. It is ordered from what Kafka itself states to what follows from
# absence; an inventory is weaker than an absence, because people do not update it when a broker fails.
EVIDENCE = (
    Evidence(False, lambda b: b["registered"] is False, "unregistered"),
    Evidence(False, lambda b: b["controller"] is False, "does not answer, nor does a controller: others cannot know"),
    # Redpanda gives Kafka's tools all replicas as the ISR, so that the ISR shows nothing of a broker.
    Evidence(False, lambda b: b["redpanda_live"] is False and not b["leaders"], _REPORTED_DOWN),
    _doubt(_lacks_registration, "{missing}"),
    _doubt(lambda b: b["shown_fenced"], "shown as fenced"),  # Kafka takes a broker out of the ISRs when it fences it
    _doubt(lambda b: b["answers"] is False, _NO_ANSWER),
    # It asks all live brokers, but people may cut its output.
    _doubt(
        lambda b: b["others_have_api_versions"] and not b["has_api_versions"],
        "not in the output of kafka-broker-api-versions",
    ),
    # Kafka takes a replica that is offline out of the ISR: the listing was made in between.
    _doubt(lambda b: b["offline_in_use"] >= max(b["leaders"], b["in_sync"]), "{offline_there} listed as offline"),
    _doubt(lambda b: b["reported_live"] is False, _REPORTED_DOWN),
    _doubt(lambda b: _find_listed_state(b) is False, "{listed}"),
    Evidence(True, lambda b: _is_in_use(b) and b["fenced"], "{use}, which is later than its registration as fenced"),
    Evidence(True, _is_in_use, "{use}"),
    # With some replicas offline, a log directory failed, and not the broker.
    Evidence(True, lambda b: b["online_replicas"], "{online} listed as online"),
    Evidence(False, lambda b: b["offline_replicas"], "{offline} listed as offline"),
    Evidence(False, lambda b: b["fenced"], "fenced"),
    Evidence(False, lambda b: b["reported_live"] is False, _REPORTED_DOWN),
    Evidence(None, lambda b: b["registered"] and _lacks_registration(b), "registered, but {missing}"),
    Evidence(True, lambda b: b["registered"], "registered"),
    Evidence(True, lambda b: b["reported_live"], "shown as live by rpk or Cruise Control"),
    Evidence(True, lambda b: b["answers"], "answers kafka-log-dirs or kafka-broker-api-versions"),
    Evidence(True, lambda b: b["controller"], "the active controller"),
    Evidence(False, lambda b: _find_listed_state(b) is False, "{listed}"),
    Evidence(False, lambda b: b["listed"] is False, "not in the broker list"),  # a model's `removed` names it
    Evidence(False, lambda b: b["others_are_registered"], "not registered"),
    # Members of the ISR or ELR of a leaderless partition were the last in sync: one that was live would lead.
    Evidence(False, lambda b: b["leaderless_isr"], "only in the ISR of leaderless partitions"),
    Evidence(False, _is_out_of_all_isrs, "in no ISR of its {voters}"),
    Evidence(False, lambda b: b["leaderless_elr"], "only in the ELR of leaderless partitions"),
    # A new partition is led by any live replica, and its ISR never becomes empty after that.
    Evidence(False, lambda b: b["leaderless_empty"], "only in leaderless partitions with an empty ISR"),
    Evidence(None, lambda b: _count_voters(b) == 1, "in no ISR of its 1 replica, which may only lag"),
    Evidence(None, lambda b: b["answers"] is False, _NO_ANSWER),
    Evidence(None, lambda b: b["filtered_replicas"], "{unknown}"),
    Evidence(True, _find_listed_state, "{listed}"),
    Evidence(None, lambda b: b["listed_state"] is not None, "{listed}"),
    Evidence(
        None,
        lambda b: b["listed"] and not b["in_model"] and not b["replicas"],
        "only in a broker list, which does not show whether it is live",
    ),
    Evidence(True, lambda b: b["listed"], "in the broker list"),
    Evidence(None, lambda _: True, "{unknown}"),
)


def find_evidence(broker: Broker) -> tuple[bool | None, str]:
    """Return whether a broker is live (None: unknown), and the reason."""
    evidence = next(evidence for evidence in EVIDENCE if evidence.exists(broker))
    return evidence.live, evidence.reason.format(**_write_texts(broker))
