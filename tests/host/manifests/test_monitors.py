"""ServiceMonitors name the Service and the certificate that are there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.manifests import Printed, of_kind
from tests.support.plugin_sources import GREETER

LISTEN = "--set=host.listen_metrics=:8443"
CERTIFICATE = (LISTEN, "--set=host.tls_cert_file=/tls/tls.crt", "--set=host.tls_key_file=/tls/tls.key")
FROM_ENVIRONMENT = {"CTRLHOST_HOST__TLS_CERT_FILE": "/mine.crt", "CTRLHOST_HOST__TLS_KEY_FILE": "/mine.key"}


@pytest.fixture(autouse=True)
def plugins(distributions: Any) -> None:
    distributions.add("greeter", GREETER)


@pytest.mark.parametrize("name", ["foo", "foo-metrics"])
def test_a_certificate_is_checked_for_the_name_of_the_service(printed: Printed, name: str) -> None:
    manifests = printed("--plugins=greeter", "--monitor", f"--name={name}", "--deploy-namespace=ops", *CERTIFICATE)
    (service,), (monitor,) = of_kind(manifests, "Service"), of_kind(manifests, "ServiceMonitor")
    assert service["metadata"]["name"] == "foo-metrics"
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["tlsConfig"] == {"serverName": "foo-metrics.ops.svc"}


def test_a_certificate_of_the_environment_does_not_count(printed: Printed, settings_file: Callable[[str], str]) -> None:
    def tls(*arguments: str) -> Any:
        manifests = printed("--plugins=greeter", "--monitor", LISTEN, *arguments, **FROM_ENVIRONMENT)
        (endpoint,) = of_kind(manifests, "ServiceMonitor")[0]["spec"]["endpoints"]
        return endpoint.get("scheme"), endpoint.get("tlsConfig")

    assert tls() == ("https", {"insecureSkipVerify": True})
    assert tls("--set=host.metrics_auth=none") == (None, None)
    # The pods read the file, whatever the environment of the command has.
    named = ("https", {"serverName": "ctrlhost-metrics.ctrlhost-system.svc"})
    assert tls(settings_file("[host]\ntls_cert_file = '/tls/tls.crt'\ntls_key_file = '/tls/tls.key'\n")) == named


def test_metrics_on_loopback_have_neither_service_nor_monitor(printed: Printed) -> None:
    manifests = printed("--plugins=greeter", "--monitor", "--set=host.listen_metrics=127.0.0.1:8443")
    assert of_kind(manifests, "Service") == of_kind(manifests, "ServiceMonitor") == []
