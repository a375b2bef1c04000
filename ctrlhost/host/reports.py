"""What a host reports at `/api/v1`, with the processes of isolated plugins."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from ctrlhost.controller.error_text import encodable
from ctrlhost.server.html import tag
from ctrlhost.server.page import Page, Row, problem_page
from ctrlhost.status import model
from ctrlhost.status.causes import cause_page
from ctrlhost.status.keys import explain, reconciles
from ctrlhost.status.lookups import Asked
from ctrlhost.status.pages.controller import PARTS, Shown, controller_page
from ctrlhost.status.pages.key import key_page
from ctrlhost.status.pages.overview import overview
from ctrlhost.status.pages.plugin import plugin_page
from ctrlhost.status.problem import StatusProblem, unknown
from ctrlhost.status.queues import LIMIT, queue_page
from ctrlhost.status.samples import PERIOD
from ctrlhost.status.snapshot import StatusReader

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from concurrent.futures import Future

    from starlette.types import ASGIApp

    from ctrlhost.controller.controller import Controller
    from ctrlhost.health import Check
    from ctrlhost.host.child_view import ChildView
    from ctrlhost.host.state import HostState
    from ctrlhost.supervisor.runtime import PluginRuntime

#: Seconds for which a page does not ask the API server, or a predicate, again.
_ASKED_EVERY = 10.0
#: Seconds for which the answer of another process counts as current.
_CURRENT = 3.0
#: The last runs that the page of a controller shows.
_RUNS = 20


class Inspected(Protocol):
    """What an inspection shows of the host's checks, pages and processes."""

    def views(self) -> list[ChildView]:
        """Return what the processes of isolated plugins show."""

    def checks(self, endpoint: str) -> list[Check] | None:
        """Return the checks of a probe."""

    def page_paths(self) -> dict[str, list[str]]:
        """Return the paths of the plugins' pages, by plugin."""


