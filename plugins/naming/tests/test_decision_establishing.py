"""The step from accepted names to a CRD that is served."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from ctrlhost_naming.crd import INITIAL_NAMES_ACCEPTED, INVALID_CA_BUNDLE, Crd
from ctrlhost_naming.decision import established_condition, should_establish

from plugins.naming.tests.cluster import Cluster
from tests.support.ca_bundles import BUNDLES

behaviour = pytest.mark.behaviour


def webhook(bundle: str | None) -> dict[str, Any]:
    client: dict[str, Any] = {"service": {"name": "w", "namespace": "n"}}
    if bundle is not None:
        client["caBundle"] = bundle
    return {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": client}}


def accepted(fake: Any, conversion: dict[str, Any] | None = None) -> Crd:
    fake.create("as/a", **({"conversion": conversion} if conversion else {}))
    fake.settle()
    crd: Crd = fake.get("as")
    return crd


@behaviour("naming/I3")
@behaviour("naming/I4")
@behaviour("findings/FT2")
@pytest.mark.parametrize("name", BUNDLES)
def test_webhook_certificates_are_judged_as_by_kube_apiserver(fake: Any, name: str) -> None:
    bundle, accepts = BUNDLES[name]
    crd = accepted(fake, webhook(base64.b64encode(bundle).decode()))
    assert established_condition(crd) == (INITIAL_NAMES_ACCEPTED if accepts else INVALID_CA_BUNDLE)


@behaviour("naming/I3")
def test_a_bundle_that_is_not_base64_prevents_establishing(fake: Any) -> None:
    crd = accepted(fake, webhook("%%%"))
    assert established_condition(crd) == INVALID_CA_BUNDLE


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
    crd = accepted(fake, conversion)
    assert established_condition(crd) == INITIAL_NAMES_ACCEPTED


@behaviour("naming/X23")
def test_only_a_crd_with_all_requested_names_is_established(fake: Any) -> None:
    fake.create("as/a")
    assert not should_establish(fake.get("as"))
    fake.settle()
    assert should_establish(fake.get("as"))
    fake.edit("as", singular="b")
    assert not should_establish(fake.get("as")), "renamed, and the new name is not judged yet"
