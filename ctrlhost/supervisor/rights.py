"""The rights that plugins declare and their accounts lack, found by one SelfSubjectAccessReview per right.

A SelfSubjectRulesReview would be one request, but its answer may be incomplete.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from typing import TYPE_CHECKING, Any

import msgspec

from ctrlhost.client.builtin_kinds import builtin_plural
from ctrlhost.controller.sentences import rights_missing
from ctrlhost.controller.source import permissions_in
from ctrlhost.errors import CtrlhostError
from ctrlhost.permissions import Permission
from ctrlhost.selectors.namespaces import narrowed
from ctrlhost.transport.responses import error_from_response

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ctrlhost.client import Client
    from ctrlhost.informers import Informer
    from ctrlhost.plugin.context import PluginContext
    from ctrlhost.supervisor.runtime import PluginRuntime

log = logging.getLogger("ctrlhost.host")

_PATH = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
#: The host records events for its plugins.
_EVENTS = Permission("events.k8s.io", ["events"], ["create", "patch"])
#: Seconds for one review, and between two checks of a plugin that lacks a right, or had an answer 403.
_TIMEOUT = 5.0
AGAIN = 10.0
#: Seconds between two looks for plugins to check.
_PERIOD = 1.0


class Rights:
    """A thread that checks the rights of the plugins of a host. Methods may be called from any thread."""

    def __init__(self, plugins: Sequence[PluginRuntime]) -> None:
        """Prepare; `start` starts the thread."""
        self._plugins = plugins
        self._thread = threading.Thread(target=self._run, name="rights", daemon=True)
        self._stopped = threading.Event()
        self._wake = threading.Event()
        self._forbidden = False
        #: The context that was checked last, and when, by plugin.
        self._checked: dict[str, tuple[PluginContext, float]] = {}

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()
        self._wake.set()

    def forbidden(self) -> None:
        """Check again soon: the server has answered 403."""
        self._forbidden = True

    def _run(self) -> None:
        while not self._stopped.is_set():
            forbidden, self._forbidden = self._forbidden, False
            for plugin in self._plugins:
                try:
                    if not self._stopped.is_set() and self._is_due(plugin, forbidden=forbidden):
                        self._check(plugin)
                except Exception:
                    # What went wrong once must not end the checks of all plugins.
                    log.exception("the check of the rights of plugin %s failed; continuing", plugin.name)
            self._wake.wait(_PERIOD)

    def _is_due(self, plugin: PluginRuntime, *, forbidden: bool) -> bool:
        context = plugin.context
        if context is None or not plugin.may_run.is_set():
            return False
        checked = self._checked.get(plugin.name)
        if checked is None or checked[0] is not context:
            return True
        late = time.monotonic() - checked[1] >= AGAIN
        if forbidden and not late:
            # Not forgotten, but not for each of a thousand answers.
            self._forbidden = True
        return late and (forbidden or bool(plugin.missing_rights))

    def _check(self, plugin: PluginRuntime) -> None:
        context, before = plugin.context, plugin.missing_rights
        if context is None:
            return
        try:
            wanted = list(declared(context, plugin.declared_rights, context.services.client))
            context.scope.rights = tuple(wanted)
            plugin.rights = tuple(sorted({rule_text(permission) for permission in wanted}))
            lacking = missing_rights(context.scope.account, wanted, self._stopped.is_set)
            missing = None if lacking is None else tuple(map(rule_text, lacking))
        except (CtrlhostError, ValueError) as error:
            log.debug("plugin %s: its rights cannot be checked: %s", plugin.name, error)
            missing = None
        self._checked[plugin.name] = (context, time.monotonic())
        if missing is None:
            return
        plugin.missing_rights = missing
        if set(missing) - set(before):
            fields = {"plugin": plugin.name, "rights": list(missing)}
            log.warning("%s", rights_missing(plugin.name, len(missing), context.services.plugins), extra=fields)
        if set(before) - set(missing):
            log.info("plugin %s: %d of its rights were granted", plugin.name, len(set(before) - set(missing)))
            for controller in context.controllers:
                for informer in controller.informers:
                    _wake(informer)
            for chosen in (informer.chosen for informer in context.informers):
                if chosen is not None:
                    _wake(chosen)


def _wake(informer: Informer) -> None:
    if informer.state == "waiting":
        informer.wake()


def declared(context: PluginContext, permissions: Sequence[Permission], client: Client) -> Iterator[Permission]:
    """Return the rights that a plugin's sources need, and those that it declares; `client` finds kinds."""
    limit = context.services.namespaces

    def plural(api_version: str, kind: str) -> tuple[str, bool]:
        if (builtin := builtin_plural(api_version, kind)) is not None:
            return builtin
        resource = client.resource(api_version, kind, timeout=_TIMEOUT)
        return resource.plural, resource.namespaced

    for controller in context.controllers:
        own = controller.options.namespaces
        for source in controller.sources:
            yield from _of_source(source, plural, limit if own is None else own)
    for read in context.reads:
        yield from _of_source(read, plural, limit)
    if context.controllers:
        yield from permissions_in(_EVENTS, narrowed(None, limit), namespaced=True)
    yield from permissions


def _of_source(source: Any, plural: Callable[[str, str], tuple[str, bool]], limit: Sequence[str]) -> list[Permission]:
    try:
        return list(source.permissions(plural, limit))
    except CtrlhostError:
        # The kind is not served: the plugin waits for it anyway.
        return []


def missing_rights(
    client: Client, wanted: Iterable[Permission], stopped: Callable[[], bool] = lambda: False
) -> tuple[Permission, ...] | None:
    """Return those of the rights that the client's account lacks, one for each resource; None once it is stopped."""
    lacking: dict[tuple[str | None, str, str, tuple[str, ...]], list[str]] = {}
    answers: dict[tuple[str | None, str, str, str, str], bool] = {}
    for permission in wanted:
        for resource in permission.resources:
            for verb in permission.verbs:
                for name in permission.resource_names or ("",):
                    question = (permission.namespace, permission.group, resource, verb, name)
                    if question not in answers:
                        if stopped():
                            return None
                        answers[question] = _is_allowed(client, *question)
                    verbs = lacking.setdefault(
                        (permission.namespace, permission.group, resource, tuple(permission.resource_names)), []
                    )
                    if not answers[question] and verb not in verbs:
                        verbs.append(verb)
    return tuple(
        Permission(group, [resource], verbs, names, namespace)
        for (namespace, group, resource, names), verbs in sorted(lacking.items(), key=str)
        if verbs
    )


def rule_text(permission: Permission) -> str:
    """Return the rule to add, and where, as one line."""
    where = "a ClusterRole" if permission.namespace is None else f"a Role in namespace {permission.namespace}"
    return f"{json.dumps(permission.rule())} to {where}"


def _is_allowed(client: Client, namespace: str | None, group: str, resource: str, verb: str, name: str) -> bool:
    """Ask the server; CtrlhostError if it does not answer the question."""
    plural, _, subresource = resource.partition("/")
    attributes = {"group": group, "resource": plural, "subresource": subresource, "verb": verb, "name": name}
    attributes["namespace"] = namespace or ""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {key: value for key, value in attributes.items() if value}},
    }
    answer = client.transport.request(
        "POST",
        _PATH,
        body=msgspec.json.encode(review),
        headers={"Content-Type": "application/json"},
        timeout=_TIMEOUT,
    )
    if answer.status not in (200, 201):
        raise error_from_response(answer, f"POST {client.transport.url}{_PATH}")
    return bool((msgspec.json.decode(answer.body).get("status") or {}).get("allowed"))
