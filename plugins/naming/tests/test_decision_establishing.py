"""The step from accepted names to a CRD that is served."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from ctrlhost_naming.conditions import INITIAL_NAMES_ACCEPTED, INVALID_CA_BUNDLE
from ctrlhost_naming.crd import Crd
from ctrlhost_naming.decision import established_condition, should_establish, status_patch

from ctrlhost.testing import ManualClock
from plugins.naming.tests.cluster import Cluster
from tests.support.ca_bundles import BUNDLES

behaviour = pytest.mark.behaviour


def webhook(bundle: str | None) -> dict[str, Any]:
    client: dict[str, Any] = {"service": {"name": "w", "namespace": "n"}}
    if bundle is not None:
        client["caBundle"] = bundle
    return {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": client}}


def accepted(fake: Any, conversion: dict[str, Any] | None = None) -> dict[str, Any]:
    fake.create("as/a", **({"conversion": conversion} if conversion else {}))
    fake.settle()
    obj: dict[str, Any] = fake.objects["as.g.io"]
    return obj


@behaviour("naming/I3")
@behaviour("naming/I4")
@behaviour("findings/FT2")
@pytest.mark.parametrize("name", BUNDLES)
def test_webhook_certificates_are_judged_as_by_kube_apiserver(fake: Any, name: str) -> None:
    bundle, accepts = BUNDLES[name]
    obj = accepted(fake, webhook(base64.b64encode(bundle).decode()))
    assert established_condition(Crd.of(obj), obj) == (INITIAL_NAMES_ACCEPTED if accepts else INVALID_CA_BUNDLE)


@behaviour("naming/I3")
def test_a_bundle_that_is_not_base64_prevents_establishing(fake: Any) -> None:
    obj = accepted(fake, webhook("%%%"))
    assert established_condition(Crd.of(obj), obj) == INVALID_CA_BUNDLE


@behaviour("naming/I3")
@behaviour("naming/I4")
@behaviour("naming/I5")
@pytest.mark.parametrize(
    ("bundle", "established"),
    [
        ("text", "False/InvalidCABundle"),
        ("certificate", "True/InitialNamesAccepted"),
        (None, "True/InitialNamesAccepted"),
    ],
)
def test_the_plugin_establishes_by_the_webhook_s_certificates(
    cluster: Cluster, bundle: str | None, established: str
) -> None:
    encoded = base64.b64encode(BUNDLES[bundle][0]).decode() if bundle else None
    cluster.create("as/a", conversion=webhook(encoded))
    cluster.host.run_until_idle()
    assert cluster.names_accepted("as") == "True/NoConflicts"
    assert cluster.condition("as", "Established") == established


@behaviour("naming/I5")
@pytest.mark.parametrize("conversion", [None, {"strategy": "None"}, webhook(None)])
def test_a_crd_without_webhook_certificates_is_established(fake: Any, conversion: dict[str, Any] | None) -> None:
    obj = accepted(fake, conversion)
    assert established_condition(Crd.of(obj), obj) == INITIAL_NAMES_ACCEPTED


def test_a_condition_that_is_already_set_is_not_written_again(fake: Any) -> None:
    obj = accepted(fake, webhook("bm90IGEgY2VydGlmaWNhdGU="))
    fake.edit_status("as", **status_patch(obj, [INVALID_CA_BUNDLE], ManualClock())["status"])
    obj = fake.objects["as.g.io"]
    assert should_establish(Crd.of(obj))
    assert established_condition(Crd.of(obj), obj) is None


@behaviour("naming/X23")
def test_only_a_crd_with_all_requested_names_is_established(fake: Any) -> None:
    fake.create("as/a")
    assert not should_establish(Crd.of(fake.objects["as.g.io"]))
    fake.settle()
    assert should_establish(Crd.of(fake.objects["as.g.io"]))
    fake.edit("as", singular="b")
    assert not should_establish(Crd.of(fake.objects["as.g.io"])), "renamed, and the new name is not judged yet"


def test_the_patch_keeps_the_other_conditions_and_its_version(fake: Any) -> None:
    obj = accepted(fake)
    patch = status_patch(obj, [INITIAL_NAMES_ACCEPTED], ManualClock())
    assert patch["metadata"] == {"resourceVersion": obj["metadata"]["resourceVersion"]}
    assert [(c["type"], c["status"], c["reason"]) for c in patch["status"]["conditions"]] == [
        ("NamesAccepted", "True", "NoConflicts"),
        ("Established", "True", "InitialNamesAccepted"),
    ]
