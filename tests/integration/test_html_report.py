"""Reports in a real browser: what the pages say, what can be done with them, and that they keep to themselves.

The studies ran on machines that are not there, through the real loop, driver and store. What the pages looked like is
left in build/screenshots/.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from damoos import api
from damoos.api import TunedStudy, comparisons
from damoos.dispatch.local import LocalDispatcher
from damoos.errors import MachineLost, WorkloadError
from damoos.machines import catalog
from damoos.report.html import write
from damoos.rollouts.rollout import Phase, Rollout, State
from damoos.scorers.cost import Prices
from damoos.service.journal import Journal
from damoos.sweeps import sweep as sweeps
from damoos.sweeps.config import SweepConfig
from damoos.sweeps.driver import drive
from damoos.sweeps.sweep import Sweep
from damoos.testing.fake import FakeMachine
from damoos.testing.rollout_fleet import fake_plan, spec
from damoos.units import show_bytes, show_score
from damoos.words.studies import EvaluateWords
from tests.browser import Browser, browser
from tests.conftest import damoos
from tests.thousand import sweep_of_many

__all__ = ["browser"]
EVIL = "<script>document.title = 'taken over'</script><b>&amp;"
WORKLOADS = ("synthetic/hot-cold", "synthetic/idle")
SHORT = {"repeats": 2, "prior": "none", "tune": ["min_age=0s:60s"]}
MOST_MB_OF_A_THOUSAND = 20


@pytest.fixture(scope="module")
def fleet() -> Iterator[dict[str, FakeMachine]]:
    """Machines by name, which a test may put others into."""
    machines: dict[str, FakeMachine] = {}

    def machine(name: str, kernel: str | None = None) -> FakeMachine:
        return machines.setdefault(name, FakeMachine(noise=0.002, seed=len(machines)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalog, "machine", machine)
        patch.setattr("damoos.dispatch.retries.BACKOFF_S", 0.0)
        yield machines


def _curve(cliff_s: float) -> Callable[[float], tuple[float, float]]:
    """Thrashing below some age, then a saving that shrinks."""
    return lambda age_s: (0.5, 0.7) if age_s < cliff_s else (0.02, max(0.0, 0.6 - age_s / 100))


@pytest.fixture(scope="module")
def tuned(fleet, tmp_path_factory) -> TunedStudy:
    """A study with a failed trial, broken limits, and a command and an error that would like to be scripts."""
    results = tmp_path_factory.mktemp("study")
    fleet["evil"] = FakeMachine(noise=0.002, failures={4: WorkloadError(f"exit status 1: {EVIL}")})
    return api.tune(command=f"echo '{EVIL}'", machine="evil", trials=10, seed=1, results=results)


@pytest.fixture(scope="module")
def page(tuned) -> Path:
    return write(tuned.name, _results(tuned))[0]


def _results(tuned: TunedStudy) -> Path:
    return tuned.study.record.artifacts.path.parent


def _driven(one: Sweep) -> Sweep:
    dispatcher = LocalDispatcher()
    try:
        drive(one, dispatcher, steady_s=0)
    finally:
        dispatcher.close()
    return one


@pytest.fixture(scope="module")
def swept(fleet, tmp_path_factory) -> tuple[Sweep, Path]:
    """Two workloads on three machines; one gets lost once, another one fails without any scheme."""
    results = tmp_path_factory.mktemp("sweep")
    crash = WorkloadError(f"killed {EVIL}")
    fleet["a"] = FakeMachine(_curve(1), noise=0.002)
    fleet["b"] = FakeMachine(_curve(2), noise=0.002, failures={7: MachineLost("b got lost")})
    fleet["c"] = FakeMachine(_curve(6), noise=0.002, failures={0: crash})
    one = _driven(Sweep.create(results, SweepConfig(WORKLOADS, ("a", "b", "c"), {"nr_samples": 6, **SHORT})))
    return one, write(one.name, results, prices=Prices(gib_hour=0.005, core_hour=0.04))[0]


@pytest.fixture(scope="module")
def evaluated(fleet, tmp_path_factory) -> tuple[comparisons.Evaluated, Path]:
    results = tmp_path_factory.mktemp("evaluation")
    words = EvaluateWords(WORKLOADS, ("a",), ("prcl", "thp", "ethp"), repeats=3)
    one = Sweep.create(results, comparisons.evaluation_config(words))
    return comparisons.Evaluated(_driven(one)), write(one.name, results)[0]


def text(browser: Browser, selector: str) -> str:
    return browser.driver.find_element(By.CSS_SELECTOR, selector).text


def column(browser: Browser, table: str, name: str) -> list[str]:
    """The cells below a heading, from the top."""
    script = """
        const table = document.getElementById(arguments[0]);
        const at = [...table.tHead.rows[0].cells].findIndex(cell => cell.textContent.trim() === arguments[1]);
        return [...table.tBodies[0].rows].map(row => row.cells[at].textContent);
    """
    found = browser.run(script, table, name)
    assert isinstance(found, list)
    assert found, f"{table} has no rows"
    return found


def clean(browser: Browser) -> None:
    """Nothing is on the console, and nothing but the file itself has been asked for."""
    assert browser.console() == []
    asked = browser.requests()
    assert asked[0].startswith("file:")
    assert [one for one in asked if not one.startswith(("file:", "data:", "blob:"))] == []


def scroll_through(browser: Browser) -> int:
    """Bring every figure into view; how many there are."""
    plots = browser.driver.find_elements(By.CSS_SELECTOR, ".plot")
    for one in plots:
        browser.run("arguments[0].scrollIntoView()", one)
        browser.wait_until_drawn()
    return len(plots)


def test_a_study_says_what_the_store_has(browser, tuned, page) -> None:
    browser.open(page)
    result = tuned.result
    assert text(browser, "#verdict").lower() == result["verdict_text"].lower() + "."
    assert text(browser, "#scheme-tuned") == result["recommended"]["scheme"]
    trials = result["trials"]
    assert column(browser, "trials-table", "trial") == [str(one["number"]) for one in trials]
    for shown, trial in zip(column(browser, "trials-table", "score ± 95 %"), trials, strict=True):
        assert shown.split(" ± ")[0] == (show_score(trial["score"]) if trial["state"] == "complete" else "-")
    outcomes = column(browser, "trials-table", "outcome")
    for shown, trial in zip(outcomes, trials, strict=True):
        if trial["state"] == "fail":
            assert shown == f"failed: {trial['error']}"
        elif trial["state"] == "censored":
            assert shown == "limit broken, stopped early"
    assert sum(one.startswith("failed: ") for one in outcomes) == 1
    assert "limit broken, stopped early" in outcomes
    rss = [show_bytes(arm["rss_avg_bytes"]) for arm in result["validation"].values()]
    assert column(browser, "validation-table", "RSS") == rss
    whole = text(browser, "main")
    for said in (result["provenance"]["damoos"], tuned.study.setting.facts["kernel"], str(result["seed"])):
        assert said in whole
    assert scroll_through(browser) >= 2
    clean(browser)


def test_text_of_users_cannot_become_a_script(browser, tuned, page) -> None:
    browser.open(page)
    assert EVIL in text(browser, "h1")
    scroll_through(browser)
    assert "taken over" not in browser.driver.title.replace(EVIL, "")
    assert "<script>document.title" not in re.sub(r"(?s)<script>.*?</script>", "", page.read_text(), count=1)[:4000]
    injected = browser.run("return [...document.querySelectorAll('b')].length")
    assert injected == 0
    # Even a script that had got in would not run: the page's policy knows its own two by their hashes.
    browser.run("const s = document.createElement('script'); s.textContent = 'window.ran = 1'; document.body.append(s)")
    assert browser.run("return window.ran === undefined")
    assert any("Content Security Policy" in one for one in browser.console())


def test_columns_are_sorted_by_mouse_and_keyboard(browser, tuned, page) -> None:
    browser.open(page)
    table = browser.driver.find_element(By.ID, "trials-table")
    (header,) = [one for one in table.find_elements(By.CSS_SELECTOR, "th") if one.text.startswith("score")]
    header.find_element(By.TAG_NAME, "button").click()
    assert header.get_attribute("aria-sort") == "descending"
    scores = [one["score"] for one in tuned.result["trials"] if one["state"] == "complete"]
    shown = [one.split(" ± ")[0] for one in column(browser, "trials-table", "score ± 95 %")]
    expected = [*map(show_score, sorted(scores, reverse=True))]
    missing = ["-"] * (len(shown) - len(scores))
    assert shown == expected + missing
    header.find_element(By.TAG_NAME, "button").send_keys(Keys.ENTER)
    assert header.get_attribute("aria-sort") == "ascending"
    assert [one.split(" ± ")[0] for one in column(browser, "trials-table", "score ± 95 %")] == expected[::-1] + missing
    assert len(table.find_elements(By.CSS_SELECTOR, "th:not([aria-sort=none])")) == 1


def test_the_keyboard_reaches_all_that_can_be_used(browser, tuned, page) -> None:
    browser.open(page)
    grant = {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
    browser.driver.execute_cdp_cmd("Browser.grantPermissions", grant)
    reached, copied = [], ""
    for _ in range(80):
        browser.driver.switch_to.active_element.send_keys(Keys.TAB)
        focused = browser.driver.switch_to.active_element
        outline = focused.value_of_css_property("outline-style")
        reached.append((focused.tag_name, focused.get_attribute("data-copy") or focused.accessible_name, outline))
        if focused.get_attribute("data-copy") == "scheme-tuned":
            focused.send_keys(Keys.ENTER)
            time.sleep(0.1)
            assert focused.text == "Copied"
            copied = str(browser.driver.execute_async_script("navigator.clipboard.readText().then(arguments[0])"))
        if focused.tag_name == "button" and focused.find_elements(By.XPATH, "./ancestor::table[@id='trials-table']"):
            break
    assert reached[0][1] == "Skip to the content"
    assert ("button", "Switch to dark colours") in [one[:2] for one in reached]
    assert copied == tuned.result["recommended"]["scheme"]
    assert all(outline != "none" for _, _, outline in reached)
    assert reached[-1][:2] == ("button", "trial")


@pytest.mark.parametrize("system", ["light", "dark"])
def test_light_and_dark(browser, page, system: str) -> None:
    other = {"light": "dark", "dark": "light"}[system]
    browser.prefer(system)
    try:
        browser.open(page)
        browser.run("localStorage.clear()")
        browser.open(page)
        scroll_through(browser)
        grounds = {system: _ground(browser)}
        browser.shoot(f"study-{system}")
        browser.run("scrollTo(0, 0)")
        switch = browser.driver.find_element(By.ID, "theme")
        assert switch.accessible_name == f"Switch to {other} colours"
        switch.click()
        grounds[other] = _ground(browser)
        assert sum(grounds["light"]) > 600
        assert sum(grounds["dark"]) < 150
        browser.open(page)
        assert _ground(browser) == grounds[other]  # it is remembered
        browser.run("localStorage.clear()")
        clean(browser)
    finally:
        browser.prefer("")


def _ground(browser: Browser) -> tuple[int, ...]:
    """The page's background; the words of its figures must stand out from it."""
    ground = _rgb(browser.run("return getComputedStyle(document.body).backgroundColor"))
    time.sleep(0.2)
    ink = browser.run("const t = document.querySelector('.plot.drawn .xtick text'); return t && t.style.fill")
    if ink:
        assert abs(sum(_rgb(ink)) - sum(ground)) > 400
    return ground


