"""Files of curves that other people have written."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from damoos.bench import curves
from damoos.errors import ConfigError
from tests.unit.cli.test_corpus import run


def text(**changes: Any) -> str:
    return json.dumps({"workload": "w", "unit": "s", "values": [1, 2, 3], "score": [1, None, 3.5], **changes})


HOSTILE = {
    "levels": ("[" * 3000, "more levels"),
    "integer": (text(values=[1, 2, 10**30]), "1000000000000000000000000000000 is no number that can be computed with"),
    "digits": ('{"values": ' + "9" * 5000 + "}", "9999 is no number that can be computed with"),
    "scalar": (text(values=5), "key 'values'"),
    "large score": (text(score=[1, 2, 10**400]), "000 is no number that can be computed with"),
    "lists": (text(values=[[1], [2], [3]]), r"key 'values\.0'"),
    "infinity": (text(score=[1, float("inf"), 3]), "Infinity is no number that can be computed with"),
    "nan": (text(score=[1, float("nan"), 3]), "NaN is no number that can be computed with"),
    "text": (text(values=["1", "2", "3"]), r"key 'values\.0'"),
    "float": (text(values=[1.5, 2.5, 3.5]), r"key 'values\.0'"),
    "negative": (text(values=[-1, 0, 1]), r"key 'values\.0'"),
    "name": (text(workload=[1]), "key 'workload'"),
    "missing": ('{"workload": "w"}', "is missing"),
    "values": (text(values=list(range(5000)), score=[1] * 5000), "key 'values'"),
    "bytes": ("[" + "[]," * 100_000 + "0]", "larger than"),
    "more values than bytes": ("[" + "[]," * 80_000 + "0]", "more values|Input should be"),
    "no text": ("\udcff", "not a response curve"),
    "list": ("[]", "not a response curve"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_what_is_no_curve_is_one_line(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    content, message = HOSTILE[what]
    (tmp_path / "a.json").write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(ConfigError, match=message):
        curves.load(tmp_path)
    code = run(["bench", "searchers", "--curves", str(tmp_path)], monkeypatch)
    err = capsys.readouterr().err
    assert (code, err.count("\n")) == (2, 1), err
    assert "a.json" in err


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "nothing", "large"])
def test_a_file_of_another_kind_is_refused_at_once(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "large":
        with open(path, "wb") as out:
            out.truncate(90 << 20)
    else:
        path.symlink_to("/dev/zero" if kind == "device" else tmp_path / "none")
    with pytest.raises(ConfigError, match=r"a\.json: .*(not a regular file|No such file|larger than)"):
        curves.load(tmp_path)


def test_a_curve_is_read_as_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text(source="of whom"))
    (curve,) = curves.load(tmp_path)
    assert (curve.name, curve.ages_s.tolist()) == ("w", [1, 2, 3])
    assert np.isnan(curve.score[1])


def test_as_many_files_as_there_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curves, "_MOST_FILES", 1)
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text(text())
    with pytest.raises(ConfigError, match=r"2 files .* at most 1 are read"):
        curves.load(tmp_path)
