"""The values of a chart: what they mean, their defaults, and what they may be."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctrlhost.manifests.folders import mark
from ctrlhost.yaml_text import dump_document

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

_OBJECT: dict[str, Any] = {"type": "object"}
_TEXTS: dict[str, Any] = {"type": "object", "additionalProperties": {"type": "string"}}


@dataclass(frozen=True, slots=True)
class Value:
    """One value."""

    name: str
    about: str
    default: Any
    schema: dict[str, Any]


def values(defaults: Mapping[str, Any], plugins: Collection[str], *, leader_elect: bool) -> list[Value]:
    """Return the values of a chart; `defaults` are those that differ from empty ones."""
    replicas = {"type": "integer", "minimum": 0} | ({} if leader_elect else {"maximum": 1})
    only = "" if leader_elect else "; at most 1, since the chart is written without --leader-elect"
    isolated = {"type": "array", "items": {"enum": [*plugins, "all"]}}
    monitor = {
        "type": "object",
        "properties": {"enabled": {"type": "boolean"}, "labels": _TEXTS},
        "additionalProperties": False,
    }
    listed = [
        Value("image", "Image with ctrlhost and the plugins", "", {"type": "string", "minLength": 1}),
        Value("imagePullSecrets", "Secrets to pull it with", [], _named()),
        Value("replicas", f"Pods that run at once{only}", 1, replicas),
        Value("resources", "Requests and limits of the container", {}, _OBJECT),
        Value("nodeSelector", "Labels of the nodes that the pods may run on", {}, _TEXTS),
        Value("tolerations", "Taints that the pods tolerate", [], {"type": "array", "items": _OBJECT}),
        Value("affinity", "Affinity of the pods", {}, _OBJECT),
        Value("priorityClassName", "PriorityClass of the pods", "", {"type": "string"}),
        Value("env", "Further environment variables of the container", [], _named()),
        Value("isolate", "Plugins that get a process of their own, or `all`", [], isolated),
        Value(
            "settings", "Content of the settings file, TOML, as for --set-file settings=FILE", "", {"type": "string"}
        ),
        Value("monitor", "ServiceMonitor for the Prometheus operator, and further labels of it", {}, monitor),
        Value("crds", "Whether the release has the CRDs, and what plugins ship beside them", True, {"type": "boolean"}),
    ]
    return [Value(each.name, each.about, defaults.get(each.name, each.default), each.schema) for each in listed]


def _named() -> dict[str, Any]:
    item = {"type": "object", "properties": {"name": {"type": "string", "minLength": 1}}, "required": ["name"]}
    return {"type": "array", "items": item}


def values_file(chosen: Sequence[Value]) -> str:
    """Return `values.yaml`."""
    return "\n".join(f"# {value.about}.\n{dump_document({value.name: value.default})}" for value in chosen)


def values_schema(chosen: Sequence[Value], command: str) -> str:
    """Return `values.schema.json`, which helm checks the values with."""
    properties = {value.name: {"description": value.about, **value.schema} for value in chosen}
    # Helm adds `global` to the values of a chart that another one depends on.
    schema = {
        "$comment": mark(command),
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "additionalProperties": False,
        "properties": {**properties, "global": _OBJECT},
    }
    return json.dumps(schema, indent=2) + "\n"
