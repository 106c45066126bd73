"""The runs of a study as rows of text: what each had, and what came of it."""

from __future__ import annotations

import math

from damoos.model.conditional import ConditionalSpace
from damoos.model.trial import Run, Score
from damoos.report.tables import margin_text
from damoos.study.damage import names_damage
from damoos.study.study import EvaluationStudy, Study
from damoos.units import format_us, show_bytes, show_score

HEAD = ("run", "parameter", "runtime", "RSS", "score")


@names_damage
def table(study: Study | EvaluationStudy) -> str:
    """All finished runs of a study, a line each; empty where there is none."""
    rows = [(run.key, point(run, study), *outcome(run, score, study)) for run, score in scored(study)]
    if not rows:
        return ""
    widths = [max(len(row[column]) for row in (HEAD, *rows)) for column in range(len(HEAD))]

    def line(row: tuple[str, ...]) -> str:
        run, parameter, runtime, rss, score = (
            f"{word:{'>' if column in (2, 3) else '<'}{width}}"
            for column, (word, width) in enumerate(zip(row, widths, strict=True))
        )
        return f"{run}  {parameter}  {runtime}  {rss}  {score}".rstrip()

    return "\n".join(map(line, (HEAD, *rows)))


@names_damage
def scored(study: Study | EvaluationStudy) -> list[tuple[Run, Score | None]]:
    """Finished runs in order; trials with their scores."""
    runs = study.runs()
    scores = {trial.number: trial.score for trial in study.trials_of(runs)}
    return [(run, scores.get(run.number) if run.kind == "trial" else None) for run in runs]


def point(run: Run, study: Study | EvaluationStudy | None) -> str:
    """What a run had: the values of its parameters, or the name of its configuration."""
    if run.kind == "config":
        return run.arm
    if run.kind == "record":
        return "recorded"
    if run.params is None or not isinstance(study, Study):
        return "no scheme"
    if isinstance(study.space, ConditionalSpace):
        return study.policy(run.params).lines[0]
    known = {param.key: param for param in study.space.params}
    # The manual scheme has a min_age also where something else is tuned.
    return " ".join(
        f"{known[key].name}={known[key].text(value)}"
        if key in known
        else f"{key.removesuffix('_us')}={format_us(value)}"
        for key, value in run.params.items()
    )


def unit_of_scores(study: Study | EvaluationStudy | None) -> str:
    """By which unit a study's scores are printed; empty for what is not scored."""
    return study.scorer.shown_in if isinstance(study, Study) else ""


def outcome(run: Run, score: Score | None, study: Study | EvaluationStudy | None) -> tuple[str, str, str]:
    """Runtime, RSS and score of a finished run as text; in place of the score, which of the two the run does not have.

    A store that a colleague sent may lack any metric.
    """
    if run.measurement is None:
        return "-", "-", f"failed: {run.error}"
    shown = ("elapsed_s",) if run.measurement.censored else ("runtime_s", "rss_avg_bytes")
    values = {name: run.measurement.metrics.get(name, math.nan) for name in shown}
    missing = [name for name, value in values.items() if not math.isfinite(value)]
    seconds, rss = (values.get(name, math.nan) for name in (shown[0], "rss_avg_bytes"))
    runtime = f"{seconds:.2f} s" if math.isfinite(seconds) else "-"
    if missing:
        word = f"no score: the run has no finite {' and no '.join(missing)}"
    elif run.measurement.censored:
        runtime, word = f">={runtime}", f"stopped ({_broken(score, is_bound=True)})"
    else:
        unit = unit_of_scores(study)
        word = "" if score is None else "-" if score.value is None else show_score(score.value, unit)
        if score and not score.feasible:
            word = f"{word} ({_broken(score)})"
    return runtime, show_bytes(rss) if math.isfinite(rss) else "-", word


def _broken(score: Score | None, is_bound: bool = False) -> str:
    """That a limit is broken, and by how much where a margin tells."""
    margin = score.margin if score else None
    return f"limit {margin_text(margin, is_bound)}" if margin is not None and margin < 0 else "limit broken"
