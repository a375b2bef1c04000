"""What a host shows of the process of an isolated plugin: its metrics and queues, as the process answered last."""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec
from prometheus_client.exposition import choose_encoder
from prometheus_client.parser import text_string_to_metric_families

from ctrlhost.errors import TransportError
from ctrlhost.kubeconfig.connection import from_unix_socket
from ctrlhost.plugin.metrics import Family
from ctrlhost.plugin.probe import Probe
from ctrlhost.status.model import Status
from ctrlhost.transport.native import NativeTransport

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from prometheus_client.core import Metric

    from ctrlhost.health import Check
    from ctrlhost.supervisor.child import ChildAttempt
    from ctrlhost.supervisor.child_health import ChildCheck

#: Seconds after which an answer to the question for a status is not in time.
_IN_TIME = 0.5

log = logging.getLogger("ctrlhost.metrics")

T = TypeVar("T")


class ChildView:
    """One process of an isolated plugin: the counterpart of `PluginContext` for an inspection."""

    def __init__(self, name: str, attempt: ChildAttempt) -> None:
        """Prepare; this asks the process nothing."""
        self.name = name
        self.attempt = attempt
        self.collected = ChildMetrics(name, attempt)
        self._status: Answer[Status | None] = Answer(
            attempt, "status", "/api/v1/status", msgspec.json.Decoder(Status).decode, None
        )
        self._queues: Answer[list[dict[str, Any]]] = Answer(attempt, "queues", "/debug/queues", json.loads, [])

    @property
    def health_checks(self) -> list[ChildCheck]:
        """The health checks of the plugin."""
        return self.attempt.health.checks

    @property
    def leadership(self) -> list[Check]:
        """The line of the plugin's own lease, if it has one."""
        return self.attempt.health.leadership()

    def begin_status(self) -> Future[None]:
        """Ask for the status, unless this is under way; return what ends with the answer."""
        return self._status.start()

    def status(self) -> Status | None:
        """Return the status as the process showed it last; None before the first answer."""
        return self._status.value

    def status_age(self) -> float:
        """Return the age of the status in seconds, as `Answer.age`."""
        return self._status.age()

    def prompt(self) -> bool:
        """Return whether the process answered the last question for its status, in time if it is the present one."""
        return self._status.prompt(_IN_TIME)

    def begin_queues(self) -> Future[None]:
        """Ask for the queues, unless this is under way; return what ends with the answer."""
        return self._queues.start()

    def queues(self) -> list[dict[str, Any]]:
        """Return the queues as the process showed them last; with their age if it does not answer now."""
        value, age = self._queues.value, self._queues.age()
        return [{**queue, "age": age} for queue in value] if age else value


class Answer(Generic[T]):
    """The last answer of a process at one path of its own server. Callable from any thread."""

    def __init__(self, attempt: ChildAttempt, name: str, path: str, read: Callable[[bytes], T], first: T) -> None:
        """Prepare to ask at `path`, on a thread PLUGIN/`name`; the value is `first` until then.

        `read` makes a value of an answer; ValueError if it is malformed.
        """
        self._attempt = attempt
        self._path = path
        self._read = read
        #: The last value, when it came, and whether there was none since.
        self._last = (first, time.monotonic(), True)
        self._probe = Probe(f"{attempt.owner.name}/{name}", self._ask)

    def start(self) -> Future[None]:
        """Ask, unless this is under way; return what ends with the answer, or with the deadline `probe`."""
        return self._probe.start()

    @property
    def value(self) -> T:
        """The last value."""
        return self._last[0]

    def age(self) -> float:
        """Return the age of the value in seconds; 0 if the process has answered, and is not being asked."""
        _, at, current = self._last
        return 0.0 if current and self._probe.running_for() is None else time.monotonic() - at

    def prompt(self, seconds: float) -> bool:
        """Return whether the last answer came, and a question without an answer is not older than so many seconds."""
        since = self._probe.running_for()
        return self._last[2] and (since is None or since <= seconds)

    def _ask(self) -> None:
        try:
            self._last = (self._read(self._body()), time.monotonic(), True)
        except (OSError, ValueError, TransportError) as error:
            log.debug("plugin %s: its process has no answer at %s: %s", self._attempt.owner.name, self._path, error)
            self._last = (*self._last[:2], False)

    def _body(self) -> bytes:
        """Return what the process answers; OSError or TransportError if it does not."""
        socket = self._attempt.socket
        if socket is None:
            raise OSError("the process does not run")
        seconds = self._attempt.entries.deadline("metrics") or None
        transport = NativeTransport(from_unix_socket(str(socket)))
        try:
            response = transport.request("GET", self._path, timeout=seconds)
        finally:
            transport.close()
        if response.status != 200:
            raise OSError(f"status {response.status}")
        return response.body


@dataclass(frozen=True, slots=True)
class _Scrape:
    """One answer with metrics; `age` and `errors` are what the process says of the plugin's own metrics."""

    families: list[Family] = field(default_factory=list)
    age: float = 0.0
    errors: Counter[str] = field(default_factory=Counter)


class ChildMetrics:
    """The metrics of a process: the counterpart of `PluginMetrics`. Callable from any thread."""

    def __init__(self, plugin: str, attempt: ChildAttempt) -> None:
        """Prepare; `start` asks the process."""
        self.plugin = plugin
        self._answer = Answer(attempt, "metrics", "/metrics", self._read, _Scrape())
        #: The `Accept` headers of the scrapes so far, by content type.
        self._formats: dict[str, str] = {}
        #: What this host has left out, by reason.
        self._skipped: Counter[str] = Counter()

    def start(self, accept: str) -> Future[None]:
        """Begin to ask, in the format of an `Accept` header, unless this runs; return what ends with the answer."""
        self._formats.setdefault(choose_encoder(accept)[1], accept)
        return self._answer.start()

    @property
    def families(self) -> list[Family]:
        """What the process answered last."""
        return list(self._answer.value.families)

    @property
    def errors(self) -> Counter[str]:
        """What was left out or came too late, here or in the process, by reason."""
        return self._answer.value.errors + self._skipped

    def age(self) -> float:
        """Return the age of the plugin's own metrics in seconds; 0 if they are current."""
        return self._answer.value.age + self._answer.age()

    def late(self) -> None:
        """Count a scrape whose answer has old values, if the process has not answered yet; it counts its own."""
        if self._answer.age():
            self._skipped["timeout"] += 1

    def skip(self, reason: str, what: str) -> None:
        """Count something that was left out for `reason`, and log `what` the first time."""
        if not self._skipped[reason]:
            log.warning("skipped metrics of plugin %s: %s", self.plugin, what, extra={"plugin": self.plugin})
        self._skipped[reason] += 1

    def _read(self, body: bytes) -> _Scrape:
        metrics = _parsed(body.decode())
        ages = metrics.pop("ctrlhost_metrics_age_seconds", None)
        left_out = metrics.pop("ctrlhost_metrics_collector_errors", None)
        age = sum(sample.value for sample in ages.samples) if ages is not None else 0.0
        counts = (
            {sample.labels["reason"]: int(sample.value) for sample in left_out.samples} if left_out is not None else {}
        )
        families = [Family(metric) for metric in metrics.values()]
        for family in families:
            _ = family.series
            for accept in list(self._formats.values()):
                family.text(accept)
        return _Scrape(families, age, Counter(counts))


def _parsed(text: str) -> dict[str, Metric]:
    """Return the metrics of an exposition by name; ValueError if it is malformed."""
    return {metric.name: metric for metric in text_string_to_metric_families(text)}
