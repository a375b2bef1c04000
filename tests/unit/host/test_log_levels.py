"""Levels of single loggers: of plugins, of the host, for a time."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import ctrlhost
from ctrlhost import ConfigError
from ctrlhost.host import log_levels, logs
from ctrlhost.host.log_levels import find_loggers
from tests.support.waiting import eventually

PACKAGE = Path(ctrlhost.__file__).parent
NAMING = "ctrlhost.plugin.naming"


@pytest.fixture
def written(loggers_of_process: None) -> Iterator[io.StringIO]:
    stream = io.StringIO()
    logs.configure("info", "json", stream, plugins=["naming", "bitcoin"])
    yield stream
    log_levels.levels.reset()


def debug_lines(stream: io.StringIO) -> list[str]:
    """Log at debug, and return the loggers whose lines came."""
    assert logs._writer is not None
    before = len(stream.getvalue())
    for name in (NAMING, "ctrlhost_naming.decision", "ctrlhost.plugin.bitcoin", "ctrlhost.host", "a.library"):
        logging.getLogger(name).debug("seen")
    assert logs._writer.flush(10)
    return [json.loads(line)["logger"] for line in stream.getvalue()[before:].splitlines()]


@pytest.mark.behaviour("operations/OP89")
def test_a_change_concerns_one_plugin_and_ends_by_itself(written: io.StringIO) -> None:
    assert debug_lines(written) == []
    log_levels.levels.set(find_loggers("naming", ["naming", "bitcoin"]), "debug", 2)
    assert debug_lines(written) == [NAMING, "ctrlhost_naming.decision"]
    eventually(lambda: debug_lines(written) == [])
    assert logging.getLogger(NAMING).level == logging.NOTSET


@pytest.mark.behaviour("operations/OP89")
def test_the_end_of_a_change_brings_back_the_one_before(written: io.StringIO) -> None:
    def changes() -> list[tuple[str, bool]]:
        return [(change.level, bool(change.seconds)) for change in log_levels.levels.changes()]

    def level() -> int:
        return logging.getLogger(NAMING).level

    log_levels.levels.set([NAMING], "warning")
    log_levels.levels.set([NAMING], "debug", 3600)
    log_levels.levels.set([NAMING], "error", 0.01)
    eventually(lambda: level() == logging.DEBUG)
    assert changes() == [("warning", False), ("debug", True)]
    # What ends before a new change cannot come back after it.
    log_levels.levels.set([NAMING], "info", 7200)
    assert changes() == [("warning", False), ("info", True)]
    log_levels.levels.set([NAMING], "debug", 0.02)
    log_levels.levels.set([NAMING], "error", 0.01)
    eventually(lambda: level() == logging.INFO)
    log_levels.levels.set([NAMING], "debug", 3600)
    log_levels.levels.set([NAMING], "critical")
    assert changes() == [("critical", False)]
    log_levels.levels.set([NAMING], "debug", 0.01)
    eventually(lambda: level() == logging.CRITICAL)
    assert changes() == [("critical", False)], "for the next process of a plugin"
    log_levels.levels.reset()
    assert changes() == []
    assert logging.getLogger(NAMING).level == logging.NOTSET
    assert debug_lines(written) == []


def test_another_process_gets_the_changes_that_have_not_ended(written: io.StringIO) -> None:
    log_levels.levels.set([NAMING, "ctrlhost.host"], "debug", 3600)
    log_levels.levels.set(["ctrlhost.host"], "warning")
    log_levels.levels.set(["a.library"], "error", 0.01)
    eventually(lambda: len(log_levels.levels.changes()) == 2)
    timed, lasting = log_levels.levels.changes()
    assert (timed.loggers, timed.level) == ((NAMING,), "debug")
    assert 3500 < timed.seconds <= 3600
    assert (lasting.loggers, lasting.level, lasting.seconds) == (("ctrlhost.host",), "warning", 0.0)
    log_levels.levels.reset()
    assert log_levels.levels.changes() == ()


def test_the_setting_names_plugins_and_loggers(loggers_of_process: None) -> None:
    stream = io.StringIO()
    levels = {"naming": "debug", "ctrlhost.host": "error", "misspelt": "debug"}
    logs.configure("info", "json", stream, plugins=["naming"], log_levels=levels)
    try:
        logging.getLogger("ctrlhost.host").warning("not seen")
        assert debug_lines(stream) == [NAMING, "ctrlhost_naming.decision"]
        logs.configure("info", "json", stream, plugins=["naming"])
        assert debug_lines(stream) == []
    finally:
        log_levels.levels.reset()


@pytest.mark.parametrize(
    ("name", "loggers"),
    [
        ("naming", (NAMING, "ctrlhost_naming")),
        ("ingress_status", ("ctrlhost.plugin.ingress-status", "ctrlhost_ingress_status")),
        ("ctrlhost", ("ctrlhost",)),
        ("ctrlhost.client", ("ctrlhost.client",)),
        ("ctrlhost.informers.watcher", ("ctrlhost.informers.watcher",)),
        (f"{NAMING}.index", (f"{NAMING}.index",)),
        ("ctrlhost_naming.decision", ("ctrlhost_naming.decision",)),
        ("asyncio", ("asyncio",)),
    ],
)
def test_what_a_name_means(name: str, loggers: tuple[str, ...]) -> None:
    assert find_loggers(name, ["naming", "ingress-status"]) == loggers


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("nameing", "naming"),
        ("ctrlhost.cleint", "ctrlhost.client"),
        ("ctrlhost.plugin.bitcion", "ctrlhost.plugin.bitcoin"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(name: str, near: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"host.log_levels: no plugin and no logger `{name}`")) as caught:
        log_levels.check({"naming": "debug", name: "debug"}, ["naming", "bitcoin"])
    assert caught.value.hint == f"did you mean `{near}`?"


@pytest.mark.behaviour("operations/OP42")
def test_no_level_turns_off_the_lines_about_calls_of_the_admin_api(loggers_of_process: None) -> None:
    from ctrlhost.server.admin import log

    stream = io.StringIO()
    logs.configure("critical", "json", stream, log_levels={"ctrlhost": "critical", log.name: "critical"})
    try:
        with pytest.raises(ConfigError, match=re.escape(f"host.log_levels: the level of `{log.name}` is fixed")):
            log_levels.check({log.name: "critical"}, [])
        log_levels.levels.set(["", "ctrlhost"], "critical", 3600)
        log.info("seen")
        assert logs._writer is not None
        assert logs._writer.flush(10)
        assert json.loads(stream.getvalue())["msg"] == "seen"
        logging.disable(logging.WARNING)
        assert logs._turned_on() == "`logging.disable`", "what a plugin does has no effect for long"
        assert log.isEnabledFor(logging.INFO)
    finally:
        logging.disable(logging.NOTSET)
        log_levels.levels.reset()


def test_all_loggers_of_the_host_are_known() -> None:
    used = {
        name
        for file in PACKAGE.rglob("*.py")
        for name in re.findall(r'getLogger\("(ctrlhost\.[a-z_.]+)"\)', file.read_text())
    }
    assert used
    for name in used - {"ctrlhost.admin"}:
        assert find_loggers(name, []) == (name,)
    assert set(log_levels.LOGGERS) - {"ctrlhost.plugin", "ctrlhost_sandbox", "ctrlhost.dry_run"} <= used
