"""The Spark Connect server within this program's process."""

from __future__ import annotations

import re
import socket
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest
from pyspark.errors.exceptions.connect import IllegalArgumentException

from pipelines.spark import session
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


def sleep_beyond(seconds: str) -> str:
    """Leave a session idle for longer than it may be, and return what it says then."""
    session._IDLE_SECONDS = seconds
    sail = session.start_sail()
    time.sleep(float(seconds) + 3)
    with pytest.raises(IllegalArgumentException) as error:
        sail.sql("SELECT 1").collect()
    return str(error.value)


def test_an_idle_session_ends_after_the_time_that_is_set() -> None:
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        assert "is not running" in pool.submit(sleep_beyond, "1").result()
    assert int(session._IDLE_SECONDS) > 24 * 3600  # a stage may take hours
