"""A plugin whose webhook misbehaves in one of many ways, which `EVIL` in the environment names."""

import asyncio
import os
import sys
import threading
import time

import ctrlhost

EVIL = os.environ["EVIL"]
plugin = ctrlhost.Plugin()


class Odd(BaseException):
    def __str__(self):
        raise RuntimeError("no text")


def tell():
    """Print that the plugin misbehaves now."""
    print("evil", flush=True)


def hang(ctx, new, old):
    tell()
    threading.Event().wait()


def compute(ctx, new, old):
    tell()
    while True:
        pass


def fail(ctx, new, old):
    tell()
    raise RuntimeError("on purpose")


def leave(ctx, new, old):
    tell()
    sys.exit(3)


def odd(ctx, new, old):
    tell()
    raise Odd


def answer_with_nonsense(ctx, new, old):
    tell()
    return object()


def deny_with_nonsense(ctx, new, old):
    tell()
    raise ctrlhost.Denied("\ud800" * 1_000_000, field="\x00")


def warn_without_end(ctx, new, old):
    tell()
    for number in range(100_000):
        ctx.warn(f"{number} " * 10)


async def block_the_loop(ctx, new, old):
    tell()
    time.sleep(3600)  # noqa: ASYNC251 - this is the misbehaviour


async def ignore_the_cancellation(ctx, new, old):
    tell()
    while True:
        try:
            await asyncio.sleep(0.05)
        except asyncio.CancelledError:
            continue


def mutate_without_end(ctx, new, old):
    tell()
    count = len(new.setdefault("data", {}))
    return {**new, "data": {**new["data"], f"key-{count}": "x"}}


def mutate_into_a_circle(ctx, new, old):
    tell()
    new["data"] = new
    return new


def mutate_into_something_huge(ctx, new, old):
    tell()
    return {**new, "data": {str(number): "x" * 1_000 for number in range(50_000)}}


VALIDATORS = {
    "webhook_hangs": hang,
    "webhook_computes": compute,
    "webhook_raises": fail,
    "webhook_exits": leave,
    "webhook_raises_odd": odd,
    "webhook_returns_nonsense": answer_with_nonsense,
    "webhook_denies_with_nonsense": deny_with_nonsense,
    "webhook_warns_without_end": warn_without_end,
    "webhook_blocks_the_loop": block_the_loop,
    "webhook_ignores_its_cancellation": ignore_the_cancellation,
}
MUTATORS = {
    "webhook_mutates_without_end": mutate_without_end,
    "webhook_mutates_into_a_circle": mutate_into_a_circle,
    "webhook_mutates_into_something_huge": mutate_into_something_huge,
}
OPTIONS = {"name": "evil", "label_selector": "evil=yes", "failure_policy": "Ignore", "timeout": "1s"}
if EVIL in VALIDATORS:
    plugin.validate("v1/ConfigMap", **OPTIONS)(VALIDATORS[EVIL])
if EVIL in MUTATORS:
    plugin.mutate("v1/ConfigMap", **OPTIONS)(MUTATORS[EVIL])
