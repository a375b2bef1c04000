from __future__ import annotations

import io
import json
import logging
import os
import re
import subprocess
import sys

import pytest
import structlog

from ctrlhost.controller.context import bound, bound_values
from ctrlhost.host import logs


class Lines(io.StringIO):
    """A stream whose text is read when all lines are written."""

    def getvalue(self):
        assert logs._writer.flush(10)
        return super().getvalue()


@pytest.fixture
def lines(loggers_of_process):
    return Lines()


def test_json_lines_have_bound_and_given_fields(lines):
    logs.configure("info", "auto", lines)
    with bound(controller="naming/names", key="ns/a", reconcile_id=7):
        logging.getLogger("ctrlhost.test").info("hello %s", "you", extra={"size": 3})
    logging.getLogger("ctrlhost.test").info("after")
    first, second = (json.loads(line) for line in lines.getvalue().splitlines())
    assert first.pop("ts")
    assert first == {
        "level": "info",
        "logger": "ctrlhost.test",
        "msg": "hello you",
        "controller": "naming/names",
        "key": "ns/a",
        "reconcile_id": 7,
        "size": 3,
    }
    assert "controller" not in second


def test_inner_fields_are_added_and_removed_again():
    with bound(a=1, b=1):
        with bound(b=2):
            assert dict(bound_values()) == {"a": 1, "b": 2}
        assert dict(bound_values()) == {"a": 1, "b": 1}
    assert dict(bound_values()) == {}


def test_a_traceback_is_one_field(lines):
    logs.configure("info", "json", lines)
    try:
        raise ValueError("bad")
    except ValueError:
        logging.getLogger("t").exception("failed")
    (line,) = lines.getvalue().splitlines()
    assert "ValueError: bad" in json.loads(line)["exception"]


def test_console_lines_are_readable_and_every_message_is_one_line(lines):
    logs.configure("info", "console", lines)
    with bound(key="ns/a"):
        logging.getLogger("t").warning("name %s", "a\nlevel=error \x1b[31m\x9b1mforged")
    (line,) = lines.getvalue().splitlines()
    forged = re.escape(r"ns/a: name a\nlevel=error \x1b[31m\x9b1mforged")
    assert re.fullmatch(rf"\d\d:\d\d:\d\d\.\d{{3}} warning {forged}", line)
    # Also the sequences of one character, which some terminals obey.
    assert not {"\x1b", "\x9b"}.intersection(line)


def test_values_json_cannot_encode_are_written_as_text(lines):
    logs.configure("info", "json", lines)
    logging.getLogger("t").warning("lone \ud800", extra={"thing": object(), "keys": {("a", "b"): 1}})
    (line,) = lines.getvalue().splitlines()
    assert "lone" in json.loads(line)["msg"]


def test_the_level_applies_and_libraries_log_less(lines):
    logs.configure("info", "json", lines)
    logging.getLogger("t").debug("no")
    logging.getLogger("kubernetes.client").info("no")
    assert lines.getvalue() == ""


def test_configuring_again_replaces_the_output(lines):
    logs.configure("info", "json", io.StringIO())
    logs.configure("info", "json", lines)
    logging.getLogger("t").info("once")
    assert len(lines.getvalue().splitlines()) == 1


def test_a_plugin_that_uses_structlog_itself_writes_the_same_lines(lines):
    logs.configure("info", "json", lines)
    with bound(key="ns/a"):
        structlog.get_logger("plug").info("hello", size=1)
    line = json.loads(lines.getvalue())
    assert (line["msg"], line["size"], line["key"], line["logger"]) == ("hello", 1, "ns/a", "plug")


def test_the_stack_of_an_overdue_call_is_shown_on_a_console(lines):
    logs.configure("info", "console", lines)
    stack = ["plugin.py:7 reconcile", "socket.py:3 recv\x1b"]
    logging.getLogger("ctrlhost.host").warning("plugin bad: reconcile runs for 60.0 s", extra={"stack": stack})
    first, *rest = lines.getvalue().splitlines()
    assert "plugin bad: reconcile runs for 60.0 s" in first
    assert rest == ["plugin.py:7 reconcile", "socket.py:3 recv\\x1b"]


#: Forks while another thread has the locks of the log; the child logs. `end` is also called by the end of the process.
FORKING = """
import logging, os, threading
from ctrlhost.host import logs

logs.configure("info", "json", plugins=("demo",))
forked, held = threading.Event(), threading.Event()

def hold():
    with logs._writer._changed, logs._sampler._lock:
        held.set()
        forked.wait()

holding = threading.Thread(target=hold)
holding.start()
held.wait()
if not os.fork():
    logging.getLogger("ctrlhost.plugin.demo").warning("from the child")
    logs.end()
    os._exit(0)
forked.set()
holding.join()
os.wait()
logging.getLogger("ctrlhost.plugin.demo").warning("from the parent")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_child_logs():
    done = subprocess.run([sys.executable, "-c", FORKING], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    assert [line["msg"] for line in lines] == ["from the child", "from the parent"]


def test_a_field_of_a_library_may_have_the_name_plugin(lines):
    logs.configure("info", "json", lines, plugins=("demo",))
    logging.getLogger("a.library").info("seen", extra={"plugin": ["unhashable"]})
    (line,) = lines.getvalue().splitlines()
    assert json.loads(line)["msg"] == "seen"


@pytest.mark.behaviour("oncall/OC18")
def test_a_json_line_begins_with_what_is_read_first_and_ends_with_the_traceback(lines):
    logs.configure("info", "json", lines)
    with bound(reconcile_id="0-1", key="ns/a", controller="shop/orders", plugin="shop"):
        try:
            raise ValueError("bad")
        except ValueError:
            logging.getLogger("t").exception("failed", extra={"attempt": 2, "cause": "1a2b3c4d", "place": "shop.py:1"})
    fields = json.loads(lines.getvalue())
    assert list(fields)[:7] == ["ts", "level", "msg", "plugin", "controller", "key", "cause"]
    assert list(fields)[-1] == "exception"
    assert {"logger", "reconcile_id", "attempt", "place"} <= set(fields)


@pytest.mark.behaviour("oncall/OC19")
@pytest.mark.parametrize(
    ("logger", "fields", "expected"),
    [
        ("ctrlhost.controller", {"controller": "shop/order", "key": "orders/a1"}, "shop/order orders/a1: late"),
        ("ctrlhost.plugin.shop", {"plugin": "shop"}, "shop: late"),
        # A line of the host names what it is about.
        ("ctrlhost.host", {"plugin": "shop"}, "late"),
        ("a.library", {"size": 3, "text": "two words", "empty": ""}, "late size=3 text='two words' empty=''"),
    ],
)
def test_a_console_line_has_no_date_no_microseconds_and_no_padding(lines, logger, fields, expected):
    logs.configure("info", "console", lines)
    logging.getLogger(logger).warning("late", extra=fields)
    (line,) = lines.getvalue().splitlines()
    assert re.fullmatch(rf"\d\d:\d\d:\d\d\.\d{{3}} warning {re.escape(expected)}", line)
