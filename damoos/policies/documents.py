"""Where schemes are taken: our text, or damo's JSON or YAML, as text or in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from damoos.common import user_file
from damoos.damon.damo_json import context_from_json
from damoos.errors import ConfigError, SchemeError
from damoos.policies import foreign_yaml

ENDING = ".damos"
DOCUMENTS = (".json", ".yaml", ".yml")


def scheme_text(words: str | Path) -> str:
    """Scheme text of an option that takes a scheme, or a file with one.

    Raises
    ------
    ConfigError : a file cannot be read
    SchemeError : a document of damo's that says what damoos cannot do
    """
    path = Path(words)
    if not isinstance(words, Path) and not _is_file(path):
        if len(words.split()) == 1 and path.suffix in (ENDING, *DOCUMENTS):
            raise ConfigError(f"scheme '{words}': there is no such file")
        return as_text(words)
    try:
        return as_text(user_file.read_text(path, foreign_yaml.MOST_BYTES, user_file.regular_or_shells))
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not a text file") from None
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None


def _is_file(path: Path) -> bool:
    try:
        return path.exists() and not path.is_dir()  # a pipe of the shell's, too: <(command)
    except OSError:  # a text that is too long for the name of a file
        return False


def as_text(content: str) -> str:
    """Our text of what may be a document of damo's; our own text comes back as it is.

    Raises
    ------
    SchemeError : a document of damo's that says what damoos cannot do, or that has what damo does not write
    """
    if not content.lstrip().startswith("{") and not any(line.startswith("kdamonds:") for line in content.splitlines()):
        return content
    return str(context_from_json(_parsed(content)))


def _parsed(content: str) -> dict[str, Any]:
    document = foreign_yaml.load(content)
    if not isinstance(document, dict):
        raise SchemeError("not a document of damo's: it has no 'kdamonds'")
    return document
