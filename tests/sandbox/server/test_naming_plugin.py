"""The plugin `naming` accepts the names of CRDs as the sandbox itself does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import ctrlhost
from ctrlhost.config.load import Configuration
from ctrlhost.host.host import Host
from ctrlhost.sandbox import Sandbox
from tests.sandbox.conftest import Crd, crd_body
from tests.support.http_client import Api
from tests.support.waiting import eventually


@pytest.fixture(params=["sandbox", "plugin", "both"])
def acceptor(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def api(acceptor: str) -> Iterator[Api]:
    """A client of a sandbox that accepts names itself, leaves that to the plugin, or runs beside the plugin."""
    with Sandbox(crd_conditions="external" if acceptor == "plugin" else "builtin") as sandbox:
        client = ctrlhost.Client.load(kubeconfig=sandbox.kubeconfig)
        settings = Configuration.gather(None, {"CTRLHOST_PLUGINS__NAMING__MODE": '"enforce"'}, (), {})
        host = Host(plugins=[] if acceptor == "sandbox" else ["naming"], configuration=settings, client=client)
        host.start()
        try:
            with Api(sandbox.url, sandbox.ca, sandbox.token) as found:
                yield found
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
    assert names["kind"] == "Short"
    assert "shortNames" not in names

    third = crd(api, "thirds", "Third").establish()
    body = api.get(third.url).json()
    body["spec"]["names"]["shortNames"] = ["wd"]
    api.put(third.url, body).expect(200)
    eventually(lambda: third.conditions()["NamesAccepted"] == ("False", "ShortNamesConflict"))
    assert third.established()
    api.get(third.path("default")).expect(200)

    api.delete(first.url).expect(200)
    eventually(clash.established)
    api.get(clash.path("default")).expect(200)
