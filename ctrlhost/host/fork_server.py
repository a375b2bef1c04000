"""The process that forks those of isolated plugins, `python -P -m ctrlhost.host.fork_server FD`, which a host starts.

It has one thread and imports no plugin. It ends with its host.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ctrlhost.supervisor.fork_server import ADOPTABLE, READY

#: What each process of a plugin imports, now or when it serves; not what imports a plugin.
_MODULES = (
    "ctrlhost.controller.controller",
    "ctrlhost.controller.sources",
    "ctrlhost.events.recorder",
    "ctrlhost.host.child",
    "ctrlhost.host.fed_factory",
    "ctrlhost.host.gil_watch",
    "ctrlhost.host.logs",
    "ctrlhost.host.queue_metrics",
    "ctrlhost.host.reports",
    "ctrlhost.models.model",
    "ctrlhost.own_writes.client",
    "ctrlhost.own_writes.self_events",
    "ctrlhost.plugin.context",
    "ctrlhost.server.app",
    "ctrlhost.server.counts",
    "ctrlhost.server.exchange",
    "ctrlhost.server.lifespan",
    "ctrlhost.server.listener",
    "ctrlhost.server.proxy",
    "ctrlhost.workqueue",
    "packaging.requirements",
    "yaml",
)
#: The largest name of a plugin, in bytes.
_NAME = 1024
#: The fields of `/proc/PID/stat` with the addresses of the command, counted from the one after the name.
_COMMAND = slice(45, 47)


class _Request(NamedTuple):
    """A process that is asked for: its plugin, its control socket and its output."""

    plugin: str
    control: int
    stdout: int
    stderr: int


def _serve(host: socket.socket) -> _Request | None:
    """Fork for each request of the host, and return it in the new process; None here, when the host is gone."""
    host.send(READY)
    while True:
        name, descriptors, _, _ = socket.recv_fds(host, _NAME, 3)
        if not name:
            return None
        if _fork(host):
            return _Request(name.decode(), *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _fork(host: socket.socket) -> bool:
    """Fork twice; return whether this is the new process, whose parent ends, so that the host becomes it."""
    between = os.fork()
    if between:
        os.waitpid(between, 0)
        host.send(ADOPTABLE)
        return False
    try:
        pid = os.fork()
        if not pid:
            return True
        host.send(b"%d" % pid)
    except OSError as error:
        # The host spawns the process instead.
        print(f"ctrlhost: cannot fork: {error}", file=sys.stderr)
    os._exit(0)


def _run(request: _Request) -> int:
    """Run the plugin as `python -P -m ctrlhost.host.child FD PLUGIN` does; return the exit code."""
    from ctrlhost.host import child

    os.setpgid(0, 0)
    for descriptor, standard in ((request.stdout, 1), (request.stderr, 2)):
        os.dup2(descriptor, standard)
        os.close(descriptor)
    arguments = [str(request.control), request.plugin]
    _show_command([sys.executable, "-P", "-m", child.__name__, *arguments])
    sys.argv = [child.__file__, *arguments]
    # What was installed since.
    importlib.invalidate_caches()
    gc.enable()
    return child.main()


def _show_command(words: list[str]) -> None:
    """Show these words for this process in `ps`."""
    # Not allowed everywhere; it then shows those of the server.
    with suppress(OSError):
        fields = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        start, end = map(int, fields[_COMMAND])
        room = end - start
        with Path("/proc/self/mem").open("r+b", buffering=0) as memory:
            memory.seek(start)
            memory.write(b"\0".join(word.encode() for word in words)[: room - 1].ljust(room, b"\0"))


def main() -> int:
    """Fork processes until the host is gone; return the exit code, in each process its own."""
    with socket.socket(fileno=int(sys.argv[1])) as host:
        host.set_inheritable(False)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        # Objects that the collector does not look at stay in pages that are shared.
        gc.disable()
        for name in _MODULES:
            importlib.import_module(name)
        gc.freeze()
        request = _serve(host)
    return _run(request) if request is not None else 0


if __name__ == "__main__":
    from ctrlhost.host.gil_watch import leave

    leave(main())
