"""The private directory of a host, which has its local socket and those of its isolated plugins."""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import re
import shutil
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from ctrlhost.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SYSTEM_DIRECTORY = Path("/run/ctrlhost")
LONGEST_PATH = 100
"""Bytes; the kernel allows a few more for the address of a socket."""

_LONGEST_NAME = "pages.sock"

_OF_A_PROCESS = re.compile(r"\d+(-\d+)?")
_OF_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class NoPrivateDirectory(ConfigError):
    """No private directory can be made, or its path is too long; one that is unsafe is another ConfigError."""


def private_directories(environ: Mapping[str, str]) -> list[Path]:
    """Return the places for a private directory, which need not exist, in the order of preference."""
    runtime = Path(environ.get("XDG_RUNTIME_DIR", ""))
    # The last resort of tempfile.gettempdir, the current directory, is no place for sockets.
    temporary = Path(environ.get("TMPDIR") or "/tmp").absolute()  # noqa: S108 - make_private checks it
    candidates = [SYSTEM_DIRECTORY, temporary / f"ctrlhost-{os.geteuid()}"]
    # The XDG Base Directory Specification says to ignore a relative path.
    return [runtime / "ctrlhost", *candidates] if runtime.is_absolute() else candidates


def used_directories(environ: Mapping[str, str]) -> list[Path]:
    """Return the private directories in which hosts with these variables have their sockets."""
    directories = private_directories(environ)
    if len(directories) > 2 and directories[0].parent.is_dir():
        # Hosts use another one only if this cannot be made.
        return directories[:1]
    return directories


def local_sockets(environ: Mapping[str, str]) -> list[Path]:
    """Return the local sockets of this user's hosts with these variables, also those that killed hosts have left."""
    sockets = []
    for private in used_directories(environ):
        with suppress(OSError):
            if not _unsafe(private.lstat()):
                sockets += sorted(path for path in private.glob("*.sock") if path.is_socket())
    return list(dict.fromkeys(sockets))


class RunDirectory:
    """A directory `PID` of this process in the private directory of the user, and a socket beside it, until `close`.

    The private directory is `$XDG_RUNTIME_DIR/ctrlhost`, else `/run/ctrlhost`, else `ctrlhost-UID` in the folder for
    temporary files: the first that can be made. All methods may be called from any thread.

    A lock on `PID` shows other hosts that the process lives, also one in another PID namespace that shares the
    private directory; there, and for a second host in this process, the name is `PID-1` and so on.
    """

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        """Make the directory, and remove those of dead processes.

        NoPrivateDirectory if none can be made; ConfigError if it is one that others could write to.
        """
        self.path, lock = _first_usable(os.environ if environ is None else environ)
        self._lock: int | None = lock

    @property
    def socket(self) -> Path:
        """The path of the host's local socket, `PID.sock`; NoPrivateDirectory if it is too long for a socket."""
        path = _socket_of(self.path)
        check_path(path)
        return path

    def for_plugin(self, name: str) -> Path:
        """Return the plugin's directory in this one, which is made if needed.

        ConfigError if it cannot be made, or its path is too long for sockets.
        """
        directory = self.path / quote(name, safe="")
        check_path(directory / _LONGEST_NAME)
        try:
            make_private(directory)
        except OSError as error:
            raise ConfigError(f"cannot make the private directory {directory}: {_reason(error)}") from error
        return directory

    def close(self) -> None:
        """Remove the directory with all that is in it, and the private directory if it is empty. May be repeated."""
        lock, self._lock = self._lock, None
        if lock is None:
            return
        _socket_of(self.path).unlink(missing_ok=True)
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(lock)
        with suppress(OSError), _locked(self.path.parent, wait=False):
            self.path.parent.rmdir()


def check_path(path: Path) -> None:
    """Raise NoPrivateDirectory for a path that is too long for a socket."""
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise NoPrivateDirectory(
            f"the path of the socket {path} is longer than {LONGEST_PATH} bytes",
            hint="set XDG_RUNTIME_DIR to a directory with a shorter path",
        )


