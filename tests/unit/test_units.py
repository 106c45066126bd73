from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from damoos import units
from damoos.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("4K", 4096),
        ("4k", 4096),
        ("2MB", 2 << 20),
        ("1.5GiB", 3 << 29),
        ("4096", 4096),
        ("4.000 KiB", 4096),
        ("8B", 8),
    ],
)
def test_bytes_as_people_write_them(text: str, size: int) -> None:
    assert units.parse_bytes(text) == size


@pytest.mark.parametrize(
    ("text", "time_us"),
    [("5s", 5_000_000), ("100ms", 100_000), ("2m", 120_000_000), ("1d", 86_400_000_000), ("7", 7), ("0.3s", 300_000)],
)
def test_times_as_people_write_them(text: str, time_us: int) -> None:
    assert units.parse_us(text) == time_us


@pytest.mark.parametrize("text", ["", "-1K", "4Q", "K", "0x10", "1.0001B"])
def test_a_wrong_size_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        units.parse_bytes(text)


@pytest.mark.parametrize("text", ["", "5 parsecs", "1e3s", "-5s", "0.5us"])
def test_a_wrong_time_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        units.parse_us(text)


def test_a_unit_that_is_nearly_right_is_named() -> None:
    with pytest.raises(ConfigError, match="did you mean 'ms'"):
        units.parse_us("5msec")


def test_more_than_all_is_refused() -> None:
    with pytest.raises(ConfigError, match="more than 100"):
        units.parse_percent("101%")


@given(st.integers(0, 1 << 64))
def test_bytes_survive_a_round_trip(size: int) -> None:
    assert units.parse_bytes(units.format_bytes(size)) == size


@given(st.integers(0, 1 << 60))
def test_times_survive_a_round_trip(time_us: int) -> None:
    assert units.parse_us(units.format_us(time_us)) == time_us


@given(st.integers(0, 1000))
def test_permils_survive_a_round_trip(permil: int) -> None:
    percent = Fraction(permil, 10)
    assert units.parse_percent(units.format_percent(percent)) == percent
