"""The time until a browser shows the status page of a host with 50 controllers.

The row is operations/OP50.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.browser import Browser
from tests.support.pages_rig import PagesRig
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from benches.ratios import Ratios

CONTROLLERS = 50


@pytest.mark.behaviour("operations/OP50")
def test_first_contentful_paint(ratios: Ratios, tmp_path: Path) -> None:
    browser = Browser(tmp_path)
    try:
        with PagesRig(CONTROLLERS) as rig:
            rig.populate()
            times = []
            # The first page of a process compiles and reads what the next ones have.
            for _ in range(21):
                browser.show(f"{rig.url}/")
                times.append(eventually(browser.first_paint) / 1000)
    finally:
        browser.stop()
    ratios.add("status", "first contentful paint of 50 controllers", "s", statistics.median(times[1:]))
