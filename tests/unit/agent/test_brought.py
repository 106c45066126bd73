"""Words that name files which were brought."""

from typing import Any

from damoos.agent.brought import renamed


def spec(first: str, second: str) -> dict[str, Any]:
    """One whose words name two files."""
    return {
        "argv": ["sh", first, f"--file={second}"],
        "stdin": first,
        "setup": [["cp", first, "."]],
        "env": {"FILE": first},
        "load": {"argv": ["ask", first], "ready": [], "warm_up": [["sh", first]], "address": None},
        "containers": [
            {"name": "a", "argv": None},
            {"name": "b", "argv": [second], "memory_limits": {"memory.max": 1}},
        ],
        "files": {"q": "/a/x"},
        "limit_s": 1.0,
    }


def test_each_path_is_renamed_where_words_are() -> None:
    paths = {"/a/x": "/b/1", "/a/x2": "/b/2"}
    assert renamed(spec(*paths), paths) == spec(*paths.values())
    assert renamed(spec(*paths), {}) == spec(*paths)
