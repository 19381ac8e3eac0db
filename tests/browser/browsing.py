"""A real browser for the tests: Debian's chromium with its own driver, headless, with its console kept."""

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

ROOT = Path(__file__).resolve().parents[2]
SCREENSHOTS = ROOT / ".cache" / "screenshots"
PACKAGES = {"chromium": ("chromium", "chromium-browser", "google-chrome"), "chromium-driver": ("chromedriver",)}
T = TypeVar("T")


class BrowserMissing(RuntimeError):
    """There is no browser, and none could be installed; the message says what to install."""


def find_browser() -> tuple[str, str]:
    """Paths of chromium and chromedriver; on Debian as root, missing ones are installed. Raises BrowserMissing."""
    found = {package: next(filter(None, map(shutil.which, names)), None) for package, names in PACKAGES.items()}
    missing = [package for package, path in found.items() if path is None]
    if missing and os.geteuid() == 0 and shutil.which("apt-get"):
        quiet = {
            "stdout": subprocess.DEVNULL,
            "check": False,
            "env": {**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        }
        subprocess.run(["apt-get", "update", "-qq"], **quiet)
        subprocess.run(
            ["apt-get", "install", "-qq", "-y", "--no-install-recommends", *PACKAGES, "fonts-dejavu-core"], **quiet
        )
        found = {package: next(filter(None, map(shutil.which, names)), None) for package, names in PACKAGES.items()}
        missing = [package for package, path in found.items() if path is None]
    if missing:
        raise BrowserMissing(
            f"the browser tests need {' and '.join(missing)}: apt-get install chromium chromium-driver"
        )
    return str(found["chromium"]), str(found["chromium-driver"])


class Browser:
    """One window. `errors` are what its console has complained of since it was last asked."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, url: str | Path) -> None:
        self.driver.get(url.as_uri() if isinstance(url, Path) else url)

    def errors(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector: str) -> WebElement:
        return self.until(lambda: next(iter(self.all(selector)), None), f"an element {selector}")

    def text(self, selector: str) -> str:
        return str(self.one(selector).get_property("textContent"))

    def click(self, selector: str) -> None:
        self.one(selector).click()

    def press(self, keys: str) -> None:
        self.driver.switch_to.active_element.send_keys(keys)

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def until(self, look: Callable[[], T | None], what: str, seconds: float = 20) -> T:
        """What `look` gives once it is true."""
        end = time.monotonic() + seconds
        while True:
            with contextlib.suppress(StaleElementReferenceException):  # the page has drawn itself anew meanwhile
                found = look()
                if found:
                    return found
            if time.monotonic() > end:
                raise AssertionError(f"no {what} after {seconds:.0f} s")
            time.sleep(0.05)

    def screenshot(self, name: str) -> Path:
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        file = SCREENSHOTS / f"{name}.png"
        self.driver.save_screenshot(str(file))
        return file


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    chromium, chromedriver = find_browser()
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--window-size=1440,1000",
        "--no-proxy-server",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    environment = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    service = webdriver.ChromeService(executable_path=chromedriver, env=environment)
    driver = webdriver.Chrome(options=options, service=service)
    try:
        yield Browser(driver)
    finally:
        driver.quit()
