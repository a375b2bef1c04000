from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
import structlog

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def loggers_of_process() -> Iterator[None]:
    """Restore after the test what `logs.configure` changes."""
    names = ("", "ctrlhost", "asyncio", "kubernetes")
    loggers = [logging.getLogger(name) for name in names]
    before = [(entry, entry.level, list(entry.handlers), entry.propagate) for entry in loggers]
    for entry in loggers:
        # pytest adds its own handler, which raises, to each that does not propagate; an earlier test may leave one.
        entry.propagate = True
    yield
    for logger, level, handlers, propagate in before:
        logger.handlers[:] = handlers
        logger.setLevel(level)
        logger.propagate = propagate
    structlog.reset_defaults()
