from __future__ import annotations

import pytest

from damoos.agent.metric_source import number_in, reading
from damoos.errors import MeasurementError

PROMETHEUS = """# HELP latency of requests, 99 of 100 below
# TYPE latency summary
latency{quantile="0.5",method="get"} 0.2
latency{quantile="0.99",method="get"} 1.5 1700000000000
latency{quantile="0.99",method="set"} 2.5
latency_count 1e+06
broken NaN
"""


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("7.5", "", 7.5),
        ("about 7.5 a second\n", "", 7.5),
        ("p99_ms 1.5\n", "", 1.5),
        ('latency{quantile="0.99"} 1.5', "", 1.5),
        ("-3e-2", "", -0.03),
        ("p50=1.2ms p99=3.4ms", r"/p99=([\d.]+)ms/", 3.4),
        ("a 1\nb 2\n", r"/^b (\d+)$/", 2),
        ("load: 12", r"/\d+/", 12),
        ('{"qps": [{"now": 42}]}', "qps.0.now", 42),
        (PROMETHEUS, 'latency{quantile="0.99", method="get"}', 1.5),
        (PROMETHEUS, 'latency{method="set"}', 2.5),
        (PROMETHEUS, "latency_count", 1e6),
    ],
)
def test_the_number_that_is_named_is_read(text: str, key: str, value: float) -> None:
    assert number_in(text, key) == value


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        ("none", "", "no number in it: 'none'; name one by #KEY behind it"),
        ("p99=1.5ms", "", "no number in it: 'p99=1.5ms'"),
        ("", "", "no number in it: ''"),
        ("1 2", "", "2 numbers in it: '1 2'; name one by #KEY behind it"),
        ("1 2", r"/\d/", "2 numbers at"),
        ("x", r"/x/", "could not convert"),
        ('{"a": {}}', "a", "the answer has no number at 'a'"),
        (PROMETHEUS, "latency", "3 numbers at 'latency'"),
        (PROMETHEUS, 'latency{quantile="0.9"}', "no number at"),
        (PROMETHEUS, "broken", "the number at 'broken' is nan"),
    ],
)
def test_what_is_not_one_number_is_refused(text: str, key: str, message: str) -> None:
    with pytest.raises(MeasurementError) as refused:
        reading("cmd", ["printf", "%s", text], key)
    assert message in str(refused.value)
