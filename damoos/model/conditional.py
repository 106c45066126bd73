"""A conditional space: each point is of one of several policies, and has the parameters of that policy only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from damoos.model.space import Param, Params, Space
from damoos.model.trial import History

POLICY = "policy"


@dataclass(frozen=True)
class ConditionalSpace:
    """The spaces of several policies, of which each point is in one.

    A point has the key ``policy``, the place of its policy among ``branches``, and the keys of that policy's own space,
    each behind the policy's name and a dot: ``{"policy": 1, "senpai.ratio_ppm": 500}``.

    Parameters
    ----------
    branches : mapping of str to Space
        By the names of the policies; two or more.
    """

    branches: Mapping[str, Space]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the policies."""
        return tuple(self.branches)

    @property
    def policy(self) -> Param:
        """The parameter that says which policy it is."""
        return Param(POLICY, "choice", 0, len(self.branches) - 1, 1, self.names)

    @property
    def params(self) -> tuple[Param, ...]:
        """All parameters, those of a policy behind its name."""
        own = (replace(param, name=f"{name}.{param.name}") for name, space in self.branches.items()
               for param in space.params)  # fmt: skip
        return (self.policy, *own)

    def params_of(self, point: Params) -> tuple[Param, ...]:
        """The parameters that a point has."""
        return tuple(param for param in self.params if param.key in point)

    def name(self, point: Params) -> str:
        """The policy of a point."""
        return self.names[point[POLICY]]

    def own(self, point: Params) -> Params:
        """A point as its own policy's space has it."""
        prefix = f"{self.name(point)}."
        return {key.removeprefix(prefix): value for key, value in point.items() if key.startswith(prefix)}

    def lifted(self, name: str, own: Params) -> Params:
        """A point of a policy's own space as one of this space."""
        return {POLICY: self.names.index(name), **{f"{name}.{key}": value for key, value in own.items()}}

    def history_of(self, name: str, history: History) -> History:
        """The trials of one policy, with their points as its own space has them."""
        return tuple(
            replace(trial, params=self.own(trial.params)) for trial in history if self.name(trial.params) == name
        )

    def readable(self, point: Params) -> dict[str, int | str]:
        """A point with the words of its choices."""
        return {p.key: p.text(point[p.key]) if p.choices else point[p.key] for p in self.params_of(point)}

    @property
    def corners(self) -> list[Params]:
        """The corners of all policies' spaces."""
        return [self.lifted(name, corner) for name, space in self.branches.items() for corner in space.corners]


def split(params: Sequence[Param], templates: Mapping[str, str]) -> ConditionalSpace:
    """The space that has some parameters, as `ConditionalSpace.params` gives them.

    Parameters
    ----------
    params : sequence of Param
    templates : mapping of str to str
        The template of each policy's space, by its name.
    """
    own: dict[str, list[Param]] = {name: [] for name in templates}
    for param in params:
        name, dot, rest = param.name.partition(".")
        if dot:
            own[name].append(replace(param, name=rest))
    return ConditionalSpace({name: Space(templates[name], tuple(found)) for name, found in own.items()})
