"""A sandbox and a host with the plugin, with short calls for the tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


API, KIND = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
CONTROLLER = "naming/crd_naming_condition_controller"


class Cluster:
    """A sandbox and a host with the plugin."""

    def __init__(self, host: Any, new_crd: Callable[..., dict[str, Any]], spell: Callable[..., str]) -> None:
        self.host, self.client, self.new_crd, self.spell = host, host.client, new_crd, spell

    @property
    def plugin(self) -> Any:
        return self.host.host.plugins[0]

    @property
    def naming(self) -> Any:
        return self.plugin.context.state

    @property
    def queue(self) -> Any:
        return self.host.controllers[CONTROLLER].queue

    def create(self, *spelled: str, group: str = "g.io", **spec: Any) -> None:
        for names in spelled:
            self.client.create(self.new_crd(names, group, **spec))

    def settled(self, *spelled: str, group: str = "g.io") -> None:
        """Create CRDs one by one, waiting until the host is idle after each."""
        for names in spelled:
            self.create(names, group=group)
            self.host.run_until_idle()

    def edit(self, plural: str, group: str = "g.io", **names: Any) -> None:
        self.client.patch(API, KIND, f"{plural}.{group}", None, {"spec": {"names": names}})

    def delete(self, plural: str, group: str = "g.io") -> None:
        self.client.delete(API, KIND, f"{plural}.{group}")

    def get(self, plural: str, group: str = "g.io") -> dict[str, Any]:
        crd: dict[str, Any] = self.client.get(API, KIND, f"{plural}.{group}")
        return crd

    def crds(self) -> list[dict[str, Any]]:
        return list(self.client.list(API, KIND))

    def accepted(self, plural: str, group: str = "g.io") -> str:
        return self.spell(self.get(plural, group)["status"].get("acceptedNames"))

    def condition(self, plural: str, type_: str, group: str = "g.io") -> str:
        """Return a condition as `status/reason`, empty if it is missing."""
        for condition in self.get(plural, group)["status"].get("conditions") or ():
            if condition["type"] == type_:
                return f"{condition['status']}/{condition['reason']}"
        return ""

    def names_accepted(self, plural: str, group: str = "g.io") -> str:
        return self.condition(plural, "NamesAccepted", group)

    def wait_for_server(self, *plurals: str, names: str = "True/NoConflicts") -> None:
        """Wait until the server's own controller has judged these CRDs and the host has seen it: an idle host does not
        wait for the server."""
        wanted = [(names, "True/InitialNamesAccepted" if names.startswith("True") else "False/NotAccepted")]
        for plural in plurals:
            self.host.wait_for(
                lambda plural=plural: (self.names_accepted(plural), self.condition(plural, "Established")) in wanted
            )
        self.host.run_until_idle()

    def metric(self, name: str, **labels: str) -> float:
        value: float | None = self.plugin.context.metrics.get_sample_value(f"ctrlhost_naming_{name}", labels)
        return value or 0.0

    def syncs(self, result: str) -> float:
        return self.metric("syncs_total", result=result)

    def revision(self) -> int:
        newest: int = self.host.sandbox.revision(API, KIND)
        return newest
