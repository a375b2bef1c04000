"""Keep an engine equal to the server: list, watch, and begin again when the stream is lost."""

from __future__ import annotations

import logging
import random
import threading
from typing import TYPE_CHECKING

from ctrlhost.errors import ApiError, CtrlhostError, Forbidden, NotFound, Unauthorized
from ctrlhost.reflector.backoff import Backoff, RetryWindow
from ctrlhost.reflector.list_watch import Wire
from ctrlhost.reflector.pager import Pager
from ctrlhost.reflector.resume_point import Position, is_unavailable
from ctrlhost.reflector.skipped import Skips
from ctrlhost.reflector.status import ReflectorStatus, State
from ctrlhost.reflector.watcher import NoStreamingList, Stopped, Watcher

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost.client import Client
    from ctrlhost.client.resources import Resource
    from ctrlhost.clock import Clock
    from ctrlhost.reflector.engine import Engine
    from ctrlhost.reflector.options import ReflectorOptions
    from ctrlhost.transport.interface import Stream

log = logging.getLogger("ctrlhost.informers.reflector")

_SAY_AGAIN = 60.0
"""Seconds after which the same failure is logged once more."""

_EAGER_TRIES, _EAGER_DELAY = 6, 0.25
"""How often, and after how many seconds at first, something is looked for that ought to be there any moment."""


