from __future__ import annotations

from typing import Any

import pytest

from damoos.errors import ConfigError
from damoos.service.specification import name_of, parse_on


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("unit:redis.service", {"kind": "unit", "name": "redis.service"}),
        ("unit:redis", {"kind": "unit", "name": "redis.service"}),
        ("unit:machine.slice", {"kind": "unit", "name": "machine.slice"}),
        ("cgroup:/system.slice", {"kind": "cgroup", "path": "/system.slice"}),
        ("pid:4711", {"kind": "pid", "pid": 4711}),
        ("pid-file:/run/redis.pid", {"kind": "pid_file", "path": "/run/redis.pid"}),
        ("match:exe=redis-server", {"kind": "match", "what": "exe", "value": "redis-server"}),
        ("match:user=www-data", {"kind": "match", "what": "user", "value": "www-data"}),
        ("machine", {"kind": "machine"}),
    ],
)
def test_processes(text: str, found: dict[str, Any]) -> None:
    assert parse_on(text) == found


@pytest.mark.parametrize(
    ("on", "name"),
    [
        ("unit:redis.service", "redis"),
        ("cgroup:/system.slice/redis.service", "redis"),
        ("cgroup:/kubepods/burstable/", "burstable"),
        ("pid:4711", "pid-4711"),
        ("pid-file:/run/redis/redis-server.pid", "redis-server"),
        ("match:exe=redis-server", "redis-server"),
        ("machine", "machine"),
    ],
)
def test_names_in_service(on: str, name: str) -> None:
    assert name_of(on) == name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("redis", "--on 'redis': unknown kind 'redis'"),
        ("uint:redis", "unknown kind 'uint'; did you mean 'unit'?"),
        ("unit:", "--on 'unit:': write unit:NAME.service"),
        ("machine:all", "--on 'machine:all': write machine"),
        ("pid:redis", "'redis' is not a process id"),
        ("pid:0", "'0' is not a process id"),
        ("match:redis", "write one of match:exe=..., match:name=..., match:user=..."),
        ("match:cmd=redis", "write one of match:exe="),
    ],
)
def test_words_that_name_no_processes(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_on(text)
    assert message in str(caught.value)
