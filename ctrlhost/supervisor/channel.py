"""The control socket between a host and the process of an isolated plugin, and the messages on it."""

from __future__ import annotations

import os
import pickle
import socket
import struct
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, Literal, Self

import msgspec

from ctrlhost.entries import Degradation, Reason  # noqa: TC001 - msgspec reads the types
from ctrlhost.health import Check  # noqa: TC001 - msgspec reads the types
from ctrlhost.informers.namespace_informer import Scope
from ctrlhost.plugin.probe import CheckState  # noqa: TC001 - msgspec reads the types
from ctrlhost.selectors.namespaces import NamespaceSelector  # noqa: TC001 - msgspec reads the types

if TYPE_CHECKING:
    from ctrlhost.config.load import Configuration
    from ctrlhost.config.settings import HostSettings
    from ctrlhost.controller.pauses import Paused
    from ctrlhost.supervisor.plugin_file import PluginSource

#: Seconds that a message may wait for a process that does not read.
_SEND_TIMEOUT = 5
#: The largest message of a process, in bytes: the CRDs of a plugin, each of at most 1.5 MiB.
LARGEST = 64 << 20


@dataclass(frozen=True)
class Start:
    """From the host, first: what to run."""

    plugin: str
    settings: HostSettings
    configuration: Configuration
    #: The sockets of the feed and of the process's own server.
    feed: str
    pages: str
    #: Whether the plugin has a lease of its own, for which the process stands itself.
    elects_itself: bool
    #: The names of all plugins of the host that are enabled.
    plugins: tuple[str, ...] = ()
    #: What an operator has paused or resumed, the controllers of the last process, and the levels of the log.
    pauses: dict[str, Paused | None] = field(default_factory=dict)
    controllers: tuple[str, ...] = ()
    log_levels: tuple[LogLevel, ...] = ()
    #: What the plugin is loaded from; None for an installed one.
    source: PluginSource | None = None
    #: The `sys.path` of the host, and its `PYTHONPATH`, which other programs that the plugin starts have to get.
    path: tuple[str, ...] = field(default_factory=lambda: tuple(sys.path))
    python_path: str | None = field(default_factory=lambda: os.environ.get("PYTHONPATH"))


@dataclass(frozen=True, slots=True)
class SetUp:
    """From the host: set the plugin up."""

    #: The kubeconfig that the host uses, if it is not that of the settings.
    kubeconfig: str | None


@dataclass(frozen=True, slots=True)
class Run:
    """From the host: sync and run, after the host has installed the CRDs if `with_crds`."""

    with_crds: bool | Literal["force"]


@dataclass(frozen=True, slots=True)
class Lead:
    """From the host: its current term, which the process shares, the leading replica, and whether these may change."""

    number: int
    until: float
    leader: str
    elects: bool


@dataclass(frozen=True, slots=True)
class Drain:
    """From the host: stop within so many seconds, because of the memory limit or since the host stops."""

    seconds: float
    memory: bool = False


@dataclass(frozen=True, slots=True)
class Probe:
    """From the host: call the health checks of the plugin, unless they run. The next Beats say how these end."""

    number: int


@dataclass(frozen=True, slots=True)
class LogLevel:
    """From the host: the level of these loggers, for some seconds, or with 0 until the process ends.

    With a number the answer is Acted, once the level is set.
    """

    loggers: tuple[str, ...]
    level: str
    seconds: float
    number: int = 0


@dataclass(frozen=True, slots=True)
class Reload:
    """From the host: its configuration has changed, in what needs no new process."""

    configuration: Configuration


@dataclass(frozen=True, slots=True)
class Act:
    """From the host: an action of the admin API with the body of its request, and who asks. The answer is Acted."""

    number: int
    action: str
    body: bytes
    by: str


class Acted(msgspec.Struct, frozen=True, tag=True):
    """From the process: the status of HTTP and the body with which the host answers an Act or LogLevel."""

    number: int
    status: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Done:
    """From the host: what the process asked for is done, or why it is not."""

    request: int
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Waits:
    """From the host: why what the process asked for is not done yet."""

    request: int
    reason: str


class Configured(msgspec.Struct, frozen=True, tag=True):
    """From the process: the plugin is imported, and its settings are valid."""


class Mistake(msgspec.Struct, frozen=True, tag=True):
    """From the process: a mistake of the operator, as the arguments of its ConfigError."""

    message: str
    hint: str | None


class WebhookRoute(msgspec.Struct, frozen=True):
    """A path at which the process answers reviews, and the seconds that the API server waits."""

    path: str
    timeout: float
    #: The entry of the webhook configuration; empty for conversions.
    entry: dict[str, Any]


class IsSetUp(msgspec.Struct, frozen=True, tag=True):
    """From the process: the plugin is set up, and has these pages, controllers and webhooks."""

    pages: tuple[str, ...]
    controllers: tuple[str, ...]
    webhooks: tuple[WebhookRoute, ...]


