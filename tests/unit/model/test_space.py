import pytest
from hypothesis import given
from hypothesis import strategies as st

from damoos.damon.quotas import Quotas
from damoos.errors import ConfigError
from damoos.model.space import Param, Space, parse_param
from damoos.study.config import StudyConfig, policy_of

AGE = parse_param("min_age=0s:60s", 100_000)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("min_age=0s:60s", Param("min_age", "us", 0, 60_000_000, 100_000)),
        ("max_freq=0:20", Param("max_freq", "percent", 0, 20, 1)),
        ("min_freq=5%:20%", Param("min_freq", "percent", 5, 20, 1)),
        ("min_size=4K:2M", Param("min_size", "bytes", 4096, 2 << 20, 4096)),
        ("quota_sz=1M:1G", Param("quota_sz", "bytes", 1 << 20, 1 << 30, 4096)),
        ("quota_time=1ms:100ms", Param("quota_time", "ms", 1, 100, 1)),
        ("action=pageout,cold", Param("action", "choice", 0, 1, 1, ("pageout", "cold"))),
    ],
)
def test_tunables(text: str, expected: Param) -> None:
    assert parse_param(text, 100_000) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max_freq=0.5:20", "not a whole percentage"),
        ("quota_time=100us:1s", "not a whole number of milliseconds"),
        ("action=cold,cold", "must differ"),
        ("quota_size=1M:2M", "unknown tunable 'quota_size'; did you mean 'quota_sz'"),
    ],
)
def test_tunables_that_are_none(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_param(text, 100_000)


@given(
    st.sampled_from(
        [
            AGE,
            parse_param("min_age=0s:6s", 100_000),
            parse_param("max_freq=0:20", 1),
            parse_param("min_size=4K:2M", 1),
            parse_param("quota_time=1ms:100ms", 1),
            parse_param("action=a,b,c", 1),
        ]
    ),
    st.data(),
)
def test_a_value_comes_back_from_its_place(param: Param, data: st.DataObject) -> None:
    value = data.draw(st.sampled_from(param.values))
    place = param.to_unit(value)
    assert 0 <= place <= 1
    assert param.from_unit(place) == value


@given(st.floats(0, 1))
def test_the_nearest_value_is_found(place: float) -> None:
    param = parse_param("min_age=0s:60s", 1_000_000)
    expected = min(param.values, key=lambda value: abs(param.to_unit(value) - place))
    assert abs(param.to_unit(param.from_unit(place)) - place) == pytest.approx(abs(param.to_unit(expected) - place))


def test_the_scale_of_an_age_is_logarithmic() -> None:
    seconds = parse_param("min_age=0s:60s", 1_000_000)
    assert [seconds.from_unit(n / 8) // 1_000_000 for n in range(9)] == [0, 1, 2, 4, 7, 12, 21, 35, 60]
    tenths = parse_param("min_age=0s:6s", 100_000)
    assert [tenths.from_unit(n / 8) // 100_000 for n in range(9)] == [0, 1, 2, 4, 7, 12, 21, 35, 60]


def test_a_choice_is_written_into_the_scheme_and_a_quota_beside_it() -> None:
    space = Space(
        "4K max  min min  MIN_AGE max  ACTION",
        (AGE, parse_param("action=pageout,cold", 1), parse_param("quota_sz=1M:1G", 1)),
    )
    point = space.point(min_age_us=5_000_000, action=1, quota_sz_bytes=64 << 20)
    config = StudyConfig(workload=None, command="true", machine="guest", nr_samples=2)
    (scheme,) = policy_of(config, space, point).schemes
    assert str(scheme).startswith("4K max  min min  5s max  cold  quotas.sz=64M  quotas.reset_interval=1s")
    assert scheme.quotas == Quotas(sz_bytes=64 << 20, reset_interval_ms=1000, weight_age_permil=1000)
    assert space.readable(point)["action"] == "cold"
    assert len(space.corners) == 8


@given(st.integers(0, 10**7), st.integers(1, 10**6), st.integers(1, 100), st.floats(-1e8, 1e8))
def test_snapped_values_are_on_the_grid(low: int, span: int, step: int, value: float) -> None:
    param = Param("min_age", "us", low, low + span, step)
    assert param.snap(value) in param.values


def test_a_tunable_from_words() -> None:
    assert parse_param("min_age=0s:60s", 100_000) == Param("min_age", "us", 0, 60_000_000, 100_000)
    assert parse_param("min_size=4K:2M", 100_000) == Param("min_size", "bytes", 4096, 2 << 20, 4096)
