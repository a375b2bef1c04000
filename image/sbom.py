"""Print what a Python environment has installed, as CycloneDX 1.5: PYTHON image/sbom.py NAME.

Needs nothing but Python, and prints the same for the same environment.
"""

from __future__ import annotations

import json
import re
import sys
import uuid
from importlib.metadata import Distribution, distributions


def component(distribution: Distribution) -> dict[str, object]:
    """Return the entry of one distribution."""
    name = re.sub(r"[-_.]+", "-", distribution.metadata["Name"]).lower()
    purl = f"pkg:pypi/{name}@{distribution.version}"
    entry: dict[str, object] = {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": distribution.version,
        "purl": purl,
    }
    if licence := licence_of(distribution):
        entry["licenses"] = [licence]
    return entry


def licence_of(distribution: Distribution) -> dict[str, object] | None:
    """Return the licence as the distribution names it: an expression, a class, or the first line of a text."""
    metadata = distribution.metadata
    if expression := metadata.get("License-Expression"):
        return {"expression": expression}
    classes = [line for line in metadata.get_all("Classifier") or [] if line.startswith("License ::")]
    names = [line.rpartition(" :: ")[2] for line in classes if line.count("::") > 1]
    name = " OR ".join(names) or (metadata.get("License") or "").strip().partition("\n")[0]
    return {"license": {"name": name}} if name else None


def bill(name: str) -> dict[str, object]:
    """Return the whole document about the environment that runs this."""
    components = {str(entry["purl"]): entry for entry in map(component, distributions())}
    listed = [components[purl] for purl in sorted(components)]
    versions = [entry["version"] for entry in listed if entry["name"] == name]
    subject = {"type": "container", "name": name, **({"version": versions[0]} if versions else {})}
    document: dict[str, object] = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": subject},
        "components": listed,
    }
    digest = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(document, sort_keys=True))
    return {**document, "serialNumber": f"urn:uuid:{digest}"}


if __name__ == "__main__":
    print(json.dumps(bill(sys.argv[1]), indent=1, sort_keys=True))
