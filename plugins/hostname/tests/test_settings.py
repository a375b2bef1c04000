"""Settings and CRDs."""

from __future__ import annotations

import msgspec
import pytest
from ctrlhost_hostname import plugin
from ctrlhost_hostname.gateway import GatewayRoutes
from ctrlhost_hostname.ingress import IngressRoutes
from ctrlhost_hostname.settings import HostnameSettings


def settings(**values):
    return msgspec.convert({key.replace("_", "-"): value for key, value in values.items()}, HostnameSettings)


def test_the_defaults_are_upstreams():
    assert msgspec.to_builtins(settings()) == {
        "k8s-manifest-ns": "lease",
        "prune-interval": "10m",
        "web-refresh-interval": "5s",
        "retry-delay": "3s",
        "event-failure-limit": 3,
        "ignore-list-entry-limit": 131072,
        "ignore-list-age-limit": "726h",
        "rest-address": "127.0.0.1",
        "rest-port": 8080,
        "ingress-mode": "ingress",
        "gateway-name": "akash-gateway",
        "gateway-namespace": "akash-gateway",
        "gateway-provider": "nginx",
        "proxy-buffer-size": "16k",
        "workers": 4,
        "resync-interval": "30m",
        "max-retry-delay": "5m",
        "gc-orphans": True,
        "gc-grace": "60s",
        "removal-brake-percent": 20,
        "ignore-list-forgive": "manifest-change",
        "bech32-prefix": "akash",
    }
    assert settings().seconds("ignore_list_age_limit") == 2613600
    assert isinstance(settings().routes(), IngressRoutes)
    assert isinstance(settings(ingress_mode="gateway-api").routes(), GatewayRoutes)
    assert not settings(ignore_list_forgive="never").forgives


@pytest.mark.behaviour("hostname/76")
@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"ingress_mode": "nginx"}, 'invalid ingress-mode "nginx": must be "ingress" or "gateway-api"'),
        (
            {"ingress_mode": "gateway-api", "gateway_name": ""},
            "gateway-name is required when ingress-mode is gateway-api",
        ),
        (
            {"ingress_mode": "gateway-api", "gateway_namespace": ""},
            "gateway-namespace is required when ingress-mode is gateway-api",
        ),
        (
            {"ingress_mode": "gateway-api", "gateway_provider": "envoy"},
            "unknown gateway provider: envoy (supported: [nginx])",
        ),
        ({"retry_delay": "600"}, "retry-delay: invalid duration `600`"),
        ({"retry_delay": 600}, "Expected `str`, got `int` - at `$.retry-delay`"),
        ({"prune_interval": "0s"}, "prune-interval must be greater than zero, got `0s`"),
        ({"gc_grace": "-1m"}, "gc-grace: invalid duration `-1m`"),
        ({"workers": 0}, "Expected `int` >= 1 - at `$.workers`"),
        ({"removal_brake_percent": 101}, "Expected `int` <= 100 - at `$.removal-brake-percent`"),
        ({"rest_port": 65536}, "Expected `int` <= 65535 - at `$.rest-port`"),
        ({"k8s_manifest_ns": ""}, "of length >= 1 - at `$.k8s-manifest-ns`"),
        ({"event_failure_limit": -1}, "Expected `int` >= 0 - at `$.event-failure-limit`"),
        ({"ignore_list_forgive": "sometimes"}, "ignore-list-forgive"),
        ({"grpc_port": 8081}, "grpc-port"),
    ],
)
def test_invalid_settings_are_rejected(values, message):
    with pytest.raises(msgspec.ValidationError) as caught:
        settings(**values)
    assert message in str(caught.value)


def test_gateway_settings_do_not_matter_in_ingress_mode():
    assert settings(gateway_name="", gateway_provider="envoy").ingress_mode == "ingress"


def test_the_crds_are_those_of_upstream_and_provider_hosts_have_a_status():
    by_name = {crd["metadata"]["name"]: crd for crd in plugin.ctrlhost_crds()}
    assert sorted(by_name) == ["manifests.akash.network", "providerhosts.akash.network"]
    for crd, short in ((by_name["manifests.akash.network"], "mani"), (by_name["providerhosts.akash.network"], "ph")):
        assert crd["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
        assert crd["spec"]["names"]["shortNames"] == [short]
        assert crd["spec"]["scope"] == "Namespaced"
        assert {v["name"]: (v["served"], v["storage"]) for v in crd["spec"]["versions"]} == {
            "v2beta2": (True, True),
            "v2beta1": (False, False),
        }
        with_status = ["subresources" in version for version in crd["spec"]["versions"]]
        assert with_status == [short == "ph"] * 2
    fresh = plugin.ctrlhost_crds()
    fresh[0]["metadata"]["name"] = "changed"
    assert plugin.ctrlhost_crds()[0]["metadata"]["name"] != "changed"
