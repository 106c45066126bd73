"""What people say to damoos, each word declared once: a field of a class of words.

A declaration has the word's type, default, bounds, help, section and completion. The command line, the signatures and
docstrings of the Python interface, stored studies and the reference pages are made of it. Standard library only, so
that help is quick.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Concatenate, ParamSpec

from damoos.errors import ConfigError, nearest

# Sections of a command's help.
WHAT, WHERE, STEPS, GUARD, MONITORING, POLICY, SEARCH, SCORE, OUTPUT = (
    "What", "Where", "Steps", "Guard", "Monitoring", "Policy", "Search", "Score", "Output",
)  # fmt: skip
# In the place of a section, for a word that the command line does not have.
PYTHON = ""
# In the order in which words are shown.
SECTIONS = (WHAT, WHERE, STEPS, GUARD, MONITORING, POLICY, SEARCH, SCORE, OUTPUT, PYTHON)
_KEY = "word"
_P = ParamSpec("_P")
# What a script says whose variable is not set would be taken for a word that is not given.
EMPTY = "{} is empty; name something, or leave it out"


@dataclass(frozen=True)
class Word:
    """A word's declaration, beside its type and its default, which the field has.

    Parameters
    ----------
    help : str
        One or two sentences for the command line and the reference, with the default where the field's value is None.
    section : str
        Of a command's help, or `PYTHON`.
    option : str
        As the command line has it: ``--limit`` for ``limits``; empty for the field's own name.
    least, most : int or None
        Bounds of a number.
    choices : tuple of str
        All that a text can be; empty for any.
    parse : callable or None
        Reads a text, and raises a ConfigError where it is wrong.
    completion : str
        Name of the function of `damoos.cli.complete` that completes it.
    separated : bool
        Whether the command line takes a sequence as one text with commas, and not the option several times.
    argument : str
        What it is called where it can also stand on the command line without its option.
    yields_to : str
        Field of a word that takes its place where this one is only a setting of the user's (``damoos.toml``).
    is_place : bool
        Whether it is a folder that damoos writes to: one that another user could exchange is refused.
    needs : tuple of str
        Fields of words of which one must be said, too: without them this one does nothing.
    """

    help: str
    section: str
    option: str = ""
    least: int | None = None
    most: int | None = None
    choices: tuple[str, ...] = ()
    parse: Callable[[str], object] | None = None
    completion: str = ""
    separated: bool = False
    argument: str = ""
    yields_to: str = ""
    is_place: bool = False
    needs: tuple[str, ...] = ()

    def check(self, value: object) -> None:
        """Refuse a value that the word cannot have.

        Raises
        ------
        ConfigError : names the option, the value and what it can be
        """
        if isinstance(value, str):
            self._check_text(value)
        elif isinstance(value, Sequence):
            for one in value:
                self.check(one)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            self._check_number(value)

    def _check_text(self, value: str) -> None:
        if not value.strip():
            raise ConfigError(EMPTY.format(self.option))
        if self.choices and value not in self.choices:
            raise ConfigError(
                f"{self.option}: unknown {self.option.strip('-')} '{value}'{nearest(value, self.choices)}"
            )
        if self.parse is not None:
            try:
                self.parse(value)
            except ConfigError as error:
                raise ConfigError(f"{self.option}: {error}") from None

    def _check_number(self, value: float) -> None:
        if self.least is not None and value < self.least:
            raise ConfigError(f"{self.option} {value}: give {self.least} or more")
        if self.most is not None and value > self.most:
            raise ConfigError(f"{self.option} {value}: give {self.most} or less")


def _field_of(kind: Callable[_P, Word]) -> Callable[Concatenate[object, _P], Any]:
    def declare(default: object, /, *words: _P.args, **named: _P.kwargs) -> Any:
        return dataclasses.field(default=default, metadata={_KEY: kind(*words, **named)})

    return declare


word = _field_of(Word)
"""Declare a field of a class of words: its default, then the parameters of `Word`."""


@dataclass(frozen=True)
class Words:
    """Words that belong together. Classes of them are combined by inheritance; each is checked when it is made."""

    # Python's functions have words that hold objects of damoos's own; pydantic looks at this.
    __pydantic_config__: ClassVar[dict[str, bool]] = {"arbitrary_types_allowed": True}

    def __post_init__(self) -> None:
        """Refuse what no word can be.

        Raises
        ------
        ConfigError : see `Word.check`; or a word does nothing, since another one is not said
        """
        options = {field.name: said.option for field, said in declared(type(self))}
        for field, said in declared(type(self)):
            value = getattr(self, field.name)
            said.check(value)
            needed = [name for name in said.needs if name in options]
            if needed and value != field.default and not any(getattr(self, name) is not None for name in needed):
                without = " or ".join(options[name] for name in needed)
                raise ConfigError(f"{said.option} does nothing without {without}; leave it out, or give that, too")


def declared(kind: type[Words]) -> Iterator[tuple[dataclasses.Field[Any], Word]]:
    """The words of a class by their sections; fields that are no words are left out."""
    fields = [field for field in dataclasses.fields(kind) if _KEY in field.metadata]
    for field in sorted(fields, key=lambda one: SECTIONS.index(one.metadata[_KEY].section)):
        said: Word = field.metadata[_KEY]
        yield field, dataclasses.replace(said, option=said.option or f"--{field.name.replace('_', '-')}")


def shared(said: Words, kind: type[Words]) -> dict[str, Any]:
    """The values of those words that another class has, too."""
    names = {field.name for field, _ in declared(kind)}
    return {field.name: getattr(said, field.name) for field, _ in declared(type(said)) if field.name in names}


def again(kind: type[Words], name: str, **changes: Any) -> Any:
    """A word of another class with some of its declaration changed; ``default`` is one that can be."""
    field, said = next(each for each in declared(kind) if each[0].name == name)
    default = changes.pop("default", field.default)
    return dataclasses.field(default=default, metadata={_KEY: dataclasses.replace(said, **changes)})
