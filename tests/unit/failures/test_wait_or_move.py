"""`what-if` while brokers are down: waiting for them beside moving their replicas; `--down` says that they are."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.commands import call
from tests.unit.sixty_brokers import write_sources

GB = 10**9
# topic -> (min.insync.replicas, replicas of each partition); each partition has 6 GB.
TOPICS = {"a": (2, ["1,2,4", "2,4,1"]), "b": (3, ["4,3,2"]), "c": (1, ["4"])}


def write_cluster(folder: Path, down: int | None, topics: dict[str, tuple[int, list[str]]] = TOPICS) -> None:
    """Write listings of brokers 1 to 5, of which one may be down."""
    lines, logs = [], {}
    for topic, (min_isr, lists) in topics.items():
        factor = lists[0].count(",") + 1
        head = f"Topic: {topic}\tPartitionCount: {len(lists)}\tReplicationFactor: {factor}"
        lines.append(f"{head}\tConfigs: min.insync.replicas={min_isr}")
        for partition, replicas in enumerate(lists):
            isr = [one for one in replicas.split(",") if one != str(down)]
            leader = isr[0] if isr else "none"
            place = f"\tTopic: {topic}\tPartition: {partition}\tLeader: {leader}"
            lines.append(f"{place}\tReplicas: {replicas}\tIsr: {','.join(isr or [str(down)])}")
            for broker in isr:
                log = {"partition": f"{topic}-{partition}", "size": 6 * GB, "offsetLag": 0, "isFuture": False}
                logs.setdefault(int(broker), []).append(log)
    folder.mkdir(exist_ok=True)
    (folder / "topics.txt").write_text("\n".join(lines) + "\n")
    brokers = [
        {"broker": id_, "logDirs": [{"logDir": "/d", "error": None, "partitions": logs.get(id_, [])}]}
        for id_ in range(1, 6)
        if id_ != down
    ]
    (folder / "log-dirs.txt").write_text(json.dumps({"version": 1, "brokers": brokers}) + "\n")


def ask(folder: Path, *options: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(call("what-if", "prod", *options, "--json", "-", folder=folder).stdout)
    return answer


def test_both_choices_by_hand(tmp_path: Path) -> None:
    write_cluster(tmp_path / "prod", 4)
    choice = ask(tmp_path)["wait_or_move"]
    assert (choice["down_brokers"], choice["down_since_ms"]) == ([4], {})
    # c-0 has no other replica. b-0 needs all of its three, the failure of 1 or 2 blocks a-0 and a-1.
    assert choice["now"] == {
        "offline_partitions": 1,
        "under_min_isr_partitions": 1,
        "under_replicated_partitions": 3,
        "newly_offline_partitions": 0,
        "newly_under_min_isr_partitions": 2,
    }
    assert choice["once_returned"]["offline_partitions"] == 0
    assert choice["once_returned"]["newly_offline_partitions"] == 1, "c-0, if broker 4 fails again"
    move = choice["move"]
    assert move["cost"]["replicas"] == 3
    assert move["cost"]["bytes_to_copy"] == 18 * GB
    assert move["cost_back"] == {"replicas": 3, "bytes_to_copy": 18 * GB, "seconds": 18e9 / 50e6}
    after = move["after_all_waves"]
    assert (after["offline_partitions"], after["under_min_isr_partitions"]) == (1, 0)
    text = call("what-if", "prod", folder=tmp_path).stdout
    assert "Wait for broker 4, or move its replicas to others?\n  partitions " in text
    assert "  moving copies 3 replicas, 18 GB: about " in text
    assert "  moving back once it returns copies 3 replicas, 18 GB: about 6 min\n" in text
    throttled = ask(tmp_path, "--set", "plans.throttle_bytes_per_s=25e6")["wait_or_move"]["move"]
    assert throttled["cost"]["seconds"] == pytest.approx(2 * move["cost"]["seconds"])


def test_what_lags_on_live_brokers_is_no_reason_to_wait_or_to_move(tmp_path: Path) -> None:
    write_cluster(tmp_path / "prod", 4)
    topics = tmp_path / "prod" / "topics.txt"
    topics.write_text(topics.read_text().replace("Isr: 1,2\n", "Isr: 1\n"))  # of a-0: 2 lags, 4 is down
    choice = ask(tmp_path)["wait_or_move"]
    assert choice["once_returned"]["under_replicated_partitions"] == 1
    assert choice["move"]["after_all_waves"]["under_replicated_partitions"] == 1


def test_a_broker_with_the_only_copies_returns(tmp_path: Path) -> None:
    write_cluster(tmp_path / "prod", 4, {"a": (1, ["1,2", "2,1"]), "c": (1, ["4"])})
    assert ask(tmp_path)["wait_or_move"]["once_returned"]["offline_partitions"] == 0
    assert "--return 4\n" in call("what-if", "prod", folder=tmp_path).stdout


def test_moving_is_the_plan_of_goal_repair(tmp_path: Path) -> None:
    write_sources(tmp_path / "prod", down=(2, 17))
    move = ask(tmp_path)["wait_or_move"]["move"]
    plan = json.loads(call("plan", "prod", "--goal", "repair", "--json", "-", folder=tmp_path).stdout)
    assert move["cost"]["replicas"] == plan["metrics"]["moves"]
    assert move["cost"]["bytes_to_copy"] == plan["metrics"]["bytes_to_copy"]
    assert move["waves"] == len(plan["waves"])
    assert move["cost"]["seconds"] == pytest.approx(sum(wave["seconds"] for wave in plan["waves"]))
    assert move["first_wave"]["seconds"] == plan["waves"][0]["seconds"]


def test_down_says_what_a_source_does_not_show(tmp_path: Path) -> None:
    """As in the listing from after the failure: leaders, ISRs, and so every count."""
    write_sources(tmp_path / "prod", down=(2, 17))
    (tmp_path / "prod" / "log-dirs.txt").unlink()
    after = ask(tmp_path)
    write_sources(tmp_path / "prod", sizes=False)
    done = call("what-if", "prod", "--down", "2,17", "--json", "-", folder=tmp_path)
    assert "as if brokers 2, 17 were down, and Kafka had elected leaders" in done.stderr
    before = json.loads(done.stdout)
    for name in ("brokers", "racks", "exposure", "outage", "wait_or_move"):
        assert before[name] == after[name], name
    text = call("what-if", "prod", "--down", "2,17", folder=tmp_path).stdout
    assert "kafka-placement plan prod --down 2,17 --goal repair" in text
    assert "kafka-placement what-if prod --down 2,17 --return 2,17\n" in text
    error = call("what-if", "prod", "--down", "2,99", code=64, folder=tmp_path).stderr
    assert "--down: prod has no broker 99. Its brokers: 0, 1, 2" in " ".join(error.split())


def test_unknown_sizes_and_plans_that_cannot_be(tmp_path: Path) -> None:
    write_cluster(tmp_path / "prod", 4, {"a": (2, ["1,2,4"]), "b": (2, ["3,4,5", "1,3,5"])})
    (tmp_path / "prod" / "log-dirs.txt").unlink()
    text = call("what-if", "prod", folder=tmp_path).stdout
    assert "moving copies 2 replicas of unknown size; add the output of kafka-log-dirs --describe" in text
    assert ask(tmp_path)["wait_or_move"]["move"]["cost"]["seconds"] is None
    write_cluster(tmp_path / "prod", None, {"a": (2, ["1,2,4"])})
    (tmp_path / "prod" / "log-dirs.txt").unlink()
    choice = ask(tmp_path, "--down", "4")["wait_or_move"]
    assert choice["move"] is None
    text = call("what-if", "prod", "--down", "4", folder=tmp_path).stdout
    assert f"  moving is not possible: {choice['obstacle']}\n" in text


def test_a_metadata_log_shows_since_when_a_broker_is_down(tmp_path: Path) -> None:
    write_cluster(tmp_path / "prod", 4)
    register = '{"type":"REGISTER_BROKER_RECORD","version":3,"data":{"brokerId":4,"fenced":false}}'
    change = '{"type":"BROKER_REGISTRATION_CHANGE_RECORD","version":1,"data":{"brokerId":4,"brokerEpoch":5,"fenced":1}}'
    lines = [(0, 1764000000000, register), (1, 1764061920000, change)]
    text = "".join(f"| offset: {offset} CreateTime: {at} payload: {record}\n" for offset, at, record in lines)
    (tmp_path / "prod" / "log.txt").write_text(text)
    assert ask(tmp_path)["wait_or_move"]["down_since_ms"] == {"4": 1764061920000}
    assert "\n  down: 4 since 2025-11-25 09:12 UTC\n" in call("what-if", "prod", folder=tmp_path).stdout
