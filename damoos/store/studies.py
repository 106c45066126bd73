"""Studies in an Optuna storage. This file knows Optuna, and the dashboard's; it is imported when a store opens.

A trial of damoos is a trial of Optuna, added when it is finished, so there is never half a trial. Baselines, validation
runs and the study's own words are user attributes. One process writes a study: it holds a lock on its folder.
"""

from __future__ import annotations

import copy
import itertools
import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from damoos.common import addresses
from damoos.common.own_file import check_place
from damoos.errors import ConfigError, StoreError, nearest
from damoos.model.space import Param
from damoos.model.trial import Run, Score
from damoos.ownership import make_folders
from damoos.store import forms
from damoos.store.artifacts import Artifacts, is_study_name, study_folder
from damoos.store.connection import check_own, connect, content_errors, is_there, store_errors
from damoos.store.sqlite_file import MOST_BYTES

if TYPE_CHECKING:
    import optuna

    from damoos.store.listing import Listed

SCHEMA = 4
FILE = "damoos.sqlite"


class StudyRecord:
    """One study as stored: its configuration, its runs, its result."""

    def __init__(
        self, study: optuna.Study, storage: optuna.storages.RDBStorage, url: str, artifacts: Artifacts
    ) -> None:
        self._study = study
        self._storage = storage
        self._url = url
        self.artifacts = artifacts
        self.name = study.study_name
        # The runs and the words, for as long as this process is the one that writes them, or once it is frozen.
        self._kept: dict[str, Run] | None = None
        self._words: dict[str, Any] | None = None

    def _errors(self) -> AbstractContextManager[None]:
        return store_errors(self._url)

    def _content_errors(self) -> AbstractContextManager[None]:
        return content_errors(self._url)

    def freeze(self) -> StudyRecord:
        """Read all of it once and answer from that, for those who ask much while nobody else writes; returns itself."""
        with self._content_errors():
            self._words = self._study.user_attrs
        self._kept = self.runs()
        return self

    @property
    def _attrs(self) -> dict[str, Any]:
        """The study's words."""
        with self._content_errors():
            attrs: dict[str, Any] = self._study.user_attrs if self._words is None else self._words
        return attrs

    @cached_property
    def config(self) -> dict[str, Any]:
        """What `Store.create` was given."""
        config = self._attrs.get("config")
        if not isinstance(config, dict):
            raise StoreError(f"study '{self.name}' cannot be read: its configuration is none")
        try:
            json.dumps(config, ensure_ascii=False).encode()
        except UnicodeEncodeError:  # half a surrogate, which JSON can have
            raise StoreError(
                f"study '{self.name}' cannot be read: its configuration has words that no file can have"
            ) from None
        return config

    @property
    def result(self) -> dict[str, Any] | None:
        """The finished study's result, or None while it is under way."""
        result: dict[str, Any] | None = self._attrs.get("result")
        if result is not None:
            form = forms.Compared if "configs" in self.config else forms.Tuned
            forms.checked(self.name, "its result is none", form, result)
        return result

    def check_own(self, what: str) -> None:
        """Refuse to use what the study names, if a user who is neither root nor this one can have written the store.

        Parameters
        ----------
        what : str
            What is named, for the message.

        Raises
        ------
        StoreError
        """
        check_own(self.artifacts.path.parent, self._url, f"the {what} of study '{self.name}'")

    def set(self, name: str, value: Any) -> None:
        """Store a word of the study."""
        with self._errors():
            self._study.set_user_attr(name, value)
        if self._words is not None:
            self._words[name] = json.loads(json.dumps(value))  # as it is read

    def get(self, name: str, default: Any = None) -> Any:
        """A stored word of the study.

        Raises
        ------
        StoreError : it has another form than what damoos stores
        """
        value = copy.deepcopy(self._attrs.get(name))
        if value is None:
            return default
        if name in forms.WORDS:
            forms.checked(self.name, *forms.WORDS[name], value)
        return value

    def runs(self) -> dict[str, Run]:
        """Every finished run by its key.

        Raises
        ------
        StoreError : one of them is damaged
        """
        if self._kept is not None:
            return dict(self._kept)
        with self._content_errors():
            stored = [t.user_attrs["run"] for t in self._study.get_trials(deepcopy=False) if "run" in t.user_attrs]
        stored += [value for name, value in self._attrs.items() if name.startswith("run:")]
        forms.checked(self.name, "one of its runs is none", list[forms.Run], stored)
        runs = [Run.from_json(fields) for fields in stored]
        return {run.key: run for run in runs}

    def scores(self) -> dict[str, Score]:
        """Scores of the trials as they were when the trials ended, by the keys of the runs.

        Raises
        ------
        StoreError : one of them is damaged
        """
        with self._content_errors():
            stored = [trial for trial in self._study.get_trials(deepcopy=False) if "run" in trial.user_attrs]
        runs = [trial.user_attrs["run"] for trial in stored]
        forms.checked(self.name, "one of its runs is none", list[forms.Run], runs)
        scores = [{"value": trial.values and trial.values[0], **trial.user_attrs} for trial in stored]
        forms.checked(self.name, "one of its scores is none", list[forms.Score], scores)
        return {
            Run.from_json(run).key: Score(score["value"], score["value"] is not None, score.get("margins", {}))
            for run, score in zip(runs, scores, strict=True)
        }

    def add(self, run: Run, score: Score | None = None, params: tuple[Param, ...] = ()) -> None:
        """Store a finished run; for a trial also its score as seen then, for Optuna's own tools.

        Raises
        ------
        StoreError : it is one that would not be read again, and all others of the study with it
        """
        form = run.to_json()
        forms.checked(self.name, f"run '{run.key}' is none", forms.Run, form, "written")
        if len(json.dumps(form)) > MOST_BYTES:
            raise StoreError(f"study '{self.name}' cannot be written: run '{run.key}' is larger than any of damoos's")
        if score:
            scored = {"value": score.value, "margins": dict(score.margins)}
            forms.checked(self.name, f"the score of run '{run.key}' is none", forms.Score, scored, "written")
        if run.kind == "trial":
            self._add_trial(run, form, score, params)
        elif self._kept is None or run.key in self._kept:
            self.set(f"run:{run.key}", form)
        else:  # certainly a new one
            from damoos.store import inserts

            with self._errors():
                inserts.insert_word(self._storage.engine, self._id, f"run:{run.key}", form)
        if self._kept is not None:
            self._kept[run.key] = run

    def _add_trial(self, run: Run, form: dict[str, Any], score: Score | None, params: tuple[Param, ...]) -> None:
        import optuna

        from damoos.store import inserts

        value = score.value if score else None
        failed = run.measurement is None
        complete, unscored = optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED
        point = run.params or {}
        trial = optuna.trial.create_trial(
            state=optuna.trial.TrialState.FAIL if failed else complete if value is not None else unscored,
            value=value if not failed else None,
            params=dict(point),
            distributions={
                p.key: optuna.distributions.IntDistribution(p.low, p.high, step=p.step)
                for p in params
                if p.key in point
            },
            user_attrs={"run": form, "margins": dict(score.margins) if score else {}},
            # In the list form, which Optuna's dashboard reads, too.
            system_attrs={"constraints": constraints(score)} if score else {},
        )
        with self._errors():
            inserts.insert_trial(self._storage.engine, self._id, trial)

    @cached_property
    def _id(self) -> int:
        return int(self._storage.get_study_id_from_name(self.name))

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the right to write this study.

        Raises
        ------
        StoreError : another process has it
        """
        with self.artifacts.held(f"study '{self.name}' is being run by another damoos process"):
            self.freeze()
            try:
                yield
            finally:
                self._kept = self._words = None


class Store:
    """All studies of one storage.

    Parameters
    ----------
    results : Path
        Folder of raw data; SQLite lies in it by default.
    url : str or None
        Any storage URL that Optuna takes.
    """

    def __init__(self, results: Path, url: str | None = None) -> None:
        self._results = results
        self.url = url or address(results)
        if url is None:
            with self._errors():
                make_folders(results, for_group=False)
        self._storage = connect(self.url)

    def _errors(self) -> AbstractContextManager[None]:
        return store_errors(self.url)

    @classmethod
    def there(cls, results: Path, url: str | None = None) -> Store | None:
        """The storage, if there is one: for those who only look, and must not make any."""
        return cls(results, url) if is_there(url or address(results)) else None

    @classmethod
    def existing(cls, results: Path, url: str | None, study: str) -> Store:
        """The storage of a study that is to be there.

        Raises
        ------
        ConfigError : there is none
        """
        found = cls.there(results, url)
        if found is None:
            place = addresses.hidden_store(url or address(results))
            raise ConfigError(f"unknown study '{study}'; there are no studies yet: there is no store {place}")
        return found

    def listed(self) -> tuple[list[Listed], list[str]]:
        """The studies that this version can read, oldest first, at a glance; and names of those that are broken."""
        from damoos.store import listing

        with content_errors(self.url):
            found, broken = listing.listed(self._storage.engine)
        return [study for study in found if study.schema == SCHEMA], broken

    def names(self) -> list[str]:
        """Names of the studies, oldest first, those of other versions of damoos included."""
        from damoos.store import listing

        with content_errors(self.url):
            return [study.name for study in listing.listed(self._storage.engine)[0]]

    def create(
        self,
        label: str,
        config: dict[str, Any],
        direction: Literal["maximize", "minimize"],
        created: str,
        fill: Callable[[StudyRecord], None] | None = None,
    ) -> StudyRecord:
        """A new study with the next free number behind its label.

        Parameters
        ----------
        fill : callable or None
            Stores what the study begins with; the study is there for others once that is done.
        """
        import optuna

        from damoos.store import listing

        with self._errors():
            taken = set(listing.all_names(self._storage.engine))
            # A folder is somebody's results, too, also where another storage holds the study.
            names = (f"{slug(label)}-{number}" for number in itertools.count(1))
            name = next(name for name in names if name not in taken and not (self._results / name).exists())
            study = optuna.create_study(storage=self._storage, study_name=name, direction=direction)
            if fill:
                fill(self._record(study))
            return self._begun(study, config, created)

    def discard(self, name: str) -> None:
        """Delete a study with its folder; one whose name is that of no study's folder only from the storage."""
        import optuna

        from damoos.store import listing

        with self._errors():
            try:
                self._check_sizes(name)
                optuna.delete_study(study_name=name, storage=self._storage)
            except (StoreError, optuna.exceptions.StorageInternalError):  # it reads what it deletes; some is refused
                listing.delete_words(self._storage.engine, self._storage.get_study_id_from_name(name))
                optuna.delete_study(study_name=name, storage=self._storage)
            if is_study_name(name) and self._results.exists():
                check_place(self._results)
                shutil.rmtree(study_folder(self._results, name), ignore_errors=True)

    def ensure(
        self, name: str, config: dict[str, Any], direction: Literal["maximize", "minimize"], created: str
    ) -> StudyRecord:
        """The study of this very name, made if there is none, or only half of one.

        Raises
        ------
        StoreError : it is there, with another configuration
        """
        import optuna

        with self._errors():
            study = optuna.create_study(
                storage=self._storage, study_name=name, direction=direction, load_if_exists=True
            )
            self._check_sizes(name)
            if "damoos" not in study.user_attrs:
                return self._begun(study, config, created)
        record = self._open(name)
        if record.config != config:
            raise StoreError(f"study '{name}' exists already with another configuration")
        return record

    def _begun(self, study: optuna.Study, config: dict[str, Any], created: str) -> StudyRecord:
        study.set_user_attr("created", created)
        study.set_user_attr("config", config)
        study.set_user_attr("damoos", SCHEMA)  # last: without it the study is not there
        return self._record(study)

    def load(self, name: str) -> StudyRecord:
        """A study by its name.

        Raises
        ------
        ConfigError : no such study
        StoreError : it was written by a damoos with another schema
        """
        names = self.names()
        if name not in names:
            hint = nearest(name, names) if names else "; there are no studies yet"
            raise ConfigError(f"unknown study '{name}'{hint}")
        return self._open(name)

    def look(self, name: str) -> StudyRecord | None:
        """A study of this version by its name, or None."""
        import optuna

        with content_errors(self.url):
            try:
                study = optuna.load_study(study_name=name, storage=self._storage)
            except KeyError:
                return None
            self._check_sizes(name)
            return self._record(study) if study.user_attrs.get("damoos") == SCHEMA else None

    def _open(self, name: str) -> StudyRecord:
        import optuna

        with content_errors(self.url):
            study = optuna.load_study(study_name=name, storage=self._storage)
            self._check_sizes(name)
            schema = study.user_attrs["damoos"]
        if schema != SCHEMA:
            raise StoreError(f"study '{name}' was written by another version of damoos (schema {schema}, not {SCHEMA})")
        return self._record(study)

    def unfinished(self, config: dict[str, Any]) -> StudyRecord | None:
        """The newest study of the same configuration that has no result yet."""
        for study in reversed(self.listed()[0]):
            if study.config == config:
                return self._open(study.name) if study.result is None else None
        return None

    def _check_sizes(self, name: str) -> None:
        from damoos.store import sizes

        sizes.check_study(self._storage.engine, name)

    def _record(self, study: optuna.Study) -> StudyRecord:
        return StudyRecord(study, self._storage, self.url, Artifacts(study_folder(self._results, study.study_name)))


def constraints(score: Score) -> list[float]:
    """A score's margins as Optuna wants them: a positive number is a broken limit."""
    broken = [-margin for margin in score.margins.values()]
    # Scores may have no margins, or a limit that none of their margins tells of.
    is_told = bool(broken) and all(number <= 0 for number in broken) == score.feasible
    return broken if is_told else [*broken, 0.0 if score.feasible else 1.0]


def address(results: Path) -> str:
    """URL of the store that a results folder has by default."""
    return f"sqlite:///{results / FILE}"


def slug(label: str) -> str:
    """A label as a part of names."""
    return re.sub(r"[^A-Za-z0-9]+", "-", label).strip("-")
