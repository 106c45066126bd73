"""The notebook that rolls out over four guests runs as it is: part of `make test-rollout`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.guest.test_notebooks import check


@pytest.mark.timeout(0)
@pytest.mark.usefixtures("guest_image")
def test_a_policy_goes_on_four_hosts(tmp_path: Path) -> None:
    check("7-rollout", {}, tmp_path)
