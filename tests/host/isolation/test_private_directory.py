"""The private directory of a host with an isolated plugin."""

from __future__ import annotations

import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.plugin_sources import GREETER

behaviour = pytest.mark.behaviour
ARGUMENTS = ("--sandbox", "--isolate=greeter")


@pytest.fixture
def runtime() -> Iterator[Path]:
    """An XDG_RUNTIME_DIR; paths of pytest can be longer than the address of a socket."""
    with tempfile.TemporaryDirectory(prefix="run-") as folder:
        yield Path(folder)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@behaviour("supervision/PI13")
def test_a_host_with_an_isolated_plugin_refuses_an_unsafe_directory(ctrlhost, distributions, runtime: Path) -> None:
    distributions.add("greeter", GREETER)
    (runtime / "ctrlhost").symlink_to(runtime)
    result = ctrlhost("run", "--plugins=greeter", *ARGUMENTS, XDG_RUNTIME_DIR=str(runtime))
    assert result.returncode == 2, result.stderr
    assert result.stderr.splitlines() == [
        f"error: {runtime}/ctrlhost is a symbolic link",
        "",
        "hint: remove it, so that it can be made with the mode 0700",
    ]


@behaviour("supervision/PI12")
def test_the_directory_of_a_killed_host_does_not_disturb_the_next(distributions, start_host, runtime: Path) -> None:
    distributions.add("greeter", GREETER)
    first = start_host(*ARGUMENTS, plugins="greeter", XDG_RUNTIME_DIR=str(runtime))
    first.line("plugin greeter running")
    left = runtime / "ctrlhost" / str(first.pid)
    for directory in (left.parent, left, left / "greeter"):
        assert mode(directory) == 0o700
    sockets = sorted((left / "greeter").iterdir())
    assert [socket.name for socket in sockets] == ["feed.sock", "pages.sock"]
    assert [(stat.S_ISSOCK(socket.lstat().st_mode), mode(socket)) for socket in sockets] == [(True, 0o600)] * 2
    first.process.kill()
    first.process.wait()
    assert left.exists()

    second = start_host(*ARGUMENTS, plugins="greeter", XDG_RUNTIME_DIR=str(runtime))
    second.line("plugin greeter running")
    assert sorted(path.name for path in left.parent.iterdir()) == [str(second.pid), f"{second.pid}.sock"]
    assert second.stop() == 0
    assert list(runtime.iterdir()) == []
