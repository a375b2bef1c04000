"""Pictures of each page in an incident, on a phone and a desktop, light and dark.

`python -m tests.browser.test_pictures` writes those of the docs anew.
"""

from __future__ import annotations

import math
import struct
import tempfile
from pathlib import Path

import pytest

from ctrlhost.status.samples import Ring
from ctrlhost.testing.host import HostUnderTest
from tests.support.browser import ROOT, Browser, Window
from tests.support.incidents import two_causes, url_of
from tests.support.waiting import eventually

IMAGES = ROOT / "docs" / "images"
PATHS = {
    "overview": "/",
    "plugin": "/status/plugins/shop",
    "controller": "/status/controllers/shop/order",
    "key": "/status/keys/shop/order?key=default/order-17",
}
#: Of the plots.
MINUTES = 20
#: The name, the window, and the height of the picture in pixels.
WINDOWS = {
    "desktop-light": (Window(1400), 900),
    "desktop-dark": (Window(1400, dark=True), 900),
    "phone-light": (Window(390, height=844), 844),
    "phone-dark": (Window(390, dark=True, height=844), 844),
}


def fill_plots(host: HostUnderTest) -> None:
    """Give the controller of the pictures the samples of 20 minutes, which begin with a burst."""
    samples = host.host.inspection.reports.reader.samples
    now = eventually(lambda: samples._slot, 60, "a sample")
    sampled = samples._sampled["shop/order"]
    sampled.ring = Ring()
    # Those of the next minutes, too, so that the real ones are left out.
    for number in range(MINUTES * 12 + 60):
        rate = 240.0 / (number + 1) if number < 3 else 6.0 + 2.0 * math.sin(number / 9)
        values = {
            "rate": rate,
            "errors": rate * 0.6,
            "p50": 0.0025,
            "p99": 0.004 + rate / 9000,
            "depth": number // 20 % 5,
        }
        sampled.ring.add(now - MINUTES * 12 + 1 + number, values)


def take(browser: Browser, folder: Path) -> list[Path]:
    """Write all pictures into a folder, and return their paths."""
    paths = []
    with two_causes() as host:
        fill_plots(host)
        for page, address in PATHS.items():
            for name, (window, height) in WINDOWS.items():
                browser.show(url_of(host) + address, window)
                eventually(lambda: browser.text("#live") == "live", 60, "an answer", pause=0.05)
                paths.append(folder / f"status-{page}-{name}.png")
                browser.screenshot(paths[-1], height=height)
    return paths


def size(picture: Path) -> tuple[int, int]:
    """Return the width and the height of a PNG."""
    content = picture.read_bytes()
    assert content.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", content[16:24])
    return width, height


@pytest.mark.slow
@pytest.mark.behaviour("oncall/OC11")
def test_the_docs_have_a_picture_of_each_page_in_each_window(browser: Browser, tmp_path: Path) -> None:
    pictures = take(browser, tmp_path)
    assert len(pictures) == len(PATHS) * len(WINDOWS)
    for picture in pictures:
        committed = IMAGES / picture.name
        assert committed.exists(), f"`python -m tests.browser.test_pictures` makes {picture.name}"
        assert size(committed) == size(picture)
    assert {path.name for path in IMAGES.glob("status-*.png")} == {picture.name for picture in pictures}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as profile:
        chromium = Browser(Path(profile))
        try:
            for written in take(chromium, IMAGES):
                print(written.relative_to(ROOT))
        finally:
            chromium.stop()
