"""Creating the Service and the StatefulSet of a network, and keeping them as they should be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import ctrlhost
from ctrlhost_bitcoin.objects import desired, names, ownership, updating

if TYPE_CHECKING:
    from ctrlhost_bitcoin.objects.spec import NetworkSpec

SERVICE, STATEFUL_SET = ("v1", "Service"), ("apps/v1", "StatefulSet")
_WORDS = {"Service": "headless service", "StatefulSet": "stateful set"}
_MAX_TRIES = 4
Content: TypeAlias = dict[str, Any]
#: From the live and the wanted object, the object to write and the names of the fields that change.
Update: TypeAlias = Callable[[Content, Content], tuple[Content, list[str]]]


class NameConflict(Exception):
    """An object of that name belongs to another owner; it is left alone."""


class Failed(Exception):
    """The server refused a write; `__cause__` is its answer. The message holds nothing volatile."""


@dataclass(slots=True)
class Children:
    """The outcome of one pass over both children."""

    #: The live StatefulSet, as far as it is ours.
    stateful_set: Content | None = None
    conflicts: tuple[str, ...] = ()
    #: Children that are being deleted, which are left alone until they are gone.
    terminating: tuple[str, ...] = ()
    #: The first failure; the caller raises it after the rest of its work.
    failure: Exception | None = None


class ChildKeeper:
    """Keeps the children of one network; lives for one pass."""

    def __init__(self, ctx: ctrlhost.Context, network: Content, spec: NetworkSpec, *, adopt: bool, roll: bool) -> None:
        """Keep those of `network`; `roll` restarts the pods for new credentials."""
        self._ctx, self._network, self._spec = ctx, network, spec
        self._adopt, self._roll = adopt, roll

    def keep(self, digest: str | None) -> Children:
        """Create or update both, independently of each other; without a digest the StatefulSet stays as it is."""
        found, name = Children(), self._spec.name
        stateful_set, service = desired.stateful_set(self._spec, digest or ""), desired.service(self._spec)
        cached = self._cached(stateful_set)
        if cached is not None and _selector(cached) == names.upstream_selector(name):
            # Its pods lack our labels until they are restarted.
            service["spec"]["selector"] = names.upstream_selector(name)
        self._attempt(found, service, updating.update_service)
        ours = cached if cached is not None and ownership.classify(cached, self._network) == "ours" else None
        found.stateful_set = ours if digest is None else self._attempt(found, stateful_set, self._update, ours)
        self._ctx.log.debug("checked the objects of %s/%s", self._spec.namespace, name)
        return found

    def _cached(self, wanted: Content) -> Content | None:
        found = self._ctx.lister(wanted["apiVersion"], wanted["kind"]).get(
            wanted["metadata"]["name"], self._spec.namespace
        )
        return None if found is None else found.to_dict()

    def _live(self, obj: Content) -> Content | None:
        metadata = obj["metadata"]
        return self._ctx.client.find(obj["apiVersion"], obj["kind"], metadata["name"], metadata["namespace"])

    def _attempt(
        self, found: Children, wanted: Content, update: Update, fallback: Content | None = None
    ) -> Content | None:
        """Return the object as it is now, after a failure the fallback; note in `found` what prevented it."""
        try:
            live = self._ensure(wanted, update)
            if live["metadata"].get("deletionTimestamp"):
                found.terminating += (f"{live['kind']} {live['metadata']['name']}",)
            return live
        except NameConflict as conflict:
            found.conflicts += (str(conflict),)
            return None
        except (Failed, ctrlhost.CtrlhostError) as error:
            found.failure = found.failure or error
            return fallback

    def _ensure(self, wanted: Content, update: Update) -> Content:
        """Return the object as it is now; retry a conflict of versions with the server's object."""
        live = self._cached(wanted)
        for left in reversed(range(_MAX_TRIES)):
            try:
                return self._create(wanted) if live is None else self._change(live, wanted, update)
            except (ctrlhost.Conflict, ctrlhost.AlreadyExists, ctrlhost.NotFound):
                if not left:
                    raise
                live = self._live(wanted)
        raise AssertionError("the last try returns or raises")

    def _create(self, wanted: Content) -> Content:
        kind, name = wanted["kind"], wanted["metadata"]["name"]
        try:
            created = self._ctx.client.create(wanted, self._network)
        except (ctrlhost.AlreadyExists, ctrlhost.Conflict):
            raise
        except ctrlhost.ApiError as error:
            raise self._failed("create", wanted, error) from error
        what = f"created {_WORDS[kind]} {name}"
        if kind == "StatefulSet":
            what += f" with {wanted['spec']['replicas']} replicas"
        self._record(f"{kind}Created", what, "Create", created)
        return created

    def _change(self, live: Content, wanted: Content, update: Update) -> Content:
        kind, name = live["kind"], live["metadata"]["name"]
        owned = ownership.classify(live, self._network)
        adopting = owned == "unowned" and self._adopt and ownership.fits(_selector(live), self._spec.name)
        # A mount without its claim would be refused.
        adopting = adopting and (self._spec.storage is None or kind != "StatefulSet" or updating.has_storage(live))
        if owned != "ours" and not adopting:
            raise NameConflict(f"{kind} {name} exists and belongs to {ownership.owner_text(live)}")
        if live["metadata"].get("deletionTimestamp"):
            # Created again once it is gone.
            return live
        if adopting and not self._is_kept():
            # A deletion that orphans removes our reference first. Restoring it would get the object deleted.
            return live
        changed, fields = update(live, wanted)
        if adopting:
            changed = ownership.adopted(changed, self._network)
        elif not fields:
            return live
        try:
            written = self._ctx.client.replace(changed)
        except (ctrlhost.Conflict, ctrlhost.NotFound):
            raise
        except ctrlhost.ApiError as error:
            raise self._failed("update", live, error) from error
        if adopting:
            self._record("Adopted", f"took over existing {kind} {name}", "Adopt", live)
        if kind == "StatefulSet":
            self._record_update(live, wanted, fields)
        return written

    def _is_kept(self) -> bool:
        """Return whether the server still has the network and is not deleting it; the cache may not know yet."""
        found = self._live(self._network)
        if found is None or found["metadata"]["uid"] != self._network["metadata"]["uid"]:
            return False
        return not found["metadata"].get("deletionTimestamp")

    def _update(self, live: Content, wanted: Content) -> tuple[Content, list[str]]:
        fixed = updating.fixed_differences(live, wanted)
        if fixed:
            self._ctx.log.debug("stateful set %s keeps its %s", live["metadata"]["name"], ", ".join(fixed))
        return updating.update_stateful_set(live, wanted, keep_digest=not self._roll)

    def _record_update(self, live: Content, wanted: Content, fields: list[str]) -> None:
        name = live["metadata"]["name"]
        if "replicas" in fields:
            before, after = updating.replicas(live), wanted["spec"]["replicas"]
            self._record("Scaled", f"scaled stateful set {name} from {before} to {after} replicas", "Scale", live)
        template = [field for field in fields if field not in ("replicas", "labels")]
        if "credentials" in fields and updating.digest_of(live) is not None:
            self._record("CredentialsRotated", "credentials changed, restarting nodes", "Rotate", live)
        if template and template != ["credentials"]:
            what = f"updated pod template of stateful set {name} ({', '.join(template)})"
            self._record("StatefulSetUpdated", what, "Update", live)

    def _record(self, reason: str, message: str, action: str, child: Content) -> None:
        self._ctx.log.info("%s", message)
        self._ctx.events.normal(self._network, reason, message, action=action, related=child)

    def _failed(self, verb: str, child: Content, error: ctrlhost.ApiError) -> Failed:
        what = f"could not {verb} {child['kind']} {child['metadata']['name']}: {error.reason}"
        action, text = verb.capitalize(), f"{what}: {error.message}"
        self._ctx.events.warning(self._network, f"{action}Failed", text, action=action, related=child)
        return Failed(what)


def _selector(live: Content) -> Any:
    selector = (live.get("spec") or {}).get("selector")
    return (selector or {}).get("matchLabels") if live.get("kind") == "StatefulSet" else selector
