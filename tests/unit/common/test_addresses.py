"""Addresses with secrets are known, and others are left alone."""

from __future__ import annotations

import pytest

from damoos.common.addresses import has_secret, hidden


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql+psycopg://u:pw@host/db", "postgresql+psycopg://u:***@host/db"),
        ("postgresql://:pw@host/db", "postgresql://:***@host/db"),
        ("postgresql://u:p/w#x?@host:5/db", "postgresql://u:***@host:5/db"),
        ("postgresql:///db?host=h&password=pw&x=1", "postgresql:///db?host=h&password=***&x=1"),
        ("postgresql:///db?sslpassword=pw", "postgresql:///db?sslpassword=***"),
        ("http://u:pw@host/x", "http://***@host/x"),
        ("https://token@host/x", "https://***@host/x"),
        ("https://host/x?api_key=1&b=2#c", "https://host/x?api_key=***&b=2#c"),
        ("p99=cmd:curl http://u:pw@host/x #a", "p99=cmd:curl http://***@host/x #a"),
    ],
)
def test_a_secret_is_hidden(address: str, shown: str) -> None:
    assert hidden(address) == shown
    assert has_secret(address)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql+psycopg://u@host:5432/db", "sqlite:////tmp/a:b@c.sqlite", "http://host:9100/metrics#/a@b/",
        "https://host/a?b=c", "p99=file:/tmp/a:b@c", "results/damoos.sqlite",
    ],
)  # fmt: skip
def test_others_are_left_alone(address: str) -> None:
    assert hidden(address) == address
    assert not has_secret(address)
