"""A profile of a running host: the processor time of each stack of Python, sampled in each of its processes."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePath
from typing import TYPE_CHECKING

import msgspec

from ctrlhost.host.admin_requests import ProfileAnswer, ProfileRequest
from ctrlhost.status.model import Problem
from ctrlhost.status.problem import StatusProblem, unknown
from ctrlhost.supervisor.threads import processor_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType

    from ctrlhost.host.state import HostState
    from ctrlhost.supervisor.runtime import PluginRuntime

    _Stack = tuple[str, tuple[CodeType, ...]]
    #: Asks the process of an isolated plugin; None without one.
    Ask = Callable[[PluginRuntime, bytes], tuple[int, bytes] | None]

#: Seconds between two samples.
PERIOD = 0.02
#: The innermost frames of a stack that count.
_FRAMES = 100
#: The largest allocations that are named.
_ALLOCATIONS = 40
#: The frame of what no living thread of Python has used.
_OTHERS = "threads that have ended, or are not of Python"
#: Held while the heap is measured, which one request at a time can do.
_heap = threading.Lock()


def profile(host: HostState, request: ProfileRequest, ask: Ask) -> ProfileAnswer:
    """Sample this process, and those of isolated plugins, until the time is over or the host stops.

    StatusProblem for an unknown plugin, a process that does not answer, and if another request measures the heap.
    """
    plugins = [plugin for plugin in host.plugins if request.plugin in (None, plugin.name)]
    if not plugins:
        raise unknown("plugin", str(request.plugin), [plugin.name for plugin in host.plugins])
    apart = [plugin for plugin in plugins if plugin.isolated]
    child = host.metrics.child if host.metrics is not None else ""
    with ThreadPoolExecutor(max(1, len(apart)), "profile") as pool:
        own = msgspec.structs.replace(request, plugin=None)
        answers = [(plugin.name, pool.submit(ask, plugin, msgspec.json.encode(own))) for plugin in apart]
        parts = []
        if len(apart) < len(plugins) or request.plugin is None:
            # The whole process is that of the plugin.
            prefix = "" if child or request.plugin is None else f"{request.plugin}/"
            parts.append((child or "host", _profile(host.stopping, request, prefix)))
        parts += [(name, _read(name, answer.result())) for name, answer in answers]
    if child:
        return parts[0][1]
    return ProfileAnswer(
        sum(part.samples for _, part in parts),
        {f"{process};{stack}": spent for process, part in parts for stack, spent in part.stacks.items()},
        [f"{process}: {line}" for process, part in parts for line in part.heap],
    )


def _read(plugin: str, answer: tuple[int, bytes] | None) -> ProfileAnswer:
    if answer is None:
        raise StatusProblem(409, f"plugin `{plugin}` has no process now", None)
    if answer[0] != 200:
        problem = msgspec.json.decode(answer[1], type=Problem)
        raise StatusProblem(answer[0], problem.error, problem.hint)
    return msgspec.json.decode(answer[1], type=ProfileAnswer)


def _profile(stopping: threading.Event, request: ProfileRequest, prefix: str) -> ProfileAnswer:
    if not request.heap:
        return _sampled(stopping, request.seconds, prefix)
    import tracemalloc

    if not _heap.acquire(blocking=False):
        raise StatusProblem(409, "another request measures the heap", "try again when it has ended")
    traced = tracemalloc.is_tracing()
    try:
        if not traced:
            tracemalloc.start()
        answer = _sampled(stopping, request.seconds, prefix)
        largest = tracemalloc.take_snapshot().statistics("lineno")[:_ALLOCATIONS]
    finally:
        if not traced:
            tracemalloc.stop()
        _heap.release()
    return msgspec.structs.replace(answer, heap=[str(each) for each in largest])


def _sampled(stopping: threading.Event, seconds: float, prefix: str) -> ProfileAnswer:
    samples = Samples(prefix)
    end = time.monotonic() + seconds
    while not stopping.wait(PERIOD) and time.monotonic() < end:
        samples.take()
    return ProfileAnswer(samples.count, samples.stacks())


class Samples:
    """The microseconds of processor time by stack. Used by one thread, whose own time does not count.

    A thread that has used the processor since the last sample is charged to the stack that it has now.
    """

    def __init__(self, prefix: str = "") -> None:
        """Begin now, with the threads whose names begin with `prefix`."""
        self.count = 0
        self._prefix = prefix
        #: The seconds by thread and functions, the innermost first: only what is returned becomes text.
        self._spent: defaultdict[_Stack, float] = defaultdict(float)
        self._own = threading.current_thread()
        self._began = time.process_time()
        #: The seconds that threads had used at the last sample, by their numbers, and the sum of what they used since.
        self._last = {thread.native_id: seconds for thread, seconds in _threads()}
        self._python = 0.0

    def take(self) -> None:
        """Take a sample."""
        self.count += 1
        frames = sys._current_frames()  # noqa: SLF001 - the only way to see the stacks of other threads
        for thread, seconds in _threads():
            # The kernel gives the number of an ended thread to another one.
            spent = max(0.0, seconds - self._last.get(thread.native_id, 0.0))
            self._last[thread.native_id] = seconds
            self._python += spent
            frame = frames.get(thread.ident or 0)
            if spent and frame is not None and thread is not self._own and thread.name.startswith(self._prefix):
                self._spent[thread.name, _functions(frame)] += spent

    def stacks(self) -> dict[str, int]:
        """Return the microseconds by folded stack."""
        folded: Counter[str] = Counter()
        for (thread, functions), seconds in self._spent.items():
            folded[_text(thread, functions)] += round(seconds * 1e6)
        if not self._prefix:
            folded[_OTHERS] = round((time.process_time() - self._began - self._python) * 1e6)
        return {stack: spent for stack, spent in folded.items() if spent > 0}


def _threads() -> Iterator[tuple[threading.Thread, float]]:
    """Yield the threads of Python, each with the seconds of processor time that it has used."""
    for thread in threading.enumerate():
        if (seconds := processor_seconds(thread)) is not None:
            yield thread, seconds


def _functions(frame: FrameType) -> tuple[CodeType, ...]:
    functions: list[CodeType] = []
    current: FrameType | None = frame
    while current is not None and len(functions) < _FRAMES:
        functions.append(current.f_code)
        current = current.f_back
    return tuple(functions)


def _text(thread: str, functions: tuple[CodeType, ...]) -> str:
    """Return a stack as one line, outermost first, as flame graphs read it."""
    names = [
        f"{code.co_qualname} ({'/'.join(PurePath(code.co_filename).parts[-2:])}:{code.co_firstlineno})"
        for code in reversed(functions)
    ]
    return ";".join(name.replace(";", ",") for name in (thread, *names))
