"""What operators may change in a running host: they pause, resume and enqueue, and set levels of the log."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from ctrlhost.errors import ConfigError
from ctrlhost.host.admin_requests import (
    ALL_PRIORITY,
    EnqueueAnswer,
    EnqueueRequest,
    LogLevelAnswer,
    LogLevelRequest,
    PauseAnswer,
    PauseRequest,
    parsed,
)
from ctrlhost.host.log_levels import levels, loggers_of
from ctrlhost.request import Request
from ctrlhost.status.keys import find_key
from ctrlhost.status.model import Problem, moment
from ctrlhost.status.problem import StatusProblem, unknown

if TYPE_CHECKING:
    from collections.abc import Sequence
    from threading import Event

    from ctrlhost.config.settings import HostSettings
    from ctrlhost.controller.controller import Controller
    from ctrlhost.host.admin_requests import AdminRequest
    from ctrlhost.supervisor.runtime import PluginRuntime

log = logging.getLogger("ctrlhost.host")

#: The loggers that the setting `log_level` is about; libraries keep their levels.
_ALL = ("", "ctrlhost")
#: Seconds for the answer of another process; less than the listener allows.
_TIMEOUT = 50.0
#: The keys that warnings name one by one.
_WARNINGS = 100


class ActingHost(Protocol):
    """The members of a host that are acted on."""

    plugins: list[PluginRuntime]
    settings: HostSettings
    stopping: Event


class Admin:
    """The actions on one host. Callable from any thread; may wait for locks, and for other processes."""

    def __init__(self, host: ActingHost) -> None:
        """Act on `host`."""
        self._host = host

    @property
    def on(self) -> bool:
        """Whether the host serves the admin API."""
        return self._host.settings.admin

    def target(self, action: str, body: bytes) -> str:
        """Return what a request is about, for the log; empty for a malformed one."""
        try:
            return parsed(action, body).target
        except StatusProblem:
            return ""

    def act(self, action: str, body: bytes, by: str) -> tuple[int, bytes]:
        """Do what a request asks for; return the status of HTTP and the JSON of the answer. `by` says who asks."""
        try:
            return self._act(action, parsed(action, body), body, by)
        except StatusProblem as problem:
            return problem.status, msgspec.json.encode(Problem(problem.error, problem.hint))

    def _act(self, action: str, request: AdminRequest, body: bytes, by: str) -> tuple[int, bytes]:
        if isinstance(request, LogLevelRequest):
            return 200, msgspec.json.encode(self._set_level(request))
        plugin = self._plugin(request)
        if self._host.stopping.is_set():
            raise StatusProblem(409, "the host stops", None)
        if plugin.isolation is not None:
            return self._elsewhere(plugin, action, body, by)
        if isinstance(request, EnqueueRequest):
            (controller,) = self._controllers(plugin, request.controller.partition("/")[2])
            return 200, msgspec.json.encode(_enqueue(controller, request))
        controllers = self._controllers(plugin, request.controller)
        return 200, msgspec.json.encode(_pause(controllers, by if action == "pause" else None))

    def _plugin(self, request: PauseRequest | EnqueueRequest) -> PluginRuntime:
        plugins = {one.name: one for one in self._host.plugins}
        name = request.plugin if isinstance(request, PauseRequest) else request.controller.partition("/")[0]
        if isinstance(request, PauseRequest) and name not in plugins:
            raise unknown("plugin", name, plugins)
        if isinstance(request, EnqueueRequest) and (name not in plugins or "/" not in request.controller):
            raise unknown("controller", request.controller, self._names())
        return plugins[name]

    def _names(self) -> list[str]:
        return [name for plugin in self._host.plugins for name in plugin.controller_names or ()]

    def _controllers(self, plugin: PluginRuntime, name: str | None) -> list[Controller]:
        """Return the controllers of a plugin, or the one of this name; StatusProblem if there is none."""
        controllers = {one.name: one for one in plugin.controllers}
        if not controllers:
            why = f"plugin {plugin.name} is {plugin.state}{f': {plugin.reason}' if plugin.reason else ''}"
            raise StatusProblem(409, f"plugin `{plugin.name}` has no controllers now", why)
        if name is None:
            return list(controllers.values())
        if (found := controllers.get(f"{plugin.name}/{name}")) is None:
            raise unknown("controller", f"{plugin.name}/{name}", self._names())
        return [found]

    def _elsewhere(self, plugin: PluginRuntime, action: str, body: bytes, by: str) -> tuple[int, bytes]:
        """Have the process of an isolated plugin act."""
        from ctrlhost.supervisor.child import ChildAttempt

        attempt = plugin.attempt
        problem = StatusProblem(
            409, f"plugin `{plugin.name}` has no process now", f"plugin {plugin.name} is {plugin.state}"
        )
        if not isinstance(attempt, ChildAttempt) or attempt.socket is None:
            raise problem
        try:
            answer = attempt.actions.ask(action, body, by).result(_TIMEOUT)
        except ConnectionError:
            raise problem from None
        except TimeoutError:
            hint = "`/readyz?verbose` names what hangs"
            raise StatusProblem(504, f"the process of plugin `{plugin.name}` does not answer", hint) from None
        if answer.status == 200 and action in ("pause", "resume") and plugin.isolation is not None:
            # For the next process.
            for name in msgspec.json.decode(answer.body, type=PauseAnswer).controllers:
                if action == "pause":
                    plugin.isolation.pauses.pause(name, by)
                else:
                    plugin.isolation.pauses.resume(name)
        return answer.status, answer.body

    def _set_level(self, request: LogLevelRequest) -> LogLevelAnswer:
        plugins = self._host.plugins
        try:
            loggers = (
                _ALL if request.target_name is None else loggers_of(request.target_name, [one.name for one in plugins])
            )
        except ConfigError as error:
            raise StatusProblem(404, error.message, error.hint) from None
        was = logging.getLevelName(logging.getLogger(loggers[0]).getEffectiveLevel()).lower()
        levels.set(loggers, request.level, request.seconds)
        for attempt in [one.attempt for one in plugins if one.isolation is not None]:
            from ctrlhost.supervisor.channel import LogLevel
            from ctrlhost.supervisor.child import ChildAttempt

            if isinstance(attempt, ChildAttempt):
                attempt.set_log_level(LogLevel(loggers, request.level, request.seconds))
        until = moment(time.time() + request.seconds) if request.seconds else None
        return LogLevelAnswer(request.target_name, request.level, was, until)


def _pause(controllers: Sequence[Controller], by: str | None) -> PauseAnswer:
    """Pause controllers, or without `by` resume them."""
    changed = [one.pause(by) if by is not None else one.resume() for one in controllers]
    return PauseAnswer(
        [one.name for one in controllers],
        any(changed),
        sum(len(one.running()) for one in controllers),
        sum(len(one.queue) for one in controllers),
    )


def _enqueue(controller: Controller, request: EnqueueRequest) -> EnqueueAnswer:
    if not controller.leading:
        leader = controller.leader
        hint = f"{leader} leads: ask that replica" if leader else "no replica leads now"
        raise StatusProblem(409, f"this replica stands by for `{controller.name}`", hint)
    warnings = []
    if request.all:
        keys, priority = _all_keys(controller), ALL_PRIORITY
    else:
        keys, priority = [_key(controller, text) for text in request.keys], 0
        warnings += _missing(controller, keys)
    if controller.primary is not None and not controller.primary.has_synced:
        warnings.append(f"the first list of {controller.primary.kind} is not complete")
    if (pause := controller.pause_state) is not None:
        warnings.append(f"{controller.name} is paused by {pause.by}: its keys wait until it is resumed")
    _end_back_offs(controller, keys)
    controller.queue.add_many(keys, priority=priority if request.priority is None else request.priority)
    return EnqueueAnswer(controller.name, len(keys), warnings)


def _key(controller: Controller, text: str) -> Any:
    key = find_key(controller, text)[0]
    if (controller.primary is not None and type(key) is not Request) or (type(key) is Request and not key.name):
        raise StatusProblem(400, f"invalid key `{text}`", "write it as NAMESPACE/NAME")
    return key


def _all_keys(controller: Controller) -> list[Any]:
    informer = controller.primary
    if informer is None:
        raise StatusProblem(409, f"controller `{controller.name}` reads no kind with `For` now", "name its keys")
    return [Request(one.name, one.namespace) for one in informer.lister.list()]


def _missing(controller: Controller, keys: Sequence[Any]) -> list[str]:
    """Return a warning for each object that is not in the cache."""
    informer = controller.primary
    if informer is None:
        return []
    lister = informer.lister
    missing = [key for key in keys if type(key) is Request and lister.get(key.name, key.namespace) is None]
    warnings = [f"{key} is not in the cache of {informer.kind}" for key in missing[:_WARNINGS]]
    return warnings + ([f"and {len(missing) - _WARNINGS} more"] if len(missing) > _WARNINGS else [])


def _end_back_offs(controller: Controller, keys: Sequence[Any]) -> None:
    """Forget the failures of keys, so that the next failure is the first one."""
    failing = controller.history.failing
    for key in [key for key in keys if key in failing or controller.queue.num_requeues(key)]:
        controller.history.succeeded(key)
        try:
            controller.queue.forget(key)
        except Exception:
            # A rate limiter of the plugin. The key is queued all the same.
            log.exception("controller %s: the rate limiter failed to forget %s", controller.name, key)
