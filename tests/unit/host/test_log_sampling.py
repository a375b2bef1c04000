"""Sampling of repeated errors, the rate of a plugin's lines, and the thread that writes them."""

from __future__ import annotations

import io
import itertools
import json
import logging
import os
import re
import threading
from functools import partial

import pytest

from ctrlhost import NotFound, Request
from ctrlhost.host import log_writer, logs
from ctrlhost.host.log_sampling import LogSampler
from ctrlhost.host.log_writer import LogWriter
from ctrlhost.testing import ManualClock
from tests.support.controllers import idle
from tests.support.waiting import eventually


class Log:
    """The log of a host whose sampler follows a clock of the test."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.stream = io.StringIO()

    def configure(self, *plugins: str, lines: float = 0.0) -> None:
        self.writer = logs.configure("info", "json", self.stream, plugins=plugins, log_lines=lambda _: lines)

    @property
    def lines(self) -> list[dict]:
        assert self.writer.flush(10)
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]

    def wait_for(self, text: str) -> dict:
        return eventually(lambda: next((line for line in self.lines if text in line["msg"]), None), what=text)


@pytest.fixture
def log(monkeypatch, loggers_of_process):
    sink = Log()
    monkeypatch.setattr(logs, "LogSampler", partial(LogSampler, clock=sink.clock.now))
    return sink


def summed(lines: list[dict]) -> int:
    """Return how many errors the lines stand for."""
    return sum(line.get("count", 1) for line in lines)


@pytest.mark.behaviour("supervision/BU7")
@pytest.mark.parametrize("equal", [True, False], ids=["equal messages", "other messages"])
@pytest.mark.behaviour("findings3/NA5")
def test_repeated_errors_are_logged_ten_times_one_with_its_traceback_and_then_summed_up(log, bench, equal):
    def reconcile(ctx, request):
        raise KeyError("name" if equal else request.name)

    log.configure("demo")
    controller = bench.controller(reconcile)
    controller.queue.add_many([Request(str(number), "default") for number in range(10_000)])
    eventually(lambda: bench.results().get("error") == 10_000, timeout=120)
    lines = log.lines
    assert len(lines) == 10
    assert "KeyError" in lines[0]["exception"]
    assert not any("exception" in line for line in lines[1:])
    (place,) = {line["place"] for line in lines}
    assert place.startswith("tests/unit/host/test_log_sampling.py:")
    assert {(line["error"], line["plugin"], line["controller"]) for line in lines} == {
        ("KeyError", "demo", "demo/pods")
    }
    log.clock.advance(10)
    more = log.wait_for("more like it")
    # Keys behind a slow run may change their order.
    summary = rf"KeyError at {place} … and 9,990 more like it, 999\.0/s, 10,000 keys fail now, last default/\d+"
    assert re.fullmatch(summary, more["msg"])
    assert (more["level"], more["plugin"], more["error"], more["place"]) == ("error", "demo", "KeyError", place)
    # One summary each 10 seconds, and none without errors.
    log.clock.advance(10)
    controller.queue.add_many([Request(str(number), "late") for number in range(5)])
    eventually(lambda: bench.results().get("error") == 10_005)
    log.clock.advance(9)
    assert len(log.lines) == 11
    log.clock.advance(1)
    log.wait_for("… and 5 more like it, 0.5/s, 10,005 keys fail now, last late/")
    assert len(log.lines) == 12
    assert summed(log.lines) == 10_005
    assert logs.dropped() == {("demo", "sampled"): 9995}


@pytest.mark.behaviour("supervision/BU1")
def test_twenty_thousand_failing_keys_fill_no_log(log, bench):
    def reconcile(ctx, request):
        raise KeyError(request.name)

    log.configure("demo")
    controller = bench.controller(reconcile, workers=4)
    controller.queue.add_many([Request(str(number), "default") for number in range(20_000)])
    eventually(lambda: bench.results().get("error") == 20_000, timeout=120)
    # The retries of 20 seconds, with the summaries.
    for _ in range(20):
        bench.clock.advance(1)
        log.clock.advance(1)
        eventually(lambda: idle(controller))
    eventually(lambda: any("more like it" in line["msg"] for line in log.lines))
    assert 20_000 < bench.results()["error"] <= 20_500
    assert len(log.stream.getvalue().encode()) <= 200_000


@pytest.mark.behaviour("findings3/NA5")
def test_a_traceback_of_each_error_and_place_is_logged_once_a_minute(log, bench, caplog):
    def fail(ctx, request):
        if request.name == "caught":
            try:
                raise KeyError(request.namespace)
            except KeyError:
                ctx.log.exception("caught")
        elif request.name == "panic":
            raise SystemExit(3)
        elif request.name == "elsewhere":
            int(request.namespace)
        else:
            raise ValueError(request.namespace)

    class Limiter:
        def when(self, key):
            if key.name == "limiter":
                raise IndexError("no delay")
            return 5.0

        def forget(self, key):
            """Forget nothing."""

        def num_requeues(self, key):
            return 0

    log.configure("demo")
    controller = bench.controller(fail, rate_limiter=Limiter())
    kinds = ("caught", "panic", "elsewhere", "here", "limiter")
    for minute in range(2):
        for number in range(2):
            controller.queue.add_many([Request(name, f"{minute}-{number}") for name in kinds])
        eventually(lambda minute=minute: controller.status().runs == 11 * minute + 10 and idle(controller))
        log.clock.advance(59)
        controller.queue.add(Request("here", f"{minute}-late"))
        eventually(lambda minute=minute: controller.status().runs == 11 * minute + 11 and idle(controller))
        log.clock.advance(1)
    lines = [line for line in log.lines if line["level"] == "error"]
    traced = [line["error"] for line in lines if "exception" in line]
    # `here` and `limiter` fail at one line; the limiter itself at another one.
    assert sorted(traced) == sorted(["KeyError", "SystemExit", "ValueError", "ValueError", "IndexError"] * 2)
    assert {line["error"] for line in lines if "exception" not in line} == set(traced)
    # Handlers of others get every traceback.
    assert all(record.exc_info for record in caplog.records if record.levelname == "ERROR")


@pytest.mark.behaviour("supervision/BU7")
def test_kinds_of_errors_are_sampled_on_their_own(log, bench):
    wanted = [KeyError("a"), ValueError("b"), NotFound({"code": 404})]

    def reconcile(ctx, request):
        if request.name == "line":
            ctx.log.warning("not done: %s", request.namespace)
            ctx.log.warning("not done here either")
            ctx.log.info("not an error")
            return
        raise wanted[int(request.name)]

    log.configure("demo")
    controller = bench.controller(reconcile)
    controller.queue.add_many([Request(name, str(number)) for name in ("0", "1", "2", "line") for number in range(30)])
    eventually(lambda: bench.results() == {"error": 90, "success": 30})
    texts = [line["msg"] for line in log.lines]
    for beginning in ("reconcile failed: KeyError", "reconcile failed: ValueError", "reconcile failed: NotFound"):
        assert sum(text.startswith(beginning) for text in texts) == 10, beginning
    assert sum(text.startswith("not done: ") for text in texts) == 10
    assert texts.count("not done here either") == 10
    assert texts.count("not an error") == 30
    log.clock.advance(10)
    eventually(lambda: summed(log.lines) == 180)
    assert len(log.lines) == 80 + 5


def test_lines_of_the_host_about_a_plugin_are_never_dropped(log, bench):
    log.configure("demo", lines=1)
    scope = bench.plugin().scope
    host = logging.getLogger("ctrlhost.host")
    for number in range(100):
        scope.log.info("line %d", number)
        host.error("plugin demo failing: %d", number, extra={"plugin": "demo"})
        logging.getLogger("ctrlhost.leader_election").warning("demo no longer leads", extra={"plugin": "demo"})
    texts = [line["msg"] for line in log.lines]
    assert sum(text.startswith("line ") for text in texts) == 10
    assert sum(text.startswith("plugin demo failing") for text in texts) == 100
    assert texts.count("demo no longer leads") == 100


@pytest.mark.behaviour("supervision/BU8")
def test_all_lines_of_a_plugin_share_a_rate(log):
    log.configure("bad", "good", lines=200)
    ours, good = logging.getLogger("ctrlhost.plugin.bad"), logging.getLogger("ctrlhost.plugin.good")
    library = logging.getLogger("a.library")

    def flood() -> None:
        for number in range(100_000):
            (ours if number % 2 else library).info("line %d", number)
            if number % 1000 == 0:
                log.clock.advance(0.01)
                good.info("good %d", number)

    thread = threading.Thread(target=flood, name="bad/flood task")
    thread.start()
    thread.join(120)
    lines = log.lines
    mine = [line for line in lines if line["plugin"] == "bad"]
    # The burst of 2000 lines, and 200 in the second that has passed.
    assert 2_190 <= len(mine) <= 2_200
    assert logs.dropped() == {("bad", "rate"): 100_000 - len(mine)}
    assert [line["msg"] for line in lines if line["plugin"] == "good"] == [f"good {n}" for n in range(0, 100_000, 1000)]


def test_without_a_bound_all_lines_are_written(log):
    log.configure("bad", lines=0)
    for number in range(5_000):
        logging.getLogger("ctrlhost.plugin.bad").info("line %d", number)
    assert len(log.lines) == 5_000
    assert logs.dropped() == {}


def test_lines_are_attributed_by_context_field_and_thread(log, bench):
    log.configure("demo", "other")
    library = logging.getLogger("a.library")
    bench.controller(lambda ctx, request: library.info("in a reconcile")).queue.add(Request("a"))
    thread = threading.Thread(target=library.info, args=("on a thread",), name="other event loop")
    thread.start()
    thread.join()
    library.info("of nobody")
    library.info("by a field", extra={"plugin": "other"})
    log.wait_for("in a reconcile")
    plugins = {line["msg"]: line.get("plugin") for line in log.lines}
    assert plugins == {"in a reconcile": "demo", "on a thread": "other", "of nobody": None, "by a field": "other"}


def test_an_object_that_cannot_be_formatted_costs_only_its_line(log):
    class Bad:
        def __repr__(self) -> str:
            raise ValueError("no")

    log.configure("demo")
    logging.getLogger("ctrlhost.plugin.demo").info("this: %r", Bad())
    logging.getLogger("ctrlhost.plugin.demo").info("wrong number of arguments", 1)  # noqa: PLE1205 - the mistake under test
    first, second = log.lines
    for line, error in ((first, "ValueError"), (second, "TypeError")):
        assert line["msg"].startswith("a log line of ctrlhost.plugin.demo at test_log_sampling.py:")
        assert line["msg"].endswith(f"cannot be formatted: {error}")


def test_a_destructor_may_log_during_each_step_of_a_line():
    sampler = LogSampler(lambda _plugin: 0)
    written = io.StringIO()

    class Clock:
        """Stands for the garbage collector, which runs a destructor anywhere."""

        inside = False

        def __call__(self) -> float:
            if not self.inside:
                self.inside = True
                assert sampler.admits("demo", logging.INFO, None)
                assert writer.put("from a destructor")
                self.inside = False
            return 0.0

    writer = LogWriter(written, list)
    sampler._clock = Clock()
    assert sampler.admits("demo", logging.INFO, None)
    writer.close()
    assert written.getvalue() == "from a destructor\n"


def test_the_thread_that_writes_survives_an_error_of_its_summaries():
    written, calls = io.StringIO(), itertools.count(1)
    requested = threading.Event()

    def more() -> list[str]:
        if next(calls) == 1:
            raise RuntimeError("dictionary changed size during iteration")
        requested.set()
        return []

    writer = LogWriter(written, more)
    assert requested.wait(20)
    writer.put("after")
    writer.close()
    first, last = written.getvalue().splitlines()
    assert "RuntimeError: dictionary changed size during iteration" in first
    assert last == "after"


def test_a_full_pipe_drops_lines_and_blocks_nobody(log, monkeypatch):
    monkeypatch.setattr(log_writer, "LIMIT", 1 << 20)
    monkeypatch.setattr(log_writer, "_RESERVE", 1 << 18)
    reader, target = os.pipe()
    with os.fdopen(target, "w") as stream, os.fdopen(reader) as pipe:
        writer = logs.configure("info", "json", stream, plugins=("bad",), log_lines=lambda _: 0)
        ours, host = logging.getLogger("ctrlhost.plugin.bad"), logging.getLogger("ctrlhost.host")
        while not logs.dropped():
            ours.info("%s", "x" * 1000)
        # Lines of the host have a part of their own.
        host.info("plugin good running")
        assert logs.dropped() == {("bad", "full"): 1}
        # As long as nobody reads, the end of the process waits for a limited time.
        assert not writer.flush(0)
        seen: list[str] = []
        thread = threading.Thread(target=lambda: seen.extend(pipe), daemon=True)
        thread.start()
        eventually(lambda: any("dropped 1 log lines" in line for line in list(seen)))
        assert any("plugin good running" in line for line in list(seen))
        writer.close()
        stream.close()
        thread.join(10)
    assert json.loads(seen[-1])["count"] == 1


def test_a_stream_that_fails_raises_nowhere(log):
    class Broken(io.StringIO):
        def write(self, _text: str) -> int:
            raise OSError("no space")

    writer = logs.configure("info", "json", Broken())
    logging.getLogger("ctrlhost.host").info("lost")
    assert writer.flush(10)


@pytest.mark.behaviour("oncall/OC17")
@pytest.mark.behaviour("oncall/OC19")
def test_one_bug_in_1200_keys_is_a_screen_of_log(log, bench):
    def reconcile(ctx, request):
        prices = {"b": 1}
        raise ValueError(f"no price for {request.name}, only for {len(prices)}")

    log.writer = logs.configure("info", "console", log.stream, plugins=("demo",), log_lines=lambda _: 200.0)
    controller = bench.controller(reconcile)
    controller.queue.add_many([Request(f"o{number}", "orders") for number in range(1_200)])
    for _ in range(60):
        bench.clock.advance(1)
        log.clock.advance(1)
        eventually(lambda: idle(controller))
        # The thread that writes does so once a second, too.
        for line in logs._reports.due():
            log.writer.put(line)
    assert log.writer.flush(10)
    text = log.stream.getvalue()
    lines = text.splitlines()
    assert len(lines) <= 40
    time = r"\d\d:\d\d:\d\d\.\d{3}"
    assert re.match(
        rf"{time} error demo/pods orders/o\d+: reconcile failed: ValueError: no price for o\d+, only", lines[0]
    )
    # One traceback: the plugin's frame, then those of ctrlhost.
    assert lines[1:6] == [
        "Traceback (most recent call last):",
        f'  File "{__file__}", line {lines[2].split()[3][:-1]}, in reconcile',
        '    raise ValueError(f"no price for {request.name}, only for {len(prices)}")',
        "  … 1 frame of ctrlhost",
        lines[5],
    ]
    assert lines[5].startswith("ValueError: no price for o")
    assert text.count("Traceback") == 1
    place = f"tests/unit/host/test_log_sampling.py:{lines[2].split()[3][:-1]}"
    head = rf"{time} error demo/pods: ValueError at {place} … and [\d,]+ more like it, "
    summary = rf"{head}[\d.,]+/s, 1,200 keys fail now, last orders/o\d+"
    summaries = [line for line in lines if "more like it" in line]
    assert 5 <= len(summaries) <= 6
    assert [line for line in summaries if not re.match(summary, line)] == []
