"""What operators may change in a running host: they pause, resume and enqueue, and set levels of the log."""

from __future__ import annotations

import logging
import time
from collections import Counter
from concurrent.futures import wait
from typing import TYPE_CHECKING, Any

import msgspec

from ctrlhost.controller.key_text import key_text
from ctrlhost.errors import ConfigError
from ctrlhost.host.admin_requests import (
    ALL_PRIORITY,
    EnqueueAnswer,
    EnqueueRequest,
    LogLevelAnswer,
    LogLevelRequest,
    PauseAnswer,
    PauseRequest,
    ProfileRequest,
    ResignRequest,
    parsed,
)
from ctrlhost.host.log_levels import find_loggers, levels
from ctrlhost.request import Request
from ctrlhost.status.model import Problem, moment
from ctrlhost.status.problem import StatusProblem, unknown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctrlhost.controller.controller import Controller
    from ctrlhost.controller.pauses import Pauses
    from ctrlhost.host.admin_requests import AdminRequest
    from ctrlhost.host.state import HostState
    from ctrlhost.supervisor.runtime import PluginRuntime

log = logging.getLogger("ctrlhost.host")

#: The loggers that the setting `log_level` is about; libraries keep their levels.
_ALL = ("", "ctrlhost")
#: Seconds for the answer of another process; less than the listener allows.
_TIMEOUT = 50.0
#: For how many seconds the processes of plugins may take to change a level.
_LEVEL_TIMEOUT = 5.0
#: The keys that warnings name one by one, and those of each part of a queue that tell the type of a controller's keys.
_WARNINGS = _KNOWN = 100
#: States of a plugin that does not start again.
_OVER = frozenset({"disabled", "failed", "stopped"})
#: The digits of a key that is a number; int() refuses thousands.
_DIGITS = 1000


