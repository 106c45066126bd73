"""What optuna-dashboard is given of a store: its studies, read-only if need be, and damoos's files beside them.

The files are not in the database: they are listed as Optuna's artifacts when they are asked for, and so is a note with
the verdict. Clients name a file by an id that was listed, never by a path. Imported late, as it imports Optuna.
"""

from __future__ import annotations

import json
import mimetypes
import os
import re
import uuid
from collections.abc import Callable, Container, Mapping
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from optuna.artifacts.exceptions import ArtifactNotFound
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy import event, make_url
from sqlalchemy.exc import ArgumentError

from damoos.common import addresses, own_file
from damoos.errors import ConfigError, StoreError
from damoos.store import forms, sizes
from damoos.store.artifacts import is_study_name
from damoos.store.connection import check_url, engine_options, store_errors
from damoos.store.studies import address
from damoos.sweeps.sweep import FILE, PREFIX

# Statements after which a session writes nothing any more, by database.
_READ_ONLY = {
    "sqlite": "PRAGMA query_only = ON",
    "postgresql": "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
    "mysql": "SET SESSION TRANSACTION READ ONLY",
}
_MIME = {".parquet": "application/vnd.apache.parquet", ".damos": "text/plain", ".damo": "application/zlib"}
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "damoos")


class Files:
    """Files of studies, as an artifact store of Optuna's that gives and takes nothing else.

    Parameters
    ----------
    results : Path
        Holds the studies' folders.
    """

    def __init__(self, results: Path) -> None:
        self._results = results
        self._paths: dict[str, Path] = {}

    def of(self, study: str) -> list[dict[str, Any]]:
        """``artifact_id, filename, mimetype, encoding`` of what there is of a study, and of its sweep."""
        if not is_study_name(study):
            return []
        files = [self._known(path, path.name) for path in self._listed(self._results / study)]
        if part_of := re.match(rf"{PREFIX}\d+(?=-)", study):
            sweep = part_of[0]
            files += [self._known(path, f"{sweep}/{path.name}") for path in self._listed(self._results / sweep)]
        return files

    def _listed(self, folder: Path) -> list[Path]:
        """The regular files of a folder that is no link."""
        try:
            with own_file.folder(folder) as opened, os.scandir(opened) as entries:
                names = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
        except OSError:
            return []
        # What a sweep was asked says where its studies are stored, which is nobody's business here.
        files = [folder / name for name in names if not name.startswith(".") and name != FILE]
        return sorted(files, key=lambda file: (file.suffix == ".parquet", file.name))

    def _known(self, path: Path, name: str) -> dict[str, Any]:
        artifact_id = str(uuid.uuid5(_NAMESPACE, str(path)))
        self._paths[artifact_id] = path
        kind = _MIME.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        return {"artifact_id": artifact_id, "filename": name, "mimetype": kind, "encoding": None}

    def open_reader(self, artifact_id: str) -> BinaryIO:
        """One that has been listed, unless a link has taken its place, or that of its folder.

        Raises
        ------
        ArtifactNotFound : it has not, or it is gone
        """
        try:
            return open(own_file.descriptor(self._paths[artifact_id], os.O_RDONLY), "rb")
        except (KeyError, OSError):
            raise ArtifactNotFound(artifact_id) from None

    def write(self, artifact_id: str, content_body: BinaryIO) -> None:
        """Refuse: raw data comes from runs."""
        raise PermissionError("files of studies are never written here")

    def remove(self, artifact_id: str) -> None:
        """Leave it: raw data outlives its study."""


