"""Scheme files of other people: what no file of damo's has is refused in one line, before anything large is made."""

from __future__ import annotations

import json
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import yaml

from damoos.damon.damo_json import context_from_json
from damoos.damon.scheme import Context
from damoos.errors import ConfigError, DamoosError, SchemeError
from damoos.policies import foreign_yaml
from damoos.policies.documents import as_text, scheme_text
from tests.unit.cli.test_corpus import run

# Ten times as many words with each line.
ALIASES = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{nth}: &a{nth} [{','.join([f'*a{nth - 1}'] * 10)}]\n" for nth in range(1, 9)
)
MERGES = "a0: &a0 {k: v}\n" + "".join(f"a{nth}:\n  <<: [{{b: c}}, {{b: c}}]\n" for nth in range(1, 24))


def document(**pattern: Any) -> str:
    schemes = [{"action": "pageout", "access_pattern": pattern}]
    return json.dumps({"kdamonds": [{"contexts": [{"ops": "vaddr", "schemes": schemes}]}]})


HOSTILE = {
    "levels": ('{"kdamonds":' + "[" * 5000 + "]" * 5000 + "}", "line 1, column 44: more than 32 levels"),
    "date": ("kdamonds: 2020-13-45\n", "'2020-13-45' is a timestamp for YAML"),
    "integer": ('{"kdamonds": ' + "9" * 5000 + "}", r"longer than 4096|is more than 18446744073709551616"),
    "integer of 2000 digits": ('{"kdamonds": ' + "9" * 2000 + "}", "is more than 18446744073709551616"),
    "integer tag": ('kdamonds: !!int "x"\n', "line 1, column 11: tag 'tag:yaml.org,2002:int': tags are not read"),
    "flag tag": ('kdamonds: !!bool "x"\n', "tags are not read"),
    "bytes": ('kdamonds: !!binary "//"\n', "tags are not read"),
    "tag of Python": ("kdamonds: !!python/object/apply:os.getpid []\n", "tags are not read"),
    "infinity": ("kdamonds: .inf\n", "'.inf' is not a finite number"),
    "large float": ("kdamonds: 1.0e+999\n", "is not a finite number"),
    "base 60": ("kdamonds: 1" + ":59" * 400 + "\n", "is a number to the base 60 for YAML"),
    "float to the base 60": ("kdamonds: 1" + ":59" * 400 + ".5\n", "is a number to the base 60 for YAML"),
    "long word": ("kdamonds: " + "a" * 5000 + "\n", "is longer than 4096 letters"),
    "aliases": (ALIASES + "kdamonds: *a8\n", r"line 2, column 10: alias '\*a0': aliases are not read"),
    "alias of itself": ("kdamonds: &a [*a]\n", "aliases are not read"),
    "merge keys": (MERGES + "kdamonds: []\n", "line 3, column 3: merge key '<<': merge keys are not read"),
    "key that is a list": ("kdamonds: {? [a] : b}\n", "a key that is a list or a mapping"),
    "two documents": ("kdamonds: []\n---\nkdamonds: []\n", "more than one YAML document"),
    "length": ("kdamonds: [" + "a," * 200_000 + "]", "larger than 256 KiB"),
    "infinity in a pattern": (document(sz_bytes={"min": float("inf")}).replace("Infinity", ".inf"), "not a finite"),
    "size": (document(sz_bytes={"min": "9" * 4000 + " B"}), "is more than 18446744073709551616"),
    "age": (document(age={"min": "9" * 4000 + " s"}), "is more than 18446744073709551616"),
    "share": (document(nr_accesses={"min": "9" * 4000 + " %"}), r"\(4002 characters\) is not a percentage"),
    "share that is a list": (document(nr_accesses={"min": [1]}), "a text or a number is expected, not a list"),
    "age that is a list": (document(age={"min": [[1]] * 9}), "a text or a number is expected, not a list"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_what_no_file_of_damo_s_has_is_refused_in_one_line(what: str) -> None:
    content, message = HOSTILE[what]
    with pytest.raises(SchemeError, match=message) as refused:
        as_text(content)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize("what", ["levels", "date", "aliases"])
def test_the_command_line_ends_with_one_line_that_names_the_file(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "theirs.yaml"
    file.write_text(HOSTILE[what][0])
    words = ["evaluate", "--workloads", "synthetic/stairs", "--configs", str(file), "--dry-run"]
    code = run([*words, "--results", str(tmp_path / "results")], monkeypatch)
    err = capsys.readouterr().err
    assert (code, err.count("\n")) == (2, 1)
    assert str(file) in err


def test_no_value_is_built_of_what_is_refused() -> None:
    """The lines before the first alias are all that takes memory; by Python's own loader they stand for 10^9 words."""
    tracemalloc.start()
    with pytest.raises(SchemeError, match="aliases"):
        as_text(ALIASES + "kdamonds: [{contexts: [{schemes: [{access_pattern: {age: {min: *a8}}}]}]}]\n")
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 16 << 20


def test_plain_values_are_those_of_yaml() -> None:
    text = (
        "a: [1, -2, 0x1F, 0755, 0b11, 1_000, 1.5, 1e3, 6.02e+23, true, Yes, off, null, ~, , x y, '1', \"yes\", <=]\n"
        "b: {c: {d: []}}\n'<<x': |\n  two\n  lines\n? e\n: f\n"
    ).replace(", ,", ",")
    assert foreign_yaml.load(text) == yaml.safe_load(text)
    assert foreign_yaml.load("") is None


@pytest.mark.parametrize(
    "text",
    ["min max min max " + "9" * 6000 + "s max pageout", "9" * 6000 + " max min max 1s max pageout",
     "min max " + "9" * 6000 + "% max min max pageout", "4K max min min 5s max pageout quotas.ms=" + "9" * 6000,
     "4K max min min 5s max pageout watermarks.low=" + "9" * 4000,
     f"4K max min min 5s max pageout filters[{'9' * 6000}].type=anon", "module damon_reclaim wmarks_low=" + "9" * 6000,
     "module damon_reclaim quota_ms=" + "9" * 6000],
    ids=lambda text: text[:24],
)  # fmt: skip
def test_numbers_of_thousands_of_digits_are_one_line(text: str) -> None:
    with pytest.raises(DamoosError) as refused:
        Context.parse(scheme_text(text))
    assert refused.value.exit_code == 2
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("value", [float("inf"), 10**4000, "9" * 4000, [], {"a": 1}, None, "1e400"], ids=repr)
@pytest.mark.parametrize("name", ["sz_bytes", "nr_accesses", "age"])
def test_a_stored_document_with_such_numbers_is_no_scheme(name: str, value: Any) -> None:
    form = json.loads(document(**{name: {"min": 0, "max": "max"}}))
    form["kdamonds"][0]["contexts"][0]["schemes"][0]["access_pattern"][name]["min"] = value
    with pytest.raises(SchemeError):
        context_from_json(form)


@pytest.mark.parametrize("kind", ["pipe", "folder", "device", "link to a pipe"])
def test_a_file_of_another_kind_is_refused_at_once(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "theirs.damos"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        os.mkfifo(tmp_path / "pipe")
        path.symlink_to(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="not a regular file"):
        scheme_text(path)


def test_a_pipe_of_one_s_shell_is_read() -> None:
    """What <(command) stands for."""
    reader, writer = os.pipe()
    os.write(writer, b"4K max min min 5s max pageout")
    os.close(writer)
    assert scheme_text(f"/dev/fd/{reader}") == "4K max min min 5s max pageout"
    os.close(reader)
