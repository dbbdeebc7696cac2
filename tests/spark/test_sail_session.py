"""The Spark Connect server within this program's process."""

from __future__ import annotations

import re
import socket

import pytest

from pipelines.spark.session import open_session
from tests.commands import in_sail


def open_port() -> int:
    """Open a session in the process of in_sail, use it, and return the port that it is connected to."""
    session = open_session("tests", warehouse=None, small=True, without_java=True)
    assert session.sql("SELECT 1").collect() == [(1,)]
    match = re.search(r":(\d+)$", session.client._builder.endpoint)
    assert match
    return int(match[1])


def test_others_cannot_connect() -> None:
    """Whoever can may run code as this user."""
    port = in_sail(open_port)
    with socket.socket() as other:
        other.settimeout(2)
        with pytest.raises(TimeoutError):
            other.connect(("127.0.0.1", port))
    assert in_sail(open_port) == port  # the session lives on
