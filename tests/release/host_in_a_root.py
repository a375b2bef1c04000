"""Starts a sandbox and a host beside it: `python -m tests.release.host_in_a_root SHARED COMMAND…`.

Prints as JSON what the host answered when all of its plugins ran, and its exit code.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

from ctrlhost_sandbox import Sandbox

from tests.support.waiting import eventually

_URL = "http://127.0.0.1:8484"


def _get(path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(_URL + path, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError as error:
        return 0, str(error)


def main(shared: Path, command: list[str]) -> None:
    kubeconfig = shared / "kubeconfig"
    with Sandbox(kubeconfig=kubeconfig):
        kubeconfig.chmod(0o644)
        with subprocess.Popen(command, stdout=sys.stderr, start_new_session=True) as host:
            try:
                eventually(lambda: _get("/readyz?verbose")[1].count(" ok: running") == 4, 240, "all plugins run")
                verbose, ready, live = _get("/readyz?verbose")[1], _get("/readyz")[0], _get("/livez")[0]
                ((pid, users),) = _hosts()
                # Of the host itself: strace may be in between.
                signal.pidfd_send_signal(_pidfd(pid), signal.SIGTERM)
                code = host.wait(60)
            finally:
                host.kill()
    print(json.dumps({"ready": ready, "live": live, "verbose": verbose, "users": users, "code": code}))


def _pidfd(pid: int) -> int:
    import os

    return os.pidfd_open(pid)


def _hosts() -> list[tuple[int, list[str]]]:
    """Return the processes that run ctrlhost, with their real, effective, saved and file system users."""
    processes = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (folder / "cmdline").read_text().split("\0")
            status = (folder / "status").read_text()
        except OSError:
            continue
        if "/opt/ctrlhost/bin/ctrlhost" in arguments[1:2]:
            users = next(line.split()[1:] for line in status.splitlines() if line.startswith("Uid:"))
            processes.append((int(folder.name), users))
    return processes


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