class Reports:
    """The reports of one host. Callable from any thread."""

    def __init__(self, host: HostState, inspection: Inspected) -> None:
        """Report about `host`; the health and the pages are those of its inspection."""
        self._host = host
        self._inspection = inspection
        self.reader = StatusReader(host)
        #: For pages, which are rendered once a second.
        self._lookups = Asked(_ASKED_EVERY)

    def begin_status(self) -> list[Future[None]]:
        """Begin to ask the processes of isolated plugins for their status, unless this is under way.

        Return what ends with the answers of those processes that have answered in time so far.
        """
        questions = [(view.prompt(), view.begin_status()) for view in self._inspection.views()]
        return [asking for prompt, asking in questions if prompt]

    def status(self) -> model.Status:
        """Return the state of the host, with that of the processes of isolated plugins as they said last."""
        children = [status for view in self._inspection.views() if (status := view.status()) is not None]
        checks = self._inspection.checks("readyz") or []
        return self.reader.read(checks, self._inspection.page_paths(), children, self._shards())

    def _shards(self) -> model.ShardsStatus | None:
        if self._host.shards is None:
            return None
        from ctrlhost.host.shard_report import shards_status

        return shards_status(self._host.shards)

    def status_json(self) -> bytes:
        """Return `status` as JSON."""
        return _encoded(self.status())

    def queue_json(self, plugin: str, controller: str, query: dict[str, str]) -> tuple[int, bytes]:
        """Return the part of a queue that the parameters `part`, `limit`, `after` and `cause` select."""

        def page() -> model.QueuePage:
            part, limit = query.get("part", "queued"), query.get("limit", str(LIMIT))
            running = self._running(plugin, controller)
            return queue_page(running, part, limit, query.get("after"), query.get("cause", ""))

        return _answer(page)

    def causes_json(self, plugin: str, controller: str, query: dict[str, str]) -> tuple[int, bytes]:
        """Return the causes for which keys of a controller fail."""
        del query
        return _answer(lambda: cause_page(self._running(plugin, controller)))

    def key_json(self, plugin: str, controller: str, query: dict[str, str]) -> tuple[int, bytes]:
        """Return why the key of the parameter `key` is not being reconciled."""

        def status() -> model.KeyStatus:
            if not (key := query.get("key")):
                raise StatusProblem(400, "the parameter `key` is missing", "write it as `key=NAMESPACE/NAME`")
            target = self._find(plugin, controller)
            return explain(self._host, *target, key, lookups=Asked(), writes=self.reader.writes)

        return _answer(status)

    def series_json(self, plugin: str, controller: str, query: dict[str, str]) -> tuple[int, bytes]:
        """Return the samples of a controller."""
        del query

        def series() -> model.Series:
            samples = self.reader.samples.series(self._running(plugin, controller).name)
            if samples is None:
                raise StatusProblem(404, f"no samples of `{plugin}/{controller}` yet", "samples are taken every 5 s")
            return model.Series(period_seconds=PERIOD, **samples)

        return _answer(series)

    def page(self, path: str, query: dict[str, str]) -> Page:
        """Return the status page at a path; one with a problem for a path that names something unknown."""
        try:
            match path.strip("/").split("/"):
                case [""]:
                    return _with_ages(overview(self.status()), self._inspection.views())
                case ["status", "plugins", name]:
                    return self._plugin_page(name)
                case ["status", "controllers", plugin, name]:
                    return self._controller_page(plugin, name, query)
                case ["status", "keys", plugin, name]:
                    return self._key_page(plugin, name, query)
        except StatusProblem as problem:
            return problem_page(problem.status, problem.error, problem.hint)
        return problem_page(404, f"no page at {path}")

    def _plugin_page(self, name: str) -> Page:
        views = [view for view in self._inspection.views() if view.name == name]
        reader, failing, mine = self.reader, self.reader.failing(name), f"{name}/"
        writes, errors = reader.last_writes(name), reader.errors(name)
        for view in views:
            if (status := view.status()) is not None:
                failing += status.failing
                writes += [write for write in status.apiserver.last_writes if write.controller.startswith(mine)]
                errors += status.errors
        page = plugin_page(self.status(), name, failing, writes, errors)
        if page is None:
            raise unknown("plugin", name, [candidate.name for candidate in self._host.plugins])
        return _with_ages(page, views)

    def _controller_page(self, plugin: str, name: str, query: dict[str, str]) -> Page:
        runtime, controller = self._find(plugin, name)
        full, samples = f"{plugin}/{name}", self.reader.samples
        content = Shown(
            name=full,
            time=model.moment(time.time()),
            notice="" if controller is not None else _notice(runtime),
            status=self.reader.controller(controller) if controller is not None else None,
            causes=cause_page(controller).items if controller is not None else [],
            series=samples.series(full),
            parts={part: queue_page(controller, part, str(LIMIT), query.get(part)) for part in PARTS}
            if controller is not None
            else {},
            runs=reconciles(controller, controller.history.last_runs()[:_RUNS] if controller is not None else []),
            period=PERIOD,
        )
        return controller_page(content, query)

    def _key_page(self, plugin: str, name: str, query: dict[str, str]) -> Page:
        if not (key := query.get("key")):
            raise StatusProblem(400, "the parameter `key` is missing", "write it as `key=NAMESPACE/NAME`")
        target = self._find(plugin, name)
        status = explain(self._host, *target, key, lookups=self._lookups, writes=self.reader.writes)
        page = key_page(f"{plugin}/{name}", key, status, model.moment(time.time()))
        runtime, controller = target
        if controller is not None:
            return page
        return _with_rows(page, [Row("notice", tag("p", _notice(runtime), id="notice", class_="warn"))])

    def parameters(self, path: str) -> Collection[str]:
        """Return the names of the parameters that the page at a path reads."""
        match path.strip("/").split("/"):
            case ["status", "controllers", _, _]:
                return PARTS
            case ["status", "keys", _, _]:
                return ("key",)
        return ()

    def elsewhere(self, plugin: str, seconds: float) -> ASGIApp | None:
        """Return the application that answers for an isolated plugin within so many seconds."""
        children = self._host.children
        return children.proxy_to(plugin, seconds) if children is not None else None

    def _find(self, plugin: str, name: str) -> tuple[PluginRuntime, Controller | None]:
        """Return a plugin and its controller; None if the plugin has none now. StatusProblem if one is unknown."""
        runtime = next((candidate for candidate in self._host.plugins if candidate.name == plugin), None)
        if runtime is None:
            raise unknown("plugin", plugin, [candidate.name for candidate in self._host.plugins])
        full, known = f"{plugin}/{name}", runtime.controller_names
        running = next((controller for controller in runtime.controllers if controller.name == full), None)
        if running is None and known is not None and full not in known:
            raise unknown("controller", full, known)
        return runtime, running

    def _running(self, plugin: str, name: str) -> Controller:
        runtime, controller = self._find(plugin, name)
        if controller is None:
            raise StatusProblem(409, f"controller `{plugin}/{name}` does not run", _state(runtime))
        return controller


def _notice(plugin: PluginRuntime) -> str:
    """Return why a controller of the plugin cannot be shown."""
    if plugin.isolated and plugin.state == "running":
        return f"the process of plugin {plugin.name} does not answer now"
    return f"does not run: {_state(plugin)}"


def _state(plugin: PluginRuntime) -> str:
    return f"plugin {plugin.name} is {plugin.state}{f': {plugin.reason}' if plugin.reason else ''}"


def _answer(make: Callable[[], Any]) -> tuple[int, bytes]:
    try:
        return 200, _encoded(make())
    except StatusProblem as problem:
        return problem.status, _encoded(model.Problem(problem.error, problem.hint))


def _with_ages(page: Page, views: Iterable[ChildView]) -> Page:
    """Return a page whose first section says for which processes it is older than a moment."""
    return _with_rows(page, [_old(view.name, age) for view in views if (age := view.status_age()) >= _CURRENT])


def _with_rows(page: Page, rows: list[Row]) -> Page:
    """Return a page with more rows in its first section."""
    first, *others = page.sections
    return replace(page, sections=[replace(first, rows=[*first.rows, *rows]), *others])


def _old(plugin: str, age: float) -> Row:
    text = f"The process of plugin {plugin} does not answer now: what is shown of it is as it was {age:.0f} s ago."
    return Row(f"old-{plugin}", tag("p", f"\N{BLACK UP-POINTING TRIANGLE} {text}", id=f"old-{plugin}", class_="warn"))


def _encoded(answer: Any) -> bytes:
    """Return JSON, whatever texts a plugin has given: names, reasons and details of its own."""
    try:
        return msgspec.json.encode(answer)
    except UnicodeEncodeError:
        text = json.dumps(msgspec.to_builtins(answer), ensure_ascii=False)
        return msgspec.json.encode(json.loads(encodable(text)))
