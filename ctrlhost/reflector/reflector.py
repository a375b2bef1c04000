"""Reflector: keeps an engine equal to the server; lists, watches, and lists again when the watch is lost."""

from __future__ import annotations

import logging
import threading
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from ctrlhost.client.client import Client
from ctrlhost.clock import SystemClock, doubling
from ctrlhost.errors import ApiError, BadRequest, CtrlhostError, Forbidden, NotFound, OverBudget, Unauthorized
from ctrlhost.reflector.backoff import Backoff, RetryWindow
from ctrlhost.reflector.driver import Driver
from ctrlhost.reflector.list_watch import ListWatch
from ctrlhost.reflector.negotiation import Negotiation
from ctrlhost.reflector.pager import Pager
from ctrlhost.reflector.resume_point import ResumePoint, is_unavailable
from ctrlhost.reflector.skipped import SkippedObjects
from ctrlhost.reflector.status import ReflectorStatus, State
from ctrlhost.reflector.steps import BackOff, Call, Steps, Stopped
from ctrlhost.reflector.watcher import NoStreamingList, Watcher
from ctrlhost.transport.steps import steps_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ctrlhost.cache import SharedInformer
    from ctrlhost.client.resources import Resource
    from ctrlhost.clock import Clock
    from ctrlhost.reflector.options import ReflectorOptions
    from ctrlhost.transport.interface import Stream

log = logging.getLogger("ctrlhost.informers.reflector")

NO_PERMISSION = "no permission to"
"""How the reason begins for which an informer without rights waits."""

_LOG_INTERVAL = 60.0
"""Seconds after which the same failure is logged again."""

_OVER_BUDGET_DELAY = 300.0
"""Seconds until a list is tried again for which the memory budget had no room."""

_LEARNING_DELAY = 5.0
"""The same while a dictionary is being learnt, with which the objects may fit."""

_FAST_TRIES, _FAST_DELAY = 6, 0.25
"""The number of fast retries after `wake`, and the delay of the first one in seconds; it doubles."""


