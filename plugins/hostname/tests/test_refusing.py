"""What kubectl shows about a ProviderHost that gets no route, and which values never reach nginx."""

from __future__ import annotations

import random
import re
from typing import Any, get_args

import msgspec
import pytest
from ctrlhost_hostname import plugin
from ctrlhost_hostname.gateway import GatewayRoutes
from ctrlhost_hostname.ingress import IngressRoutes
from ctrlhost_hostname.manifest import HTTPOptions, NextCase
from ctrlhost_hostname.settings import HostnameSettings

import ctrlhost
from ctrlhost import conditions
from plugins.hostname.tests.cluster import INGRESS
from plugins.hostname.tests.objects import SHOP, encode_address

CRD = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
HTTP_ROUTE = ("gateway.networking.k8s.io/v1", "HTTPRoute")
REFUSED = ["600", "5xx", "error;\n}\nlocation /pwn {}\n#", "off; proxy_pass http://evil", "error}", "error\n"]
#: What an annotation may consist of: words of nginx, numbers and sizes.
ALLOWED = re.compile(r"[a-z0-9_ ]*")
FUZZED = 10_000


def options(**values):
    return {"max_body_size": 1, "next_cases": ["error"], **values}


def enum_of_the_crd(crd):
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    service = spec["properties"]["group"]["properties"]["services"]["items"]
    expose = service["properties"]["expose"]["items"]["properties"]
    return expose["http_options"]["properties"]["next_cases"]["items"]


def manifest_crd():
    (crd,) = [crd for crd in plugin.ctrlhost_crds() if crd["metadata"]["name"] == "manifests.akash.network"]
    return crd


def stalled(cluster, name=SHOP):
    """Return status, reason and message of the condition of a ProviderHost; None without one."""
    host = cluster.client.get("akash.network/v2beta2", "ProviderHost", name, "lease")
    condition = conditions.get(host, "Stalled")
    return None if condition is None else (condition["status"], condition["reason"], condition["message"])


def warnings(cluster, name=SHOP):
    """Return the reason and the note of every event about a ProviderHost."""
    return [
        (event["reason"], event["note"])
        for event in cluster.host.events("lease")
        if (event["regarding"]["kind"], event["regarding"]["name"]) == ("ProviderHost", name)
    ]


@pytest.mark.behaviour("findings/FP2")
@pytest.mark.behaviour("operations/OP166")
@pytest.mark.parametrize("mode", ["ingress", "gateway-api"])
@pytest.mark.parametrize("case", REFUSED)
def test_a_case_that_nginx_does_not_know_is_refused_and_reported(cluster, objects, mode, case):
    kind = INGRESS
    if mode == "gateway-api":
        cluster.install(objects.http_route_crd())
        kind = HTTP_ROUTE
    # As with an older CRD, or with a Manifest from before it was replaced.
    crd = cluster.client.get(*CRD, "manifests.akash.network")
    del enum_of_the_crd(crd)["enum"]
    cluster.client.replace(crd)
    cluster.lease(objects.first, objects.web_services(options(next_cases=["error", case])))
    cluster.start(ingress_mode=mode)
    before = cluster.revision(kind)
    cluster.declare(SHOP, objects.first)
    cluster.idle()
    assert cluster.routes(kind) == set()
    assert cluster.revision(kind) == before
    status, reason, message = stalled(cluster)
    assert (status, reason) == ("True", "InvalidManifest")
    assert "next_cases" in message
    assert "\n" not in message
    assert warnings(cluster) == [(reason, message)]
    assert cluster.metric("ctrlhost_hostname_reconcile_total", result="error") == 1
    cluster.change_manifest(objects.first, objects.web_services(options()))
    cluster.idle()
    assert cluster.routes(kind) == {(objects.first.namespace, SHOP)}
    assert stalled(cluster)[:2] == ("False", "Connected")


@pytest.mark.behaviour("findings/FP2")
@pytest.mark.behaviour("operations/OP166")
@pytest.mark.parametrize("case", REFUSED)
def test_the_crd_refuses_such_a_case(cluster, objects, case):
    cluster.namespace(objects.first.namespace)
    with pytest.raises(ctrlhost.Invalid, match="next_cases"):
        cluster.create(objects.manifest(objects.first, objects.web_services(options(next_cases=[case]))))


