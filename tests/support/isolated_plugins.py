"""Sources of plugins that run in processes of their own, and what the tests ask about these processes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

#: Reconciles ConfigMaps labelled mine=1. Those that begin with "writer" write Secrets until `ctrlhost_stopping`, those
#: that begin with "slow" wait for it, those that begin with "hung" never return; "silent" keeps the
#: interpreter lock until the host has ended, and longer, before it writes.
BAD = """
    import ctypes, os, select, threading
    import ctrlhost

    stopping = threading.Event()
    never = threading.Event()

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        global context
        context = plugin
        plugin.add_controller("c", reconcile, ctrlhost.For("v1", "ConfigMap", label_selector="mine=1"), workers=4)
        plugin.log.info("set up in %d, group %d", os.getpid(), os.getpgid(0))

    @ctrlhost.hookimpl
    def ctrlhost_elected(plugin):
        plugin.log.info("elected in term %s", plugin.term)

    @ctrlhost.hookimpl
    def ctrlhost_stopping(plugin):
        plugin.log.info("the hook was called")
        stopping.set()

    def write(ctx, name, **data):
        metadata = {"name": name, "namespace": "default"}
        ctx.client.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data})

    def reconcile(ctx, request):
        ctx.log.info("begun: %s in %d", request.name, os.getpid())
        if request.name.startswith("slow"):
            stopping.wait()
            write(ctx, request.name)
            ctx.log.info("finished: %s", request.name)
        elif request.name.startswith("writer"):
            count = 0
            while not stopping.is_set():
                count += 1
                try:
                    write(ctx, request.name, count=str(count), term=str(context.term))
                except ctrlhost.NotLeading as error:
                    ctx.log.info("refused: %s", error.reason)
                    if context.term is not None:
                        raise
                never.wait(0.02)
        elif request.name.startswith("hung"):
            never.wait()
        elif request.name.startswith("silent"):
            libc = ctypes.PyDLL(None)
            class PollFd(ctypes.Structure):
                _fields_ = [("fd", ctypes.c_int), ("events", ctypes.c_short), ("revents", ctypes.c_short)]
            host = PollFd(os.pidfd_open(os.getppid()), select.POLLIN, 0)
            ctx.log.info("silent from now on")
            never.wait(0.5)
            libc.poll(ctypes.byref(host), 1, -1)
            libc.sleep(600)
            write(ctx, "late")
"""


def running(pid: int) -> bool:
    """Return whether a process runs; one that has ended and was not waited for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def child_of(line: dict[str, Any]) -> int:
    """Return the process that wrote a line of the log."""
    pid: int = line["pid"]
    return pid


@contextmanager
def short_directory() -> Iterator[Path]:
    """Make a temporary directory whose path leaves room for sockets."""
    with tempfile.TemporaryDirectory(prefix="ch-") as folder:
        yield Path(folder)