class Admin:
    """The actions on one host. Callable from any thread; may wait for locks, and for other processes."""

    def __init__(self, host: HostState) -> None:
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
        except Exception as error:
            # Another process waits for the answer.
            log.exception("the request `%s` failed", action)
            return 500, msgspec.json.encode(Problem(f"the host failed to act: {type(error).__name__}", "see its log"))

    def _act(self, action: str, request: AdminRequest, body: bytes, by: str) -> tuple[int, bytes]:
        if isinstance(request, LogLevelRequest):
            return 200, msgspec.json.encode(self._set_level(request))
        if isinstance(request, ProfileRequest):
            from ctrlhost.host.profile import profile

            sampled = profile(self._host, request, lambda plugin, asked: self._ask(plugin, action, asked, by))
            return 200, msgspec.json.encode(sampled)
        if isinstance(request, ResignRequest):
            from ctrlhost.host.resignation import resign

            resigned = resign(self._host, request, lambda plugin, asked: self._ask(plugin, action, asked, by))
            return 200, msgspec.json.encode(resigned)
        plugin = self._plugin(request)
        if self._host.stopping.is_set():
            raise StatusProblem(409, "the host stops", None)
        answer = self._ask(plugin, action, body, by)
        if isinstance(request, EnqueueRequest):
            if answer is None:
                answer = 200, msgspec.json.encode(_enqueue(self._controller(plugin, request.controller), request))
            return answer
        paused_by = by if action == "pause" else None
        if answer is None:
            noted = self._pause(plugin, request, paused_by)
            # A process that has begun meanwhile may not know of it.
            return self._ask(plugin, action, body, by) or (200, msgspec.json.encode(noted))
        if answer[0] == 200:
            # For the next process.
            _note(self._pauses_of(plugin), request, paused_by)
        return answer

    def _plugin(self, request: PauseRequest | EnqueueRequest) -> PluginRuntime:
        plugins = {plugin.name: plugin for plugin in self._host.plugins}
        name = request.plugin if isinstance(request, PauseRequest) else request.controller.partition("/")[0]
        if isinstance(request, PauseRequest) and name not in plugins:
            raise unknown("plugin", name, plugins)
        if isinstance(request, EnqueueRequest) and (name not in plugins or "/" not in request.controller):
            raise unknown("controller", request.controller, self._names())
        return plugins[name]

    def _names(self) -> list[str]:
        return [name for plugin in self._host.plugins for name in plugin.controller_names or ()]

    def _controller(self, plugin: PluginRuntime, name: str) -> Controller:
        """Return a controller of a plugin; StatusProblem if there is none of this name."""
        controllers = {controller.name: controller for controller in plugin.controllers}
        if not controllers:
            raise _no_controllers(plugin)
        if (wanted := controllers.get(name)) is None:
            raise unknown("controller", name, self._names())
        return wanted

    def _pause(self, plugin: PluginRuntime, request: PauseRequest, by: str | None) -> PauseAnswer:
        """Pause controllers, or without `by` resume them; those of a plugin that starts or restarts, when it runs."""
        pauses = self._pauses_of(plugin)
        names = [controller.name for controller in plugin.controllers]
        if plugin.state in _OVER or (not names and plugin.context is not None):
            raise _no_controllers(plugin)
        names = names or pauses.known(plugin.name)
        if request.controller is not None:
            if not names:
                raise _no_controllers(plugin)
            if request.target not in names:
                raise unknown("controller", request.target, {*names, *self._names()})
            names = [request.target]
        before = pauses.states()
        _note(pauses, request, by)
        # In this order: a controller that begins now is among these, or begins as noted.
        controllers = [
            controller for controller in plugin.controllers if request.controller is None or controller.name in names
        ]
        if controllers:
            return _paused(controllers, by, request.reason)
        changed = any((before.get(name) is None) is (by is not None) for name in names or [plugin.name])
        return PauseAnswer(names, changed, 0, 0)

    def _pauses_of(self, plugin: PluginRuntime) -> Pauses:
        own = plugin.attempt.pauses if plugin.attempt is not None else None
        return self._host.pauses if own is None else own

    def _ask(self, plugin: PluginRuntime, action: str, body: bytes, by: str) -> tuple[int, bytes] | None:
        """Return the answer of the plugin's own process; None without one. StatusProblem if it hangs."""
        try:
            return plugin.attempt.ask(action, body, by, _TIMEOUT) if plugin.attempt is not None else None
        except TimeoutError:
            hint = "`/readyz?verbose` names what hangs"
            raise StatusProblem(504, f"the process of plugin `{plugin.name}` does not answer", hint) from None

    def _set_level(self, request: LogLevelRequest) -> LogLevelAnswer:
        plugins = self._host.plugins
        try:
            loggers = (
                _ALL
                if request.target_name is None
                else find_loggers(request.target_name, [plugin.name for plugin in plugins])
            )
        except ConfigError as error:
            raise StatusProblem(404, error.message, error.hint) from None
        was = logging.getLevelName(logging.getLogger(loggers[0]).getEffectiveLevel()).lower()
        levels.set(loggers, request.level, request.seconds)
        # One that hangs changes it when it reads on.
        attempts = [plugin.attempt for plugin in plugins if plugin.attempt is not None]
        changes = [attempt.set_log_level(loggers, request.level, request.seconds) for attempt in attempts]
        wait([change for change in changes if change is not None], _LEVEL_TIMEOUT)
        until = moment(time.time() + request.seconds) if request.seconds else None
        return LogLevelAnswer(request.target_name, request.level, was, until)


def _no_controllers(plugin: PluginRuntime) -> StatusProblem:
    why = f"plugin {plugin.name} is {plugin.state}{f': {plugin.reason}' if plugin.reason else ''}"
    return StatusProblem(409, f"plugin `{plugin.name}` has no controllers now", why)


def _note(pauses: Pauses, request: PauseRequest, by: str | None) -> None:
    if by is not None:
        pauses.pause(request.target, by, request.reason)
    else:
        pauses.resume(request.target)


def _paused(controllers: Sequence[Controller], by: str | None, reason: str) -> PauseAnswer:
    """Pause controllers, or without `by` resume them."""
    changed = [controller.pause(by, reason) if by is not None else controller.resume() for controller in controllers]
    return PauseAnswer(
        [controller.name for controller in controllers],
        any(changed),
        sum(len(controller.running()) for controller in controllers),
        sum(len(controller.queue) for controller in controllers),
    )


