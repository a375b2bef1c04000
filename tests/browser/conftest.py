"""The browser that the tests of pages share, and the hosts that they look at."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.browser import Browser
from tests.support.pages_rig import PagesRig


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Run a headless Chromium; skip if there is none, fail in CI."""
    chromium = Browser(tmp_path_factory.mktemp("browser"))
    yield chromium
    chromium.stop()


@pytest.fixture(scope="module", params=[0, 4, 50], ids=lambda count: f"{count}-controllers")
def rig(request: pytest.FixtureRequest) -> Iterator[PagesRig]:
    """Run a host with each number of controllers, which the tests of a module share."""
    with PagesRig(request.param) as pages:
        pages.populate()
        yield pages


@pytest.fixture(scope="module")
def few() -> Iterator[PagesRig]:
    """Run a host with four controllers, which the tests of a module share."""
    with PagesRig(4) as pages:
        pages.populate()
        yield pages
