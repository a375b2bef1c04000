"""What a plugin does to the log of the process: the host's lines and those of other plugins come out."""

from __future__ import annotations

import pytest

GOOD = """
import ctrlhost

@ctrlhost.hookimpl
def ctrlhost_setup(plugin):
    plugin.log.info("good is set up")
"""

#: A plugin whose task logs an object; `hang` never returns.
BAD = """
import logging, threading
import ctrlhost

def hang(*_):
    print("hanging", flush=True)
    threading.Event().wait()

class Handler(logging.Handler):
    emit = hang

class Object:
    def __repr__(self):
        hang()

def add_handler():
    logging.getLogger().addHandler(Handler())

def add_filter():
    for handler in logging.getLogger().handlers:
        handler.addFilter(hang)

def nothing():
    pass

@ctrlhost.hookimpl
def ctrlhost_setup(plugin):
    {prepare}()
    plugin.add_task("log", lambda stop: {log})
"""


@pytest.mark.behaviour("supervision/EN24")
@pytest.mark.parametrize(
    ("prepare", "log"),
    [
        ("add_handler", 'logging.getLogger("a.library").warning("to the root")'),
        ("add_filter", 'logging.getLogger("a.library").warning("to the root")'),
        ("nothing", 'plugin.log.warning("this: %r", Object())'),
        ("nothing", 'logging.getLogger("a.library").warning("this: %r", Object())'),
    ],
    ids=["handler", "filter", "object", "object of a library"],
)
def test_a_line_that_hangs_in_a_plugin_holds_up_no_line_of_the_host(distributions, start_host, prepare, log):
    distributions.add("bad", BAD.format(prepare=prepare, log=log))
    distributions.add("good", GOOD)
    host = start_host("--sandbox", "--set=host.drain_timeout=1s", plugins="bad,good")
    host.wait_for(lambda: "hanging" in host.output, "hanging log line")
    seen = len(host.lines)
    # Lines about `good`, and the end of the process, which shuts all handlers down.
    assert host.stop() == 0
    for text in ("plugin good stopping", "plugin good stopped"):
        host.line(text, after=seen)
    assert host.lines[-1]["msg"] == "stopped"


#: A plugin whose task writes lines, and then a word on stdout.
LINES = """
import ctrlhost

@ctrlhost.hookimpl
def ctrlhost_setup(plugin):
    def write(stop):
        for number in range({count}):
            {write}
        print("{end}", flush=True)
    plugin.add_task("write", write)
"""
FLOOD = LINES.format(count=100_001, write='plugin.log.info("line %d", number)', end="flooded")
TALKS = LINES.format(count=100, write='plugin.log.info("good %d", number); stop.wait(0.001)', end="talked")
ERRORS = LINES.format(count=1000, write='plugin.log.error("not done: %d", number)', end="failed")


@pytest.mark.behaviour("supervision/BU8")
def test_a_flood_of_lines_is_bounded_and_counted(distributions, start_host):
    distributions.add("bad", FLOOD)
    distributions.add("good", TALKS)
    # Without a refill, the burst alone is written, however long the flood takes.
    host = start_host("--sandbox", "--set=supervision.bad.log_lines=0.1", plugins="bad,good")
    host.wait_for(lambda: {"flooded", "talked"} <= set(host.output), "end of the flood")
    host.wait_for_metric(99_900, "ctrlhost_log_dropped_total", plugin="bad", reason="rate")
    assert host.metric("ctrlhost_log_dropped_total", plugin="good", reason="rate") == 0
    rate = int(host.metric("ctrlhost_log_dropped_total", plugin="bad", reason="rate") or 0)
    assert host.stop() == 0
    texts = [line["msg"] for line in host.lines]
    assert [text for text in texts if text.startswith("good ")] == [f"good {number}" for number in range(100)]
    written = sum(text.startswith("line ") for text in texts)
    assert written + rate == 100_001
    assert "plugin bad stopped" in texts


@pytest.mark.behaviour("supervision/BU7")
@pytest.mark.behaviour("oncall/OC20")
def test_the_end_of_the_process_writes_the_summaries(distributions, start_host):
    distributions.add("bad", ERRORS)
    host = start_host("--sandbox", plugins="bad")
    host.wait_for(lambda: "failed" in host.output, "end of the errors")
    host.wait_for_metric(990, "ctrlhost_log_dropped_total", plugin="bad", reason="sampled")
    assert host.stop() == 0
    full = [line for line in host.lines if line["msg"].startswith("not done: ")]
    more = [line for line in host.lines if "more like it" in line["msg"]]
    assert len(full) == 10
    assert sum(line["count"] for line in more) == 990
    assert host.lines[-1]["msg"] == "stopped"
    assert {(line["level"], line["plugin"], line["place"].partition(":")[0]) for line in more} == {
        ("error", "bad", "test_bad.py")
    }
