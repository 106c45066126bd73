"""A new plugin package: small, installable, and passing the contract suite of its kind."""

from __future__ import annotations

import re
from pathlib import Path

from damoos.errors import ConfigError, nearest
from damoos.ownership import make_folders

_PROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "damoos-{name}"
version = "0.1.0"
description = "A {kind} for damoos"
requires-python = ">=3.11"
dependencies = ["damoos"]

[project.entry-points."damoos.{kind}s"]
{name} = "{module}:{cls}"

[tool.setuptools]
py-modules = ["{module}"]
"""

_README = """\
# damoos-{name}

A {kind} for damoos. Edit `{module}.py`, then:

```sh
pip install -e .
pytest                                        # the contract that every {kind} keeps
damoos tune --workload synthetic/stairs {use}
```
"""

_TEST = """\
from damoos.testing.contracts import {contract}
from {module} import {cls}


class Test{cls}({contract}):
    make = {cls}
"""

_WORKLOAD = """\
# A workload of your own: damoos tune --workload ./{name}
# Words never reach a shell. {{vcpus}} is the number of the machine's CPUs, {{file:NAME}} a file beside this one that is
# brought along, as a program ./NAME is. docs/workloads.md has every key.
description = "what it does, in one line"

[tune]
min_age = "0s:60s"          # where to look
manual_min_age = "5s"       # the manual scheme that the tuned one is compared with
unit_work = "60s"           # what one run takes about
limit = "1h"                # a run that takes longer hangs

[real]
command = ["sleep", "60"]   # the program, or the server
needs = "sleep"             # what must be on the machine
packages = []               # Debian's, put into a guest's image
env = {{}}
setup = []                  # commands that fill the folder in which it runs, once for all runs
# user = "redis"            # account as which all of it runs where damoos is root: nobody else gets into its folder
# network = "own"           # for TCP: a network of loopback only, in which no other program has a port

# A server: what works on it while it is measured. Without this table the program itself is measured, start to end.
# [real.load]
# address = "my-server.sock"              # in its folder, or "127.0.0.1:PORT"; or "none", if it has no socket
# ready = ["my-client", "ping"]           # succeeds once the server does its work
# warm_up = [["my-client", "fill"]]       # not measured
# command = ["my-client", "run", "1000"]  # a fixed amount of work; its end is the end of the measurement

# What runs beside it on the machine, each in a cgroup of its own; figures are told by role, too.
# [[container]]
# name = "logger"
# role = "sidecar"                        # or application, or tax
# command = ["my-logger", "app.log"]      # it must run until the run ends
# memory_min = "8M"                       # memory_low, memory_high, memory_max, swap_max
# policy = "senpai:ratio=1%"              # in place of the run's; or "none"

# What the output says: one of regex, json and hgrm (a printed HdrHistogram), or hdr or values of a file that it leaves.
# [real.metrics]
# ops_per_s = {{ better = "higher", regex = 'throughput: ([\\d.]+)' }}
# p99_ms = {{ better = "lower", json = "latency.p99" }}
"""

_SCORER = '''\
"""The scorer '{name}'."""

from collections.abc import Sequence

from damoos.model.trial import Measurement, Score
from damoos.scorers.base import Scorer, within
from damoos.scorers.terms import slowdown_margin

MAX_SLOWDOWN = 0.05


class {cls}(Scorer):
    """Net memory saving, as long as the workload is at most 5 % slower: put your own rule here."""

    name = "{name}"
    direction = "maximize"
    unit = "net memory saving, as a fraction of the baseline's RSS"
    needs = ("runtime_s", "net_avg_bytes")
    # A run that is certainly slower than this is stopped; leave it out if your rule has no such bound.
    max_slowdown = MAX_SLOWDOWN

    def score(self, run: Measurement, baseline: Measurement, previous: Sequence[float]) -> Score:
        """No score for a run that breaks the limit; searchers learn by how much, and what it saved."""
        saving = 1 - run.metric("net_avg_bytes") / baseline.metric("net_avg_bytes")
        return within({{"saving": saving}}, slowdown_margin(run, baseline, MAX_SLOWDOWN), self.name)
'''

_SEARCHER = '''\
"""The searcher '{name}'."""

from damoos.model.space import Params
from damoos.model.trial import History
from damoos.searchers.base import Searcher, best


class {cls}(Searcher):
    """Random points, no point twice: put your own idea here.

    A pure function of the space, the number of samples, the seed and the history; nothing is remembered.
    """

    name = "{name}"

    def ask(self, history: History) -> Params:
        """The point to try next."""
        return self.fresh_point(history, self.random(history))

    def recommend(self, history: History) -> Params:
        """The point to put into service."""
        return best(history).params
'''

_KINDS = {
    "scorer": (_SCORER, "ScorerContract", "--score {name}"),
    "searcher": (_SEARCHER, "SearcherContract", "--searcher {name}"),
}


def new_plugin(kind: str, name: str, into: Path) -> Path:
    """Write a plugin package.

    Parameters
    ----------
    kind : {"scorer", "searcher"}
    name : str
        Its short name: lower-case letters, digits and underscores.
    into : Path
        Folder in which the package's folder is made.

    Returns
    -------
    Path
        The package's folder.

    Raises
    ------
    ConfigError : unknown kind, no valid name, or the folder exists
    """
    if kind not in _KINDS:
        raise ConfigError(f"unknown kind of plugin '{kind}'{nearest(kind, _KINDS)}")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ConfigError(
            f"'{name}' is not a valid plugin name: use lower-case letters, digits and underscores, with a letter first"
        )
    source, contract, use = _KINDS[kind]
    folder = into / f"damoos-{name}"
    words = {
        "kind": kind,
        "name": name,
        "module": f"damoos_{name}",
        "cls": "".join(part.capitalize() for part in name.split("_")) + kind.capitalize(),
        "contract": contract,
        "use": use.format(name=name),
    }
    files = {
        "pyproject.toml": _PROJECT,
        "README.md": _README,
        f"{words['module']}.py": source,
        f"test_{words['module']}.py": _TEST,
    }
    try:
        make_folders(into)
        folder.mkdir(0o755)
    except FileExistsError:
        raise ConfigError(f"{folder} exists already; choose another name or --into another folder") from None
    for file, text in files.items():
        _write_new(folder / file, text.format(**words))
    return folder


def workload_file(path: Path) -> None:
    """Write a workload file to start from.

    Raises
    ------
    ConfigError : the file is there already, or a link of its name; or its name says that it is something else
    OSError : it cannot be written
    """
    if path.suffix != ".toml":
        raise ConfigError(f"{path}: the name of a workload file must end in .toml")
    _write_new(path, _WORKLOAD.format(name=path.name))


def _write_new(path: Path, text: str) -> None:
    """Write a file that was not there; a link of its name is not followed, even if it leads to nothing yet."""
    try:
        with open(path, "x") as file:
            file.write(text)
    except FileExistsError:
        raise ConfigError(f"{path} exists already; choose another name") from None