def _rgb(colour: object) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", str(colour))[:3]))


def test_it_prints_whole(browser, page) -> None:
    browser.open(page)  # no figure below the first screen has been drawn by now
    made = browser.print("study")
    assert browser.run("return [...document.querySelectorAll('.plot')].every(one => one.querySelector('.main-svg'))")
    assert made.startswith(b"%PDF")
    assert made.count(b"/Type /Page\n") + made.count(b"/Type /Page/") < 12
    clean(browser)


def test_every_figure_is_there_as_svg_and_csv(browser, page) -> None:
    browser.open(page)
    links = [one.get_attribute("href") for one in browser.driver.find_elements(By.CSS_SELECTOR, ".files a")]
    plots = browser.driver.find_elements(By.CSS_SELECTOR, ".plot")
    assert len(links) == 2 * len(plots) > 0
    for link in links:
        file = page.parent / "report-figures" / str(link).rpartition("/")[2]
        assert str(link) == file.as_uri()
        if file.suffix == ".csv":
            assert len(pd.read_csv(file)) > 0
        else:
            assert "<svg" in file.read_text()


def test_a_sweep(browser, swept) -> None:
    one, page = swept
    browser.open(page)
    said = one.result
    assert said
    assert said["retries"] == {"b": 1}
    assert column(browser, "studies-table", "workload") == [row["workload"] for row in said["studies"]]
    verdicts = column(browser, "studies-table", "verdict")
    failed = [row["error"] for row in said["studies"] if row["state"] == "failed"]
    assert len(failed) == 1
    assert [word for word in verdicts if word.startswith("failed")] == [f"failed: {error}" for error in failed]
    scores = [shown.split(" ± ")[0] for shown in column(browser, "studies-table", "score ± 95 %")]
    assert scores == ["-" if row["score"] is None else show_score(row["score"]) for row in said["studies"]]
    assert column(browser, "machines-table", "retries") == ["0", "1", "0"]
    assert column(browser, "machines-table", "failed") == ["0", "0", "1"]
    assert "runs were repeated on b (1 time)" in text(browser, "#machines").lower()
    saved = 0.0
    for study in (one.finished(row["study"]) for row in said["studies"]):
        arms = (study or {}).get("validation") or {}
        if arms and arms["tuned"]["feasible"]:
            saved += arms["baseline"]["rss_avg_bytes"] - arms["tuned"]["rss_avg_bytes"]
    tiles = text(browser, ".tiles")
    assert show_bytes(saved) in tiles
    assert f"{saved / 2**30 * 0.005 * 730:,.2f} $" in tiles
    assert scroll_through(browser) == 3
    browser.shoot("sweep")
    clean(browser)


