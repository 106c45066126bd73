"""Tests that share a guest, a cluster or a site are run by one process, so that it is made once."""

from __future__ import annotations

import pytest


def test_the_tests_of_a_file_are_one_group(request: pytest.FixtureRequest) -> None:
    if getattr(request.config.option, "loadgroup", False):  # in a process of `make check` and `make test`
        assert request.node.nodeid.endswith("@unit/project/test_groups.py")
