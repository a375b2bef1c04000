"""The plugin `naming` accepts the names of CRDs as the sandbox itself does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ctrlhost_sandbox import Sandbox

import ctrlhost
from ctrlhost.config.load import Configuration
from ctrlhost.host.host import Host
from sandbox.tests.conftest import Crd, crd_body
from tests.support.http_client import Api
from tests.support.rbac_rig import api_of
from tests.support.waiting import eventually

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture(params=["sandbox", "plugin", "both", "kube-apiserver"])
def acceptor(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def kubeconfig(acceptor: str, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A sandbox that accepts names itself or leaves that to the plugin, or a real kube-apiserver."""
    if acceptor == "kube-apiserver":
        yield request.getfixturevalue("kube_apiserver").kubeconfig
        return
    with Sandbox(crd_conditions="external" if acceptor == "plugin" else "builtin") as sandbox:
        yield sandbox.kubeconfig


@pytest.fixture
def api(acceptor: str, kubeconfig: Path) -> Iterator[Api]:
    """A client of that server; the plugin runs too, except in `sandbox`."""
    client = ctrlhost.Client.load(kubeconfig=kubeconfig)
    settings = Configuration.gather(None, {"CTRLHOST_PLUGINS__NAMING__MODE": '"enforce"'}, (), {})
    host = Host(plugins=[] if acceptor == "sandbox" else ["naming"], configuration=settings, client=client)
    host.start()
    try:
        with api_of(kubeconfig) as admin:
            yield admin
            for plural in ("widgets", "others", "shorts", "thirds"):
                admin.delete(f"{CRDS}/{plural}.n.t.example.org").expect(200, 404)
    finally:
        assert host.stop(10)
        client.close()


def crd(api: Api, plural: str, kind: str, **names: Any) -> Crd:
    return Crd(api, crd_body("n.t.example.org", names={"plural": plural, "kind": kind, **names}))


@pytest.mark.behaviour("sandbox/CD-35")
def test_the_outcome_is_the_same_whoever_accepts_the_names(api: Api) -> None:
    first = crd(api, "widgets", "Widget", shortNames=["wd"]).establish()
    assert first.conditions() == {
        "NamesAccepted": ("True", "NoConflicts"),
        "Established": ("True", "InitialNamesAccepted"),
    }
    accepted = api.get(first.url).json()["status"]["acceptedNames"]
    wanted = {
        "plural": "widgets",
        "singular": "widget",
        "kind": "Widget",
        "listKind": "WidgetList",
        "shortNames": ["wd"],
    }
    assert accepted == wanted
    # A real server serves a kind a little after it establishes it.
    eventually(lambda: api.get(first.path("default")).status == 200)
    api.post(first.path("default"), first.obj()).expect(201)

    clash = crd(api, "others", "Widget", listKind="OtherList", singular="other")
    api.post(clash.url.rpartition("/")[0], clash.body).expect(201)
    rejected = {"NamesAccepted": ("False", "KindConflict"), "Established": ("False", "NotAccepted")}
    eventually(lambda: clash.conditions() == rejected)
    assert api.get(clash.path("default")).status == 404

    short = crd(api, "shorts", "Short", shortNames=["wd"])
    api.post(short.url.rpartition("/")[0], short.body).expect(201)
    eventually(lambda: short.conditions().get("NamesAccepted") == ("False", "ShortNamesConflict"))
    names = api.get(short.url).json()["status"]["acceptedNames"]
    assert names == {"plural": "shorts", "singular": "short", "kind": "Short", "listKind": "ShortList"}

    third = crd(api, "thirds", "Third").establish()
    body = api.get(third.url).json()
    body["spec"]["names"]["shortNames"] = ["wd"]
    api.put(third.url, body).expect(200)
    eventually(lambda: third.conditions()["NamesAccepted"] == ("False", "ShortNamesConflict"))
    assert third.established()
    eventually(lambda: api.get(third.path("default")).status == 200)

    api.delete(first.url).expect(200)
    eventually(clash.established)
    assert clash.conditions()["NamesAccepted"] == ("True", "NoConflicts")
    eventually(lambda: api.get(clash.path("default")).status == 200)
