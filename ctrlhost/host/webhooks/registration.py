"""How the API server comes to know a host's webhooks: their certificates, and their configurations."""

from __future__ import annotations

import base64
import contextlib
import logging
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ctrlhost.clock import doubling
from ctrlhost.errors import Conflict, CtrlhostError
from ctrlhost.host.webhooks.authority_secret import AuthoritySecret
from ctrlhost.server.authority import LOOPBACK, NAME, Authority, AuthorityPairs, service_names
from ctrlhost.server.certificates import PERIOD
from ctrlhost.webhooks.configurations import (
    API_VERSION,
    CRDS,
    ServiceAddress,
    UrlAddress,
    addressed,
    configurations,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctrlhost.client import Client
    from ctrlhost.clock import Clock
    from ctrlhost.host.webhooks.parts import HostParts, Listener
    from ctrlhost.server.key_pairs import KeyPairs
    from ctrlhost.webhooks.configurations import Address

log = logging.getLogger("ctrlhost.host")

#: Seconds between two attempts.
_FIRST_DELAY, _MAX_DELAY = 0.25, 30.0
#: Seconds for one request at the shutdown, and for the thread to end.
_LAST_TIMEOUT = 2.0
_MANAGER = "ctrlhost-webhooks"
_CONVERT = "/convert/"
#: Where a CRD says who converts its objects.
_CLIENT_CONFIG = "/spec/conversion/webhook/clientConfig"


class Registration:
    """Keeps the configurations as the webhooks of this host need them, while it leads for their plugin.

    In a cluster the operator applies them, and this only writes the certificates to trust into them. By URL it applies
    them itself, and deletes them at the end. A thread of its own; methods may be called from any thread.
    """

    def __init__(self, state: HostParts, listener: Listener, clock: Clock) -> None:
        """Prepare; this starts nothing."""
        self._state = state
        self._settings = state.settings
        self._listener = listener
        self._clock = clock
        self._wake, self._stopped = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="webhook registration", daemon=True)
        self._secret: AuthoritySecret | None = None
        self._certified = False
        self._url = self._settings.webhook_url
        #: The authority by URL, of this process alone; clients verify by their own clock.
        is_own = self._url and self._settings.webhook_cert_dir is None
        self._own = Authority.new(time.time()) if is_own else None
        #: The certificates to trust, as PEM; None if others write them.
        self._trusted = self._own.bundle(time.time()) if self._own is not None else None
        #: Whether to look again in a moment.
        self._soon = False
        self._watched: set[tuple[str, str]] = set()
        #: What was registered by URL.
        self._applied: set[tuple[str, str]] = set()
        #: What was reported, by object.
        self._reported: dict[str, str] = {}
        #: The plugins whose configurations are as they should be.
        self._registered: frozenset[str] = frozenset()

    def source(self) -> KeyPairs | None:
        """Return the certificates of a host outside of the cluster; None if they come with the Secret."""
        own = self._own
        if own is None:
            return None
        names = dict.fromkeys((urlsplit(self._url or "").hostname or LOOPBACK[0], *LOOPBACK))
        return AuthorityPairs(lambda: own, names, time.time)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def changed(self) -> None:
        """Look again: a plugin was set up, or this replica leads or no longer leads."""
        self._wake.set()

    def registered(self) -> bool:
        """Return whether the configurations of all plugins for which this replica leads are as they should be."""
        return all(plugin in self._registered or not self._leads(plugin) for plugin in list(self._listener.entries))

    def addressed(self, crd: dict[str, Any]) -> dict[str, Any]:
        """Return a CRD whose conversion leads to this host, if one of its plugins converts the objects."""
        address = self._address()
        paths = [path for entries in list(self._listener.entries.values()) for path in entries]
        return crd if address is None else addressed(crd, address, paths)

    def stop(self) -> None:
        """End the thread, and remove what was registered by URL."""
        self._stopped.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(_LAST_TIMEOUT)
        client, address = self._state.client, self._address()
        if client is None or not isinstance(address, UrlAddress):
            return
        later = ServiceAddress(client.namespace, self._settings.webhook_service)
        for plugin, entries in self._listener.entries.items():
            try:
                for wanted in configurations(plugin, entries, address):
                    self._remove(client, wanted)
                for path in entries:
                    if path.startswith(_CONVERT):
                        self._lead_back(client, path, address, later)
            except CtrlhostError as error:
                log.warning("plugin %s: its webhooks stay registered: %s", plugin, error)

    def _run(self) -> None:
        delays = doubling(_FIRST_DELAY, _MAX_DELAY)
        while not self._stopped.is_set():
            self._wake.clear()
            try:
                until = self._look()
            except (CtrlhostError, OSError) as error:
                self._listener.waits(str(error))
                self._report("", f"webhooks: {error}")
                self._wake.wait(next(delays))
            else:
                self._report("", "")
                delays = doubling(_FIRST_DELAY, _MAX_DELAY)
                if self._soon:
                    self._wake.wait(_FIRST_DELAY)
                else:
                    self._clock.wait(self._wake, until)

    def _look(self) -> float | None:
        """Do what there is to do; return the seconds until more is due."""
        self._soon = False
        until = self._follow_authority()
        client, address = self._client(), self._address()
        if client is None or address is None:
            self._soon = True
            return None
        if self._trusted is None and not self._url:
            # Others write the configurations, such as cert-manager.
            return until
        done = set()
        for plugin, entries in list(self._listener.entries.items()):
            if self._stopped.is_set():
                break
            if self._leads(plugin) and self._register(client, plugin, entries, address):
                done.add(plugin)
        self._registered = frozenset(done)
        return until

    def _follow_authority(self) -> float | None:
        """Note the certificates to trust; return the seconds until they change."""
        if self._own is not None:
            return None
        if self._settings.webhook_cert_dir is not None:
            file = Path(self._settings.webhook_cert_dir).expanduser() / "ca.crt"
            self._trusted = file.read_bytes() if file.exists() else None
            return PERIOD
        client, time = self._client(), self._clock.time
        if client is None:
            self._soon = True
            return None
        if self._secret is None:
            self._secret = AuthoritySecret(client, client.namespace, time)
            self._watch("v1", "Secret", NAME, client.namespace)
        secret, known = self._secret, self._secret.authority
        authority, problem = known, ""
        try:
            authority = secret.read()
        except CtrlhostError as error:
            if known is None:
                raise
            # The certificate stays as it is.
            authority, problem = known, f"webhooks: {error}"
        self._report(NAME, problem)
        if not self._certified:
            names = [*service_names(self._settings.webhook_service, client.namespace), *LOOPBACK]
            self._listener.certify(AuthorityPairs(lambda: secret.authority or authority, names, time))
            self._certified = True
        now = time()
        self._trusted = authority.bundle(now)
        return max(authority.next_change(now) - now, _MAX_DELAY if problem else 0.0)

    def _client(self) -> Client | None:
        client = self._state.client
        return client.derive(field_manager=_MANAGER) if client is not None else None

    def _address(self) -> Address | None:
        """Return how the API server reaches this host; None while that is not known."""
        if self._url:
            address = self._listener.address
            return UrlAddress(_with_port(self._url, address), self._trusted) if address is not None else None
        client = self._state.client
        return ServiceAddress(client.namespace, self._settings.webhook_service) if client is not None else None

    def _leads(self, plugin: str) -> bool:
        children, leadership = self._state.children, self._state.leadership
        if leadership is None or (children is not None and children.elects(plugin)):
            return True
        return leadership.candidacy(plugin).leading

    def _register(self, client: Client, plugin: str, entries: Mapping[str, dict[str, Any]], address: Address) -> bool:
        """Write what differs; return whether everything is there."""
        complete = True
        for wanted in configurations(plugin, entries, address):
            kind, name = wanted["kind"], wanted["metadata"]["name"]
            self._watch(API_VERSION, kind, name)
            live = client.find(API_VERSION, kind, name)
            if isinstance(address, UrlAddress):
                self._apply(client, plugin, wanted, live)
            else:
                complete &= self._found(plugin, kind, name, live, "its webhooks are not called")
                if live is not None:
                    paths = [f"/webhooks/{number}/clientConfig" for number in range(len(live.get("webhooks") or ()))]
                    self._trust(client, live, paths)
        for path in entries:
            if path.startswith(_CONVERT):
                complete &= self._convert(client, plugin, path, address)
        return complete

    def _apply(self, client: Client, plugin: str, wanted: dict[str, Any], live: Mapping[str, Any] | None) -> None:
        """Register by URL: over what an earlier host has left, but not over what a later one wrote."""
        kind, name = wanted["kind"], wanted["metadata"]["name"]
        taken = live is not None and (kind, name) in self._applied and _urls(live) != _urls(wanted)
        text = f"plugin {plugin}: another host has taken {kind} {name} over; the webhooks here are not called"
        self._report(f"{kind} {name}", text if taken else "")
        if not taken and (live is None or _facts(live) != _facts(wanted)):
            client.apply(wanted)
            self._applied.add((kind, name))
            log.info("plugin %s: registered its webhooks as %s %s", plugin, kind, name)

    def _convert(self, client: Client, plugin: str, path: str, address: Address) -> bool:
        """Direct the conversions of a CRD to this host; return whether they do."""
        name = _crd_of(path)
        if not self._crds_tried(plugin):
            # The host installs it.
            self._soon = True
            return False
        self._watch(*CRDS, name)
        live = client.find(*CRDS, name)
        webhook = ((live or {}).get("spec", {}).get("conversion") or {}).get("webhook")
        is_there = self._found(plugin, CRDS[1], name, webhook, "it has no conversion by webhook")
        if live is None or not webhook:
            return is_there
        if isinstance(address, UrlAddress):
            if webhook.get("clientConfig") != (config := address.client_config(path)):
                self._patch(client, live, [{"op": "add", "path": _CLIENT_CONFIG, "value": config}])
        else:
            self._trust(client, live, [_CLIENT_CONFIG])
        return True

    def _crds_tried(self, plugin: str) -> bool:
        """Return whether the host has installed the CRDs of a plugin, or will not."""
        runtimes = (runtime for runtime in self._state.plugins if runtime.name == plugin)
        return all(runtime.crds_tried.is_set() for runtime in runtimes)

    def _found(self, plugin: str, kind: str, name: str, there: object, otherwise: str) -> bool:
        """Report, once, an object that the operator has not applied; return whether it is there."""
        hint = "apply the output of `ctrlhost manifests`; outside of a cluster, give --webhook-url"
        text = f"plugin {plugin}: {kind} {name} is missing, or {otherwise} (hint: {hint})"
        self._report(f"{kind} {name}", "" if there else text)
        return bool(there)

    def _trust(self, client: Client, live: Mapping[str, Any], paths: list[str]) -> None:
        """Write the certificates to trust, where others are."""
        if self._trusted is None:
            return
        wanted = base64.b64encode(self._trusted).decode()
        patch = [
            {"op": "add", "path": f"{path}/caBundle", "value": wanted}
            for path in paths
            if _at(live, path).get("caBundle") != wanted
        ]
        if patch:
            self._patch(client, live, patch)
            log.info("%s %s: wrote the certificates to trust", live["kind"], live["metadata"]["name"])

    def _patch(self, client: Client, live: Mapping[str, Any], patch: list[dict[str, Any]]) -> None:
        version = {"op": "test", "path": "/metadata/resourceVersion", "value": live["metadata"]["resourceVersion"]}
        client.patch(live["apiVersion"], live["kind"], live["metadata"]["name"], None, [version, *patch], type="json")

    def _remove(self, client: Client, wanted: Mapping[str, Any]) -> None:
        kind, name = wanted["kind"], wanted["metadata"]["name"]
        live = client.find(API_VERSION, kind, name, timeout=_LAST_TIMEOUT)
        if live is not None and _facts(live) == _facts(wanted):
            version = live["metadata"]["resourceVersion"]
            with contextlib.suppress(Conflict):
                preconditions = {"resourceVersion": version}
                client.delete(API_VERSION, kind, name, preconditions=preconditions, timeout=_LAST_TIMEOUT)

    def _lead_back(self, client: Client, path: str, address: UrlAddress, later: Address) -> None:
        """Direct the conversions of a CRD to a Service again, which an operator may then apply."""
        live = client.find(*CRDS, _crd_of(path), timeout=_LAST_TIMEOUT)
        webhook = ((live or {}).get("spec", {}).get("conversion") or {}).get("webhook") or {}
        if live is not None and webhook.get("clientConfig") == address.client_config(path):
            with contextlib.suppress(Conflict):
                self._patch(client, live, [{"op": "add", "path": _CLIENT_CONFIG, "value": later.client_config(path)}])

    def _watch(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> None:
        """Look again whenever somebody changes this object."""
        factory = self._state.factory
        if (kind, name) in self._watched or factory is None:
            return
        self._watched.add((kind, name))
        namespaces = None if namespace is None else [namespace]
        factory.informer(
            api_version, kind, namespaces=namespaces, field_selector=f"metadata.name={name}", reads="metadata"
        ).add_handler(
            lambda _obj, _initial: self._wake.set(),
            lambda _old, _new: self._wake.set(),
            lambda _obj: self._wake.set(),
            name=f"webhooks {name}",
        )
        factory.start()

    def _report(self, subject: str, text: str) -> None:
        """Log a problem once, until it is another one."""
        if text and text != self._reported.get(subject):
            log.warning("%s", text)
        self._reported[subject] = text


def _with_port(url: str, address: str) -> str:
    """Return a URL whose port is that of an address, if it is 0."""
    parts = urlsplit(url)
    if parts.port != 0:
        return url
    return parts._replace(netloc=f"{parts.netloc.rpartition(':')[0]}:{address.rpartition(':')[2]}").geturl()


def _crd_of(path: str) -> str:
    """Return the name of the CRD whose objects are converted at a path."""
    group, _, plural = path.removeprefix(_CONVERT).partition("/")
    return f"{plural}.{group}"


def _facts(configuration: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the names of the webhooks, and where they are reached."""
    return [(webhook["name"], webhook["clientConfig"]) for webhook in configuration.get("webhooks") or ()]


def _urls(configuration: Mapping[str, Any]) -> list[str | None]:
    return [config.get("url") for _, config in _facts(configuration)]


def _at(obj: Mapping[str, Any], path: str) -> Any:
    value: Any = obj
    for part in path.strip("/").split("/"):
        value = value[int(part)] if isinstance(value, list) else value[part]
    return value
