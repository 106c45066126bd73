"""The cluster on EC2: what Ray itself would refuse, and that its names, machines and prices fit together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ray.autoscaler._private.util import prepare_config, validate_config

from damoos.common import paths
from damoos.errors import ConfigError
from damoos.machines import catalog, prices
from damoos.units import parse_bytes

AWS = paths.data("machines") / "aws"
METALS = {"i3.metal": (18, 32 << 30), "m5d.metal": (24, 24 << 30), "z1d.metal": (12, 24 << 30)}


@pytest.fixture(scope="module")
def cluster() -> dict[str, Any]:
    return prepare_config(yaml.safe_load((AWS / "cluster.yaml").read_text()))


def workers(cluster: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: kind for name, kind in cluster["available_node_types"].items() if name != cluster["head_node_type"]}


def test_ray_takes_the_file(cluster: dict[str, Any]) -> None:
    validate_config(cluster)
    cluster = {**cluster, "max_worker": 3}
    with pytest.raises(Exception, match="max_worker"):
        validate_config(cluster)


def test_every_worker_offers_the_machine_that_it_is_for(cluster: dict[str, Any]) -> None:
    found = workers(cluster)
    assert set(found) == set(METALS)
    for name, kind in found.items():
        assert kind["node_config"]["InstanceType"] == name
        assert kind["resources"][name] == 1
        assert kind["node_config"]["InstanceMarketOptions"] == {"MarketType": "spot"}
        assert prices.price_hour(name) is not None
    assert "InstanceMarketOptions" not in cluster["available_node_types"]["head"]["node_config"]


@pytest.mark.parametrize("name", METALS)
def test_a_metals_guest_has_the_papers_full_size(name: str) -> None:
    file = catalog.find(name)[1]
    assert file.paper_guest is not None
    assert file.paper_guest.scaled() == METALS[name]
    assert (file.paper_guest.instance, file.paper_guest.accel) == (name, "kvm")
    assert file.swap is not None
    assert parse_bytes(file.swap.size or "") == 4 << 30
    assert catalog.machine(name).name == name


def test_nothing_is_shown_to_the_internet(cluster: dict[str, Any]) -> None:
    (head,) = (line for line in cluster["head_start_ray_commands"] if "ray start" in line)
    assert "--include-dashboard=false" in head
    assert "0.0.0.0" not in (AWS / "cluster.yaml").read_text()
    assert "security_group" not in cluster["provider"]


def test_each_node_asks_for_the_token(cluster: dict[str, Any]) -> None:
    starts = [*cluster["head_start_ray_commands"], *cluster["worker_start_ray_commands"]]
    begun = [line for line in starts if "ray start" in line]
    assert len(begun) == 2
    assert all("RAY_AUTH_MODE=token" in line for line in begun)
    assert cluster["file_mounts"]["~/.ray/auth_token"] == "~/.ray/auth_token"


def test_hardware_of_ones_own_costs_nothing_here() -> None:
    assert prices.price_hour("guest") is None
    assert prices.cost({"guest": 7200.0}) == [{"machine": "guest", "hours": 2.0, "usd_hour": None, "usd": None}]


def test_the_market_decides_which_price_is_paid(tmp_path: Path) -> None:
    file = tmp_path / "prices.toml"
    text = (AWS / "prices.toml").read_text()
    file.write_text(text.replace('market = "spot"', 'market = "on_demand"'))
    assert prices.price_hour("i3.metal", file) == 4.992
    (row,) = prices.cost({"i3.metal": 1800.0}, file)
    assert row["usd"] == pytest.approx(2.496)
    assert (prices.price_hour("i3.metal") or 9) < 4.992


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("surprise = 1", "unknown key 'surprise'"),
        ('[instances."x.metal"]\non_demand = 1.0', "'instances.x.metal.spot' is missing"),
        ('[instances."x.metal"]\non_demand = 1.0\nspots = 1.0', "spots'; did you mean 'spot'"),
        ('[instances."x.metal"]\non_demand = -1.0\nspot = 1.0', "instances.x.metal.on_demand"),
    ],
)
def test_a_wrong_price_file_is_refused(tmp_path: Path, line: str, message: str) -> None:
    file = tmp_path / "prices.toml"
    text = (AWS / "prices.toml").read_text()
    file.write_text(f"{line}\n{text}" if "=" in line.split("\n")[0] else f"{text}\n{line}\n")
    with pytest.raises(ConfigError, match=message):
        prices.price_hour("guest", file)
