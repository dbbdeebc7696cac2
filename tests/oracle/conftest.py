"""What tests of Kafka's own classes may ask for."""

from __future__ import annotations

import pytest

from pipelines.errors import EnvironmentFault
from tests.oracle import jvm


@pytest.fixture
def jdk() -> None:
    """Skips, and says so, where there is nothing that compiles and runs Java."""
    try:
        jvm.java_compiler()
    except EnvironmentFault as fault:
        pytest.skip(f"no JDK, so Kafka's own classes cannot be asked: {fault}")
