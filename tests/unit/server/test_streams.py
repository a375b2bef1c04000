from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ctrlhost.server import streams
from ctrlhost.server.aside import TooMany
from ctrlhost.server.page import Address, Page, Row, Section
from ctrlhost.server.streams import Followed, Streams

HOME = Address("/")


def page(rows: dict[str, str], status: int = 200) -> Page:
    return Page("page", [Section("rows", [Row(name, f'<p id="{name}">{text}</p>') for name, text in rows.items()])],
                status=status)  # fmt: skip


def events(blocks: bytes) -> list[dict[str, Any]]:
    """Return the changes in some events."""
    found = blocks.decode().removesuffix("\n\n").split("\n\n")
    assert all(one.startswith("event: rows\ndata: ") for one in found), found
    return [json.loads(one.partition("data: ")[2]) for one in found]


def run(body: Callable[[], Awaitable[None]]) -> None:
    async def timed() -> None:
        async with asyncio.timeout(30):
            await body()

    asyncio.run(timed())


def test_a_viewer_gets_all_rows_and_then_only_what_has_changed() -> None:
    async def body() -> None:
        followed = Followed()
        followed.take(page({"a": "1", "b": "1"}))
        viewer = followed.events()
        assert await anext(viewer) == b"retry: 2000\n\n"
        (first,) = events(await anext(viewer))
        assert (first["section"], first["gone"], first["order"]) == ("rows", [], ["a", "b"])
        assert first["rows"] == [{"id": "a", "html": '<p id="a">1</p>'}, {"id": "b", "html": '<p id="b">1</p>'}]
        followed.take(page({"a": "1", "b": "2"}))
        (second,) = events(await anext(viewer))
        assert second == {"section": "rows", "rows": [{"id": "b", "html": '<p id="b">2</p>'}], "gone": []}
        followed.take(page({"c": "1", "a": "1"}))
        (third,) = events(await anext(viewer))
        assert (third["gone"], third["order"], [row["id"] for row in third["rows"]]) == (["b"], ["c", "a"], ["c"])

    run(body)


def test_a_viewer_that_was_slow_gets_the_newest_state_once() -> None:
    async def body() -> None:
        followed = Followed()
        followed.take(page({"a": "0", "b": "0"}))
        viewer = followed.events()
        await anext(viewer)
        await anext(viewer)
        for number in range(1, 1000):
            followed.take(page({"a": str(number), f"new-{number}": "1"}))
        (change,) = events(await anext(viewer))
        assert change["order"] == ["a", "new-999"]
        assert {row["id"]: row["html"] for row in change["rows"]}["a"] == '<p id="a">999</p>'
        assert len(change["rows"]) == 2
        # What comes and goes does not add up.
        assert len(followed._sections["rows"].gone) <= streams._GONE
        assert len(followed._encoded) == 1

    run(body)


def test_without_changes_a_comment_shows_that_the_connection_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "COMMENT", 0.01)

    async def body() -> None:
        followed = Followed()
        followed.take(page({"a": "1"}))
        viewer = followed.events()
        await anext(viewer)
        await anext(viewer)
        followed.take(page({"a": "1"}))
        assert await anext(viewer) == b":\n\n"
        assert await anext(viewer) == b":\n\n"

    run(body)
    assert streams.PERIOD == 1.0


@pytest.mark.behaviour("operations/OP67")
def test_all_viewers_of_a_page_share_its_renderings_and_nobody_means_none() -> None:
    rendered: list[Address] = []

    async def render(address: Address) -> Page:
        rendered.append(address)
        return page({"a": str(len(rendered))})

    async def body() -> None:
        shared = Streams(render, period=0.001)

        async def view(count: int) -> list[bytes]:
            async with shared.follow(HOME) as followed:
                viewer = followed.events()
                return [await anext(viewer) for _ in range(count)]

        found = await asyncio.gather(*(view(20) for _ in range(32)))
        # They had the same renderings: there were not many more than each of them has seen.
        assert all(len(one) == 20 for one in found)
        assert len(rendered) < 200
        seen = len(rendered)
        assert shared._followed == {}
        await asyncio.sleep(0.05)
        assert len(rendered) == seen

    run(body)
    assert set(rendered) == {HOME}


def test_a_rendering_that_fails_is_logged_once_and_repeated(caplog: pytest.LogCaptureFixture) -> None:
    failures = [TooMany(), TimeoutError(), KeyError("a"), KeyError("b")]

    async def render(_address: Address) -> Page:
        if failures:
            raise failures.pop(0)
        return page({"a": "1"})

    async def body() -> None:
        async with Streams(render, period=0.001).follow(HOME) as followed:
            await followed.first()
            assert followed.status == 200

    run(body)
    assert [record.message for record in caplog.records] == ["the page / cannot be rendered: 'a'"]