class SharedStorage(RDBStorage):  # type: ignore[misc]
    """Optuna's storage with damoos's files as artifacts.

    Parameters
    ----------
    results : Path
    url : str or None
        As of `damoos.store.studies.Store`.
    allow_writes : bool
        Without it the database itself refuses to write.

    Raises
    ------
    ConfigError : there is no store
    StoreError : it cannot be opened
    """

    def __init__(self, results: Path, url: str | None, allow_writes: bool) -> None:
        if url is not None:
            check_url(url)
        try:
            where = make_url(url or address(results))
        except (ArgumentError, ValueError):
            raise ConfigError(
                f"'{addresses.hidden_store(url or '')}' is not a storage URL; write for example sqlite:///results/damoos.sqlite"
            ) from None
        kind = where.get_backend_name()
        if kind == "sqlite" and not Path(where.database or "").is_file():
            raise ConfigError(f"there is no study store {where.database}; 'damoos tune' makes one")
        if not allow_writes and kind not in _READ_ONLY:
            raise ConfigError(
                f"a '{kind}' store cannot be opened read-only; give --allow-writes to open it for writing"
            )
        self.files = Files(results)
        with store_errors(where.render_as_string()):
            full = where.render_as_string(hide_password=False)
            if kind == "sqlite":
                own_file.check_place(Path(where.database or "").parent)
            super().__init__(full, engine_kwargs=engine_options(full), skip_table_creation=True)
            if not allow_writes:
                event.listen(self.engine, "connect", _stating(_READ_ONLY[kind]))
                self.engine.dispose()  # the connections that there are already may write

    def get_study_system_attrs(self, study_id: int) -> dict[str, Any]:
        """The study's stored attributes, its files, and a note where nobody has written one."""
        stored = super().get_study_system_attrs(study_id)
        return self._more(self.get_study_name_from_id(study_id), self.get_study_user_attrs(study_id)) | stored

    def get_all_studies(self) -> list[Any]:
        """All; the files of one are looked up when it is shown, for there may be a thousand."""
        studies = super().get_all_studies()
        for study in studies:
            study.system_attrs = _Late(study.system_attrs, partial(self._more, study.study_name, study.user_attrs))
        return studies

    def get_all_trials(
        self, study_id: int, deepcopy: bool = True, states: Container[TrialState] | None = None
    ) -> list[FrozenTrial]:
        """Trials of a study, if it has no more of anything than damoos writes."""
        sizes.check_study(self.engine, self.get_study_name_from_id(study_id))
        trials: list[FrozenTrial] = super().get_all_trials(study_id, deepcopy, states)
        return trials

    def _more(self, name: str, words: Mapping[str, Any]) -> dict[str, Any]:
        attrs: dict[str, Any] = {
            f"artifacts:{artifact['artifact_id']}": json.dumps(artifact) for artifact in self.files.of(name)
        }
        if note := _note(name, words.get("result")):
            attrs |= {"dashboard:note_ver": 0, "dashboard:note_str:0": note}
        return attrs


class _Late(dict[str, Any]):
    """Attributes of which some are looked up when all of them are asked for."""

    def __init__(self, stored: dict[str, Any], more: Callable[[], dict[str, Any]]) -> None:
        super().__init__(stored)
        self._more: Callable[[], dict[str, Any]] | None = more

    def items(self) -> Any:
        if self._more is not None:
            more, self._more = self._more(), None
            self.update({name: value for name, value in more.items() if name not in self})
        return super().items()


def _stating(words: str) -> Callable[[Any, Any], None]:
    def connect(connection: Any, _: Any) -> None:
        cursor = connection.cursor()
        cursor.execute(words)
        cursor.close()
        connection.commit()  # or it would be undone with the transaction that it began

    return connect


def _note(name: str, result: Mapping[str, Any] | None) -> str:
    """The verdict and the scheme as Markdown; empty for an unfinished study."""
    if not result or "verdict_text" not in result:
        return ""
    try:
        forms.checked(name, "its result is none", forms.Tuned, result)
    except StoreError as error:
        return str(error)
    best = result["recommended"]
    schemes = "".join(f"\n    {line}" for line in best["scheme"].splitlines()) if best else "\n    none"
    about = f"{result['workload']} ({result['variant']}) on {result['machine']['name']}"
    return (
        f"{result['verdict_text']}\n\nTuned scheme:\n{schemes}\n\nOf:\n\n    {about}\n\n`damoos show {name}` has more."
    )
