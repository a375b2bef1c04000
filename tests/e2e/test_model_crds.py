"""What `ctrlhost crds` prints for models, and the servers that take it."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from ctrlhost.errors import Invalid
from tests.host.conftest import Distributions
from tests.support.waiting import create_eventually

if TYPE_CHECKING:
    from ctrlhost.client import Client

CRD = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")

MEMCACHED = '''
    """memcached.py"""
    from typing import Annotated

    import ctrlhost
    import msgspec

    class Spec(msgspec.Struct, frozen=True):
        size: Annotated[int, msgspec.Meta(ge=0, le=5)] = 1
        """Number of servers."""

    class Status(ctrlhost.ModelStatus):
        readyReplicas: int = 0

    @ctrlhost.resource("cache.example.com/v1alpha1", short_names=["mc"])
    class Memcached(ctrlhost.Model[Spec, Status]):
        """A set of memcached servers."""

    plugin = ctrlhost.Plugin()

    @plugin.controller(Memcached, owns=["apps/v1/Deployment"])
    def reconcile(ctx: ctrlhost.Context[Memcached, None], mc: Memcached) -> None:
        pass
'''

EVERYTHING = '''
    import enum
    from datetime import datetime
    from typing import Annotated, Any, Literal

    import ctrlhost
    import msgspec

    class Mode(enum.Enum):
        FAST = "fast"
        SAFE = "safe"

    class Port(msgspec.Struct, frozen=True):
        name: Annotated[str, msgspec.Meta(max_length=20)]
        target: ctrlhost.IntOrString
        protocol: Literal["TCP", "UDP"] = "TCP"

    class Storage(msgspec.Struct, frozen=True):
        size: ctrlhost.Quantity = "1Gi"

    class Spec(msgspec.Struct, frozen=True, kw_only=True):
        ports: Annotated[list[Port], ctrlhost.ListMap("name"), msgspec.Meta(max_length=20)]
        hosts: Annotated[set[Annotated[str, msgspec.Meta(max_length=60)]], msgspec.Meta(max_length=20)] = set()
        limits: Annotated[dict[str, ctrlhost.Quantity], msgspec.Meta(max_length=20)] = {}
        order: list[int] = []
        free: dict[str, Any] = {}
        started: datetime | None = None
        paused: bool | None
        mode: Mode = Mode.FAST
        kind: Literal["small", "large"] | None
        storage: Storage = Storage()
        least: int = 1
        most: int = 2

    @ctrlhost.resource(
        "cache.example.com/v1",
        scope="Cluster",
        columns=[
            ctrlhost.Column("Mode", ".spec.mode"),
            ctrlhost.Column("Age", ".metadata.creationTimestamp", "date"),
        ],
    )
    class Everything(
        ctrlhost.Model[
            Annotated[
                Spec,
                ctrlhost.Rule("self.least <= self.most", message="least is above most"),
                # They read fields that the object may leave out.
                ctrlhost.Rule("self.hosts.size() < 9 && self.limits.size() < 9 && self.order.size() < 9"),
            ],
            None,
        ]
    ):
        """All that a model can say."""

    plugin = ctrlhost.Plugin()

    @plugin.controller(Everything)
    def reconcile(ctx: ctrlhost.Context, obj: Everything) -> None:
        pass
'''


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Return the CRDs of both plugins by kind, as `ctrlhost crds` prints them."""
    folder = tmp_path_factory.mktemp("site")
    distributions = Distributions(folder)
    distributions.add("memcached", MEMCACHED)
    distributions.add("everything", EVERYTHING)
    done = subprocess.run(
        [sys.executable, "-m", "ctrlhost", "crds", "--plugins=memcached,everything"],
        env=distributions.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return {crd["spec"]["names"]["kind"]: crd for crd in yaml.safe_load_all(done.stdout)}


def installed(client: Client, crd: dict[str, Any]) -> None:
    """Apply a CRD, twice: the second time nothing changes, so the server has kept all of it."""
    client.apply(crd, field_manager="test", force=True)
    first = client.get(*CRD, crd["metadata"]["name"])
    again = client.apply(crd, field_manager="test", force=True)
    assert again["metadata"]["generation"] == first["metadata"]["generation"]
    kept = first["spec"]["versions"][0]
    assert kept["schema"] == crd["spec"]["versions"][0]["schema"]


@pytest.mark.behaviour("authoring/AU26")
def test_the_model_of_a_small_operator_becomes_a_crd_that_servers_accept(
    client: Client, namespace: str, printed: dict[str, dict[str, Any]]
) -> None:
    crd = printed["Memcached"]
    assert crd["metadata"] == {"name": "memcacheds.cache.example.com"}
    spec = crd["spec"]
    assert (spec["group"], spec["scope"]) == ("cache.example.com", "Namespaced")
    assert spec["names"] == {
        "kind": "Memcached",
        "listKind": "MemcachedList",
        "plural": "memcacheds",
        "singular": "memcached",
        "shortNames": ["mc"],
    }
    (version,) = spec["versions"]
    assert (version["name"], version["served"], version["storage"]) == ("v1alpha1", True, True)
    assert version["subresources"] == {"status": {}}
    schema = version["schema"]["openAPIV3Schema"]
    assert schema["description"] == "A set of memcached servers."
    assert schema["properties"]["spec"]["properties"]["size"] == {
        "description": "Number of servers.",
        "type": "integer",
        "minimum": 0,
        "maximum": 5,
        "default": 1,
    }
    installed(client, crd)
    memcached = {
        "apiVersion": "cache.example.com/v1alpha1",
        "kind": "Memcached",
        "metadata": {"name": "cache", "namespace": namespace},
        "spec": {},
    }
    create_eventually(client, memcached)
    obj = client.get("cache.example.com/v1alpha1", "Memcached", "cache", namespace)
    assert obj["spec"] == {"size": 1}
    with pytest.raises(Invalid, match=r"spec\.size"):
        client.create({**memcached, "metadata": {"name": "big", "namespace": namespace}, "spec": {"size": 6}})
    condition = {"type": "Available", "status": "True", "reason": "Ready", "message": ""}
    status = {"readyReplicas": 1, "conditions": [{**condition, "lastTransitionTime": "2026-01-02T03:04:05Z"}]}
    written = client.patch(
        "cache.example.com/v1alpha1", "Memcached", "cache", namespace, {"status": status}, subresource="status"
    )
    assert written["status"] == status
    assert written["metadata"]["generation"] == 1


@pytest.mark.behaviour("authoring/AU29")
@pytest.mark.behaviour("findings3/NA25")
def test_markers_and_types_become_extensions_formats_patterns_and_enums_that_servers_honour(
    client: Client, printed: dict[str, dict[str, Any]]
) -> None:
    crd = printed["Everything"]
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert schema["required"] == ["ports", "paused", "kind"]
    assert schema["x-kubernetes-validations"][0] == {
        "rule": "self.least <= self.most",
        "message": "least is above most",
    }
    fields = schema["properties"]
    assert (fields["ports"]["x-kubernetes-list-type"], fields["ports"]["x-kubernetes-list-map-keys"]) == (
        "map",
        ["name"],
    )
    assert fields["ports"]["maxItems"] == 20
    port = fields["ports"]["items"]["properties"]
    assert port["target"] == {"x-kubernetes-int-or-string": True}
    assert port["protocol"] == {"type": "string", "enum": ["TCP", "UDP"], "default": "TCP"}
    hosts = {"type": "array", "items": {"type": "string", "maxLength": 60}, "maxItems": 20, "default": []}
    assert fields["hosts"] == {**hosts, "x-kubernetes-list-type": "set"}
    assert (fields["order"]["default"], fields["limits"]["default"]) == ([], {})
    assert fields["free"] == {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "default": {}}
    assert fields["started"] == {"type": "string", "format": "date-time"}
    assert fields["paused"] == {"type": "boolean", "nullable": True}
    assert fields["mode"] == {"type": "string", "enum": ["fast", "safe"], "default": "fast"}
    assert fields["kind"] == {"type": "string", "nullable": True, "allOf": [{"enum": ["small", "large"]}]}
    amount = fields["storage"]["properties"]["size"]
    assert amount["x-kubernetes-int-or-string"] is True
    assert amount["pattern"].startswith(r"^(\+|-)?(([0-9]+(\.[0-9]*)?)")
    assert fields["limits"]["additionalProperties"] == {name: amount[name] for name in amount if name != "default"}
    installed(client, crd)
    good = {
        "ports": [{"name": "a", "target": 80}, {"name": "b", "target": "http", "protocol": "UDP"}],
        "hosts": ["x", "y"],
        "limits": {"cpu": "100m", "memory": 5},
        "order": [2, 1],
        "free": {"any": [{"thing": 1}]},
        "started": "2026-01-02T03:04:05Z",
        "paused": None,
        "kind": None,
    }
    create_eventually(client, everything("good", good))
    obj = client.get("cache.example.com/v1", "Everything", "good")
    defaults = {"mode": "fast", "storage": {"size": "1Gi"}, "least": 1, "most": 2}
    assert obj["spec"] == {**good, **defaults, "ports": [{**good["ports"][0], "protocol": "TCP"}, good["ports"][1]]}
    bare = {"ports": [], "paused": None, "kind": None}
    client.create(everything("bare", bare))
    obj = client.get("cache.example.com/v1", "Everything", "bare")
    assert obj["spec"] == {**bare, **defaults, "hosts": [], "limits": {}, "order": [], "free": {}}
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"ports": [{"name": "a", "target": 80}, {"name": "a", "target": 81}]}, "spec.ports[1]"),
        ({"hosts": ["x", "x"]}, "spec.hosts[1]"),
        ({"limits": {"cpu": "lots"}}, "spec.limits.cpu"),
        ({"storage": {"size": "big"}}, "spec.storage.size"),
        ({"started": "yesterday"}, "spec.started"),
        ({"mode": "slow"}, "spec.mode"),
        ({"kind": "medium"}, "spec.kind"),
        ({"most": 0}, "least is above most"),
    ]
    for change, problem in wrong:
        with pytest.raises(Invalid) as raised:
            client.create(everything("bad", {**good, **change}))
        assert problem in str(raised.value)


def everything(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "cache.example.com/v1", "kind": "Everything", "metadata": {"name": name}, "spec": spec}
