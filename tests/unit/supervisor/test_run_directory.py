"""The private directory: who may use it, and what is left in it after a crash."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ctrlhost import Client, ConfigError
from ctrlhost.informers.namespace_informer import Scope
from ctrlhost.supervisor import run_directory
from ctrlhost.supervisor.run_directory import RunDirectory
from tests.support.feeds import PODS, FeedRig, SocketApi
from tests.support.other_user import NOBODY, needs_root, run_as_nobody
from tests.support.stub_api_server import Frames, Json, StubApiServer, pod, pod_list, serve

behaviour = pytest.mark.behaviour
Feeds = Callable[..., FeedRig]

HOLD = """
import sys
from ctrlhost.supervisor.run_directory import RunDirectory
directory = RunDirectory()
(directory.for_plugin("bad") / "pages.sock").touch()
print(directory.path, flush=True)
sys.stdin.read()
directory.close()
"""

COME_AND_GO = """
import os
from ctrlhost.supervisor.run_directory import RunDirectory
for _ in range(500):
    directory = RunDirectory()
    assert str(directory.path) == f"{os.environ['XDG_RUNTIME_DIR']}/ctrlhost/{os.getpid()}", directory.path
    (directory.for_plugin("bad") / "pages.sock").touch(exist_ok=False)
    directory.close()
"""

CONNECT = """
client = socket.socket(socket.AF_UNIX)
client.settimeout(30)
try:
    client.connect(sys.argv[1])
    client.sendall(b"GET /api/v1/pods HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n")
    print(client.recv(1000))
except OSError as error:
    print(type(error).__name__)
"""


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty XDG_RUNTIME_DIR; paths of pytest can be longer than the address of a socket."""
    with tempfile.TemporaryDirectory(prefix="run-") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield Path(folder)


@pytest.fixture
def system_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The directory of the system: one whose parent does not exist yet."""
    directory = tmp_path / "system" / "ctrlhost"
    monkeypatch.setattr(run_directory, "SYSTEM_DIRECTORY", directory)
    return directory


@contextmanager
def holding_process() -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Another process with a directory."""
    command = [sys.executable, "-c", HOLD]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield process, Path(process.stdout.readline().strip())
        finally:
            process.kill()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def refusal() -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        RunDirectory()
    return caught.value


@needs_root
@behaviour("supervision/PI12")
@pytest.mark.parametrize("widened", [False, True])
def test_only_this_user_reaches_the_sockets(
    runtime: Path, server: StubApiServer, client: Client, feed_of: Feeds, widened: bool
) -> None:
    serve(server, PODS, [Json(pod_list(10, pod("a", 1)))], [Frames()])
    with holding_process() as (dead, left):
        dead.kill()
        dead.wait()
        assert (left / "bad" / "pages.sock").exists()
    run = RunDirectory()
    assert not left.exists()
    path = run.for_plugin("bad") / "feed.sock"
    feed = feed_of(client).server
    reader = feed.open("bad", path)
    reader.declare(Scope("v1", "Pod"))
    assert path.parent.parent == run.path == runtime / "ctrlhost" / str(os.getpid())
    for directory in (path.parent, run.path, run.path.parent):
        assert mode(directory) == 0o700
        assert directory.stat().st_uid == os.geteuid()
    assert mode(path) == 0o600

    if widened:
        for directory in (runtime, run.path.parent, run.path, path.parent):
            directory.chmod(0o755)
        path.chmod(0o666)
    answer = run_as_nobody(CONNECT, str(path), imports="import socket, sys")
    assert answer in ({"b''", "ConnectionResetError", "BrokenPipeError"} if widened else {"PermissionError"})
    with SocketApi(path) as api:
        assert [item["metadata"]["name"] for item in api.listed(PODS)["items"]] == ["a"]

    reader.close()
    assert not path.exists()
    run.close()
    assert list(runtime.iterdir()) == []
    run.close()


def test_the_directory_of_a_living_host_stays(runtime: Path) -> None:
    with holding_process() as (process, path):
        first, second = RunDirectory(), RunDirectory()
        assert path == runtime / "ctrlhost" / str(process.pid)
        assert {first.path.name, second.path.name} == {str(os.getpid()), f"{os.getpid()}-1"}
        assert (path / "bad" / "pages.sock").exists()
        first.close()
        second.close()
        assert [entry.name for entry in path.parent.iterdir()] == [str(process.pid)]
        assert process.stdin
        process.stdin.close()
        assert process.wait(timeout=30) == 0
    assert list(runtime.iterdir()) == []


def test_a_stopped_host_is_alive(runtime: Path) -> None:
    with holding_process() as (process, path):
        process.send_signal(signal.SIGSTOP)
        RunDirectory().close()
        assert (path / "bad" / "pages.sock").exists()
        process.send_signal(signal.SIGCONT)
    again = RunDirectory()
    assert not path.exists()
    again.close()


def test_a_socket_that_a_dead_host_left_is_removed(runtime: Path) -> None:
    private = runtime / "ctrlhost"
    private.mkdir(mode=0o700)
    left = private / f"{os.getpid()}.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(left))
    directory = RunDirectory()
    assert directory.socket == left
    assert not left.exists()
    directory.close()


def test_only_directories_of_processes_are_removed(runtime: Path) -> None:
    private = runtime / "ctrlhost"
    private.mkdir(mode=0o700)
    (private / "1.sock").touch()
    (private / "notes").mkdir()
    (private / "12-1" / "deep").mkdir(parents=True)
    target = runtime / "target"
    target.mkdir()
    (private / "13").symlink_to(target)
    run = RunDirectory()
    assert sorted(path.name for path in private.iterdir()) == sorted(["1.sock", "13", "notes", run.path.name])
    run.close()
    assert target.exists()
    assert sorted(path.name for path in private.iterdir()) == ["1.sock", "13", "notes"]


