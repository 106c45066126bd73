"""Errors over a process's border and over a wire."""

from __future__ import annotations

import pickle

import pytest

from damoos import errors

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.DamoosError)]


@pytest.mark.parametrize("kind", KINDS)
def test_errors_survive_pickling(kind: type[errors.DamoosError]) -> None:
    back = pickle.loads(pickle.dumps(kind("what happened")))
    assert (type(back), str(back), back.exit_code) == (kind, "what happened", kind.exit_code)


@pytest.mark.parametrize("kind", KINDS)
def test_errors_of_agents_keep_their_class_over_a_wire(kind: type[errors.DamoosError]) -> None:
    back = errors.from_wire(errors.to_wire(kind("what happened")))
    assert (type(back), str(back)) == (kind if kind in errors._OF_AGENTS else errors.MachineError, "what happened")
    assert type(errors.from_wire({"type": "nearest", "message": "no error at all"})) is errors.MachineError