@pytest.mark.behaviour("findings/FP2")
def test_the_crd_and_the_code_allow_the_same_words(objects):
    assert enum_of_the_crd(manifest_crd())["enum"] == list(get_args(NextCase))
    services = objects.read_manifest(objects.web_services(options(next_cases=get_args(NextCase)))).spec.group.services
    assert services[1].expose[1].http_options.next_upstream == (
        "error timeout invalid_header non_idempotent off"
        + 2 * " http_403 http_404 http_429 http_500 http_502 http_503 http_504"
    )


@pytest.mark.behaviour("findings/FP2")
def test_an_unknown_word_is_never_rendered():
    with pytest.raises(KeyError):
        assert HTTPOptions(max_body_size=1, next_cases=("5xx",)).next_upstream  # type: ignore[arg-type]


@pytest.mark.behaviour("findings/FP2")
@pytest.mark.parametrize("name", sorted({*HTTPOptions.__struct_fields__} - {"next_cases"}))
@pytest.mark.parametrize("value", ["1; evil", "1", -1, 2**32, 1.5, True])
def test_every_other_option_is_a_32_bit_number(objects, name, value):
    with pytest.raises(msgspec.ValidationError, match=name):
        objects.read_manifest(objects.web_services(options(**{name: value})))


@pytest.mark.behaviour("findings/FP2")
@pytest.mark.parametrize("size", ["16k; evil", "k", "0", "-1k", "1.5m", "16kb", "16k\n", " 16k", "16g"])
def test_a_buffer_size_that_nginx_does_not_know_is_rejected_at_start(size):
    with pytest.raises(msgspec.ValidationError, match="proxy-buffer-size"):
        msgspec.convert({"proxy-buffer-size": size}, HostnameSettings)
    for valid in ("", "4096", "16k", "16K", "1m", "1M"):
        assert msgspec.convert({"proxy-buffer-size": valid}, HostnameSettings).proxy_buffer_size == valid


@pytest.mark.behaviour("findings/FP5")
def test_the_condition_of_an_ignored_host_has_the_last_failure(cluster, objects):
    cluster.namespace(objects.first.namespace)
    cluster.start()
    cluster.declare(SHOP, objects.first)
    cluster.idle()
    assert stalled(cluster) is None
    cluster.after(3)
    cluster.after(3)
    assert cluster.metric("ctrlhost_hostname_flagged_leases") == 1
    missing = f"observation stopped: resource not found: manifest for {objects.first}"
    told = ("LeaseIgnored", f"lease ignored after 3 failures: {missing}")
    assert stalled(cluster) == ("True", *told)
    assert warnings(cluster) == [told]
    # A host that is declared when its lease is flagged already.
    cluster.declare("blog.example.com", objects.first)
    cluster.idle()
    assert stalled(cluster, "blog.example.com") == ("True", *told)
    assert warnings(cluster, "blog.example.com") == [told]
    cluster.create(objects.manifest(objects.first))
    cluster.idle()
    assert cluster.routes() == {(objects.first.namespace, SHOP), (objects.first.namespace, "blog.example.com")}
    assert stalled(cluster)[:2] == stalled(cluster, "blog.example.com")[:2] == ("False", "Connected")


@pytest.mark.behaviour("findings/FP5")
@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"hostname": "*.example.com"}, "is not a lower-case DNS-1123 subdomain"),
        ({"owner": "nobody"}, "spec.owner: decoding bech32 failed"),
        ({"dseq": -1}, "spec.dseq must be an integer"),
    ],
)
def test_the_condition_of_an_invalid_host_says_why(cluster, objects, spec, text):
    cluster.lease(objects.first)
    cluster.start(resync_interval="30m")
    declared = objects.provider_host(SHOP, objects.first)
    declared["spec"].update(spec)
    cluster.create(declared)
    cluster.idle()
    status, reason, message = stalled(cluster)
    assert (status, reason) == ("True", "InvalidProviderHost")
    assert text in message
    assert warnings(cluster) == [(reason, message)]
    before = cluster.revision(("akash.network/v2beta2", "ProviderHost"))
    cluster.after(1800)
    cluster.stop()
    cluster.start()
    assert cluster.revision(("akash.network/v2beta2", "ProviderHost")) == before
    assert warnings(cluster) == [(reason, message)]
    cluster.change_host(SHOP, hostname=SHOP, owner=objects.first.owner, dseq=objects.first.dseq)
    cluster.idle()
    assert stalled(cluster)[:2] == ("False", "Connected")


