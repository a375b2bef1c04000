"""The naming plugin beside the server's own naming controller: same rules, same outcome."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING, Any

import ctrlhost_naming
import pytest

from ctrlhost import Client
from ctrlhost.config.load import Configuration
from ctrlhost.host.host import Host
from tests.support.waiting import eventually_equal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.control_plane import ControlPlane, KubeApiserver

behaviour = pytest.mark.behaviour

API, KIND = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
LIMIT = 60.0
_groups = itertools.count(1)


def names(short_form: str) -> dict[str, Any]:
    """Read `as/a/A/AList[x, y]`."""
    single, _, short = short_form.partition("[")
    plural, singular, kind, list_kind = single.split("/")
    listed = [word.strip() for word in short.rstrip("]").split(",") if word.strip()]
    return {"plural": plural, "singular": singular, "kind": kind, "listKind": list_kind, "shortNames": listed}


def shorten(raw: dict[str, Any]) -> str:
    text = "/".join(raw.get(key) or "" for key in ("plural", "singular", "kind", "listKind"))
    return text + (f"[{', '.join(raw['shortNames'])}]" if raw.get("shortNames") else "")


class Group:
    """The test's own API group on a server, and the plugin that checks it."""

    def __init__(self, client: Client, kubeconfig: Any, **settings: Any) -> None:
        self.client = client
        self.name = f"names{next(_groups)}.example.com"
        naming = {"diff_grace": "0s", "groups": [self.name], **settings}
        configuration = Configuration({"host": {"listen": ""}, "plugins": {"naming": naming}, "controllers": {}}, "")
        self.host = Host(
            configuration.host, [ctrlhost_naming], configuration=configuration, client=Client.load(kubeconfig)
        )

    def start(self) -> Group:
        self.host.start()
        assert self.host.wait_ready(LIMIT), self.host.plugins
        return self

    @property
    def naming(self) -> Any:
        context = self.host.plugins[0].context
        assert context is not None
        return context.state

    def written(self) -> float:
        context = self.host.plugins[0].context
        assert context is not None
        return context.metrics.get_sample_value("ctrlhost_naming_syncs_total", {"result": "written"}) or 0.0

    def create(self, *short_form: str) -> None:
        """Create CRDs one by one; wait for the decision on each."""
        for text in short_form:
            wanted = names(text)
            schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
            version = {"name": "v1", "served": True, "storage": True, "schema": schema}
            self.client.create(
                {
                    "apiVersion": API,
                    "kind": KIND,
                    "metadata": {"name": f"{wanted['plural']}.{self.name}"},
                    "spec": {"group": self.name, "scope": "Namespaced", "names": wanted, "versions": [version]},
                }
            )
            self.wait_for_decision(wanted["plural"])

    def wait_for_decision(self, plural: str) -> None:
        eventually_equal(lambda: self.condition(plural, "NamesAccepted") is not None, True)

    def edit(self, plural: str, **changed: Any) -> None:
        self.client.patch(API, KIND, f"{plural}.{self.name}", None, {"spec": {"names": changed}})

    def delete(self, plural: str) -> None:
        """Delete a CRD and wait until it is gone, which frees its names."""
        if (self.condition(plural, "Established") or {}).get("status") == "True":
            # If a kind is deleted before it can be listed, kube-apiserver retries with growing delays.
            path = f"/apis/{self.name}/v1/{plural}"
            eventually_equal(lambda: self.client.transport.request("GET", path).status, 200)
        self.client.delete(API, KIND, f"{plural}.{self.name}")
        eventually_equal(lambda: self.client.find(API, KIND, f"{plural}.{self.name}"), None)

    def status(self, plural: str) -> dict[str, Any]:
        status: dict[str, Any] = self.client.get(API, KIND, f"{plural}.{self.name}")["status"]
        return status

    def condition(self, plural: str, type_: str) -> dict[str, Any] | None:
        return next(
            (condition for condition in self.status(plural).get("conditions") or () if condition["type"] == type_), None
        )

    def outcome(self, plural: str) -> tuple[str, str]:
        """Return the accepted names, and reason and message of a conflict."""
        condition = self.condition(plural, "NamesAccepted")
        conflict = (
            ""
            if condition is None or condition["status"] == "True"
            else f"{condition['reason']} {condition['message']}"
        )
        return shorten(self.status(plural).get("acceptedNames") or {}), conflict

    def expect(self, plural: str, accepted: str, conflict: str = "") -> None:
        eventually_equal(lambda: self.outcome(plural), (accepted, conflict))

    def findings(self) -> dict[str, str]:
        """Return the plugin's findings by plural."""
        now = self.host.clock.now()
        return {finding.crd.partition(".")[0]: finding.kind.value for finding in self.naming.ledger.report(now)}

    def expect_findings(self, **wanted: str) -> None:
        """Wait until the plugin has exactly these findings and agrees with every decision of the server."""
        eventually_equal(self.findings, wanted)

    def close(self) -> None:
        self.host.stop(10)
        for crd in list(self.client.list(API, KIND)):
            if crd["spec"]["group"] == self.name:
                self.client.delete(API, KIND, crd["metadata"]["name"])


