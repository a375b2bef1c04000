"""Write types.json from the Go modules that define the built-in kinds.

    python -m ctrlhost_sandbox.registry.data.generate "$(go env GOMODCACHE)/k8s.io" v0.36.3 > types.json

For every type used by a served kind it lists the fields by their JSON name as `[type, protobuf number, flags]`.
Types are scalars, names of other types, or one of the two behind `[]` or `{}`. Flags: `p` pointer, `w` always written,
`z` left out when zero, `i` inlined, `m=KEY` merge key, `m` merged list of scalars, `r` keys are retained, `l=set`,
`l=atomic`, `l=map:KEYS`, `a` atomic map or struct, `q` required, `e=VALUES` one of these texts, with `~`
for a space.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ctrlhost_sandbox.registry.builtin import builtin_kinds
from ctrlhost_sandbox.schema.shapes import OPAQUE, SCALARS, package_of

#: Types that no kind uses by itself: bodies of sub-resources, and the schemas of CRDs.
OTHERS = (
    "meta.DeleteOptions",
    "core.Binding",
    "authentication.TokenRequest",
    "autoscaling.Scale",
    "policy.Eviction",
    "apiextensions.JSONSchemaProps",
)
TYPES = (*OTHERS, *(f"{package_of(kind.group, kind.version)}.{kind.kind}" for kind in builtin_kinds()))
_NAMES = sorted({type_.partition(".")[0] for type_ in TYPES})
#: The folder of each package.
PACKAGES = {
    **{name: f"api@{{v}}/{name if '/' in name else f'{name}/v1'}" for name in _NAMES},
    "meta": "apimachinery@{v}/pkg/apis/meta/v1",
    "apiextensions": "apiextensions-apiserver@{v}/pkg/apis/apiextensions/v1",
    "apiregistration": "kube-aggregator@{v}/pkg/apis/apiregistration/v1",
}
#: Named types of other packages that are strings.
TEXTS = {"types.UID", "types.NodeName"}
IMPORTS = {"metav1": "meta", "v1": "core", "apiv1": "core", "corev1": "core", "authnv1": "authentication"}
STRUCT = re.compile(r"^type (\w+) struct ?\{")
ALIAS = re.compile(r"^type (\w+) (\[\]|map\[[\w.]+\])?([\w.]+)$")
VALUE = re.compile(r'^\s*(?:const )?(\w+)\s+(?:(\w+)\s+= |= (\w+)\()(?:"([^"]*)"|\w+\.(\w+))')
FIELD = re.compile(r"^\t(?:(\w+) )?\s*([*\[\]\w.]+)\s+`(.*)`")


@dataclass
class Found:
    """What the files define, by `package.Name`."""

    types: dict[str, Any] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    enums: set[str] = field(default_factory=set)
    values: dict[str, list[str]] = field(default_factory=dict)
    constants: dict[str, str] = field(default_factory=dict)
    """The values of constants by name: those of one package may be used in another."""


def parse(package: str, path: Path, found: Found) -> None:
    """Parse the structs, the named scalars and their values of one file."""
    markers: list[str] = []
    struct: dict[str, Any] | None = None
    for line in path.read_text(encoding="utf-8").splitlines():
        text = line.strip()
        if struct is None:
            if text.startswith("//"):
                markers.append(text[2:].strip())
            elif match := STRUCT.match(line):
                struct = {"fields": {}}
                if "+structType=atomic" in markers:
                    struct["atomic"] = True
                found.types[f"{package}.{match[1]}"] = struct
                markers = []
                if text.endswith("}"):
                    struct = None
            elif match := ALIAS.match(line):
                found.aliases[f"{package}.{match[1]}"] = (match[2] or "") + match[3]
                if "+enum" in markers:
                    found.enums.add(f"{package}.{match[1]}")
                markers = []
            elif match := VALUE.match(line):
                value = found.constants.get(match[5], "") if match[5] else match[4]
                found.constants[match[1]] = value
                found.values.setdefault(f"{package}.{match[2] or match[3]}", []).append(value)
                markers = []
            elif text:
                markers = []
        elif line == "}":
            struct, markers = None, []
        elif text.startswith("//"):
            markers.append(text[2:].strip())
        elif match := FIELD.match(line):
            tags = dict(re.findall(r'(\w+):"([^"]*)"', match[3]))
            add_field(package, struct, match[2], tags, markers)
            markers = []
        elif not text:
            markers = []


def add_field(package: str, struct: dict[str, Any], go: str, tags: dict[str, str], markers: list[str]) -> None:
    """Add one field in the compact form."""
    if go.endswith("TypeMeta"):
        struct["named"] = True
    if "json" not in tags or "protobuf" not in tags or go.endswith("TypeMeta"):
        return
    names = tags["json"].split(",")
    proto = tags["protobuf"].split(",")
    name, flags = names[0], []
    if not name:
        name = next((part[5:] for part in proto if part.startswith("name=")), go)
        flags.append("i")
    elif go.startswith("*"):
        flags.append("p")
    elif "omitempty" not in names:
        flags.append("w")
    if "patchMergeKey" in tags:
        flags.append("m=" + tags["patchMergeKey"])
    elif "merge" in tags.get("patchStrategy", ""):
        flags.append("m")
    if "retainKeys" in tags.get("patchStrategy", ""):
        flags.append("r")
    values = dict(marker[1:].partition("=")[::2] for marker in markers if marker.startswith("+"))
    if kind := values.get("listType"):
        keys = [marker.partition("=")[2] for marker in markers if marker.startswith("+listMapKey=")]
        flags.append("l=" + (f"map:{','.join(keys)}" if kind == "map" else kind))
    if "atomic" in (values.get("mapType"), values.get("structType")):
        flags.append("a")
    if "required" in values or not ({"omitempty", "omitzero"} & {*names} or "optional" in values or "i" in flags):
        flags.append("q")
    if "omitzero" in names:
        flags.append("z")
    struct["fields"][name] = [resolve(package, go.lstrip("*")), int(proto[1]), " ".join(flags)]


def resolve(package: str, go: str) -> str:
    """Return the table's name of a Go type."""
    if go == "[]byte":
        return "bytes"
    if go.startswith("[]"):
        return "[]" + resolve(package, go[2:].lstrip("*"))
    if go.startswith("map["):
        return "{}" + resolve(package, go.partition("]")[2])
    if go in TEXTS:
        return "string"
    module, _, name = go.rpartition(".")
    if name in SCALARS or name in OPAQUE:
        return name
    return f"{IMPORTS.get(module, module) or package}.{name}"


