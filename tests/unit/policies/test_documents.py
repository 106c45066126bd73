"""Schemes as text, as damo's JSON or YAML, and in files of any of these."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from damoos.damon.damo_json import context_to_json
from damoos.damon.scheme import Context
from damoos.errors import ConfigError, SchemeError
from damoos.policies.base import DamosPolicy
from damoos.policies.documents import as_text, scheme_text
from damoos.policies.named import policy, resolve

TEXT = "attrs  operations=paddr  aggr=200ms\n4K max  min min  5s max  pageout  filters[0].type=anon  filters[0].allow=Y"
DOCUMENT = json.dumps(context_to_json(Context.parse(TEXT)))


def test_our_text_stays_as_it_is_with_its_placeholders() -> None:
    template = "4K max  min min  MIN_AGE max  pageout"
    assert as_text(template) == scheme_text(template) == template


def test_a_document_becomes_text() -> None:
    assert Context.parse(scheme_text(DOCUMENT)) == Context.parse(TEXT)


def test_a_file_of_each_kind_is_a_configuration(tmp_path: Path) -> None:
    for name, content in {"ours.damos": TEXT, "theirs.json": DOCUMENT}.items():
        (tmp_path / name).write_text(content)
        form = resolve([str(tmp_path / name)])[name.split(".")[0]]
        assert policy(form) == DamosPolicy(Context.parse(TEXT))


def test_a_module_is_a_configuration() -> None:
    forms = resolve(["damon_reclaim"])
    found = policy(forms["damon_reclaim"])
    assert isinstance(found, DamosPolicy)
    assert found.context.module
    assert (found.context.module.name, found.operations) == ("damon_reclaim", "paddr")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "neither JSON nor YAML"),
        ('{"a": 1}', "not a DAMON context in damo's form: KeyError"),
        ("kdamonds: 5", "not a DAMON context in damo's form"),
    ],
)
def test_what_is_no_document(content: str, message: str) -> None:
    with pytest.raises(SchemeError, match=message):
        scheme_text(content)


def test_a_paused_policy_is_refused() -> None:
    with pytest.raises(SchemeError, match="a policy that is paused does nothing"):
        policy({"scheme": "attrs pause=Y\n4K max min min 5s max pageout", "operations": "vaddr"})


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "bytes.damos").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not a text file"):
        scheme_text(str(tmp_path / "bytes.damos"))
