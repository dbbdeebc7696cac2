"""What Kafka takes as the name of a topic."""

from __future__ import annotations

import re

_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def bad_topic_name(topic: str | None) -> str | None:
    """Why Kafka would reject this topic name, or None if it would not."""
    if topic is None or (_TOPIC_NAME.fullmatch(topic) and topic not in (".", "..")):
        return None
    return f"bad topic name {topic!r}: 1 to 249 of a-z A-Z 0-9 . _ - are allowed, and not '.' or '..'"
