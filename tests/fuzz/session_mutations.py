"""Mutations of what stands around a listing: lines taken out, prompts with a filter, failed commands, two clusters."""

from __future__ import annotations

import random

from tests.fuzz.text_mutations import Mutation

# What people put before a line that is no longer true, and behind it; lines of diffs.
_OUT = (
    *(("# ", ""), ("#", ""), ("// ", ""), ("; ", ""), ("/* ", " */"), ("~~", "~~"), ("<del>", "</del>")),
    *(("<!-- ", " -->"), ("- ", ""), ("-", ""), ("+", ""), ("< ", ""), ("> # ", "")),
)
_DIFF_LINES = ("@@ -1,5 +1,6 @@", "2,3c2,3", "diff --git a/x b/x", "--- a.txt", "---")
FAILURES = (
    "Error while executing topic command : Timed out waiting for a node assignment. Call: describeTopics",
    "Error while executing topic command : Topic 'payments' does not exist as expected",
    "command terminated with exit code 137",
    "% ERROR: Failed to acquire metadata: Local: Broker transport failure",
    "Killed",
    "Connection to kafka-1 closed by remote host.",
    'Exception in thread "main" java.lang.OutOfMemoryError: Java heap space',
    "[2024-05-06 07:08:09,123] ERROR org.apache.kafka.common.errors.TimeoutException: Call timed out (kafka.admin.X$)",
)
_FILTERS = (
    *(
        "--under-replicated-partitions",
        "--unavailable-partitions",
        "--at-min-isr-partitions",
        "--topics-with-overrides",
    ),
    *("--topic orders", "--topic 'a.*'", "--exclude-internal", "| grep orders", "| head -20", ""),
)
_COMMAND = "kafka-topics.sh --bootstrap-server {} --describe"
_PROMPTS = ("$ ", "# ", "[kafka@b1 ~]$ ", "root@b1:/# ", "> ", "PS C:\\kafka> ", "")
# Names that no cluster shares, so that a reader can be sure.
CLUSTERS = ("paris.example.com:9092", "tokyo.example.org:9092")


def comment_out(rng: random.Random, text: str) -> str:
    """Take out a run of lines, as with an editor; at times as a diff would."""
    lines = text.split("\n")
    begin = rng.randrange(len(lines))
    end = begin + rng.choice((1, 1, 2, 5, len(lines)))
    before, behind = rng.choice(_OUT)
    changed = [f"{before}{line}{behind}" if line.strip() else line for line in lines[begin:end]]
    numbers = [rng.choice(_DIFF_LINES)] if rng.random() < 0.2 else []
    return "\n".join([*lines[:begin], *numbers, *changed, *lines[end:]])


def add_failure(rng: random.Random, text: str) -> str:
    """Add the error of a command that failed, mostly at the end."""
    lines = text.rstrip("\n").split("\n")
    at = len(lines) if rng.random() < 0.7 else rng.randrange(len(lines) + 1)
    return "\n".join([*lines[:at], rng.choice(FAILURES), *lines[at:], ""])


def add_prompt(rng: random.Random, text: str) -> str:
    """Add the command above a listing, mostly one that shows only some partitions."""
    lines = text.split("\n")
    at = 0 if rng.random() < 0.7 else rng.randrange(len(lines) + 1)
    command = f"{rng.choice(_PROMPTS)}{_COMMAND.format('b1:9092')} {rng.choice(_FILTERS)}".rstrip()
    return "\n".join([*lines[:at], command, *lines[at:]])


def repeat_for_another_cluster(_rng: random.Random, text: str) -> str:
    """Show the same listing twice, each time below the command that asks another cluster."""
    return "\n".join(f"$ {_COMMAND.format(server)}\n{text.rstrip()}\n" for server in CLUSTERS)


SESSION_MUTATIONS: tuple[Mutation, ...] = (
    *(comment_out, comment_out, add_failure, add_prompt, repeat_for_another_cluster),
)
