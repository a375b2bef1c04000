import json
from pathlib import Path
from typing import Any

import pytest
from database import GROUP, OTHERS, QUOTA, Database, OldDatabase, Spec, downgrade, plugin, upgrade

import ctrlhost
from ctrlhost.testing import HostUnderTest, StartHost
from ctrlhost.yaml_text import load_objects

V1, V1ALPHA1 = f"{GROUP}/v1", f"{GROUP}/v1alpha1"


def database(version: str, name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": "Database", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def host(ctrlhost_host: StartHost) -> HostUnderTest:
    """A host whose webhooks the API server calls, with the rights that `ctrlhost manifests` prints."""
    return ctrlhost_host(plugin, least_privilege=True)


@pytest.mark.behaviour("webhooks/WH28")
def test_the_creator_is_the_default_user(host: HostUnderTest) -> None:
    host.apply(database(V1, "web"))
    user = host.get(Database, "web").spec.users
    assert len(user) == 1
    host.settle()
    assert host.get("v1/ConfigMap", "web")["data"] == {"users": user[0]}
    assert host.unused_rights() == []
    # Only a new one has a creator.
    host.patch(Database, "web", {"spec": {"users": []}})
    assert host.get(Database, "web").spec.users == []


@pytest.mark.behaviour("webhooks/WH28")
def test_all_databases_of_a_namespace_have_a_quota(host: HostUnderTest) -> None:
    host.patch("v1/Namespace", host.namespace, {"metadata": {"annotations": {QUOTA: "10"}}})
    host.apply(database(V1, "first", size=6))
    host.settle()
    assert host.admit(database(V1, "second", size=4))[0]["spec"]["size"] == 4
    with pytest.raises(ctrlhost.Denied, match="would have 11, above 10") as raised:
        host.admit(database(V1, "second", size=5))
    assert raised.value.field == "spec.size"
    # A smaller one is always admitted.
    host.patch("v1/Namespace", host.namespace, {"metadata": {"annotations": {QUOTA: "1"}}})
    host.settle()
    assert host.apply(database(V1, "first", size=5))


@pytest.mark.behaviour("webhooks/WH28")
def test_both_versions_show_the_same_objects(host: HostUnderTest) -> None:
    applied = host.apply(database(V1ALPHA1, "old", user="ann", size=2))
    assert any("deprecated" in warning for warning in applied.warnings)
    assert host.get(Database, "old").spec == Spec(["ann"], 2)
    # The webhooks of v1 are asked about requests in the other version, too.
    assert host.admit(database(V1ALPHA1, "mine"))[0]["spec"]["user"]
    host.apply(database(V1, "new", users=["bob", "eve"]))
    old = host.get(OldDatabase, "new")
    assert (old.spec.user, json.loads(old.metadata.annotations[OTHERS])) == ("bob", ["eve"])
    host.patch(OldDatabase, "new", {"spec": {"size": 3}})
    new = host.get(Database, "new")
    assert (new.spec, OTHERS in new.metadata.annotations) == (Spec(["bob", "eve"], 3), False)


@pytest.mark.parametrize("users", [[], ["ann"], ["ann", "bob", "eve"]])
def test_conversion_loses_nothing(users: list[str]) -> None:
    new = {"metadata": {"name": "web", "annotations": {"a": "b"}}, "spec": {"users": users, "size": 2}}
    assert upgrade(downgrade(new)) == new
    old = {"metadata": {"name": "web", "annotations": {}}, "spec": {"user": "ann", "size": 2}}
    assert downgrade(upgrade(old)) == old


def test_the_crd_of_the_release_before_is_that_of_the_old_version() -> None:
    (before,) = load_objects((Path(__file__).parents[1] / "before.yaml").read_text())
    now = ctrlhost.crd_of(OldDatabase)
    del now["spec"]["versions"][0]["deprecated"]
    assert before == now


@pytest.mark.behaviour("webhooks/WH28")
def test_the_example_has_at_most_eighty_lines() -> None:
    assert len((Path(__file__).parents[1] / "database.py").read_text().splitlines()) <= 80