@pytest.fixture
def group(control_plane: ControlPlane) -> Iterator[Group]:
    """Return a group on each server that the plugin observes."""
    observed = Group(control_plane.client, control_plane.kubeconfig).start()
    yield observed
    observed.close()


@behaviour("naming/X2")
@behaviour("naming/X3")
def test_a_crd_waits_for_names_that_another_holds(group: Group) -> None:
    group.create("foos/foo/Foo/FooList[f]", "bars/foo/Foo/FooList[f]")
    group.expect("bars", "bars///", 'ListKindConflict "FooList" is already in use')
    group.expect_findings(bars="conflict")
    group.delete("foos")
    group.expect("bars", "bars/foo/Foo/FooList[f]")
    group.expect_findings()


@behaviour("naming/X6")
@behaviour("naming/X7")
@behaviour("naming/X8")
@behaviour("naming/X9")
def test_names_conflict_only_within_one_name_space(group: Group) -> None:
    group.create("as/a/A/AList[ds]", "bs/b/B/BList[a]", "cs/c/a/aList", "ds/d/D/DList", "es/e/AList/EList")
    group.expect("bs", "bs/b/B/BList", 'ShortNamesConflict "a" is already in use')
    group.expect("cs", "cs/c/a/aList")
    group.expect("ds", "/d/D/DList", 'PluralConflict "ds" is already in use')
    group.expect("es", "es/e//EList", 'KindConflict "AList" is already in use')
    group.expect_findings(bs="conflict", ds="conflict", es="conflict")


@behaviour("naming/X11")
@behaviour("naming/X12")
@behaviour("naming/X19")
@behaviour("naming/I1")
def test_short_names_are_decided_together_and_reported_in_the_order_of_the_request(group: Group) -> None:
    group.create("as/a/A/AList[x]", "bs/b/B/BList[y, z, x]")
    group.expect("bs", "bs/b/B/BList", 'ShortNamesConflict "x" is already in use')
    group.create("cs/c/C/CList[y]")
    group.expect("cs", "cs/c/C/CList[y]")
    group.expect("bs", "bs/b/B/BList", 'ShortNamesConflict ["y" is already in use, "x" is already in use]')
    group.expect_findings(bs="conflict")


@behaviour("naming/X13")
@behaviour("naming/X15")
@behaviour("naming/X16")
def test_a_crd_may_conflict_with_itself(group: Group) -> None:
    group.create("as/a/A/AList[a]", "bs/b/B/BList", "cs/c/C/CList[x]", "ds/d/D/DList")
    group.expect("as", "as/a/A/AList[a]")
    group.edit("bs", shortNames=["b", "bs"])
    group.expect("bs", "bs/b/B/BList", 'ShortNamesConflict ["b" is already in use, "bs" is already in use]')
    group.edit("cs", singular="x", shortNames=["c"])
    group.expect("cs", "cs/c/C/CList[x]", 'ShortNamesConflict "c" is already in use')
    group.edit("ds", singular="dd", shortNames=["d"])
    group.expect("ds", "ds/dd/D/DList[d]")
    group.expect_findings(bs="self_conflict", cs="self_conflict")


@behaviour("naming/X18")
def test_two_crds_that_swap_names_are_a_cycle_until_one_takes_another(group: Group) -> None:
    group.create("as/a/A/AList", "bs/b/B/BList")
    group.edit("as", singular="b")
    group.expect("as", "as/a/A/AList", 'SingularConflict "b" is already in use')
    group.edit("bs", singular="a")
    group.expect("bs", "bs/b/B/BList", 'SingularConflict "a" is already in use')
    group.expect_findings(**{"as": "cycle", "bs": "cycle"})
    group.edit("as", singular="third")
    group.expect("as", "as/third/A/AList")
    group.expect("bs", "bs/a/B/BList")
    group.expect_findings()


@behaviour("naming/X24")
@behaviour("naming/X28")
def test_a_conflict_of_an_established_crd_leaves_it_served(group: Group) -> None:
    group.create("as/a/A/AList[x]", "bs/b/B/BList[y]")
    eventually_equal(lambda: (group.condition("bs", "Established") or {}).get("status"), "True")
    group.edit("bs", shortNames=["x", "w"])
    group.expect("bs", "bs/b/B/BList[y]", 'ShortNamesConflict "x" is already in use')
    assert (group.condition("bs", "Established") or {})["status"] == "True"
    assert list(group.client.list(f"{group.name}/v1", "B")) == []
    group.edit("bs", shortNames=["w"])
    group.expect("bs", "bs/b/B/BList[w]")
    group.expect_findings()