class Reflector:
    """One daemon thread that feeds one engine from one resource in one namespace, or in all of them.

    It never gives up: whatever goes wrong it says so in `status` and in the log, waits, and tries again.
    """

    def __init__(
        self,
        client: Client,
        api_version: str,
        kind: str,
        engine: Engine,
        clock: Clock,
        options: ReflectorOptions,
        *,
        namespace: str = "",
        label_selector: str | None = None,
        field_selector: str | None = None,
        metadata_only: bool = False,
        fed: Callable[[], None] = lambda: None,
        on_error: Callable[[Exception], None] | None = None,
        rng: random.Random | None = None,
        cluster_scoped: Callable[[], bool] = lambda: True,
        missing: Callable[[], None] = lambda: None,
        optional: bool = False,
    ) -> None:
        """`fed` is called when handlers have news, `on_error` for every failure, both in the reflector's thread.

        One that has a namespace, of a kind that turns out to have none, asks `cluster_scoped` whether to go on.
        `missing` is called each time that the server has not got the kind. The failures of an `optional` one are no
        warnings.
        """
        self._client = client
        self._api_version, self._kind = api_version, kind
        self._engine = engine
        self._clock = clock
        self._options = options
        self._namespace = namespace
        self._on_error = on_error
        self._fed = fed
        self._cluster_scoped = cluster_scoped
        self._missing = missing
        self._optional = optional
        self.status = ReflectorStatus(namespace)
        self._position = Position(page_size=options.page_size)
        self._streaming = options.watch_list
        self._stopping = threading.Event()
        self._wake = threading.Event()
        self._doing = "list"
        #: How often it was tried since somebody said that it is worth it.
        self._eager = _EAGER_TRIES
        self._said: tuple[str, float] | None = None
        rng = rng or random.Random()  # noqa: S311 - spreads load, guards nothing
        self._wire = Wire(
            client.transport,
            options,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            metadata_only=metadata_only,
            rng=rng,
        )
        delays = options.backoff
        self._backoff = Backoff(
            clock,
            base=delays.base,
            factor=delays.factor,
            cap=delays.cap,
            jitter=delays.jitter,
            reset_after=delays.reset_after,
            rng=rng,
        )
        skips = Skips(engine, kind, clock)
        self._pager = Pager(self._wire, engine, self._position, self.status, clock, skips)
        self._watcher = Watcher(
            self._wire,
            engine,
            self._position,
            self.status,
            clock,
            window=RetryWindow(clock, options.internal_error_window),
            wait=self._back_off,
            stopping=self._stopping.is_set,
            fed=fed,
            note=self._note,
            skips=skips,
        )
        where = f"{namespace}/" if namespace else ""
        self._thread = threading.Thread(target=self._run, name=f"reflector {where}{kind}", daemon=True)

    def start(self) -> None:
        """Begin to list and watch."""
        self._thread.start()

    def wake(self) -> None:
        """Try again now if the reflector waits, as after a CRD was installed, and soon if that was too early."""
        self._eager = 0
        self._wake.set()

    def relist(self) -> None:
        """List again now, whatever the watch says; what differs from the list is put right."""
        self._watcher.list_wanted.set()
        self._wire.interrupt()
        self._wake.set()

    def stop(self) -> None:
        """End it: the open stream is cut. Returns at once; `join` waits for the thread."""
        self._stopping.set()
        self._wake.set()
        self._wire.cut()

    def join(self, timeout: float | None = None) -> bool:
        """Wait until the thread has ended, no longer than `timeout` seconds; tell whether it has."""
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._round()
        except Stopped:
            pass
        finally:
            self._set("stopped", "")

    def _round(self) -> None:
        error: Exception | None = None
        try:
            error = self.list_and_watch()
        except Stopped:
            raise
        except (CtrlhostError, ValueError) as raised:
            if self._stopping.is_set():
                return
            error = raised
            self._failed(raised)
        except Exception as raised:  # a fault of ours must not end the informer; the log has where it was
            error = raised
            log.exception("the reflector of %s failed in an unforeseen way", self._kind)
            self.status.failed("internal", str(raised))
        self._back_off(error if isinstance(error, CtrlhostError) else None)

    def list_and_watch(self) -> CtrlhostError | None:
        """Make the content equal to the server's, then follow changes until only a new list can help; say why."""
        if self._stopping.is_set():
            raise Stopped
        self._doing = "list"
        if self.status.state != "waiting":
            self._set("reconnecting" if self._position.last else "listing", self.status.reason)
        resource = self._client.resource(self._api_version, self._kind)
        if self._namespace and not resource.namespaced and not self._cluster_scoped():
            raise Stopped
        stream = self._first(resource)
        self._eager = _EAGER_TRIES
        self._engine.process()
        self._fed()
        self._doing = "watch"
        return self._watcher.follow(resource, stream)

    def _first(self, resource: Resource) -> Stream | None:
        if self._streaming:
            try:
                return self._watcher.streaming_list(resource)
            except NoStreamingList as reason:
                log.debug("no streaming list of %s, listing in pages: %s", resource.name, reason)
                self._streaming = not reason.lasting
        try:
            self._pager.list(resource)
        except CtrlhostError as error:
            if not is_unavailable(error) or self._position.unavailable:
                raise
            self._position.unavailable = True
            self._pager.list(resource)
        return None

    def _back_off(self, error: CtrlhostError | None) -> None:
        """Sleep until the next attempt, as long as the server asked at least."""
        delay = self._backoff.next()
        if self.status.state == "waiting":
            delay = min(delay, self._options.waiting_cap)
        if self._eager < _EAGER_TRIES:
            # Also where it is there and not ready yet: a new CRD's storage is answered for with 429 at first.
            delay = min(delay, _EAGER_DELAY * 2**self._eager)
            self._eager += 1
        if isinstance(error, ApiError) and error.retry_after:
            delay = max(delay, error.retry_after)
        self._clock.wait(self._wake, delay)
        if self._stopping.is_set():
            raise Stopped
        self._wake.clear()

    def _failed(self, error: Exception) -> None:
        if isinstance(error, NotFound):
            self._client.resources.forget(self._api_version, self._kind)
            self._set("waiting", error.message)
            self._missing()
        elif isinstance(error, Forbidden):
            where = f" in namespace {self._namespace}" if self._namespace else ""
            self._set(
                "waiting", f"no right to {self._doing} {self._kind} ({self._api_version}){where}: {error.message}"
            )
        else:
            self._set("reconnecting" if self._position.last else "listing", str(error))
        self._note(self._doing, error)

    def _set(self, state: State, reason: str) -> None:
        self.status.set(state, reason, self._clock.now())

    def _note(self, doing: str, error: Exception) -> None:
        """Count a failure and say it, once a minute if it stays the same."""
        self.status.failed(type(error).__name__, str(error))
        if self._on_error is not None:
            self._on_error(error)
        now = self._clock.now()
        text = str(error)
        if self._said is not None and self._said[0] == text and now - self._said[1] < _SAY_AGAIN:
            return
        self._said = (text, now)
        expected = isinstance(error, ApiError) and error.status in (404, 410)
        level = logging.DEBUG if self._optional else logging.INFO if expected else logging.WARNING
        hint = " (the credentials are refused)" if isinstance(error, Unauthorized) else ""
        log.log(level, "can not %s %s%s: %s", doing, self._kind, hint, self.status.reason or text)
