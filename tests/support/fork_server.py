"""A process that has imported ctrlhost and forks a copy of itself per command: an import takes longer than most tests.

`start` is `subprocess.Popen` for `python -m ctrlhost …`. Tests of the start of a process itself, of its imports and of
what the interpreter reads from its environment start a new interpreter.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = Path(__file__).parents[2]
#: Bytes of a request at most: the environment and the arguments.
_LARGEST = 1 << 20
_CODE = struct.Struct("i")
#: Beginnings of variables that a program reads when it starts, before Python code could set them.
_AT_START = ("LANG", "LC_", "LD_", "MALLOC_", "PYTHON", "SSL_", "TZ")
_PATH = "PYTHONPATH"


class Forked:
    """A process of the fork server, with what its users need of `subprocess.Popen`."""

    def __init__(self, connection: socket.socket, pid: int, stdout: Any, stderr: Any) -> None:
        self._connection, self._lock = connection, threading.Lock()
        self.pid, self.stdout, self.stderr = pid, stdout, stderr
        self.returncode: int | None = None

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        with self._lock:
            if self.returncode is None:
                self._connection.settimeout(timeout)
                try:
                    (code,) = _CODE.unpack(self._connection.recv(_CODE.size))
                except (BlockingIOError, TimeoutError):
                    assert timeout is not None
                    raise subprocess.TimeoutExpired(f"process {self.pid}", timeout) from None
                # The server removes the zombie, then closes the connection.
                self._connection.settimeout(None)
                self._connection.shutdown(socket.SHUT_WR)
                self._connection.recv(1)
                self._connection.close()
                self.returncode = code
            return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


Process = Forked | subprocess.Popen[str]


def start(
    arguments: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    stdout: int | None = subprocess.PIPE,
    stderr: int | None = subprocess.PIPE,
    process_group: int | None = None,
) -> Process:
    """Start `python -m ctrlhost` with these arguments; the streams are text, or file descriptors."""
    environment = dict(os.environ if env is None else env)
    if _at_start(environment) != _at_start(os.environ):
        return subprocess.Popen(
            [sys.executable, "-m", "ctrlhost", *arguments],
            env=environment,
            stdout=stdout,
            stderr=stderr,
            text=True,
            process_group=process_group,
        )
    ours, theirs = socket.socketpair()
    request = {"arguments": arguments, "environment": environment, "directory": str(Path.cwd()), "group": process_group}
    readers, writers = zip(_stream(stdout), _stream(stderr), strict=True)
    fds = [theirs.fileno(), *writers]
    try:
        message = json.dumps(request).encode()
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
        _server().sendmsg([message], rights)
    finally:
        theirs.close()
        for writer, stream in zip(writers, (stdout, stderr), strict=True):
            if stream == subprocess.PIPE:
                os.close(writer)
    (pid,) = _CODE.unpack(ours.recv(_CODE.size))
    return Forked(ours, pid, *readers)


def run(*arguments: str, env: Mapping[str, str] | None = None, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """Run `python -m ctrlhost` with these arguments and return its output, like `subprocess.run`."""
    process, output = start(arguments, env=env), ["", ""]

    def read(number: int, stream: Any) -> None:
        with stream:
            output[number] = stream.read()

    readers = [
        threading.Thread(target=read, args=(number, stream))
        for number, stream in enumerate((process.stdout, process.stderr))
    ]
    for reader in readers:
        reader.start()
    try:
        code = process.wait(timeout)
    finally:
        process.kill()
        for reader in readers:
            reader.join()
    return subprocess.CompletedProcess(["ctrlhost", *arguments], code, *output)


def _at_start(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that count when an interpreter starts; `PYTHONPATH` does not, since it is set later."""
    return {name: value for name, value in environment.items() if name.startswith(_AT_START) and name != _PATH}


def _stream(chosen: int | None) -> tuple[Any, int]:
    """Return the end to read from, if there is one, and the descriptor to write to."""
    if chosen == subprocess.PIPE:
        reader, writer = os.pipe()
        return os.fdopen(reader, encoding="utf-8"), writer
    assert chosen is not None
    return None, chosen


@functools.cache
def _server() -> socket.socket:
    """Start the server of this process and return its socket; it ends when that is closed."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LARGEST)
    command = [sys.executable, "-m", __name__, str(theirs.fileno())]
    process = subprocess.Popen(command, cwd=ROOT, pass_fds=[theirs.fileno()])
    theirs.close()

    def stop() -> None:
        ours.close()
        process.wait()

    atexit.register(stop)
    return ours


# ---- the server ------------------------------------------------------------------------------------------------------


def _import_all() -> None:
    """Import what a command may import."""
    for name in ("ctrlhost", "ctrlhost_sandbox"):
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            if not module.name.endswith("__main__") and ".testing." not in module.name:
                importlib.import_module(module.name)


class _Server:
    """Forks, and reports the ends of its children. Each is a zombie until its user knows that it has ended."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._selector = selectors.DefaultSelector()
        self._selector.register(control, selectors.EVENT_READ)

    def serve(self) -> None:
        """Return in each child, ready to run; exit in the server when nobody needs it any more."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is not self._control:
                    key.data()
                elif self._fork():
                    return

    def _fork(self) -> bool:
        """Take a request and return whether this is the child."""
        message, fds, _, _ = socket.recv_fds(self._control, _LARGEST, 3)
        if not message:
            sys.exit()
        pid = os.fork()
        if pid == 0:
            self._close()
            self._become(json.loads(message), *fds[1:])
            return True
        connection = socket.socket(fileno=fds[0])
        for fd in fds[1:]:
            os.close(fd)
        connection.sendall(_CODE.pack(pid))
        end = os.pidfd_open(pid)
        self._selector.register(end, selectors.EVENT_READ, functools.partial(self._report, pid, end, connection))
        return False

    def _close(self) -> None:
        """Close what the child has of the server: an object that is freed later would close a descriptor of its own."""
        for key in list(self._selector.get_map().values()):
            parts = key.data.args if key.data is not None else ()
            for part in (key.fileobj, *parts):
                if isinstance(part, socket.socket):
                    part.close()
        self._selector.close()

    def _report(self, pid: int, end: int, connection: socket.socket) -> None:
        self._selector.unregister(end)
        os.close(end)
        result = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert result is not None
        code = result.si_status if result.si_code == os.CLD_EXITED else -result.si_status
        with contextlib.suppress(BrokenPipeError):
            connection.sendall(_CODE.pack(code))
        self._selector.register(connection, selectors.EVENT_READ, functools.partial(self._bury, pid, connection))

    def _bury(self, pid: int, connection: socket.socket) -> None:
        os.waitpid(pid, 0)
        self._selector.unregister(connection)
        connection.close()

    @staticmethod
    def _become(request: dict[str, Any], stdout: int, stderr: int) -> None:
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        os.closerange(3, 1 << 16)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if request["group"] is not None:
            os.setpgid(0, request["group"])
        os.chdir(request["directory"])
        os.environ.clear()
        os.environ.update(request["environment"])
        above = [entry for entry in os.environ.get(_PATH, "").split(os.pathsep) if entry]
        # `-m` begins with the directory.
        sys.path[:] = [request["directory"], *above, *sys.path[1:]]
        sys.argv = ["ctrlhost", *request["arguments"]]
        importlib.invalidate_caches()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _import_all()
    assert len(list(Path("/proc/self/task").iterdir())) == 1, "a thread does not survive a fork"
    gc.collect()
    gc.freeze()
    _Server(socket.socket(fileno=int(sys.argv[1]))).serve()
    runpy.run_module("ctrlhost", run_name="__main__", alter_sys=True)
