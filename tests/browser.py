"""A browser without a window, for tests that open pages as people do."""

from __future__ import annotations

import base64
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

# Where tests leave what a page looked like, for people to see (build/ is not in git).
SCREENSHOTS = Path(__file__).parents[1] / "build/screenshots"


class Browser:
    """Chromium, driven."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, page: Path) -> None:
        """Open a file, as a double click on it does; what was logged before is forgotten."""
        self.driver.get("about:blank")
        for kind in ("browser", "performance"):
            self.driver.get_log(kind)
        self.driver.get(page.resolve().as_uri())

    def console(self) -> list[str]:
        """What the page has said on its console since it was opened."""
        return [f"{one['level']}: {one['message']}" for one in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Addresses that were asked for since the page was opened."""
        events = [json.loads(one["message"])["message"] for one in self.driver.get_log("performance")]
        return [one["params"]["request"]["url"] for one in events if one["method"] == "Network.requestWillBeSent"]

    def run(self, script: str, *arguments: object) -> object:
        """What a line of JavaScript returns."""
        return self.driver.execute_script(script, *arguments)

    def prefer(self, theme: str) -> None:
        """Have the system prefer light or dark."""
        wanted = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", wanted)

    def shoot(self, name: str) -> Path:
        """Keep what the whole page looks like."""
        height = self.run("return Math.min(document.documentElement.scrollHeight, 8000)")
        size = {"width": 1280, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        try:
            self.wait_until_drawn()
            shot = self.driver.execute_cdp_cmd("Page.captureScreenshot", {})
        finally:
            self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        path = SCREENSHOTS / f"{name}.png"
        path.write_bytes(base64.b64decode(shot["data"]))
        return path

    def wait_until_drawn(self) -> None:
        """Until every figure on the screen has been drawn."""
        from selenium.webdriver.support.ui import WebDriverWait

        script = (
            "return [...document.querySelectorAll('.plot')]"
            ".filter(one => one.getBoundingClientRect().top < innerHeight)"
            ".every(one => one.querySelector('.main-svg'))"
        )
        WebDriverWait(self.driver, 20).until(lambda driver: driver.execute_script(script))

    def print(self, name: str) -> bytes:
        """The page as it is printed."""
        paper = {"paperWidth": 8.27, "paperHeight": 11.69, "printBackground": False}
        made = base64.b64decode(self.driver.execute_cdp_cmd("Page.printToPDF", paper)["data"])
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        (SCREENSHOTS / f"{name}.pdf").write_bytes(made)
        return made


class NoBrowserError(Exception):
    """There is none here."""


@contextmanager
def started() -> Iterator[Browser]:
    """Chromium, until the end of the block."""
    programs = shutil.which("chromium"), shutil.which("chromedriver")
    if None in programs:
        raise NoBrowserError("no chromium and chromedriver here: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = str(programs[0])
    # Tests run as root in CI, where Chromium's sandbox cannot be.
    for word in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1280,900"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(programs[1])))
    try:
        yield Browser(driver)
    finally:
        driver.quit()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium, or a skip that says why there is none; with DAMOOS_REQUIRE_GUEST a failure."""
    try:
        with started() as found:
            yield found
    except NoBrowserError as error:
        if os.environ.get("DAMOOS_REQUIRE_GUEST"):
            raise
        pytest.skip(str(error))
