"""A sweep of a thousand studies in a store: a few real ones on machines that are not there, copied row by row."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

from damoos.dispatch.local import LocalDispatcher
from damoos.sweeps.config import SweepConfig
from damoos.sweeps.driver import drive
from damoos.sweeps.sweep import FILE, RESULT, STATUS, Sweep
from damoos.workloads import catalog as workloads

REAL = 4
_OF_A_STUDY = ("study_directions", "study_user_attributes", "trials")
_OF_A_TRIAL = ("trial_user_attributes", "trial_params", "trial_values")


def sweep_of_many(results: Path, nr_workloads: int = 25, nr_machines: int = 40, trials: int = 10) -> Sweep:
    """A finished sweep. The catalogue's machines must be ones that take no time, whatever their names."""
    names = ["synthetic/hot-cold", *(one for one in workloads.names() if one != "synthetic/hot-cold")][:nr_workloads]
    machines = [f"m{number:02d}" for number in range(nr_machines)]
    words = {"seed": 3, "prior": "none"}
    one = Sweep.create(results, SweepConfig(names[:1], machines[:REAL], {"nr_samples": trials, **words}))
    dispatcher = LocalDispatcher()
    try:
        said = drive(one, dispatcher, steady_s=0)
    finally:
        dispatcher.close()
    assert not said["failures"], said["failures"][0]
    form = json.loads((one.artifacts.path / FILE).read_text())
    form["config"] |= {"workloads": list(names), "machines": machines}
    one.artifacts.write_json(FILE, form)
    many = Sweep(results, one.name)
    configs = many.config.configs()
    rows = []
    with sqlite3.connect(results / "damoos.sqlite") as store:
        for number, config in enumerate(configs):
            template = said["studies"][number % REAL]
            words = {"workload": config.workload, "machine": config.machine}
            name = many.study_name(config)
            rows.append({**template, **words, "study": name, "on": config.machine})
            if not store.execute("SELECT 1 FROM studies WHERE study_name = ?", (name,)).fetchone():
                _copy(store, template["study"], name, words)
    told = {**said, "studies": rows, "machines": {name: said["machines"][machines[0]] for name in machines}}
    many.artifacts.write_json(RESULT, told)
    many.artifacts.write_json(STATUS, {**many.status, "studies": rows})
    return many


def _copy(store: sqlite3.Connection, template: str, name: str, words: dict[str, Any]) -> None:
    (old,) = store.execute("SELECT study_id FROM studies WHERE study_name = ?", (template,)).fetchone()
    new = store.execute("INSERT INTO studies (study_name) VALUES (?)", (name,)).lastrowid
    for table in _OF_A_STUDY:
        for row in _rows(store, table, "study_id", old):
            if table == "study_user_attributes":
                row["value_json"] = _renamed(row["key"], row["value_json"], name, words)
            copied = _insert(store, table, {**row, "study_id": new})
            for inner in _OF_A_TRIAL if table == "trials" else ():
                for one in _rows(store, inner, "trial_id", row["trial_id"]):
                    _insert(store, inner, {**one, "trial_id": copied})


def _rows(store: sqlite3.Connection, table: str, key: str, number: int) -> list[dict[str, Any]]:
    found = store.execute(f"SELECT * FROM {table} WHERE {key} = ?", (number,))
    names = [one[0] for one in found.description]
    return [dict(zip(names, row, strict=True)) for row in found]


def _insert(store: sqlite3.Connection, table: str, row: dict[str, Any]) -> int:
    """Insert a copy of a row; its first column is its own number, which the store gives."""
    names = list(row)[1:]
    marks = ", ".join("?" * len(names))
    words = ", ".join(f'"{one}"' for one in names)
    return store.execute(f"INSERT INTO {table} ({words}) VALUES ({marks})", list(row.values())[1:]).lastrowid or 0


def _renamed(key: str, text: str, name: str, words: dict[str, Any]) -> str:
    form = json.loads(text)
    if key == "config":
        form |= words
    elif key == "result":
        form |= {"study": name, "workload": words["workload"], "machine": {**form["machine"], "name": words["machine"]}}
    return json.dumps(form)
