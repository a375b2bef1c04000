"""Making the Service and the StatefulSet of a network, and keeping them as they should be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import ctrlhost
from ctrlhost_bitcoin.objects import desired, names, ownership, updating

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost_bitcoin.objects.spec import NetworkSpec

SERVICE, STATEFUL_SET = ("v1", "Service"), ("apps/v1", "StatefulSet")
_WORDS = {"Service": "headless service", "StatefulSet": "stateful set"}
_TRIES = 4


class NameConflict(Exception):
    """An object of that name exists and is somebody else's; it is left alone."""


class Failed(Exception):
    """The server refused a write; `__cause__` is its answer. The message holds nothing volatile."""


@dataclass(slots=True)
class Children:
    """What became of both in one pass: the live objects, and what was in the way."""

    service: dict[str, Any] | None = None
    stateful_set: dict[str, Any] | None = None
    conflicts: tuple[str, ...] = ()
    #: The first failure; raised by the caller once the rest of its work is done.
    failure: Exception | None = None


class ChildKeeper:
    """Keeps the children of one network; lives for one pass."""

    def __init__(
        self, ctx: ctrlhost.Context, network: dict[str, Any], spec: NetworkSpec, *, adopt: bool, roll: bool
    ) -> None:
        """Keep those of `network`; `roll` restarts the pods for new credentials."""
        self._ctx, self._network, self._spec = ctx, network, spec
        self._adopt, self._roll = adopt, roll

    def keep(self, digest: str | None) -> Children:
        """Make or change both, whatever becomes of the other; without a digest the StatefulSet stays as it is."""
        found, conflicts = Children(), list[str]()
        name, namespace = self._spec.name, self._spec.namespace
        wished = desired.stateful_set(self._spec, digest or "")
        cached = self._cached(STATEFUL_SET, wished)
        wanted = desired.service(self._spec)
        if cached is not None and _selector(cached) == names.upstream_selector(name):
            # Its pods have none of our labels until they were restarted.
            wanted["spec"]["selector"] = names.upstream_selector(name)
        try:
            found.service = self._ensure(SERVICE, wanted, updating.update_service)
        except NameConflict as conflict:
            conflicts.append(str(conflict))
        except (Failed, ctrlhost.CtrlhostError) as error:
            found.failure = error
        try:
            if digest is not None:
                found.stateful_set = self._ensure(STATEFUL_SET, wished, self._update)
            elif cached is not None and ownership.whose(cached, self._network) == "ours":
                found.stateful_set = cached
        except NameConflict as conflict:
            conflicts.append(str(conflict))
        except (Failed, ctrlhost.CtrlhostError) as error:
            found.failure = found.failure or error
            if cached is not None and ownership.whose(cached, self._network) == "ours":
                found.stateful_set = cached
        found.conflicts = tuple(conflicts)
        self._ctx.log.debug("looked after the objects of %s/%s", namespace, name)
        return found

    def _cached(self, kind: tuple[str, str], wanted: dict[str, Any]) -> dict[str, Any] | None:
        found = self._ctx.lister(*kind).get(wanted["metadata"]["name"], self._spec.namespace)
        return None if found is None else found.to_dict()

    def _live(self, wanted: dict[str, Any]) -> dict[str, Any] | None:
        metadata = wanted["metadata"]
        return self._ctx.client.find(wanted["apiVersion"], wanted["kind"], metadata["name"], metadata["namespace"])

    def _ensure(
        self,
        kind: tuple[str, str],
        wanted: dict[str, Any],
        update: Callable[[dict[str, Any], dict[str, Any]], tuple[dict[str, Any], list[str]]],
    ) -> dict[str, Any]:
        """Give the object as it is now; a conflict of versions is tried again with what the server has."""
        live = self._cached(kind, wanted)
        for left in reversed(range(_TRIES)):
            try:
                if live is None:
                    return self._create(wanted)
                return self._change(live, wanted, update)
            except (ctrlhost.Conflict, ctrlhost.AlreadyExists, ctrlhost.NotFound):
                if not left:
                    raise
                live = self._live(wanted)
        raise AssertionError("the last try returns or raises")

    def _create(self, wanted: dict[str, Any]) -> dict[str, Any]:
        kind, name = wanted["kind"], wanted["metadata"]["name"]
        reference = ownership.owner_reference(self._network)
        owned = {**wanted, "metadata": {**wanted["metadata"], "ownerReferences": [reference]}}
        try:
            created = self._ctx.client.create(owned)
        except (ctrlhost.AlreadyExists, ctrlhost.Conflict):
            raise
        except ctrlhost.ApiError as error:
            raise self._failed("create", wanted, error) from error
        what = f"created {_WORDS[kind]} {name}"
        if kind == "StatefulSet":
            what += f" with {wanted['spec']['replicas']} replicas"
        self._tell(f"{kind}Created", what, "Create", created)
        return created

    def _change(
        self,
        live: dict[str, Any],
        wanted: dict[str, Any],
        update: Callable[[dict[str, Any], dict[str, Any]], tuple[dict[str, Any], list[str]]],
    ) -> dict[str, Any]:
        kind, name = live["kind"], live["metadata"]["name"]
        whose = ownership.whose(live, self._network)
        adopting = whose == "nobody's" and self._adopt and ownership.fits(_selector(live), self._spec.name)
        if whose != "ours" and not adopting:
            raise NameConflict(f"{kind} {name} exists and belongs to {ownership.owner_text(live)}")
        if live["metadata"].get("deletionTimestamp"):
            # It is made anew once it is gone.
            return live
        if adopting and not self._is_kept():
            # A deletion that orphans takes our reference off first. To put it back would be the end of the object.
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
            self._tell("Adopted", f"took over existing {kind} {name}", "Adopt", live)
        if kind == "StatefulSet":
            self._tell_update(live, wanted, fields)
        return written

    def _is_kept(self) -> bool:
        """Ask the server whether the network stays: the cache may not have heard yet that it is being deleted."""
        known = self._network["metadata"]
        found = self._ctx.client.find(
            self._network["apiVersion"], self._network["kind"], known["name"], known["namespace"]
        )
        if found is None or found["metadata"]["uid"] != known["uid"]:
            return False
        return not found["metadata"].get("deletionTimestamp")

    def _update(self, live: dict[str, Any], wanted: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        fixed = updating.fixed_differences(live, wanted)
        if fixed:
            self._ctx.log.debug("stateful set %s keeps its %s", live["metadata"]["name"], ", ".join(fixed))
        return updating.update_stateful_set(live, wanted, keep_digest=not self._roll)

    def _tell_update(self, live: dict[str, Any], wanted: dict[str, Any], fields: list[str]) -> None:
        name = live["metadata"]["name"]
        if "replicas" in fields:
            before, after = updating.replicas(live), wanted["spec"]["replicas"]
            self._tell("Scaled", f"scaled stateful set {name} from {before} to {after} replicas", "Scale", live)
        template = [field for field in fields if field not in ("replicas", "labels")]
        if "credentials" in fields and updating.digest_of(live) is not None:
            self._tell("CredentialsRotated", "credentials changed, restarting nodes", "Rotate", live)
        if template and template != ["credentials"]:
            what = f"updated pod template of stateful set {name} ({', '.join(template)})"
            self._tell("StatefulSetUpdated", what, "Update", live)

    def _tell(self, reason: str, message: str, action: str, child: dict[str, Any]) -> None:
        self._ctx.log.info("%s", message)
        self._ctx.events.normal(self._network, reason, message, action=action, related=child)

    def _failed(self, verb: str, child: dict[str, Any], error: ctrlhost.ApiError) -> Failed:
        what = f"could not {verb} {child['kind']} {child['metadata']['name']}: {error.reason}"
        action = verb.capitalize()
        text = f"{what}: {error.message}"
        self._ctx.events.warning(self._network, f"{action}Failed", text, action=action, related=child)
        return Failed(what)


def _selector(live: dict[str, Any]) -> Any:
    selector = (live.get("spec") or {}).get("selector")
    return (selector or {}).get("matchLabels") if live.get("kind") == "StatefulSet" else selector
