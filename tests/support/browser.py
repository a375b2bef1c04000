"""A headless Chromium for the tests of pages: windows of a size and a colour scheme, and what they asked for."""

from __future__ import annotations

import base64
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

ROOT = Path(__file__).parents[2]
_FETCHED = ROOT / ".cache" / "chromium"
CHECKS = (ROOT / "tests" / "browser" / "page_checks.js").read_text()
#: Seconds until a page has to be there.
_PATIENCE = 60
_ARGUMENTS = (
    "--headless=new",
    # As root there is no sandbox; the pages are our own.
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-first-run",
    "--no-proxy-server",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    # Names of other machines lead nowhere.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)


def programs() -> tuple[Path, Path]:
    """Return the paths of Chromium and of its driver; skip the test if they are missing."""
    paths = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if all(paths):
        return Path(paths[0] or ""), Path(paths[1] or "")
    if not (_FETCHED / "chromium").exists():
        pytest.skip("no chromium and chromedriver: `make real-tools` fetches them")
    return _FETCHED / "chromium", _FETCHED / "chromedriver"


@dataclass(frozen=True, slots=True)
class Window:
    """What a page is shown in."""

    width: int = 1440
    dark: bool = False
    script: bool = True
    height: int = 900

    def __str__(self) -> str:
        return f"{self.width}-{'dark' if self.dark else 'light'}{'' if self.script else '-no-script'}"


#: Phone and desktop, light and dark.
WINDOWS = tuple(Window(width, dark) for width in (360, 1440) for dark in (False, True))


class Browser:
    """A running browser with one tab. For use by one thread."""

    def __init__(self, folder: Path) -> None:
        """Start it, with its profile in `folder`."""
        chromium, driver = programs()
        options = ChromeOptions()
        options.binary_location = str(chromium)
        for argument in (*_ARGUMENTS, f"--user-data-dir={folder / 'profile'}"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self._driver = Chrome(options, Service(str(driver)))
        self._driver.set_page_load_timeout(_PATIENCE)
        self._driver.set_script_timeout(_PATIENCE)
        self._checked = False
        self.command("Network.enable")
        # A page that was seen before is as fast and as small as the first one.
        self.command("Network.setCacheDisabled", cacheDisabled=True)

    def command(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command of the DevTools protocol and return its result."""
        result: dict[str, Any] = self._driver.execute_cdp_cmd(method, parameters)
        return result

    def show(self, url: str, window: Window = Window()) -> None:
        """Open a page in a window like this one, and wait until it is loaded; forget the messages so far."""
        self.command(
            "Emulation.setDeviceMetricsOverride",
            width=window.width,
            height=window.height,
            deviceScaleFactor=1,
            mobile=False,
        )
        features = [{"name": "prefers-color-scheme", "value": "dark" if window.dark else "light"}]
        self.command("Emulation.setEmulatedMedia", features=features)
        self.command("Emulation.setScriptExecutionDisabled", value=not window.script)
        self._driver.get_log("browser")
        self._driver.get_log("performance")
        self._checked = False
        self._driver.get(url)

    def run(self, script: str, *arguments: Any) -> Any:
        """Run the body of a function in the page and return its result."""
        return self._driver.execute_script(script, *arguments)

    def check(self, name: str) -> list[str]:
        """Return what a check of `page_checks.js` finds wrong with the page."""
        defects: list[str] = self.ask("return checks[arguments[0]]()", name)
        return defects

    def ask(self, script: str, *arguments: Any) -> Any:
        """Run the body of a function that uses what `page_checks.js` has."""
        if not self._checked:
            self.run(f"{CHECKS}\nwindow.pageChecks = {{checks, focusable, name}}")
            self._checked = True
        return self.run(f"const {{checks, focusable, name}} = window.pageChecks; {script}", *arguments)

    def text(self, selector: str = "body") -> str:
        """Return the visible text of the first element that fits; "" if none does."""
        text: str = self.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector)
        return text

    def key(self, name: str, code: int, *, shift: bool = False) -> None:
        """Press a key of the keyboard."""
        pressed = {"key": name, "code": name, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
        self.command("Input.dispatchKeyEvent", type="keyDown", **pressed)
        self.command("Input.dispatchKeyEvent", type="keyUp", **pressed)

    def messages(self) -> list[str]:
        """Return what the console has shown since the last call or page."""
        return [entry["message"] for entry in self._driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Return the addresses of all requests since the last call or page, those of data: and blob: left out."""
        entries = [json.loads(entry["message"])["message"] for entry in self._driver.get_log("performance")]
        sent = [
            entry["params"]["request"]["url"] for entry in entries if entry["method"] == "Network.requestWillBeSent"
        ]
        return [url for url in sent if urlsplit(url).scheme not in ("data", "blob")]

    def first_paint(self) -> float:
        """Return the milliseconds until the first contentful paint of the page."""
        entries = "performance.getEntriesByName('first-contentful-paint')"
        moment: float = self.run(f"return {entries}[0]?.startTime ?? 0")
        return moment

    def screenshot(self, path: Path, *, height: int | None = None) -> None:
        """Write a picture of the page as PNG, the whole page unless a height in pixels is given."""
        size = self.run("const page = document.documentElement; return [page.clientWidth, page.scrollHeight]")
        clip = {"x": 0, "y": 0, "width": size[0], "height": height or size[1], "scale": 1}
        screenshot = self.command("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(screenshot["data"]))

    def stop(self) -> None:
        """End the browser and its driver."""
        self._driver.quit()
