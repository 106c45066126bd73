import pytest
from hypothesis import given
from hypothesis import strategies as st

from damoos.damon.quotas import Quotas
from damoos.damon.scheme import kernel_pattern
from damoos.errors import ConfigError, DamoosError, SchemeError
from damoos.model.space import Param, Space, parse_param
from damoos.study.config import StudyConfig, policy_of, space_of
from damoos.workloads.base import Tuning

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


@pytest.mark.parametrize(
    ("text", "param"),
    [
        ("attrs.aggr=20ms:2s", Param("attrs.aggr", "us", 20_000, 2_000_000, 1000)),
        ("quotas.goals[0].target=10:1000", Param("quotas.goals[0].target", "count", 10, 1000, 1)),
        ("quotas.goals[0].target=10ms:1s", Param("quotas.goals[0].target", "us", 10_000, 1_000_000, 1000)),
        ("watermarks.mid=100:500", Param("watermarks.mid", "permil", 100, 500, 1)),
        ("schemes[1].quotas.sz=1M:1G", Param("schemes[1].quotas.sz", "bytes", 1 << 20, 1 << 30, 4096)),
        ("module.min_age=1s:60s", Param("module.min_age", "us", 1_000_000, 60_000_000, 1000)),
        ("apply_interval=100ms:1s", Param("apply_interval", "us", 100_000, 1_000_000, 1000)),
        ("quotas.goal_tuner=consist,temporal", Param("quotas.goal_tuner", "choice", 0, 1, 1, ("consist", "temporal"))),
    ],
)
def test_any_word_of_a_scheme_is_tuned_by_its_path(text: str, param: Param) -> None:
    assert parse_param(text, 100_000) == param


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("attrs.agr=20ms:2s", "agr: unknown word; did you mean 'aggr'"),
        ("quotas.sz=1X:2X", "quotas.sz: '1X': unknown size unit"),
        ("quotas.goal_tuner=a:b", "not a number; a choice is written quotas.goal_tuner=word,word"),
        ("filters[0].typ=anon,young", "unknown word"),
    ],
)
def test_a_path_that_names_nothing(text: str, message: str) -> None:
    with pytest.raises(DamoosError, match=message):
        parse_param(text, 100_000)


def test_a_point_becomes_words_of_the_scheme() -> None:
    text = "attrs sample=10ms\n4K max  min min  MIN_AGE max  pageout  quotas.reset_interval=1s"
    text += "  quotas.goals[0].metric=some_mem_psi_us  quotas.goals[0].target=1ms"
    words = ("min_age=0s:6s", "attrs.aggr=20ms:2s", "quotas.goals[0].target=1ms:1s")
    config = StudyConfig(command="true", machine="guest", nr_samples=2, scheme=text, tune=words)
    space = space_of(config, Tuning())
    point = {"min_age_us": 3_000_000, "attrs.aggr_us": 500_000, "quotas.goals[0].target_us": 20_000}
    assert set(point) == {param.key for param in space.params}
    context = policy_of(config, space, point).context
    assert (context.attrs.sample_us, context.attrs.aggr_us) == (10_000, 500_000)
    assert context.schemes[0].quotas.goals[0].target_value == 20_000
    assert kernel_pattern(context.schemes[0].pattern, context.attrs).min_age == 6


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_no_point_breaks_an_order(low: float, mid: float, high: float) -> None:
    names = ("watermarks.low=0:600", "watermarks.mid=100:700", "watermarks.high=50:400")
    point = Space("", tuple(parse_param(name, 1) for name in names)).from_unit([low, mid, high])
    assert point["watermarks.low_permil"] <= point["watermarks.mid_permil"] <= point["watermarks.high_permil"]


def test_what_cannot_hold_for_a_corner_is_told_before_a_run() -> None:
    config = StudyConfig(
        command="true", machine="guest", nr_samples=2, tune=["min_age=0s:6s", "attrs.aggr=1ms:2s"],
    )  # fmt: skip
    with pytest.raises(SchemeError, match=r"aggr: intervals: 0 < sample_us \(5000\) <= aggr_us \(1000\)"):
        config.check()