@behaviour("naming/J7")
def test_observing_writes_nothing(group: Group) -> None:
    group.create("as/a/A/AList[x]", "bs/b/B/BList[x]")
    group.expect_findings(bs="conflict")
    assert group.written() == 0


@behaviour("naming/X25")
@behaviour("naming/F5")
def test_repair_corrects_what_kube_apiserver_leaves_and_the_server_continues_from_there(
    kube_apiserver: KubeApiserver,
) -> None:
    observer = Group(kube_apiserver.client, kube_apiserver.kubeconfig).start()
    repairer = Group(kube_apiserver.client, kube_apiserver.kubeconfig, mode="repair", groups=[observer.name])
    repairer.name = observer.name
    try:
        observer.create("as/a/A/AList[x]", "bs/b/B/BList[x]")
        observer.expect("bs", "bs/b/B/BList", 'ShortNamesConflict "x" is already in use')
        observer.edit("bs", shortNames=[])
        observer.expect_findings(bs="stale_condition")
        assert (observer.condition("bs", "Established") or {})["status"] == "False"

        repairer.start()
        observer.expect("bs", "bs/b/B/BList")
        eventually_equal(lambda: (observer.condition("bs", "Established") or {}).get("status"), "True")
        observer.expect_findings()
        assert repairer.written() == 1
    finally:
        repairer.host.stop(10)
        observer.close()


@behaviour("findings/FP11")
def test_wiped_conditions_are_repaired(control_plane: ControlPlane) -> None:
    observer = Group(control_plane.client, control_plane.kubeconfig).start()
    repairer = Group(control_plane.client, control_plane.kubeconfig, mode="repair", groups=[observer.name])
    wipe = (API, KIND, f"as.{observer.name}", None, {"status": {"conditions": None}})

    def served() -> int:
        return observer.client.transport.request("GET", f"/apis/{observer.name}/v1/as").status

    def repaired(writes: int) -> None:
        eventually_equal(repairer.written, float(writes), timeout=5)
        eventually_equal(served, 200, timeout=5)
        for type_ in ("NamesAccepted", "Established"):
            eventually_equal(
                lambda type_=type_: (observer.condition("as", type_) or {}).get("status"), "True", timeout=5
            )
        observer.expect_findings()
        assert repairer.written() == writes

    try:
        observer.create("as/a/A/AList[x]")
        eventually_equal(served, 200)
        observer.client.patch(*wipe, subresource="status")
        # The server does not restore the conditions.
        eventually_equal(served, 404)
        observer.expect_findings(**{"as": "stale_condition"})
        assert not observer.status("as").get("conditions")
        repairer.start()
        repaired(1)
        observer.client.patch(*wipe, subresource="status")
        repaired(2)
    finally:
        repairer.host.stop(10)
        observer.close()


@behaviour("naming/F7")
def test_enforce_does_not_start_beside_kube_apiserver_s_own_controller(kube_apiserver: KubeApiserver) -> None:
    group = Group(kube_apiserver.client, kube_apiserver.kubeconfig, mode="enforce").start()
    try:
        (plugin,) = group.host.plugins
        assert plugin.state == "failing"
        assert "its own naming controller" in plugin.reason
    finally:
        group.close()


@behaviour("naming/F4")
@behaviour("naming/F7")
def test_enforce_by_force_agrees_with_kube_apiserver_s_own_controller(kube_apiserver: KubeApiserver) -> None:
    group = Group(kube_apiserver.client, kube_apiserver.kubeconfig, mode="enforce", force=True).start()
    chance = random.Random(20261121)
    alive: list[str] = []
    try:
        for step in range(60):
            plural = f"p{step}s"
            choice = chance.random()
            if choice < 0.5 or len(alive) < 2:
                group.create(f"{plural}/p{step}/P{step}/P{step}List[s{chance.randrange(5)}]")
                alive.append(plural)
            elif choice < 0.85:
                group.edit(chance.choice(alive), shortNames=[f"s{chance.randrange(5)}", f"t{chance.randrange(5)}"])
            else:
                group.delete(alive.pop(chance.randrange(len(alive))))

        def odd() -> dict[str, str]:
            # Two concurrent controllers may give a freed name to different CRDs, like two kube-apiservers.
            return {k: v for k, v in group.findings().items() if v in {"drift", "pending"}}

        eventually_equal(odd, {})
        assert not group.naming.guard.has_given_up(group.name)
        # CRDs without a conflict have the requested names.
        in_conflict = {finding.partition(".")[0] for finding in group.findings()}
        for plural in alive:
            if plural not in in_conflict:
                crd = group.client.get(API, KIND, f"{plural}.{group.name}")
                assert shorten(crd["status"]["acceptedNames"]) == shorten(crd["spec"]["names"])
    finally:
        group.close()
