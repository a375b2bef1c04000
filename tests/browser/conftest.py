"""The browser that the tests of pages share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.browser import Browser


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Run a headless Chromium; skip if there is none, fail in CI."""
    found = Browser(tmp_path_factory.mktemp("browser"))
    yield found
    found.stop()
