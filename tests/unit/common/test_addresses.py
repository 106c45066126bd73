"""Addresses with secrets are known, and others are left alone."""

from __future__ import annotations

import pytest

from damoos.common.addresses import has_secret, hidden, hidden_store, store_has_secret


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql+psycopg://u:pw@host/db", "postgresql+psycopg://u:***@host/db"),
        ("postgresql://:pw@host/db", "postgresql://:***@host/db"),
        ("postgresql://u:p/w#x?@host:5/db", "postgresql://u:***@host:5/db"),
        ("postgresql+psycopg://user@corp:pw@127.0.0.1:9/db", "postgresql+psycopg://user@corp:***@127.0.0.1:9/db"),
        ("postgresql://u?s#e r:pw@host/db", "postgresql://u?s#e r:***@host/db"),
        ("postgresql://u:p@w@host/db", "postgresql://u:***@host/db"),
        ("postgresql://u:p@w:x@host/db", "postgresql://u:***@host/db"),
        ("postgre sql://u:pw@host/db", "postgre sql://u:***@host/db"),
        ("postgresql://h/db?scram_client_key=a", "postgresql://h/db?scram_client_key=***"),
        ("postgresql+psycopg:/u:pw@host/db", "postgresql+psycopg:***@host/db"),
        ("postgresql+psycopg//u:pw@host/db", "postgresql+psycopg//u:***@host/db"),
        ("u:pw@host/db", "u:***@host/db"),
        ("host=h user=u password=pw", "host=h user=u password=***"),
        ("host = h user = u password = pw", "host = h user = u password=***"),
        ("postgresql://h/db#password=pw", "postgresql://h/db#password=***"),
        ("postgresql://h/db?passphrase=1&pw=2&pass=3", "postgresql://h/db?passphrase=***&pw=***&pass=***"),
        ("postgresql:///db?host=h&password=p@w&x=1", "postgresql:///db?host=h&password=***&x=1"),
        ("postgresql:///db?sslp%61ssword=pw", "postgresql:///db?sslp%61ssword=***"),
    ],
)
def test_a_secret_of_a_storage_is_hidden(url: str, shown: str) -> None:
    assert hidden_store(url) == shown
    assert store_has_secret(url)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://u@host:5432/db", "postgresql://host:port/db", "sqlite:////tmp/a:b@c.sqlite",
        "results/a:b@c.sqlite", "postgresql://h/db?sslkey=/k&passfile=/p&target_session_attrs=any",
    ],
)  # fmt: skip
def test_other_storages_are_left_alone(url: str) -> None:
    assert hidden_store(url) == url
    assert not store_has_secret(url)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("http://u:pw@host/x", "http://***@host/x"),
        ("http://u:p@w/x@host", "http://***@host"),
        ("HTTPS://token@host/x", "HTTPS://***@host/x"),
        ("http://u:p@w@host/x", "http://***@host/x"),
        ("http://u:p/w?x#y@host/x", "http://***@host/x"),
        ("https://host/x?api_key=1&b=2#c", "https://host/x?api_key=***&b=2#c"),
        ("https://host/x?b=2;X-Amz-Signature=1;c=3", "https://host/x?b=2;X-Amz-Signature=***;c=3"),
        ("https://host/x?%6Bey=1", "https://host/x?%6Bey=***"),
        ("https://host/x?pw=1#token=2", "https://host/x?pw=***#token=***"),
        *(
            (f"Http://h/?{name}=1", f"Http://h/?{name}=***")
            for name in ("key", "api-key", "sig", "auth", "access", "pass", "cred", "sessionid", "pin", "code", "jwt")
        ),
        ("p99=cmd:curl http://u:pw@host/x #a", "p99=cmd:curl http://***@host/x #a"),
        ("p99=cmd:redis-cli -u redis://u@c:pw@host/", "p99=cmd:redis-cli -u redis://u@c:***@host/"),
    ],
)
def test_a_secret_is_hidden(address: str, shown: str) -> None:
    assert hidden(address) == shown
    assert has_secret(address)


@pytest.mark.parametrize(
    "address",
    [
        "http://host:9100/metrics#/a@b/", "http://[::1]:9100/a@b", "https://host/a?b=c", "p99=file:/tmp/a:b@c",
        "p99=cmd:ssh ssh://git@host/x", "results/damoos.sqlite", "http://u:12/w@host:80/x",
    ],
)  # fmt: skip
def test_others_are_left_alone(address: str) -> None:
    assert hidden(address) == address
    assert not has_secret(address)
