"""Secrets in the URL of a warehouse are never shown."""

from __future__ import annotations

import pytest

from pipelines.errors import StoreError
from pipelines.spark.delta_log import check_log  # noqa: F401 - imports without a cycle
from pipelines.warehouse_urls import redact_urls


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("s3a://AKIA:se/cr+et@bucket/a/b", "s3a://***@bucket/a/b"),
        ("s3a://AKIA@bucket/a", "s3a://***@bucket/a"),
        ("https://user:pw@host:8443/x?sig=abc&se=2026", "https://***@host:8443/x?sig=***&se=***"),
        ("https://host/x?token", "https://host/x?***"),
        (
            "abfss://container@account.dfs.core.windows.net/a?sig=s",
            "abfss://container@account.dfs.core.windows.net/a?sig=***",
        ),
        ("abfss://container:key@account/a", "abfss://***@account/a"),
        ("s3a://bucket/a/b", "s3a://bucket/a/b"),
        ("/data/a@b?c=d", "/data/a@b?c=d"),
        ('{"warehouse":"s3a://k:s@b/w","catalog":""}', '{"warehouse":"s3a://***@b/w","catalog":""}'),
        ("x " * 50_000 + "://" * 50_000, None),
    ],
)
def test_user_and_query_are_hidden(url: str, shown: str | None) -> None:
    text = redact_urls(f"at {url}")
    assert shown is None or text == f"at {shown}"


def test_errors_about_tables_hide_them() -> None:
    assert str(StoreError("no table at s3a://k:s@b/w", "or s3a://k:s@b")) == "no table at s3a://***@b/w\nor s3a://***@b"
