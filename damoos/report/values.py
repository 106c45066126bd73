"""Schemes and trials as HTML, for a notebook: the layers that they belong to know no HTML."""

from __future__ import annotations

from damoos.common import html
from damoos.damon.scheme import SCHEME_WORDS, Scheme
from damoos.damon.words import flat
from damoos.model.trial import Trial
from damoos.report.tables import limits_text


def to_html(value: Scheme | Trial) -> html.Html:
    """A scheme, or a trial, as a table."""
    return scheme(value) if isinstance(value, Scheme) else trial(value)


def scheme(value: Scheme) -> html.Html:
    """The line of scheme text, and each field and word with its name."""
    low_size, high_size, low_freq, high_freq, low_age, high_age, action, *_ = str(value).split()
    fields = {
        "size": f"{low_size} to {high_size}",
        "access frequency": f"{low_freq} to {high_freq}",
        "age": f"{low_age} to {high_age}",
        "action": action,
        **flat(value, SCHEME_WORDS),
    }
    return html.section("scheme", html.code(str(value)), html.pairs(fields))


def trial(value: Trial) -> html.Html:
    """The parameters of a trial, its score, and its metrics."""
    score, interval = value.score, value.interval
    fields = {
        **value.params,
        "state": f"{value.state}: {value.error}" if value.error else value.state,
        "score": None if score.value is None else f"{score.value:+.4g}",
        "95 % interval": interval and f"{interval[0]:+.4g} to {interval[1]:+.4g}",
        "limits": limits_text(score, value.state == "censored"),
    }
    measured = value.measurement.metrics if value.measurement else {}
    metrics = {name: f"{metric:.6g}" for name, metric in measured.items()}
    return html.section(f"trial {value.number}", html.pairs(fields), html.folded("metrics", html.pairs(metrics)))
