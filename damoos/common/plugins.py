"""Code of others: by its short name from installed packages, or a function of a Python file."""

from __future__ import annotations

import importlib.util
import queue
import sys
import sysconfig
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, redirect_stdout
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from damoos.common import paths
from damoos.errors import ConfigError, DamoosError, PluginError, nearest

_T = TypeVar("_T")
SINGULAR = {"policies": "policy"}


class _ToStandardError:
    """What is printed in here goes to standard error; reentrant, and for several threads at once.

    `redirect_stdout` alone puts back what it found, which is standard error where two threads do not leave in the order
    in which they came. So the first one that comes redirects, and the last one that leaves undoes it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._redirection: AbstractContextManager[object]

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._redirection = redirect_stdout(sys.stderr)
                self._redirection.__enter__()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._redirection.__exit__(None, None, None)


_OUTPUT = _ToStandardError()


@contextmanager
def guarded(what: str, kind: type[DamoosError] = PluginError) -> Iterator[None]:
    """Call code of others in here: whatever it raises becomes one line that says where, such as ``(mine.py:12)``.

    What it prints goes to standard error: standard output is the command's, JSON perhaps.

    Parameters
    ----------
    what : str
        What the message begins with, such as ``searcher plugin 'mine'``.
    kind : class of DamoosError
        What is raised in its place. Errors of damoos's own pass as they are.
    """
    try:
        with _OUTPUT:
            yield
    except DamoosError:
        raise
    except (Exception, SystemExit) as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())
        raise kind(f"{what}{_place(error)} raised {said}") from error


def _place(error: BaseException) -> str:
    """The line of the user's code that raised an error; empty where it has none."""
    if isinstance(error, SyntaxError) and error.filename:
        return f" ({Path(error.filename).name}:{error.lineno})"
    standard = Path(sysconfig.get_path("stdlib"))
    foreign = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not Path(frame.filename).is_relative_to(paths.PACKAGE)
        and (not Path(frame.filename).is_relative_to(standard) or "site-packages" in frame.filename)
        and not frame.filename.startswith("<")
    ]
    if not foreign:
        return ""
    # What it called may have raised the error: its own last line is the one to look at.
    folder = Path(foreign[0].filename).parent
    last = [frame for frame in foreign if Path(frame.filename).is_relative_to(folder)][-1]
    return f" ({Path(last.filename).name}:{last.lineno})"


def answer(what: str, limit_s: float, function: Callable[..., _T], *words: Any) -> _T:
    """What a function of others returns; one that does not return is given up.

    Its thread cannot be ended and may take a CPU until this process ends, so nothing must be measured beside it.

    Raises
    ------
    PluginError : it took longer than that, in seconds
    """
    answers: queue.SimpleQueue[tuple[_T | None, BaseException | None]] = queue.SimpleQueue()

    def call() -> None:
        try:
            answers.put((function(*words), None))
        except BaseException as error:
            answers.put((None, error))

    threading.Thread(target=call, daemon=True, name=what).start()
    try:
        found, error = answers.get(timeout=limit_s)
    except queue.Empty:
        raise PluginError(f"{what} did not return within {limit_s:g} s") from None
    if error is not None:
        raise error
    return found  # type: ignore[return-value]


def described(group: str, name: str) -> str:
    """How messages call a plugin, such as ``policy plugin 'mine'``."""
    return f"{_singular(group)} plugin '{name}'"


def is_own(thing: object) -> bool:
    """Whether an object is of a class of damoos's own."""
    return type(thing).__module__.startswith("damoos.")


def _singular(group: str) -> str:
    return SINGULAR.get(group, group.removesuffix("s"))


def find(group: str, name: str, own: Mapping[str, Any]) -> Any:
    """The implementation of a name.

    Parameters
    ----------
    group : str
        ``searchers``, ``scorers``, ``policies`` or ``machines``: plugins register under ``damoos.<group>``.
    own : mapping
        What damoos itself has.

    Raises
    ------
    ConfigError : no such name; the nearest valid one is named
    PluginError : it cannot be loaded, or is nothing that can be called
    """
    if name in own:
        return own[name]
    offered = {point.name: point for point in entry_points(group=f"damoos.{group}")}
    if name not in offered:
        raise ConfigError(f"unknown {_singular(group)} '{name}'{nearest(name, [*own, *offered])}")
    with guarded(described(group, name)):
        found = offered[name].load()
    if not callable(found):
        raise PluginError(f"{described(group, name)}: {offered[name].value} is {found!r}, which cannot be called")
    return found


def make(group: str, name: str, own: Mapping[str, Any], kind: type[_T], *words: Any, **options: Any) -> _T:
    """What the class or function of a plugin makes of some arguments.

    Raises
    ------
    ConfigError : no such name
    PluginError : it fails, or makes something else than a ``kind``
    """
    factory = find(group, name, own)
    with guarded(described(group, name)):
        found = factory(*words, **options)
    if not isinstance(found, kind):
        needed = f"{kind.__module__}.{kind.__name__}"
        raise PluginError(f"{described(group, name)}: expected an object of class {needed}, got {found!r}")
    return found


def python_file(file: Path, what: str) -> ModuleType:
    """The module that a file of the user's is.

    Parameters
    ----------
    what : str
        What the messages begin with, such as ``score mine.py``.

    Raises
    ------
    ConfigError : there is no such file
    PluginError : it fails
    """
    if not file.is_file():
        raise ConfigError(f"{what}: there is no such file")
    spec = importlib.util.spec_from_file_location(f"damoos_user_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with guarded(what):
        spec.loader.exec_module(module)
    return module


def function_of(module: ModuleType, name: str, what: str) -> Callable[..., Any]:
    """A function of a module, by its name.

    Raises
    ------
    ConfigError : there is none of that name; the nearest one is named
    """
    function = getattr(module, name, None)
    if not callable(function):
        known = [word for word, value in vars(module).items() if callable(value) and not word.startswith("_")]
        raise ConfigError(f"{what}: there is no function '{name}'{nearest(name, known)}")
    return function  # type: ignore[no-any-return]