def make_private(directory: Path) -> None:
    """Make a directory that only this user can access, or close an own one to others.

    OSError if it cannot be made; ConfigError for anything else at this path, such as a symbolic link, a directory of
    another user, or one that others could write to until now.
    """
    status = None
    while status is None:
        with suppress(FileExistsError):
            directory.mkdir(mode=0o700)
        # Another host may remove it at this moment, at its end.
        with suppress(FileNotFoundError):
            status = directory.lstat()
    if wrong := _unsafe(status):
        raise ConfigError(f"{directory} {wrong}", hint="remove it, so that it can be made with the mode 0700")
    if status.st_mode & _OF_OTHERS:
        directory.chmod(0o700)


def _unsafe(status: os.stat_result) -> str | None:
    """Return why something is no place for sockets."""
    if stat.S_ISLNK(status.st_mode):
        return "is a symbolic link"
    if not stat.S_ISDIR(status.st_mode):
        return "is not a directory"
    if status.st_uid != os.geteuid():
        return f"belongs to the user {status.st_uid}, not to {os.geteuid()}"
    if status.st_mode & _WRITABLE_BY_OTHERS:
        return f"is writable by other users: its mode is {stat.S_IMODE(status.st_mode):04o}"
    return None


def _first_usable(environ: Mapping[str, str]) -> tuple[Path, int]:
    """Make the directory of this process in the first private one that can be made; return it with its lock."""
    failures = []
    runtime = Path(environ.get("XDG_RUNTIME_DIR", ""))
    if not runtime.is_absolute():
        failures.append("$XDG_RUNTIME_DIR is no absolute path" if runtime.parts else "$XDG_RUNTIME_DIR is not set")
    for private in private_directories(environ):
        try:
            return _make_own(private)
        except OSError as error:
            failures.append(f"{private}: {_reason(error)}")
        except ConfigError as error:
            # Only root can make that one, so a host of another user may use it.
            if private != SYSTEM_DIRECTORY:
                raise
            failures.append(error.message)
    raise NoPrivateDirectory(
        f"no private directory can be made: {'; '.join(failures)}",
        hint="set XDG_RUNTIME_DIR to a directory that this user can write to, in a pod to the path of an emptyDir",
    )


def _make_own(private: Path) -> tuple[Path, int]:
    while True:
        make_private(private)
        # Another host may remove it at this moment, at its end.
        with suppress(FileNotFoundError), _locked(private, wait=True):
            _remove_stale(private)
            directory = next(name for name in _names(private) if not os.path.lexists(name))
            directory.mkdir(mode=0o700)
            return directory, _lock(directory, wait=False)


def _socket_of(directory: Path) -> Path:
    return directory.with_name(f"{directory.name}.sock")


def _names(private: Path) -> Iterator[Path]:
    yield private / str(os.getpid())
    yield from (private / f"{os.getpid()}-{count}" for count in itertools.count(1))


def _remove_stale(private: Path) -> None:
    """Remove the directories of dead processes, which nobody locks, and sockets without a directory."""
    for directory in list(private.iterdir()):
        if directory.is_socket() and not directory.with_suffix("").exists():
            directory.unlink(missing_ok=True)
        elif _OF_A_PROCESS.fullmatch(directory.name):
            with suppress(OSError), _locked(directory, wait=False):
                _socket_of(directory).unlink(missing_ok=True)
                shutil.rmtree(directory)


@contextmanager
def _locked(directory: Path, *, wait: bool) -> Iterator[None]:
    lock = _lock(directory, wait=wait)
    try:
        yield
    finally:
        os.close(lock)


def _lock(directory: Path, *, wait: bool) -> int:
    """Lock a directory, and return the descriptor that holds the lock.

    BlockingIOError if another process has locked it, unless this one is to wait; FileNotFoundError if it was removed.
    """
    lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(lock), directory.lstat()):
            raise FileNotFoundError(errno.ENOENT, "removed by another host", str(directory))
    except BaseException:
        os.close(lock)
        raise
    return lock


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
