"""A validation of what a finished study tells under other limits, on fresh runs, as a study of its own.

It begins with the runs of the other study: they are its search. So it is stored, resumed, shown and put into service
like any other.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from damoos import scorers
from damoos.common import own_file
from damoos.errors import ConfigError
from damoos.model.trial import Run
from damoos.recordings import files as recordings
from damoos.scorers.terms import subject
from damoos.statistics.arms import CANDIDATE
from damoos.store.studies import Store, StudyRecord
from damoos.study.config import StudyConfig
from damoos.study.run_config import plain
from damoos.study.scoring import is_baseline, score_trials
from damoos.study.study import Study, tuning_study

_PART_BYTES = 1 << 20


def proof(store: Store, name: str, limits: Sequence[str], repeats: int, candidates: int) -> Study:
    """The study that validates another one under other limits; the same again for as long as it is unfinished.

    Parameters
    ----------
    name : str
        Of the other study.
    limits : sequence of str
        In place of the score's own on the same terms.
    repeats, candidates : int
        As in `damoos.study.config.StudyConfig`.

    Raises
    ------
    ConfigError : the other study is not there, is not finished or searched nothing; or a limit cannot be read
    StoreError : it is scored by a file whose name another user can have put into the store
    """
    other = tuning_study(store.load(name))
    if other.record.result is None:
        raise ConfigError(f"study '{name}' is not finished; continue it with damoos resume {name}")
    other.load_scorer()
    changed = set(map(subject, limits))
    kept = [limit for limit in other.config.limits if subject(limit) not in changed]
    runs = list(_numbered(other.runs()))
    config = replace(
        other.config, of=name, limits=(*kept, *limits), searcher="auto",
        repeats=repeats, candidates=candidates, runs=None,
        scorer_options=scorers.resolved(other.config.scorer, other.config.scorer_options),
        nr_samples=max(2, sum(run.kind == "trial" for _, run in runs)),
    )  # fmt: skip
    config.check()
    stored = plain(config)
    record = store.unfinished(stored)
    if record is None:
        now = datetime.now(UTC).isoformat()
        record = store.create(config.label, stored, config.direction, now, lambda new: _fill(new, other, config, runs))
    return Study(record)


def _fill(record: StudyRecord, other: Study, config: StudyConfig, runs: Sequence[tuple[Run, Run]]) -> None:
    """Give a new study what another one has found on its machine, and its runs with their raw data."""
    for word in ("setting", "prediction"):
        if (value := other.record.get(word)) is not None:
            record.set(word, value)
    files = {run.key: was.key for was, run in runs}
    path_of = other.record.artifacts.samples_path
    for old, new in [(path_of(was).name, path_of(key).name) for key, was in files.items()] + [
        (recordings.FILE_NAME,) * 2
    ]:
        if (file := other.record.artifacts.path / old).is_file():
            record.artifacts.write_parts(new, _parts(file))
    scores = {trial.number: trial.score for trial in score_trials([run for _, run in runs], config.make_scorer())}
    for _, run in runs:
        record.add(run, scores[run.number] if run.kind == "trial" else None, other.space.params)


def _numbered(runs: Sequence[Run]) -> Iterator[tuple[Run, Run]]:
    """The runs of a study that tell of points, and its baselines, each beside what it is in a search."""
    count = {"baseline": 0, "trial": 0, "record": 0}
    index = 0
    for run in sorted(runs, key=lambda run: run.index):
        if run.kind not in count and not is_baseline(run) and not run.arm.startswith(CANDIDATE):
            continue
        kind = "baseline" if is_baseline(run) else "trial" if run.kind == "validation" else run.kind
        yield run, replace(run, index=index, kind=kind, number=count[kind], arm="")
        index, count[kind] = index + 1, count[kind] + 1


def _parts(file: Path) -> Iterator[bytes]:
    """The content of a file of another study; a link in its place would lead to a file that is no study's."""
    with open(own_file.descriptor(file, os.O_RDONLY), "rb") as content:
        while part := content.read(_PART_BYTES):
            yield part