def test_an_evaluation(browser, evaluated) -> None:
    found, page = evaluated
    browser.open(page)
    table = found.table
    assert column(browser, "numbers-table", "configuration") == list(table["config"])
    shown = [one.split(" ± ")[0] for one in column(browser, "numbers-table", "performance")]
    assert shown == [f"{value:.3f}" for value in table["performance"]]
    assert scroll_through(browser) == 1
    assert len(pd.read_csv(page.parent / "report-figures/configs.csv")) == len(table)
    browser.shoot("evaluation")
    clean(browser)


def test_what_there_is_of_a_sweep_that_was_broken_off(browser, fleet, tmp_path: Path) -> None:
    one = Sweep.create(tmp_path, SweepConfig(WORKLOADS, ("a",), {"nr_samples": 4, **SHORT}))

    class Kill(BaseException):
        pass

    def event(kind: str, said: dict) -> None:
        if kind == "study" and said["state"] == "done":
            raise Kill

    dispatcher = LocalDispatcher()
    with pytest.raises(Kill):
        drive(one, dispatcher, event, steady_s=0)
    dispatcher.close()
    browser.open(write(one.name, tmp_path)[0])
    assert "1 are not finished" in text(browser, ".verdict") or "1 is not finished" in text(browser, ".verdict")
    scroll_through(browser)
    clean(browser)


