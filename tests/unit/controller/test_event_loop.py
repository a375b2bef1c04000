"""The event loop of a plugin."""

from __future__ import annotations

import asyncio

from ctrlhost.controller.event_loop import PluginLoop


def test_the_policy_of_another_plugin_does_not_matter() -> None:
    class Policy(asyncio.DefaultEventLoopPolicy):
        def new_event_loop(self) -> asyncio.AbstractEventLoop:
            raise RuntimeError("on purpose")

    async def answer() -> int:
        return 7

    loop = PluginLoop("good")
    asyncio.set_event_loop_policy(Policy())
    try:
        assert loop.submit(answer()).result(30) == 7
        assert loop.stop(30)
    finally:
        asyncio.set_event_loop_policy(None)
