from __future__ import annotations

import asyncio
import threading

import pytest

from ctrlhost.server.aside import Aside, TooMany


def test_calls_that_hang_take_a_limited_number_of_threads_until_they_end() -> None:
    release, threads = threading.Event(), Aside[bool]("aside under test", 2)

    async def run() -> None:
        for _ in range(2):
            with pytest.raises(TimeoutError):
                await threads.call(release.wait, 0.01)
        with pytest.raises(TooMany):
            await threads.call(release.wait, 0.01)
        release.set()
        while True:
            try:
                assert await threads.call(release.wait, 30)
            except TooMany:
                await asyncio.sleep(0.01)
            else:
                return

    asyncio.run(run())


def test_a_call_that_waits_gets_the_next_free_thread_within_its_time() -> None:
    release, threads = threading.Event(), Aside[bool]("aside under test", 2)

    async def run() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.gather(*(threads.call(release.wait, 0.01) for _ in range(2)))
        with pytest.raises(TimeoutError):
            await threads.call(release.wait, 0.01, waits=True)
        waiting = [asyncio.create_task(threads.call(release.wait, 30, waits=True)) for _ in range(20)]
        await asyncio.sleep(0)
        release.set()
        assert await asyncio.gather(*waiting) == [True] * 20

    asyncio.run(run())


def test_an_error_is_raised_where_the_answer_is_awaited() -> None:
    def fail() -> None:
        raise KeyError("no")

    with pytest.raises(KeyError):
        asyncio.run(Aside[None]("aside under test", 1).call(fail, 30))