def flatten(name: str, aliases: dict[str, str]) -> str:
    """Replace named scalars, lists and maps by their types."""
    prefix, name = split(name)
    while name in aliases:
        name = flatten(resolve(name.partition(".")[0], aliases[name]), aliases)
    return prefix + name


def split(name: str) -> tuple[str, str]:
    """Split the lists and maps off a type."""
    prefix = ""
    while name.startswith(("[]", "{}")):
        prefix, name = prefix + name[:2], name[2:]
    return prefix, name


def main(root: Path, version: str) -> None:
    """Print the table."""
    found = Found()
    for package, pattern in PACKAGES.items():
        for path in sorted((root / pattern.format(v=version)).glob("*.go")):
            if "types" in path.name and not path.name.startswith(("zz_", "types_swagger")):
                parse(package, path, found)
    kept: dict[str, Any] = {}
    waiting = list(TYPES)
    while waiting:
        name = waiting.pop()
        if name in kept or name not in found.types:
            continue
        struct = found.types[name]
        kept[name] = struct["fields"] if not struct.get("atomic") else {"": "atomic", **struct["fields"]}
        for entry in struct["fields"].values():
            named = split(entry[0])[1]
            if named in found.enums:
                entry[2] = f"{entry[2]} e={','.join(sorted(found.values[named])).replace(' ', '~')}".strip()
            entry[0] = flatten(entry[0], found.aliases)
            waiting.append(split(entry[0])[1])
    inside = {split(entry[0])[1] for fields in kept.values() for name, entry in fields.items() if name}
    for name in inside & kept.keys():
        if found.types[name].get("named"):
            # An object inside another one has its type as fields, which protobuf does not carry.
            kept[name] = {"apiVersion": ["string", 0, ""], "kind": ["string", 0, ""], **kept[name]}
    lines = [f"{json.dumps(name)}: {json.dumps(kept[name], separators=(',', ':'))}" for name in sorted(kept)]
    sys.stdout.write("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
