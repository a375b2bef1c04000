"""The places of errors by their frames, and the causes by which they are grouped."""

from __future__ import annotations

import asyncio
import importlib
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from ctrlhost import Request
from ctrlhost.controller.error_groups import decisive
from ctrlhost.controller.places import cause_of, name_of_file, place_of
from ctrlhost.supervisor.loader import _place
from tests.support.controllers import Bench, idle
from tests.support.waiting import eventually

pytestmark = [pytest.mark.behaviour("findings3/NA10"), pytest.mark.behaviour("findings3/NO4")]

REMOTE = """
async def ask(question):
    if question == "price":
        raise ConnectionError("no answer")
    raise ConnectionError("another answer")
"""
SHOP = """
import asyncio
import logging
import places_remote

async def ask(question):
    await places_remote.ask(question)

async def ask_together(question):
    async with asyncio.TaskGroup() as group:
        group.create_task(places_remote.ask(question))

def log_an_error():
    logging.getLogger("places").error("an error")
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The package of a plugin, which calls an installed library."""
    for folder, package, source in (("site-packages", "places_remote", REMOTE), ("own", "places_shop", SHOP)):
        (tmp_path / folder / package).mkdir(parents=True)
        (tmp_path / folder / package / "__init__.py").write_text(source)
        monkeypatch.syspath_prepend(tmp_path / folder)
    yield importlib.import_module("places_shop")
    for package in ("places_remote", "places_shop"):
        del sys.modules[package]


async def error_of(call: object) -> BaseException:
    try:
        await call  # type: ignore[misc]
    except BaseException as error:  # noqa: BLE001 - it is looked at
        return error
    raise AssertionError("it did not raise")


@pytest.mark.parametrize(("question", "line"), [("price", 4), ("stock", 5)])
@pytest.mark.parametrize(("function", "own"), [("ask", 7), ("ask_together", 10)])
def test_the_place_is_the_line_of_the_plugin_also_where_a_task_has_only_frames_of_a_library(
    shop: ModuleType, function: str, own: int, question: str, line: int
) -> None:
    error = decisive(asyncio.run(error_of(getattr(shop, function)(question))))
    place = place_of(error.__traceback__)
    assert place == f"places_shop/__init__.py:{own}, calling places_remote/__init__.py:{line}"
    # Errors of one class and line of the plugin are one kind, whatever line of the library they end in.
    assert cause_of(place) == f"places_shop/__init__.py:{own}"


def test_errors_are_grouped_by_the_line_of_the_plugin(
    shop: ModuleType, bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    from ctrlhost.host.log_handler import _kind_of

    async def reconcile(ctx: object, request: Request) -> None:
        await shop.ask(request.name)

    controller = bench.controller(reconcile)
    controller.queue.add_many([Request("price"), Request("stock")])
    eventually(lambda: bench.results() == {"error": 2} and idle(controller))
    records = [record for record in caplog.records if record.name == "ctrlhost.controller"]
    assert len({record.place for record in records}) == 2  # type: ignore[attr-defined]
    (kind,) = {_kind_of(record) for record in records}
    assert kind is not None
    assert kind.error == "ConnectionError"
    # The innermost line of the plugins' own code, of which this test is one.
    assert kind.place == "places_shop/__init__.py:7"


def test_a_line_of_the_log_and_a_mistake_in_the_syntax_have_package_and_file(
    shop: ModuleType, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    from ctrlhost.host.log_handler import _kind_of

    shop.log_an_error()
    (record,) = [record for record in caplog.records if record.name == "places"]
    kind = _kind_of(record)
    assert kind is not None
    assert (record.levelno, kind.place) == (logging.ERROR, "places_shop/__init__.py:14")
    assert shop.__file__ is not None
    mistake = SyntaxError("invalid syntax", (shop.__file__, 3, 1, "", 3, 1))
    assert _place(mistake) == " (places_shop/__init__.py:3)"
    assert name_of_file(str(tmp_path / "alone.py")) == "alone.py"
    assert name_of_file("<string>") == "<string>"
