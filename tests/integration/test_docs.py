"""The docs build without a warning, hold together, and need no network to be read."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import typer.main

import damoos
from damoos.cli import app
from damoos.cli.help import TASKS

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def build(source: Path, target: Path) -> subprocess.CompletedProcess[str]:
    words = [
        "-m",
        "sphinx",
        "-W",
        "--keep-going",
        "-q",
        "-c",
        DOCS,
        "-d",
        target.with_suffix(".doctrees"),
        "-b",
        "html",
    ]
    return subprocess.run([sys.executable, *words, source, target], capture_output=True, text=True, check=False)


class Page(HTMLParser):
    """What a page links to, what it loads, and what can be linked to in it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.anchors = {"", "top"}
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.add(found["href"])
        elif "src" in found or (tag == "link" and found.get("rel") != "canonical"):
            self.loads.add(found.get("src") or found.get("href", ""))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("docs") / "site"
    done = build(DOCS, target)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    return target


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in site.rglob("*.html")}


def test_every_link_of_the_site_leads_somewhere(site: Path, pages: dict[Path, Page]) -> None:
    broken = []
    for path, page in pages.items():
        for link in page.links | page.loads:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchors = pages[target].anchors if target in pages else {""}
            if not target.exists() or unquote(parts.fragment) not in anchors:
                broken.append(f"{path.relative_to(site)}: {link}")
    assert broken == []
    assert len(pages) > 25


def test_the_site_loads_nothing_from_elsewhere(site: Path, pages: dict[Path, Page]) -> None:
    loads = [link for page in pages.values() for link in page.loads]
    assert loads
    assert [link for link in loads if urlsplit(link).scheme or urlsplit(link).netloc] == []
    styles = "".join(path.read_text() for path in site.rglob("*.css"))
    assert "url(http" not in styles.replace('"', "").replace("'", "")
    assert "@import" not in styles


def test_broken_links_and_anchors_fail_the_build(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    good = "[a](other.md) [b](other.md#two-words)"
    bad = "[c](none.md) [d](other.md#three-words) [e](#no-such-heading)"
    (source / "index.md").write_text(f"# Home\n\n{good} {bad}\n\n```{{toctree}}\nother\n```\n")
    (source / "other.md").write_text("# Other\n\n## Two words\n")
    done = build(source, tmp_path / "site")
    assert done.returncode == 1
    assert [line.split("'")[-2] for line in done.stderr.splitlines()] == ["none.md", "three-words", "no-such-heading"]


@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md", "CONTRIBUTING.md"])
def test_links_of_what_is_no_page_of_the_site(name: str) -> None:
    links = re.findall(r"\]\(([^)#]+)", (ROOT / name).read_text())
    assert [link for link in links if "://" not in link and not (ROOT / link).exists()] == []


def test_reference_has_every_command_and_every_public_name(site: Path, pages: dict[Path, Page]) -> None:
    commands = pages[site / "reference/cli.html"].anchors
    assert {f"damoos-{name}" for name in typer.main.get_command(app).commands} <= commands
    assert {"damoos-kernel-list", "damoos-report-idle-time"} <= commands
    api = pages[site / "reference/api.html"].anchors
    assert {f"damoos.{name}" for name in damoos.__all__ if not name.startswith("__")} <= api


def test_what_the_code_says_in_the_repository_is_up_to_date() -> None:
    words = [sys.executable, "-m", "generate.reference", "--check"]
    done = subprocess.run(
        words, cwd=DOCS, env={"PYTHONPATH": f"{DOCS}:{ROOT}"}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


def test_reference_of_files_says_something_of_every_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS))
    from generate import files

    page = files.page()
    assert "| `manual_min_age` | str, time | `5s` | Of the manual scheme" in page
    assert "`[real.metrics.NAME]`" in page
    assert "`[paper_guest]`" in page

    class Silent(files.Table):
        """A table."""

        key: int

    with pytest.raises(LookupError, match="'key'"):
        files.described(Silent)


def test_manual_page_is_clean_and_shows_every_command(tmp_path: Path) -> None:
    page = tmp_path / "man/damoos.1"
    words = [sys.executable, "-m", "generate.man", page]
    subprocess.run(words, cwd=DOCS, env={"PYTHONPATH": f"{DOCS}:{ROOT}"}, check=True)
    groff = shutil.which("groff")
    assert groff, "Debian's package groff-base is missing: make test installs it"
    done = subprocess.run([groff, "-ww", "-man", "-Tascii", page], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    shown = re.sub(r".\x08|\x1b\[\d+m", "", done.stdout)  # bold and underlined
    for task in TASKS:
        assert task.title.upper() in shown
    assert "damoos tune parsec3/raytrace --trials 10" in shown
    assert "damoos kernel list [OPTIONS]" in shown