@pytest.mark.behaviour("findings/FP5")
def test_the_condition_of_a_conflict_ends_with_it(connected, objects):
    connected.declare(SHOP, objects.second, name="another")
    connected.idle()
    told = ("HostnameConflict", f"hostname {SHOP} is held by ProviderHost {SHOP} of lease {objects.first}")
    assert stalled(connected, "another") == ("True", *told)
    assert told in warnings(connected, "another")
    assert stalled(connected) is None
    connected.release(SHOP)
    connected.idle()
    assert stalled(connected, "another")[:2] == ("False", "Connected")


@pytest.mark.behaviour("findings/FP5")
def test_the_condition_of_a_rejected_route_has_the_servers_words(cluster, objects):
    lease = objects.lease(7001, owner=encode_address("akash", bytes(32)))
    cluster.lease(lease)
    cluster.start()
    declared = objects.provider_host(SHOP, lease)
    del declared["metadata"]["labels"]
    cluster.create(declared)
    cluster.idle()
    status, reason, message = stalled(cluster)
    assert (status, reason) == ("True", "RouteRejected")
    assert "metadata.labels: Invalid value" in message
    assert (reason, message) in warnings(cluster)


@pytest.mark.behaviour("findings/FP5")
def test_with_a_crd_without_status_an_event_says_why_once(cluster, objects):
    # The start installs the plugin's own CRDs.
    cluster.start(resync_interval="30m")
    crd = cluster.client.get(*CRD, "providerhosts.akash.network")
    for version in crd["spec"]["versions"]:
        del version["subresources"]
    cluster.client.replace(crd)
    cluster.declare(SHOP, objects.first, owner="nobody")
    cluster.idle()
    ((reason, message),) = warnings(cluster)
    assert reason == "InvalidProviderHost"
    cluster.after(1800)
    # The host says, too, why the runs fail.
    assert [warning for warning in warnings(cluster) if warning[0] != "ReconcileFailed"] == [(reason, message)]
    assert stalled(cluster) is None


def fuzzed(dice: random.Random, option: str) -> Any:
    """Return a value that a lease may have for an option, valid ones among them."""
    characters = "\n\r\t\0 ;{}#$'\"\\`error_http_504;lua\u00e9\u2028"
    text = "".join(dice.choices(characters, k=dice.randrange(12)))
    valid = dice.choice(get_args(NextCase))
    kinds = [text, valid, valid + text, text + valid, dice.randrange(2**33), -1, dice.random(), None, True, [text], {}]
    if option == "next_cases":
        return dice.choices([valid, valid, valid, *kinds], k=dice.randrange(4))
    return dice.choice([dice.randrange(2**32), dice.randrange(2**32), *kinds])


@pytest.mark.behaviour("operations/OP166")
@pytest.mark.parametrize("option", HTTPOptions.__struct_fields__)
def test_fuzzed_values_are_refused_or_become_words_and_numbers(option: str) -> None:
    dice, accepted = random.Random(option), 0
    gateway = GatewayRoutes("g", "g", "16k")
    for _ in range(FUZZED):
        raw = {"max_body_size": 1, option: fuzzed(dice, option)}
        try:
            options = msgspec.convert(raw, HTTPOptions)
        except msgspec.ValidationError:
            continue
        accepted += 1
        effective = options.or_defaults()
        for derived in (IngressRoutes().annotations(effective), gateway.annotations(effective)):
            assert all(ALLOWED.fullmatch(value) for value in derived.values()), (raw, derived)
    # Both outcomes were there.
    assert FUZZED / 10 < accepted < FUZZED
