"""The running host that a command attaches to: where it is, requests to it, and the errors of its answers."""

from __future__ import annotations

import http.client
import json
import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote, urlsplit

import click

from ctrlhost.cli.table import visible
from ctrlhost.errors import ConfigError, CtrlhostError

if TYPE_CHECKING:
    from collections.abc import Callable

Answer: TypeAlias = dict[str, Any]

#: Seconds for a connection; and for an answer to a question and to an action, more than the host allows itself.
_CONNECT, _READ, _ACT = 2.0, 12.0, 65.0

URL = click.option(
    "--url", metavar="http://HOST:PORT", help="Status address of the host: on loopback, or of a `port-forward`."
)
SOCKET = click.option(
    "--socket",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Local socket of the host (default: the only one in the private directory).",
)
OUTPUT = click.option(
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="`json` is the answer of the host.",
)


def reading(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a command that reads: `url`, `socket` and `output`."""
    return URL(SOCKET(OUTPUT(command)))


def acting(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a command that changes the host: `socket` and `output`."""
    return SOCKET(OUTPUT(command))


class RunningHost:
    """A host at an address or a local socket. Each request has a connection of its own."""

    def __init__(self, url: str | None = None, path: Path | None = None) -> None:
        """Attach to the host at `url`, at the local socket `path`, or to the only one of this user.

        ConfigError if it is unclear which one; CtrlhostError if there is none.
        """
        if url is not None and path is not None:
            raise ConfigError("--url and --socket are mutually exclusive")
        self._base, self._address = "", ("", 0)
        self._socket = path
        if url is not None:
            self._address, self._base = _parse(url)
            self.name = url
        else:
            self._socket = path or _only_socket()
            self.name = str(self._socket)

    def status(self, timeout: float | None = None) -> Answer:
        """Return the state of the host; CtrlhostError if it does not answer within `timeout` seconds."""
        return self.read(self.get("/status", timeout))

    def get(self, path: str, timeout: float | None = None) -> bytes:
        """Return the answer to a question below `/api/v1`, by default within what the host allows itself.

        ConfigError for a name that the host does not know, or an invalid argument; CtrlhostError for other failures.
        """
        return self._request("GET", f"/api/v1{path}", None, timeout or _READ)

    def act(self, action: str, body: Answer) -> bytes:
        """Ask the host to act, and return its answer; errors as of `get`."""
        return self._request("POST", f"/admin/v1/{action}", json.dumps(body).encode(), _ACT)

    def read(self, body: bytes) -> Answer:
        """Return an answer as an object; CtrlhostError if it is none."""
        try:
            answer = json.loads(body)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise self._no_host()
        return answer

    def _request(self, method: str, path: str, body: bytes | None, timeout: float) -> bytes:
        connection = _Connection(self._socket, self._address, timeout)
        headers = {} if body is None else {"Content-Type": "application/json"}
        try:
            connection.connect()
            try:
                connection.request(method, self._base + path, body, headers)
                response = connection.getresponse()
                content = response.read()
            except TimeoutError:
                raise CtrlhostError(
                    f"the host at {self.name} did not answer within {timeout:g} s",
                    hint="send it SIGUSR1: it writes the stacks of all threads to stderr",
                ) from None
        except http.client.HTTPException:
            raise self._no_host() from None
        except OSError as error:
            reason = "it does not accept connections" if isinstance(error, TimeoutError) else _reason(error)
            raise CtrlhostError(f"no host at {self.name}: {reason}", hint=_WHERE) from None
        finally:
            connection.close()
        if response.status != 200:
            raise self._refusal(response.status, content)
        return content

    def _refusal(self, status: int, content: bytes) -> CtrlhostError:
        try:
            answer = json.loads(content)
            error, hint = visible(answer["error"]), answer["hint"]
        except (ValueError, TypeError, KeyError):
            return self._no_host(status)
        hint = visible(hint) if hint is not None else None
        # What the user named is unknown or invalid, unless the host serves no such path at all.
        if status in (400, 404) and not answer.get("off") and error != "no such path":
            return ConfigError(error, hint=hint)
        return CtrlhostError(error, hint=hint)

    def _no_host(self, status: int | None = None) -> CtrlhostError:
        what = "" if status is None else f" with the status {status}"
        return CtrlhostError(f"what answers at {self.name}{what} is not the status of a ctrlhost", hint=_WHERE)


_WHERE = "the host logs its addresses at its start: `listening on …`, `local socket at …`"


class _Connection(http.client.HTTPConnection):
    """A connection to a Unix socket or to an address, without proxies."""

    def __init__(self, path: Path | None, address: tuple[str, int], timeout: float) -> None:
        super().__init__(address[0] or "localhost", address[1] or 80)
        self._path = path
        self._seconds = timeout

    def connect(self) -> None:
        if self._path is None:
            self.sock = socket.create_connection((self.host, self.port), _CONNECT)
        else:
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.settimeout(_CONNECT)
            self.sock.connect(str(self._path))
        self.sock.settimeout(self._seconds)


def parse_controller(controller: str) -> str:
    """Return the end of a path that names a controller, `PLUGIN/NAME`; ConfigError for another text."""
    plugin, slash, name = controller.partition("/")
    if not (plugin and slash and name):
        raise ConfigError(f"no controller `{visible(controller)}`", hint="controllers are named `PLUGIN/NAME`")
    return f"{quote(plugin, safe='')}/{quote(name, safe='')}"


def print_json(body: bytes) -> None:
    """Print an answer as it came; on a terminal, with an end of line."""
    sys.stdout.buffer.write(body + b"\n" if sys.stdout.isatty() else body)
    sys.stdout.flush()


def _only_socket() -> Path:
    from ctrlhost.supervisor.run_directory import local_sockets, used_directories

    living = [path for path in local_sockets(os.environ) if _listens(path)]
    if len(living) > 1:
        sockets = ", ".join(map(str, living))
        raise ConfigError(f"{len(living)} hosts of this user run: {sockets}", hint="choose one with `--socket PATH`")
    if not living:
        places = " or ".join(map(str, used_directories(os.environ)))
        raise CtrlhostError(
            f"no host runs that has its socket in {places}",
            hint="name another one with `--socket PATH` or, for commands that read, `--url http://HOST:PORT`",
        )
    return living[0]


def _listens(path: Path) -> bool:
    """Return whether a host listens, rather than that a killed one has left the socket."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(_CONNECT)
        try:
            client.connect(str(path))
        except TimeoutError:
            # A host that is stopped, or has too many connections.
            return True
        except OSError:
            return False
    return True


def _parse(url: str) -> tuple[tuple[str, int], str]:
    """Return the address and the path of a URL."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if host is None or parts.scheme != "http" or parts.query or parts.fragment or parts.username is not None:
        raise ConfigError(f"--url: invalid address `{visible(url)}`", hint="write it as `http://127.0.0.1:8484`")
    return (host, port or 80), parts.path.rstrip("/")


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
