"""Contract suites of policies with parameters: one without a machine, one on a real kernel.

class TestMine(RulePolicyContract):
    rule = MyPolicy
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from damoos.errors import ConfigError
from damoos.machines.base import Session
from damoos.policies.base import limited
from damoos.policies.rule import RulePolicy
from damoos.testing.contracts import until
from damoos.workloads.catalog import NO_PROGRAMS, workload

MIB = 1 << 20
PEAK_BYTES = 70 * MIB
# What policies change on a machine; what a module of the kernel tells of itself is left out.
STATE = (
    "grep -H . /proc/sys/vm/swappiness /proc/sys/vm/watermark_scale_factor /proc/sys/kernel/numa_balancing*"
    " /sys/kernel/mm/numa/demotion_enabled /sys/kernel/mm/mempolicy/weighted_interleave/*"
    " /sys/kernel/mm/transparent_hugepage/enabled /sys/kernel/mm/lru_gen/*"
    " /sys/module/zswap/parameters/* /sys/module/damon_reclaim/parameters/[emqw]*"
    " /sys/module/damon_lru_sort/parameters/[ehqw]* 2>/dev/null | grep -v kdamond_pid;"
    " ls -d /sys/fs/cgroup/damoos-* 2>/dev/null | wc -l; pgrep mempat | wc -l || true"
)


class RulePolicyContract:
    """What every policy with parameters must keep."""

    rule: type[RulePolicy]

    def test_it_says_what_it_is(self) -> None:
        """A name, what it does, where that is from; and each parameter what it is."""
        assert self.rule.name
        assert self.rule.description
        assert self.rule.source
        assert all(parameter.help for parameter in self.rule.parameters.values())

    def test_its_defaults_can_be_written(self) -> None:
        """Each default is a value of its parameter, and comes back from its text."""
        for parameter in self.rule.parameters.values():
            value = parameter.parsed(parameter.default)
            assert parameter.parsed(parameter.text(value)) == value

    def test_it_comes_back_from_its_text(self) -> None:
        """With all of its parameters given."""
        made = self.rule()
        text = ":".join(f"{name}={made.word(name)}" for name in self.rule.parameters)
        assert self.rule.parse(text) == made

    def test_it_can_be_tuned(self) -> None:
        """It has a space, and the agent can read what is asked of it at each corner, and at the defaults."""
        if not self.rule.tuned:
            with pytest.raises(ConfigError, match=f"nothing of {self.rule.name} can be tuned"):
                self.rule.space()
            assert any(value for value in self.rule().spec().values()), "it asks for nothing"
            return
        params = self.rule.space()
        assert params
        ends = [{param.key: param.low for param in params}, {param.key: param.snap(param.high) for param in params}]
        for point in (*ends, self.rule.default_point(params)):
            spec = limited(self.rule.at(params, point), {}, PEAK_BYTES).spec()
            assert json.loads(json.dumps(spec)) == spec
            assert any(value for value in spec.values()), "it asks for nothing"

    def test_a_wrong_word_is_named(self) -> None:
        """A parameter that it does not have, and one without a value."""
        for words in ("no_such=1", *list(self.rule.parameters)[:1]):
            with pytest.raises(ConfigError, match=words.partition("=")[0]):
                self.rule.parse(words)


class ReclaimContract:
    """What every policy that reclaims must do on a real kernel, at values at which it acts within seconds."""

    @pytest.fixture
    def session(self) -> Session:
        """A lease of a machine with swap."""
        raise NotImplementedError

    @pytest.fixture
    def words(self) -> str:
        """The policy, as people write it."""
        raise NotImplementedError

    def enough(self, status: dict[str, Any], words: str) -> bool:
        """Whether the policy has taken its share: a third of the 60 MiB that are cold."""
        return bool(status["rss_bytes"] < 44 * MIB)

    def test_it_takes_what_is_cold_and_leaves_nothing_behind(self, session: Session, words: str) -> None:
        """A service of 64 MiB that uses 4 of them is put under the policy, and taken off again."""
        before = state(session)
        argv = workload("synthetic/idle", NO_PROGRAMS).argv(session.copy, arch=session.facts["arch"])
        session.agent.call("apply", argv=[*argv[:-1], "-n", "20", argv[-1]], env={}, **spec(words))
        try:
            # It fills its memory within seconds; those that limit it never let it come so far.
            until(session, lambda status: status["rss_bytes"] > 50 * MIB, within_s=15)
            status = until(session, lambda status: self.enough(status, words), within_s=240)
        finally:
            session.agent.call("stop")
        assert status["alive"]
        assert self.enough(status, words), status
        assert state(session) == before


def spec(words: str) -> dict[str, Any]:
    """What the agent is asked for a policy, as people write it."""
    from damoos.policies import catalog

    return limited(catalog.parse(words), {}, PEAK_BYTES).spec()


def state(session: Session) -> str:
    """What policies change on a machine, as it is now."""
    run = {"env": {}, "limit_s": 60, "sample_s": 0.5, "drop_caches": False, "context": None}
    return str(session.agent.call("run", argv=["sh", "-c", STATE], **run)["stdout"])