def test_hundreds_of_studies(browser, fleet, tmp_path: Path) -> None:
    one = sweep_of_many(tmp_path, 15, 20, trials=4)  # make bench has a thousand, with ten trials each
    page = write(one.name, tmp_path)[0]
    assert page.stat().st_size < MOST_MB_OF_A_THOUSAND * 1e6 * 300 / 1000
    browser.open(page)
    assert len(column(browser, "studies-table", "workload")) == 300
    scroll_through(browser)
    browser.shoot("hundreds")
    clean(browser)


def test_a_rollout(browser, tmp_path: Path) -> None:
    """Of five hosts that are not there; the policy does something else to the last one."""
    plan = fake_plan(5, [1, 5], spec=spec(results=str(tmp_path)))
    rollout = Rollout.create(tmp_path, plan)
    for machine in plan.order:
        journal = Journal.of(tmp_path, machine)
        assert journal.take()  # its keeper is this process
        is_odd = machine == plan.order[-1]
        for nth in range(60):
            held = 100 if nth < 20 or is_odd else 70 + nth % 2
            window = {"at_s": 1e9 + 10 * nth, "paused": False, "net_bytes": held << 20, "watched": {}}
            journal.add_window(f"redis-{machine}-watched" if nth < 20 else f"redis-{machine}", window)
        state = {"in_force": True, "since": "2026-11-27T12:00:00", "watched": {"memory_pressure": 0.01}}
        journal.tell(f"redis-{machine}", state)
    shown = {"metric": "saving", "standing": "shown", "mean": 0.3, "lower": 0.2, "upper": 0.4, "bound": 0.0}
    rollout.progress.step, rollout.progress.phase, rollout.progress.state = 1, Phase.BAKE, State.DONE
    rollout.progress.findings = [[{**shown, "nr_windows": 40}], []]
    rollout.decide("done")
    browser.open(write("rollout-1", tmp_path, prices=Prices(gib_hour=0.005, core_hour=0.04))[0])
    assert "5 of 5 machines are to have it; done" in text(browser, "#verdict")
    assert f"Unlike the others: {plan.order[-1]}." in text(browser, ".verdict")
    assert column(browser, "hosts-table", "host") == plan.order
    assert column(browser, "hosts-table", "saving")[-1] == "0.0%"
    assert column(browser, "steps-table", "shown") == ["shown", "-"]
    assert "5 of 5" in text(browser, ".tiles")
    assert f"{4 * 29.5 / 1024 * 0.005 * 730:,.2f} $" in text(browser, ".tiles")
    assert scroll_through(browser) == 1
    browser.shoot("rollout")
    clean(browser)


def test_the_command(tuned, swept, tmp_path: Path) -> None:
    results = _results(tuned)
    done = damoos("report", "html", tuned.name, "--results", results, "-o", tmp_path / "x.html", "--format", "json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert Path(said["page"]) == tmp_path / "x.html"
    assert {Path(one).parent for one in said["figures"]} == {tmp_path / "x-figures"}
    assert all(Path(one).stat().st_size for one in said["figures"])
    wrong = damoos("report", "html", tuned.name[:-1], "--results", results)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert f"unknown study, sweep or rollout '{tuned.name[:-1]}'; did you mean '{tuned.name}'?" in wrong.stderr
    assert wrong.stderr.count("\n") == 1
    ending = damoos("report", "html", tuned.name, "--results", results, "-o", "x.pdf")
    assert ending.returncode == 2
    assert "a report is an .html file" in ending.stderr
    assert sweeps.folders(swept[1].parents[1])
