"""Compare what two installations answer: did a change of the code change any answer of a command without Spark?

    python -m tests.bench.compare_answers OLD/.venv/bin/kafka-placement NEW/.venv/bin/kafka-placement

Runs inspect, what-if, assign, plan and replay of both over the captures and formats in data_samples (and over the
JSON lines of placement requests in --requests), and compares exit codes, JSON answers and the files of plans. Texts
for people are not compared: an `explanation` in JSON may be worded anew, so keys in --ignore are left out. Exit code 1
if any answer differs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "data_samples"
CAPTURES = ("kafka-4.1.1-kraft", "kafka-2.8.2-zookeeper", "captures/kafka-4.1.1-two-dead/topics-describe.txt")
GOALS = ("leaders", "failover", "balance --max-moves 40", "drain --brokers 1", "repair", "rf --rf 2")
LOG = "formats/kraft-log.txt"


def commands(requests: list[Path]) -> Iterator[str]:
    """Yield the commands to compare; `OUT` stands for a new folder, `SAMPLES/` for the captures."""
    for folder in ("formats", "bad"):
        for file in sorted((SAMPLES / folder).iterdir()):
            yield f"inspect SAMPLES/{folder}/{file.name} --json -"
    for capture in CAPTURES:
        brokers = "1000" if "zookeeper" in capture else "2"
        yield f"inspect SAMPLES/{capture} --json -"
        yield f"what-if SAMPLES/{capture} --json -"
        yield f"what-if SAMPLES/{capture} --fail {brokers} --json -"
        yield f"hotspots SAMPLES/{capture} --seeds 20 --json -"
        yield f"replay SAMPLES/{capture} --fail {brokers} --json -"
        yield f"assign SAMPLES/{capture} --out OUT/answers.jsonl"
        for goal in GOALS:
            goal = goal.replace("--brokers 1", f"--brokers {brokers}")
            yield f"plan SAMPLES/{capture} --goal {goal} --out OUT/plan --json -"
    yield f"replay SAMPLES/{LOG} --json -"
    for file in requests:
        yield f"assign {file} --out OUT/answers.jsonl"


def answer(executable: str, command: str, folder: Path) -> tuple[int, str, dict[str, bytes]]:
    """Run a command. Return its exit code, what it printed, and the files that it wrote."""
    words = [word.replace("SAMPLES", str(SAMPLES)).replace("OUT", str(folder)) for word in command.split()]
    ran = subprocess.run([executable, *words], capture_output=True, text=True, check=False, cwd=ROOT)
    files = {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    return ran.returncode, ran.stdout, files


def without(value: Any, ignored: set[str]) -> Any:
    """Return a JSON value without the ignored keys."""
    if isinstance(value, dict):
        return {key: without(part, ignored) for key, part in value.items() if key not in ignored}
    return [without(part, ignored) for part in value] if isinstance(value, list) else value


def parsed(text: str, ignored: set[str]) -> Any:
    """Return JSON text, or JSON lines, as values; other text as it is."""
    try:
        return without(json.loads(text), ignored)
    except ValueError:
        try:
            return [without(json.loads(line), ignored) for line in text.splitlines()]
        except ValueError:
            return text


def main(argv: list[str]) -> int:
    """Return 0 if all answers are the same, else 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--requests", action="append", default=[], type=Path)
    parser.add_argument("--ignore", action="append", default=[], metavar="KEY")
    parser.add_argument("--only", action="append", default=[], metavar="COMMAND")
    given = parser.parse_args(argv)
    ignored = set(given.ignore)
    differing = 0
    for command in commands(given.requests):
        if given.only and command.split()[0] not in given.only:
            continue
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
            old = answer(given.old, command, Path(one))
            new = answer(given.new, command, Path(other))
        faults = ["exit code"] if old[0] != new[0] else []
        faults += ["answer"] if parsed(old[1], ignored) != parsed(new[1], ignored) else []
        for name in sorted({*old[2], *new[2]}):
            texts = [files.get(name, b"").decode() for files in (old[2], new[2])]
            faults += [name] if parsed(texts[0], ignored) != parsed(texts[1], ignored) else []
        differing += bool(faults)
        print(f"{'DIFFERS: ' + ', '.join(faults) if faults else 'same'}  {command} (exit code {new[0]})")
    print(f"{differing} answers differ" if differing else "no answer differs")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
