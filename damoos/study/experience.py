"""Which finished studies a new one learns from, and what they know in terms of its score."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from damoos.errors import ConfigError, DamoosError, MeasurementError
from damoos.model.trial import mean_measurement, orientation
from damoos.prediction.transfer import Experience
from damoos.store import forms
from damoos.store.studies import Store
from damoos.study.config import StudyConfig
from damoos.study.damage import names_damage
from damoos.study.evaluation_config import EvaluationConfig
from damoos.study.scoring import is_baseline
from damoos.study.study import Study, tuning_study, with_configs

# As many finished studies are learned from at most; the newest of each machine and kernel.
MOST = 3


def experiences(store: Store, config: StudyConfig) -> list[Experience]:
    """What a new study is given from the start, the newest study first; empty where there is nothing to learn from.

    Without names (``config.like``) it is given studies of the same workload that searched the same parameters of the
    same scheme under the same limit of memory, on whatever machine.

    Raises
    ------
    ConfigError : a study that was named is not there, is not finished, searched something else or knows too little
    """
    if config.like:
        named = [tuning_study(store.load(name)) for name in config.like]
        for study in named:
            _check(study, config)
        return [_experience(study, config) for study in named]
    if not config.wants_transfer:
        return []
    found: dict[str, Experience] = {}
    for name in _finished(store, config):
        try:
            study = tuning_study(store.load(name))
            if study.where not in found:
                found[study.where] = _experience(study, config)
        except DamoosError:  # it knows too little for this score, or cannot be read
            continue
        if len(found) == MOST:
            break
    return list(found.values())


def _finished(store: Store, config: StudyConfig) -> Iterator[str]:
    """Names of finished searches of the same workload for the same parameters, newest first."""
    finished = [study for study in store.listed()[0] if study.result is not None]
    for listed, other in reversed(with_configs(finished)[0]):
        if isinstance(other, EvaluationConfig) or other.of is not None:
            continue
        alike = other.pid is None and other.target == config.target and _searched(other) == _searched(config)
        if alike:
            yield listed.name


def _searched(config: StudyConfig) -> tuple[str, str, str, str | None, str | None, Sequence[str]]:
    """What must be alike: policy, scheme, what DAMON watches, the limits, and the names of what is tuned."""
    tuned = sorted(text.partition("=")[0] for text in config.tune)
    return config.policy, config.scheme, config.operations, config.memory, config.write_limit, tuned


def _check(study: Study, config: StudyConfig) -> None:
    if study.record.result is None:
        raise ConfigError(
            f"--like {study.name}: the study is not finished; continue it with damoos resume {study.name}"
        )
    if _searched(study.config) != _searched(config):
        raise ConfigError(f"--like {study.name}: the study searched other parameters, or those of another scheme")


@names_damage
def _experience(study: Study, config: StudyConfig) -> Experience:
    """What a study knows, by the score of another; ConfigError where that is too little."""
    again = study.asked_again(scorer=config.scorer, scorer_options=config.scorer_options, limits=config.limits)
    runs = study.runs()
    base = mean_measurement([run.measurement for run in runs if is_baseline(run) and run.measurement])
    scorer = again.scorer
    try:
        usual = scorer.score(base, base, ()).objective
    except MeasurementError as error:
        raise ConfigError(f"--like {study.name}: {error}") from None
    found = Experience.of(
        study.name, study.where, study.setting.variant,
        again.evidence(runs), orientation(scorer.direction) * (usual or 0.0),
    )  # fmt: skip
    if not found.is_enough:
        raise ConfigError(
            f"--like {study.name}: too few of its runs have a score and say by how much they kept the limits"
        )
    forms.checked(study.name, "its scores are no numbers", forms.Experience, found.to_json())
    return found
