"""What all Python threads and asyncio tasks of the process do now, as text: frames, never the values of variables."""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctrlhost.entries.stacks import awaited, place_of_frame
from ctrlhost.request import Request
from ctrlhost.supervisor.threads import processor_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from types import FrameType

    from ctrlhost.supervisor.runtime import PluginRuntime

#: The innermost frames of a thread or a task that are shown.
_FRAMES = 100
#: The frame of a thread that runs an event loop.
_RUNS_LOOP = asyncio.BaseEventLoop.run_forever.__code__


@dataclass(frozen=True, slots=True)
class Work:
    """What a thread or a task does for a plugin."""

    plugin: str
    #: What is called, such as `reconcile` or `map`.
    what: str
    controller: str = ""
    key: Any = ""
    reconcile_id: str = ""

    def __str__(self) -> str:
        """Return the fields that are set."""
        # A plugin's own type of key is not asked: its `__str__` might hang.
        key = str(self.key) if type(self.key) in (str, Request) else f"a {type(self.key).__name__}"
        parts = {"plugin": self.plugin, "controller": self.controller, "key": key, "reconcile": self.reconcile_id}
        return ", ".join([*(f"{name} {value}" for name, value in parts.items() if value), self.what])


def stacks(plugins: Iterable[PluginRuntime]) -> str:
    """Return the stacks of all threads, each with the tasks of its event loop. Callable from any thread."""
    known = list(plugins)
    works = dict(_works(known))
    frames = sys._current_frames()  # noqa: SLF001 - the only way to see the stacks of other threads
    threads = {thread.ident: thread for thread in threading.enumerate()}
    lines: list[str] = []
    for ident in sorted(frames, key=lambda ident: threads[ident].name if ident in threads else ""):
        lines += _thread(threads.get(ident), ident, works, [plugin.name for plugin in known])
        stack = [frame for frame, _ in traceback.walk_stack(frames[ident])][:_FRAMES]
        lines += [f"  {place_of_frame(frame)}" for frame in reversed(stack)]
        for loop in _loops(stack):
            lines += _tasks(loop, works)
        lines.append("")
    return "\n".join(lines)


def _works(plugins: Iterable[PluginRuntime]) -> Iterator[tuple[Any, Work]]:
    """Return what is called now, by the identifier of the thread or the task."""
    for plugin in plugins:
        for entries in plugin.all_entries():
            for entry in entries.running():
                yield entry.task or entry.thread, Work(plugin.name, entry.name, entry.controller, entry.subject)
        for controller in plugin.controllers:
            for run in controller.running_workers():
                key, reconcile_id = run.context.request, run.context.reconcile_id
                work = Work(plugin.name, "reconcile", controller.name, key, reconcile_id)
                yield run.task or run.thread, work


def _thread(
    thread: threading.Thread | None, ident: int, works: Mapping[Any, Work], plugins: Iterable[str]
) -> Iterator[str]:
    name = thread.name if thread is not None else "(not of Python)"
    native = f", native id {thread.native_id}" if thread is not None else ""
    seconds = processor_seconds(thread) if thread is not None else None
    used = f", {seconds:.3f} s of CPU" if seconds is not None else ""
    yield f"thread {name}{native}{used}"
    work = works.get(ident)
    if work is not None:
        yield f"  {work}"
    elif (plugin := name.partition("/")[0].partition(" ")[0]) in plugins:
        # Threads of a plugin have names such as `naming/names worker 0`.
        controller = name.rpartition(" worker ")[0]
        yield f"  plugin {plugin}" + (f", controller {controller}" if controller else "") + ", idle" * bool(controller)


def _loops(stack: Iterable[FrameType]) -> list[asyncio.AbstractEventLoop]:
    return [frame.f_locals["self"] for frame in stack if frame.f_code is _RUNS_LOOP]


def _tasks(loop: asyncio.AbstractEventLoop, works: Mapping[Any, Work]) -> Iterator[str]:
    try:
        tasks = asyncio.all_tasks(loop)
    except RuntimeError:
        yield "  tasks begin so fast that they cannot be listed"
        return
    for task in sorted(tasks, key=lambda task: task.get_name()):
        places = awaited(task)[-_FRAMES:]
        yield f"  task {task.get_name()}" + ("" if places else ", runs now")
        if (work := works.get(task)) is not None:
            yield f"    {work}"
        yield from (f"    awaits {place}" for place in places)