def test_each_plugin_has_one_directory_below(runtime: Path) -> None:
    run = RunDirectory()
    assert run.for_plugin("bad") == run.for_plugin("bad") == run.path / "bad"
    (run.path / "bad").chmod(0o750)
    assert mode(run.for_plugin("bad")) == 0o700
    assert run.for_plugin("../../up").parent == run.path
    run.close()
    with pytest.raises(ConfigError, match=r"cannot make the private directory .*bad: No such file or directory"):
        run.for_plugin("bad")


def test_an_own_directory_that_others_could_only_read_is_closed_to_them(runtime: Path) -> None:
    (runtime / "ctrlhost").mkdir()
    (runtime / "ctrlhost").chmod(0o755)
    run = RunDirectory()
    assert mode(runtime / "ctrlhost") == 0o700
    run.close()


@behaviour("supervision/PI13")
@pytest.mark.parametrize(
    ("make", "wrong"),
    [
        (lambda path: path.symlink_to(path.parent), "is a symbolic link"),
        (lambda path: path.touch(), "is not a directory"),
        (lambda path: (path.mkdir(), path.chmod(0o777)), "is writable by other users: its mode is 0777"),
        (lambda path: (path.mkdir(), path.chmod(0o770)), "is writable by other users: its mode is 0770"),
        pytest.param(
            lambda path: (path.mkdir(), os.chown(path, NOBODY, NOBODY)),
            "belongs to the user 65534, not to 0",
            marks=needs_root,
        ),
    ],
)
def test_an_unsafe_private_directory_is_refused(runtime: Path, make: Callable[[Path], object], wrong: str) -> None:
    private = runtime / "ctrlhost"
    make(private)
    before = private.lstat()
    error = refusal()
    assert error.message == f"{private} {wrong}"
    assert error.hint == "remove it, so that it can be made with the mode 0700"
    assert private.lstat() == before


@behaviour("supervision/PI13")
@pytest.mark.parametrize(("length", "refused"), [(100, False), (101, True), (120, True)])
def test_a_path_that_is_too_long_for_a_socket_is_refused(
    runtime: Path, monkeypatch: pytest.MonkeyPatch, length: int, refused: bool
) -> None:
    deep = runtime / ("x" * (length - len(f"{runtime}//ctrlhost/{os.getpid()}/bad/pages.sock")))
    deep.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(deep))
    run = RunDirectory()
    path = run.path / "bad" / "pages.sock"
    assert len(str(path)) == length
    if refused:
        with pytest.raises(ConfigError) as caught:
            run.for_plugin("bad")
        assert caught.value.message == f"the path of the socket {path} is longer than 100 bytes"
        assert caught.value.hint == "set XDG_RUNTIME_DIR to a directory with a shorter path"
    else:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(run.for_plugin("bad") / "pages.sock"))
    run.close()


@behaviour("supervision/PI13")
def test_each_directory_that_cannot_be_made_is_named(
    monkeypatch: pytest.MonkeyPatch, system_directory: Path, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "gone"))
    monkeypatch.setenv("TMPDIR", "/proc/self")
    error = refusal()
    assert error.message == (
        f"no private directory can be made: {tmp_path}/gone/ctrlhost: No such file or directory; "
        f"{system_directory}: No such file or directory; /proc/self/ctrlhost-{os.geteuid()}: No such file or directory"
    )
    assert error.hint
    assert error.hint.startswith("set XDG_RUNTIME_DIR to a directory that this user can write to")


@pytest.mark.parametrize(
    ("runtime_dir", "said"), [("", "$XDG_RUNTIME_DIR is not set"), ("run", "$XDG_RUNTIME_DIR is no absolute path")]
)
def test_without_a_runtime_directory_the_next_ones_are_used(
    monkeypatch: pytest.MonkeyPatch, system_directory: Path, tmp_path: Path, runtime_dir: str, said: str
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", runtime_dir)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none"))
    assert refusal().message.startswith(f"no private directory can be made: {said}; {system_directory}: ")

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    run = RunDirectory()
    assert run.path.parent == tmp_path / f"ctrlhost-{os.geteuid()}"
    run.close()

    system_directory.parent.mkdir()
    run = RunDirectory()
    assert run.path.parent == system_directory
    run.close()

    # Another user's host may have it.
    system_directory.symlink_to(tmp_path)
    run = RunDirectory()
    assert run.path.parent == tmp_path / f"ctrlhost-{os.geteuid()}"
    run.close()


@needs_root
@behaviour("supervision/PI13")
def test_a_user_who_can_write_nowhere_is_told_all_places(runtime: Path) -> None:
    runtime.chmod(0o755)
    code = "try:\n    RunDirectory()\nexcept ConfigError as error:\n    print(error)"
    imports = "from ctrlhost import ConfigError; from ctrlhost.supervisor.run_directory import RunDirectory"
    system = run_directory.SYSTEM_DIRECTORY
    said = run_as_nobody(code, imports=imports, TMPDIR=str(runtime))
    assert said.startswith(f"no private directory can be made: {runtime}/ctrlhost: Permission denied; {system}")
    assert said.endswith(f"; {runtime}/ctrlhost-{NOBODY}: Permission denied")


def test_hosts_that_start_and_end_at_once_do_not_disturb_each_other(runtime: Path) -> None:
    command = [sys.executable, "-c", COME_AND_GO]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    assert [process.communicate(timeout=60)[1] for process in processes] == [""] * 4
    RunDirectory().close()
    assert list(runtime.iterdir()) == []