class Reflector:
    """Feeds one engine from one resource in one namespace, or in all of them.

    It never gives up: it reports every failure in `status` and in the log, backs off and retries. It runs on the thread
    that all reflectors share. All methods may be called from any thread.
    """

    def __init__(
        self,
        client: Client,
        api_version: str,
        kind: str,
        engine: SharedInformer,
        clock: Clock,
        options: ReflectorOptions,
        *,
        namespace: str = "",
        label_selector: str | None = None,
        field_selector: str | None = None,
        metadata_only: bool = False,
        on_change: Callable[[], None] = lambda: None,
        on_error: Callable[[Exception], None] | None = None,
        cluster_scoped: Callable[[], bool] = lambda: True,
        missing: Callable[[], None] = lambda: None,
        optional: bool = False,
    ) -> None:
        """Call `on_change` after lists and whatever else a watch reports; events alone are not.

        If the kind of a reflector with a namespace turns out to be cluster-scoped, it continues if `cluster_scoped`
        returns True. Neither may block. `on_error` is called for every failure, and `missing` each time the server does
        not serve the kind, both on a thread where they may block; only this reflector waits for them. The failures of
        an `optional` reflector are not logged as warnings.
        """
        self._client = client
        self._api_version, self._kind = api_version, kind
        self._engine = engine
        self._clock = clock
        self._options = options
        self._namespace = namespace
        self._on_error = on_error
        self._on_change = on_change
        self._cluster_scoped = cluster_scoped
        self._missing = missing
        self._optional = optional
        self._status = ReflectorStatus(namespace)
        self._position = ResumePoint(page_size=options.page_size)
        self._streaming = options.watch_list
        self._stopping = threading.Event()
        self._verb = "list"
        #: Whether the last list made room in the memory budget for the next one.
        self._made_room = False
        #: The delays of the next attempts after a `wake`.
        self._fast: Iterator[float] = iter(())
        #: The failure that was logged last, and when.
        self._logged: tuple[str, float] | None = None
        self._negotiation = Negotiation(api_version, kind, engine, options.encodings, metadata_only=metadata_only)
        self._requests = ListWatch(
            client.transport,
            options,
            self._negotiation,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
        )
        self._backoff = Backoff(clock, options.backoff)
        skipped = SkippedObjects(engine, kind, clock)
        self._pager = Pager(self._requests, engine, self._position, self._status, clock, skipped)
        self._watcher = Watcher(
            self._requests,
            engine,
            self._position,
            self._status,
            clock,
            window=RetryWindow(clock, options.internal_error_window),
            wait=self._back_off,
            stopping=self._stopping.is_set,
            on_change=on_change,
            report=self._report,
            skipped=skipped,
        )
        #: Whether the decode threads read its streams.
        self._native = client.transport.native_streams and type(clock) is SystemClock and not engine.transforms
        name = f"reflector {namespace}/{kind}" if namespace else f"reflector {kind}"
        self._driver = Driver(self._run(), clock, name, native=self._native)

    def start(self) -> None:
        """Start to list and watch."""
        self._driver.start()

    def wake(self) -> None:
        """Retry now if the reflector backs off, as after a CRD was installed, and soon again if that fails."""
        self._fast = islice(doubling(_FAST_DELAY), _FAST_TRIES)
        self._driver.wake()

    def relist(self) -> None:
        """List again now, even if the watch works, and correct all differences."""
        self._watcher.list_wanted.set()
        self._requests.interrupt()
        self._driver.wake()

    def reopen(self) -> None:
        """Close the open watch, and open it again where it ended."""
        self._requests.interrupt()

    def stop(self) -> None:
        """Stop: the open stream is closed. Returns at once; `join` waits for the end."""
        self._stopping.set()
        self._driver.wake()
        self._requests.stop()

    def join(self, timeout: float | None = None) -> bool:
        """Wait at most `timeout` seconds for its end; return whether it has ended, or was not started."""
        return self._driver.join(timeout)

    @property
    def status(self) -> ReflectorStatus:
        """The status at present."""
        if self._native:
            self._status.arrived(*self._engine.arrived())
        return self._status

    @property
    def held_back(self) -> float:
        """Seconds in which a connection was not read because the decode threads were behind."""
        return self._requests.held_back

    def _run(self) -> Steps[None]:
        try:
            while not self._stopping.is_set():
                yield from self._attempt()
        except Stopped:
            pass
        finally:
            self._set("stopped", "")

    def _attempt(self) -> Steps[None]:
        error: Exception | None = None
        try:
            error = yield from self._list_and_watch()
        except Stopped:
            raise
        except (CtrlhostError, ValueError) as raised:
            if self._stopping.is_set():
                return
            error = raised
            yield from self._failed(raised)
        except Exception as raised:  # a bug here must not end the informer; the log has the traceback
            error = raised
            log.exception("reflector for %s failed unexpectedly", self._kind)
            self._status.failed("internal", str(raised))
        yield from self._back_off(error if isinstance(error, CtrlhostError) else None)

    def _list_and_watch(self) -> Steps[CtrlhostError | None]:
        """Copy the server's content, then follow changes until a new list is necessary; return the reason, if any."""
        if self._stopping.is_set():
            raise Stopped
        self._verb = "list"
        if self._status.state not in ("waiting", "over budget"):
            self._set("reconnecting" if self._position.last else "listing", self._status.reason)
        resource = yield from self._resource()
        if self._stopping.is_set():
            raise Stopped
        if self._namespace and not resource.namespaced and not self._cluster_scoped():
            raise Stopped
        stream = yield from self._first(resource)
        self._fast, self._made_room = iter(()), False
        self._on_change()
        if self._negotiation.must_list_as_json():
            if stream is not None:
                yield from self._watcher.close(stream)
            return None
        self._verb = "watch"
        return (yield from self._watcher.follow(resource, stream))

    def _first(self, resource: Resource) -> Steps[Stream | None]:
        if self._streaming:
            try:
                return (yield from self._watcher.streaming_list(resource))
            except NoStreamingList as reason:
                log.debug("no streaming list of %s; listing in pages: %s", resource.name, reason)
                self._streaming = not reason.lasting
        try:
            yield from self._pager.list(resource)
        except CtrlhostError as error:
            if not is_unavailable(error) or self._position.unavailable:
                raise
            self._position.unavailable = True
            yield from self._pager.list(resource)
        return None

    def _back_off(self, error: CtrlhostError | None) -> Steps[None]:
        """Sleep until the next attempt, at least as long as the server requests."""
        if isinstance(error, OverBudget):
            # A list that made room for the next one is followed by that at once, but not a second time.
            self._made_room = error.made_room and not self._made_room
            delay = 0.0 if self._made_room else _LEARNING_DELAY if error.learning else _OVER_BUDGET_DELAY
            yield from self._sleep(delay)
            return
        delay = self._backoff.next()
        if self._status.state == "waiting":
            delay = min(delay, self._options.waiting_cap)
        # Also for a kind that is served but not ready: for a new CRD's storage the server answers 429 at first.
        delay = min(delay, next(self._fast, delay))
        if isinstance(error, ApiError) and error.retry_after:
            delay = max(delay, error.retry_after)
        yield from self._sleep(delay)

    def _sleep(self, delay: float) -> Steps[None]:
        yield BackOff(delay)
        if self._stopping.is_set():
            raise Stopped

    def _failed(self, error: Exception) -> Steps[None]:
        if isinstance(error, NotFound):
            self._client.resources.forget(self._api_version, self._kind)
            self._set("waiting", error.message)
            yield Call(self._missing)
        elif isinstance(error, Forbidden):
            where = f" in namespace {self._namespace}" if self._namespace else ""
            what = f"{self._verb} {self._kind} ({self._api_version}){where}"
            self._set("waiting", f"{NO_PERMISSION} {what}: {error.message}")
        elif isinstance(error, BadRequest):
            # Such as a field selector that the kind does not support: nothing but a change of the server helps.
            self._set("waiting", error.message)
        elif isinstance(error, OverBudget):
            # What is gone may have been dropped.
            self._engine.process()
            self._on_change()
            self._set("over budget", (yield from self._describe(error)))
        else:
            self._set("reconnecting" if self._position.last else "listing", str(error))
        yield from self._report(self._verb, error)

    def _describe(self, error: OverBudget) -> Steps[str]:
        """Describe what the cache has and what the memory budget has no room for."""
        if self._engine.has_synced:
            reached = OverBudget(error.limit, self._engine.stats()["objects"])
            return f"{reached}; the cache stays as of version {self._engine.last_resource_version}"
        try:
            count = yield from self._pager.count((yield from self._resource()))
        except (CtrlhostError, ValueError):
            count = None
        more = f"about {count - error.objects:,} more" if count is not None and count > error.objects else "more"
        return f"{error}; {more} were to come"

    def _resource(self) -> Steps[Resource]:
        found: Resource = yield from steps_of(Client.resource)(self._client, self._api_version, self._kind)
        return found

    def _set(self, state: State, reason: str) -> None:
        self._status.set(state, reason, self._clock.now())

    def _report(self, verb: str, error: Exception) -> Steps[None]:
        """Count a failure and log it, once a minute while it stays the same."""
        self._status.failed(type(error).__name__, str(error))
        self._log(verb, error)
        if self._on_error is not None:
            yield Call(partial(self._on_error, error))

    def _log(self, verb: str, error: Exception) -> None:
        now = self._clock.now()
        text = str(error)
        if self._logged is not None and self._logged[0] == text and now - self._logged[1] < _LOG_INTERVAL:
            return
        self._logged = (text, now)
        expected = isinstance(error, ApiError) and error.status in (404, 410)
        level = logging.DEBUG if self._optional else logging.INFO if expected else logging.WARNING
        hint = " (credentials rejected)" if isinstance(error, Unauthorized) else ""
        log.log(level, "cannot %s %s%s: %s", verb, self._kind, hint, self._status.reason or text)