def _enqueue(controller: Controller, request: EnqueueRequest) -> EnqueueAnswer:
    if not controller.leading:
        leader = controller.leader
        hint = f"{leader} leads: ask that replica" if leader else "no replica leads now"
        raise StatusProblem(409, f"this replica stands by for `{controller.name}`", hint)
    warnings: list[str] = []
    if request.all:
        keys, priority = _all_keys(controller), ALL_PRIORITY
    else:
        keys, warnings = _keys(controller, request.keys)
        warnings += _missing(controller, keys)
        priority = 0
    if controller.primary is not None and not controller.primary.has_synced:
        warnings.append(f"the first list of {controller.primary.kind} is not complete")
    if (pause := controller.pause_state) is not None:
        warnings.append(f"{controller.name} is paused by {pause.by}: its keys wait until it is resumed")
    _end_back_offs(controller, keys)
    controller.queue.add_many(keys, priority=priority if request.priority is None else request.priority)
    return EnqueueAnswer(controller.name, len(keys), warnings)


def _keys(controller: Controller, texts: Sequence[str]) -> tuple[list[Any], list[str]]:
    """Return the keys that texts name, and warnings; StatusProblem for one that is not of the controller's type.

    Those of a controller with `For` are objects. Another one's are of the types that it has, or has had lately.
    """
    if any(source.is_primary for source in controller.sources):
        return [_object_key(text) for text in texts], []
    known = _known_keys(controller)
    by_text = {key_text(key): key for key in known}
    # A wrong key may be among them.
    types = [kind for kind, _ in Counter(map(type, known)).most_common()]
    keys = [by_text[text] if text in by_text else _other_key(text, types or [Request]) for text in texts]
    if known:
        return keys, []
    return keys, [f"{controller.name} has no `For` and no key so far: the type `Request` of these keys may be wrong"]


def _object_key(text: str) -> Request:
    parts = text.split("/")
    if len(parts) > 2 or not parts[-1]:
        raise StatusProblem(400, f"invalid key `{text}`", "write it as NAMESPACE/NAME")
    return Request(parts[-1], *parts[:-1])


def _other_key(text: str, types: Sequence[type]) -> Any:
    """Return the key of a text, of the first type that fits."""
    parts = text.split("/")
    keys: dict[type, Any] = {str: text}
    if len(parts) <= 3 and parts[-1]:
        keys[Request] = Request(parts[-1], *parts[-2:-1], *parts[-3:-2])
    if text.isascii() and text.removeprefix("-").isdigit() and len(text) <= _DIGITS:
        keys[int] = int(text)
    for kind in types:
        if kind in keys:
            return keys[kind]
    names = ", ".join(f"`{key_type.__name__}`" for key_type in types)
    raise StatusProblem(400, f"invalid key `{text}`", f"the type of the controller's keys: {names}")


def _known_keys(controller: Controller) -> list[Any]:
    """Return the keys of the last runs and some of those in the queue."""
    pages = [controller.queue.page(part, _KNOWN).keys for part in ("queued", "processing", "delayed")]
    waiting = [item.key for page in pages for item in page]
    failing = controller.history.failing_keys(0, _KNOWN)
    return [*waiting, *failing, *(run[0] for run in controller.history.runs.copy())]


def _all_keys(controller: Controller) -> list[Any]:
    informer = controller.primary
    if informer is None:
        raise StatusProblem(409, f"controller `{controller.name}` reads no kind with `For` now", "name its keys")
    return [Request(obj.name, obj.namespace) for obj in informer.lister.list()]


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
    attempts = controller.history.attempts
    for key in [key for key in keys if key in attempts or controller.queue.num_requeues(key)]:
        controller.history.succeeded(key)
        try:
            controller.queue.forget(key)
        except Exception:
            # A rate limiter of the plugin. The key is queued all the same.
            log.exception("controller %s: the rate limiter failed to forget %s", controller.name, key)