class FedScope(msgspec.Struct, frozen=True):
    """The objects of a Scope of an informer that reads the feed."""

    api_version: str
    kind: str
    namespaces: tuple[str, ...] | NamespaceSelector | None
    label_selector: str | None
    field_selector: str | None
    reads: str | tuple[str, ...] | None

    def __post_init__(self) -> None:
        """Reject invalid scopes, as `Scope` does."""
        self.scope()

    @classmethod
    def of(cls, scope: Scope) -> Self:
        """Return the objects of a scope, without what belongs to its process."""
        selectors = scope.label_selector, scope.field_selector
        return cls(scope.api_version, scope.kind, scope.namespaces, *selectors, scope.reads)

    def scope(self) -> Scope:
        """Return the scope."""
        selectors = self.label_selector, self.field_selector
        return Scope(self.api_version, self.kind, self.namespaces, *selectors, self.reads)


class Declare(msgspec.Struct, frozen=True, tag=True):
    """From the process: it is about to read these objects from the feed. The host answers with Done."""

    request: int
    scope: FedScope


class Announce(msgspec.Struct, frozen=True, tag=True):
    """From the process: it will read these objects."""

    scope: FedScope


class AwaitLists(msgspec.Struct, frozen=True, tag=True):
    """From the process: it is about to list what it has declared. The host answers with Done when it can be listed."""

    request: int


class Install(msgspec.Struct, frozen=True, tag=True):
    """From the process: CRDs and objects of the plugin, of a distribution of this version. The host answers Done."""

    request: int
    crds: list[dict[str, Any]]
    objects: list[dict[str, Any]]
    version: str


class Synced(msgspec.Struct, frozen=True, tag=True):
    """From the process: the plugin has synced, and would lead."""


class Beat(msgspec.Struct, frozen=True, tag=True):
    """From the process: its state, each second and after each change."""

    state: str
    reason: str
    #: Whether a failure is one that no restart mends, and whether something hangs.
    final: bool
    hangs: bool
    #: The lines of the controllers and of the plugin's own lease, and its health checks as of the Probe `probe`.
    checks: tuple[Check, ...]
    leadership: tuple[Check, ...]
    health: tuple[CheckState, ...]
    probe: int
    degraded: dict[Reason, Degradation]


class Drained(msgspec.Struct, frozen=True, tag=True):
    """From the process, last: whether all of its work has ended."""

    complete: bool


@dataclass(frozen=True, slots=True)
class Invalid:
    """In place of a message of the process that is none of these: why. Nothing after it is received."""

    problem: str


_OfProcess = (
    Configured
    | Mistake
    | IsSetUp
    | Declare
    | Announce
    | AwaitLists
    | Install
    | Synced
    | Beat
    | Drained
    | Acted
)  # fmt: skip
_encoder, _decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(_OfProcess)


class Channel:
    """One end of the control socket. One thread receives; any thread may send.

    The host pickles its messages, since a process trusts its host. What a process sends is data of these types alone,
    so a plugin runs no code in the host.
    """

    def __init__(self, end: socket.socket, *, of_process: bool) -> None:
        """Take over an end of a socket pair: that of the process, or that of the host."""
        # Linux's `struct timeval`. A process that was stopped must not hold up the host.
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", _SEND_TIMEOUT, 0))
        # Not for programs that a plugin starts.
        end.set_inheritable(False)
        self._end, self._of_process = end, of_process
        self._connection = Connection(os.dup(end.fileno()))
        self._sending, self._receiving = threading.Lock(), threading.Lock()

    def send(self, message: object) -> bool:
        """Send a message; False if the other end is gone, or does not read, which ends the connection."""
        raw = _encoder.encode(message) if self._of_process else pickle.dumps(message)
        with self._sending:
            try:
                self._connection.send_bytes(raw)
            except OSError:
                # A part of the message may have been sent, so nothing can follow it.
                self._shut_down(socket.SHUT_RDWR)
                return False
            return True

    def receive(self) -> Any:
        """Wait for the next message; None when the other end is gone, or after `receive_rest`.

        Invalid for a message of a process that is too large, or none of its messages.
        """
        with self._receiving:
            try:
                raw = self._connection.recv_bytes(None if self._of_process else LARGEST)
            except EOFError:
                return None
            except OSError as error:
                # The length comes first: nothing more was read.
                too_large = str(error) == "bad message length"
                return Invalid(f"a message of more than {LARGEST >> 20} MiB") if too_large else None
        if self._of_process:
            return pickle.loads(raw)  # noqa: S301 - of the host that has started this process
        try:
            return _decoder.decode(raw)
        except (msgspec.DecodeError, RecursionError) as error:
            return Invalid(f"an invalid message: {error}")

    def receive_rest(self) -> None:
        """Receive only what was sent before now, whoever else still has the other end."""
        self._shut_down(socket.SHUT_RD)

    def _shut_down(self, how: int) -> None:
        with suppress(OSError):
            self._end.shutdown(how)

    def fileno(self) -> int:
        """Return the file descriptor."""
        return self._end.fileno()

    def close(self) -> None:
        """End the connection, and close this end once no thread uses it. May be repeated."""
        self._shut_down(socket.SHUT_RDWR)
        with self._sending, self._receiving:
            self._connection.close()
            self._end.close()
