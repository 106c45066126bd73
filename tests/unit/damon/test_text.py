"""The scheme language, on the texts that were published."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from damoos.damon.attrs import Attrs
from damoos.damon.pattern import ACTIONS, AccessPattern
from damoos.damon.scheme import UINT_MAX, ULONG_MAX, Scheme, kernel_pattern, parse_schemes
from damoos.damon.text import fill_template
from damoos.errors import ConfigError, SchemeError

LISTING_1 = """
# size    frequency age    action
# page out memory regions not accessed
# >=2 minutes
min max  min min    2m max  page_out

# Use THP for >=2MiB regions having
# >=80% frequency ratio for >=1 minute
2MB max  80% max  1m max  thp

# Do not use THP for regions having
# <=5% frequency ratio for >=1 minute
min max  min 5%    1m max  nothp
"""
LISTING_3 = """
min max	5 max	min max	hugepage
2M max	min min	7s max	nohugepage
4K max	min min	5s max	pageout
"""
SLIDES = "4K max 0 0 2m max pageout"
V8 = """
2M null 5 null null null hugepage
2M null null 5 1s null nohugepage
4K null null 5 500ms null pageout
"""
V8_PLAN = """
na na 80 90 100ms madv_willneed
na na 10 20 100ms madv_cold
2M na 90 99 100ms madv_hugepage
"""


def test_listing_1() -> None:
    reclaim, thp, nothp = parse_schemes(LISTING_1)
    assert reclaim == Scheme("pageout", AccessPattern(0, None, Fraction(0), Fraction(0), 120_000_000, None))
    assert thp == Scheme("hugepage", AccessPattern(2 << 20, None, Fraction(80), None, 60_000_000, None))
    assert nothp == Scheme("nohugepage", AccessPattern(0, None, Fraction(0), Fraction(5), 60_000_000, None))


def test_listing_3() -> None:
    hugepage, nohugepage, prcl = parse_schemes(LISTING_3)
    assert hugepage.pattern == AccessPattern(0, None, Fraction(5), None, 0, None)
    assert nohugepage.pattern == AccessPattern(2 << 20, None, Fraction(0), Fraction(0), 7_000_000, None)
    assert prcl == Scheme("pageout", AccessPattern(4096, None, Fraction(0), Fraction(0), 5_000_000, None))


def test_slides() -> None:
    assert parse_schemes(SLIDES) == parse_schemes("4K max  min min  2m max  page_out")


def test_v8_patch_set() -> None:
    first, second, prcl = parse_schemes(V8)
    assert first.pattern == AccessPattern(2 << 20, None, Fraction(5), None, 0, None)
    assert second.pattern == AccessPattern(2 << 20, None, Fraction(0), Fraction(5), 1_000_000, None)
    assert prcl.pattern == AccessPattern(4096, None, Fraction(0), Fraction(5), 500_000, None)
    willneed, cold, huge = parse_schemes(V8_PLAN)
    assert (willneed.action, cold.action, huge.action) == ("willneed", "cold", "hugepage")
    assert willneed.pattern == AccessPattern(0, None, Fraction(80), Fraction(90), 100_000, None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("4K max min min 5s max pagout", r"line 1, column 23: unknown action 'pagout'; did you mean 'pageout'\?"),
        ("# fine\n4K max min min 5x max pageout", "line 2, column 16: '5x': unknown time unit 'x'"),
        ("4K max min min pageout", "line 1, column 16: a scheme has 7 fields .* found 5"),
        ("max max min min 5s max pageout", "line 1, column 1: a lower bound of 'max'"),
        ("8K 4K min min 5s max pageout", "line 1, column 4: the upper bound '4K' is below"),
        ("4K max 50 120 5s max pageout", "line 1, column 11: '120' is more than 100 percent"),
        ("na 500M 90 99 100ms mlock", "line 1, column 21: unknown action 'mlock'"),
        ("4Q max min min 5s max pageout", "line 1, column 1: '4Q': unknown size unit 'Q'"),
    ],
)
def test_errors_say_where_and_what(text: str, message: str) -> None:
    with pytest.raises(SchemeError, match=message):
        parse_schemes(text)


def test_ends_are_never_off_by_one() -> None:
    attrs = Attrs()
    everything = kernel_pattern(AccessPattern(), attrs)
    assert (everything.min_nr_accesses, everything.max_nr_accesses) == (0, 20)
    assert (everything.min_age, everything.max_age) == (0, UINT_MAX)
    assert (everything.min_sz, everything.max_sz) == (0, ULONG_MAX)
    always = kernel_pattern(AccessPattern(min_freq=Fraction(100), max_freq=Fraction(100)), attrs)
    assert (always.min_nr_accesses, always.max_nr_accesses) == (20, 20)
    never = kernel_pattern(AccessPattern(max_freq=Fraction(0), min_age_us=5_000_000), attrs)
    assert (never.max_nr_accesses, never.min_age) == (0, 50)
    # 7 % of 20 samples is 1.4: at least 2 of them, or at most 1.
    assert kernel_pattern(AccessPattern(min_freq=Fraction(7)), attrs).min_nr_accesses == 2
    assert kernel_pattern(AccessPattern(max_freq=Fraction(7)), attrs).max_nr_accesses == 1
    # 250 ms is two and a half aggregations.
    assert kernel_pattern(AccessPattern(min_age_us=250_000), attrs).min_age == 3
    assert kernel_pattern(AccessPattern(max_age_us=250_000), attrs).max_age == 2


def test_a_range_between_two_steps_is_refused() -> None:
    with pytest.raises(SchemeError, match="no count of 20 samples"):
        kernel_pattern(AccessPattern(min_freq=Fraction(6), max_freq=Fraction(9)), Attrs())
    with pytest.raises(SchemeError, match="no whole aggregation"):
        kernel_pattern(AccessPattern(min_age_us=110_000, max_age_us=190_000), Attrs())


@pytest.mark.parametrize(
    "change", [{"sample_us": 0}, {"sample_us": 200_000}, {"min_nr_regions": 2}, {"min_nr_regions": 2000}]
)
def test_attributes_that_would_kill_a_kdamond_are_refused(change: dict[str, int]) -> None:
    with pytest.raises(SchemeError):
        Attrs(**change)


def bounds(top: int) -> st.SearchStrategy[tuple[int, int | None]]:
    low = st.integers(0, top)
    return low.flatmap(lambda n: st.tuples(st.just(n), st.none() | st.integers(n, top)))


@st.composite
def schemes(draw: st.DrawFn) -> Scheme:
    min_sz, max_sz = draw(bounds(1 << 50))
    min_freq, max_freq = draw(bounds(100))
    min_age, max_age = draw(bounds(1 << 40))
    upper = None if max_freq is None else Fraction(max_freq)
    return Scheme(
        draw(st.sampled_from(ACTIONS)), AccessPattern(min_sz, max_sz, Fraction(min_freq), upper, min_age, max_age)
    )


@given(st.lists(schemes()))
@pytest.mark.slow
def test_text_survives_a_round_trip(written: list[Scheme]) -> None:
    assert list(parse_schemes("\n".join(map(str, written)))) == written


@given(schemes())
def test_kernel_numbers_stay_inside_the_scheme(scheme: Scheme) -> None:
    attrs, pattern = Attrs(), scheme.pattern
    try:
        numbers = kernel_pattern(pattern, attrs)
    except SchemeError:
        return
    assert Fraction(numbers.min_nr_accesses * 100, 20) >= pattern.min_freq
    assert numbers.min_age * attrs.aggr_us >= pattern.min_age_us
    assert pattern.max_freq is None or Fraction(numbers.max_nr_accesses * 100, 20) <= pattern.max_freq
    assert pattern.max_age_us is None or numbers.max_age * attrs.aggr_us <= pattern.max_age_us


def test_templates() -> None:
    prcl = "# MIN_AGE is tuned\n4K max  min min  MIN_AGE max  pageout"
    assert str(parse_schemes(fill_template(prcl, {"MIN_AGE": "300ms"}))[0]) == "4K max  min min  300ms max  pageout"
    with pytest.raises(ConfigError, match="MIN_AGE has no value"):
        fill_template(prcl, {})
    with pytest.raises(ConfigError, match="MIN_SIZE is not in the scheme"):
        fill_template(prcl, {"MIN_AGE": "1s", "MIN_SIZE": "4K"})
