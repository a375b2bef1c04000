"""A Helm chart, written from the manifests: values stand for what differs between clusters."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ctrlhost import __version__
from ctrlhost.errors import ConfigError
from ctrlhost.manifests.chart_values import values, values_file, values_schema
from ctrlhost.manifests.deployment import CONFIG_FILE, CONFIG_HASH
from ctrlhost.manifests.folders import file_names
from ctrlhost.manifests.holes import NAMESPACE, Holes
from ctrlhost.manifests.installation import MANAGED_BY, is_own
from ctrlhost.manifests.manifests import manifests
from ctrlhost.yaml_text import dump_document

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctrlhost.config.load import Configuration
    from ctrlhost.manifests.loading import SetUpPlugin
    from ctrlhost.manifests.manifests import Deployed

#: The command that writes charts.
COMMAND = "ctrlhost chart"
#: Values that are members of the pod, and so named in it.
_OF_POD = ("nodeSelector", "tolerations", "affinity", "priorityClassName", "imagePullSecrets")
#: Helm leaves such objects when it uninstalls the release.
_KEPT = {"helm.sh/resource-policy": "keep"}
_MONITOR = "ServiceMonitor"
#: Characters of the name, which labels hold together with the namespace.
_LONGEST = 38
_NO_SETTINGS = "\n"


def chart(plugins: Sequence[SetUpPlugin], configuration: Configuration, deployed: Deployed) -> dict[str, str]:
    """Return the files of the chart by their paths; ConfigError for a name that is too long.

    The namespace of `deployed` does not count: it is that of the release. What `deployed` chooses and values can change
    is the default of the values.
    """
    if len(deployed.name) > _LONGEST:
        raise ConfigError(f"--name {deployed.name}: too long for a chart: {_LONGEST} characters are possible")
    generated = replace(
        deployed,
        namespace=NAMESPACE,
        # The file is always mounted, and the monitor always in the chart.
        config=deployed.config or _NO_SETTINGS,
        monitor=True,
        isolated=(),
    )
    documents = [
        document
        for document in manifests(plugins, configuration, generated)
        if (document["kind"], document["metadata"]["name"]) != ("Namespace", NAMESPACE)
    ]
    defaults: dict[str, Any] = {
        "isolate": list(deployed.isolated),
        "settings": deployed.config,
        "monitor": {"enabled": deployed.monitor, "labels": {}},
    }
    holes = Holes()
    names = file_names(documents)
    for document in documents:
        if document["kind"] == "Deployment":
            defaults |= _open(document, [plugin.name for plugin in plugins], holes)
    chosen = values(defaults, [plugin.name for plugin in plugins], leader_elect=configuration.host.leader_elect)
    return {
        "Chart.yaml": dump_document(_description(deployed.name, [plugin.name for plugin in plugins])),
        "values.yaml": values_file(chosen),
        "values.schema.json": values_schema(chosen, COMMAND),
        **{f"templates/{name}": _template(document, holes) for name, document in zip(names, documents, strict=True)},
    }


def _open(deployment: dict[str, Any], plugins: Sequence[str], holes: Holes) -> dict[str, Any]:
    """Put holes in the place of what values choose, and return what was there: the defaults."""
    spec = deployment["spec"]
    template, pod = spec["template"], spec["template"]["spec"]
    container = next(each for each in pod["containers"] if each["name"] == "ctrlhost")
    defaults = {"image": container["image"], "replicas": spec["replicas"], "resources": container["resources"]}
    spec["replicas"] = holes.code(".Values.replicas")
    container["image"] = holes.code(".Values.image | quote")
    container["resources"] = holes.member(".Values.resources")
    container["env"] = [*container["env"], holes.items(".Values.env")]
    for name in _OF_POD:
        if name in pod:
            defaults[name] = pod[name]
        pod[name] = holes.member(f".Values.{name}")
    (chosen,) = (argument for argument in container["args"] if argument.startswith("--plugins="))
    run = chosen.partition("=")[2].split(",")
    isolate = [
        holes.item_if(f'or (has "all" $.Values.isolate) (has "{name}" $.Values.isolate)', f"--isolate={name}")
        for name in plugins
        if name in run
    ]
    container["args"] = [*container["args"], *isolate]
    annotations = template["metadata"]["annotations"]
    code = f'printf "%s%s" "{annotations[CONFIG_HASH]}" .Values.settings | sha256sum | quote'
    annotations[CONFIG_HASH] = holes.code(code)
    return defaults


def _template(document: dict[str, Any], holes: Holes) -> str:
    metadata = {**document["metadata"]}
    metadata["labels"] = {**(metadata.get("labels") or {})}
    if MANAGED_BY in metadata["labels"]:
        # As helm sets it in the cluster.
        metadata["labels"][MANAGED_BY] = holes.code(".Release.Service")
    condition = None
    if document["kind"] == _MONITOR:
        condition = ".Values.monitor.enabled"
        metadata["labels"]["further"] = holes.items(".Values.monitor.labels")
    elif not is_own(document):
        metadata["annotations"] = {**(metadata.get("annotations") or {}), **_KEPT}
        condition = None if document["kind"] == "Namespace" else ".Values.crds"
    document = {**document, "metadata": metadata}
    if document["kind"] == "ConfigMap" and CONFIG_FILE in document.get("data", {}):
        document["data"] = {**document["data"], CONFIG_FILE: holes.code(".Values.settings | toJson")}
    text = holes.template(document)
    return f"{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n" if condition else text


def _description(name: str, plugins: Sequence[str]) -> dict[str, Any]:
    return {
        "apiVersion": "v2",
        "name": name,
        "description": f"Controllers in one ctrlhost: {', '.join(plugins)}",
        "type": "application",
        "version": _semantic(__version__),
        "appVersion": __version__,
    }


def _semantic(version: str) -> str:
    """Return a version of Python as one that Helm takes: `0.1.0.dev2` as `0.1.0-dev2`."""
    match = re.match(r"(\d+)\.(\d+)\.?(\d*)[.-]?(.*)", version)
    if match is None:
        return "0.0.0"
    ending = re.sub("[^0-9A-Za-z.-]", "-", match[4])
    return f"{match[1]}.{match[2]}.{match[3] or 0}" + (f"-{ending}" if ending else "")
