"""The reference of the TOML files, as Markdown, from the models that read them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from damoos.common.toml_file import Table
from damoos.machines.catalog import MachineFile
from damoos.machines.prices import PriceFile
from damoos.scorers.cost import Prices
from damoos.workloads.catalog import WorkloadFile
from generate.docstrings import Described, head, parameters

FILES: dict[str, type[Table]] = {
    "Workload files": WorkloadFile,
    "Machine files": MachineFile,
    "Prices of a machine's hour": PriceFile,
    "Prices for the score cost": Prices,
}


def page() -> str:
    """Every table of every file."""
    lines: list[str] = []
    for title, model in FILES.items():
        lines += [f"## {title}", "", *_table(model), ""]
        for path, below in _below(model, ""):
            lines += [f"### {title.removesuffix('s')}: {path}", "", *_table(below), ""]
    return "\n".join(lines)


def described(model: type[Table]) -> dict[str, Described]:
    """What the docstrings of a model and of those that it extends say of its fields.

    Raises
    ------
    LookupError : a field of which nothing is said
    """
    found: dict[str, Described] = {}
    for one in reversed(model.__mro__):
        found |= parameters(one.__doc__ or "") if issubclass(one, Table) else {}
    for name, field in model.model_fields.items():
        if not found.get(field.alias or name, Described("", "")).means:
            raise LookupError(f"{model.__name__}: its docstring says nothing of '{field.alias or name}'")
    return found


def _table(model: type[Table]) -> Iterator[str]:
    says = described(model)
    about = " ".join(head(model.__doc__ or "").split())
    if about.startswith("``["):  # the heading says so already
        about = about.partition("``: ")[2]
        about = about[0].upper() + about[1:]
    yield from (_markdown(about), "")
    yield from ("| key | is | without it | means |", "| --- | --- | --- | --- |")
    for name, field in model.model_fields.items():
        key = field.alias or name
        cells = (f"`{key}`", _markdown(says[key].kind), _without(field), _markdown(says[key].means))
        yield f"| {' | '.join(cells)} |"


def _without(field: Any) -> str:
    """What counts where the key is left out."""
    if field.is_required():
        return "an error"
    default = field.get_default(call_default_factory=True)
    if default in (None, (), {}, ""):
        return "-"
    if isinstance(default, Table):
        return "its defaults"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def _below(model: type[Table], where: str) -> Iterator[tuple[str, type[Table]]]:
    """The tables in a table, with the headers by which a TOML file has them."""
    for name, field in model.model_fields.items():
        for table in _tables(field.annotation):
            named = ".NAME" if "dict[" in str(field.annotation) else ""
            path = f"{where}{name}{named}"
            several = "tuple[" in str(field.annotation)
            yield f"`[[{path}]]`" if several else f"`[{path}]`", table
            yield from _below(table, f"{path}.")


def _tables(annotation: Any) -> Iterator[type[Table]]:
    if isinstance(annotation, type) and not get_args(annotation) and issubclass(annotation, Table):
        yield annotation
    for one in get_args(annotation):
        yield from _tables(one)


def _markdown(words: str) -> str:
    """A docstring's words, which mark code by two backticks."""
    return words.replace("``", "`").replace("|", "\\|") or "-"
