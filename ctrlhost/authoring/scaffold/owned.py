"""The kinds that a new plugin can own, and the objects that its reconciler begins with."""

from __future__ import annotations

from dataclasses import dataclass

_POD = """\
"selector": {"matchLabels": labels},
"template": {
    "metadata": {"labels": labels},
    "spec": {
        "containers": [{"name": "main", "image": ctx.settings.image}],
    },
},"""
_WORKLOAD = f"""\
"spec": {{
    "replicas": SIZE,
    {_POD.replace(chr(10), chr(10) + "    ")}
}},"""
_STATEFUL = _WORKLOAD.replace('"replicas": SIZE,', '"replicas": SIZE,\n    "serviceName": metadata["name"],')
_SERVICE = """\
"spec": {
    "selector": labels,
    "ports": [{"name": "http", "port": 80}],
},"""


@dataclass(frozen=True, slots=True)
class Owned:
    """A kind with the fields of its object after `metadata`; in these, SIZE is the wanted size."""

    api_version: str
    kind: str
    fields: str = ""

    @property
    def reference(self) -> str:
        """The kind as the plugin names it."""
        return f"{self.api_version}/{self.kind}"

    @property
    def has_replicas(self) -> bool:
        """Whether its status has `readyReplicas`."""
        return "replicas" in self.fields

    @property
    def has_labels(self) -> bool:
        """Whether its fields use labels."""
        return "labels" in self.fields

    @property
    def has_image(self) -> bool:
        """Whether its fields use the image of the settings."""
        return "image" in self.fields


_ALL = (
    Owned("apps/v1", "Deployment", _WORKLOAD),
    Owned("apps/v1", "StatefulSet", _STATEFUL),
    Owned("v1", "ConfigMap", '"data": {"size": str(SIZE)},'),
    Owned("v1", "Service", _SERVICE),
    Owned("v1", "ServiceAccount"),
)
OWNED = {kind.reference: kind for kind in _ALL}
