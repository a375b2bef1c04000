"""Claims: which ProviderHosts are valid, and which of several gets the hostname."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from ctrlhost_hostname.claims import Claim, ProviderHost, check_hostname, choose_holder, read_claim
from ctrlhost_hostname.errors import InvalidClaimError

from plugins.hostname.tests.objects import IMPOSSIBLE, LONGEST, encode_address


def test_a_provider_host_reads_as_a_claim(objects):
    claim = objects.read_claim(name="shop")
    assert claim == Claim("shop", "shop.example.com", objects.first, "web", 80, "")


@pytest.mark.behaviour("hostname/33")
def test_upper_case_addresses_give_the_lease_of_lower_case_ones(objects):
    claim = objects.read_claim(owner=objects.owner.upper())
    assert claim.lease == objects.first
    assert claim.lease.namespace == objects.first.namespace


@pytest.mark.parametrize(
    "hostname",
    [
        *IMPOSSIBLE,
        "::1",
        "shop.example.com\n",
        "-shop.example.com",
        "shop..example.com",
        "münchen.example",
    ],
)
def test_a_hostname_that_cannot_name_a_route_is_an_invalid_claim(hostname):
    with pytest.raises(InvalidClaimError) as caught:
        check_hostname(hostname)
    assert caught.value.reason == "hostname"


@pytest.mark.behaviour("hostname/37")
@pytest.mark.parametrize("hostname", [LONGEST, "a" * 64 + ".example.com", "a", "1.2.3.example", "256.1.1.1"])
def test_a_hostname_may_have_253_characters_and_labels_of_any_length(hostname):
    assert len(LONGEST) == 253
    check_hostname(hostname)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param(
            {"owner": encode_address("cosmos", bytes(20))}, "address", marks=pytest.mark.behaviour("hostname/32")
        ),
        pytest.param({"provider": ""}, "address", marks=pytest.mark.behaviour("hostname/32")),
        ({"dseq": -1}, "decode"),
        ({"dseq": 2**64}, "decode"),
        ({"gseq": 2**32}, "decode"),
        ({"external_port": 2**32}, "decode"),
    ],
)
def test_an_invalid_field_makes_a_claim_invalid(objects, change, reason):
    with pytest.raises(InvalidClaimError) as caught:
        objects.read_claim(**change)
    assert caught.value.reason == reason


def test_an_empty_spec_is_an_invalid_claim():
    with pytest.raises(InvalidClaimError):
        read_claim(msgspec.json.decode(b'{"metadata": {"name": "shop"}}', type=ProviderHost), "akash")


@pytest.mark.behaviour("hostname/34")
def test_an_owner_of_32_bytes_is_a_valid_claim_although_no_label_can_hold_it(objects):
    long = encode_address("akash", bytes(32))
    assert len(long) == 64
    assert objects.read_claim(owner=long).lease.owner == long


def claim(name, lease, created="2026-01-01T00:00:00Z"):
    return Claim(name, "shop.example.com", lease, "web", 80, created)


@pytest.mark.behaviour("hostname/39")
@pytest.mark.behaviour("hostname/41")
def test_the_holder_does_not_depend_on_the_order_of_the_claims(objects):
    canonical = claim("shop.example.com", objects.first, "2026-03-01T00:00:00Z")
    live = claim("b", objects.second, "2026-02-01T00:00:00Z")
    old = claim("c", objects.third, "2026-01-01T00:00:00Z")
    young = claim("a", objects.lease(1), "2026-04-01T00:00:00Z")
    twin = claim("d", objects.lease(2), "2026-01-01T00:00:00Z")
    ranking = [canonical, live, old, twin, young]
    for count in range(1, len(ranking) + 1):
        expected = ranking[-count]
        for order in itertools.permutations(ranking[-count:]):
            holder = choose_holder(order, flagged=lambda lease: False, incumbents={objects.second})
            assert holder == expected


def test_a_flagged_claim_ranks_last(objects):
    canonical, other = claim("shop.example.com", objects.first), claim("z", objects.second)
    flagged = {objects.first}
    assert choose_holder([canonical, other], flagged=flagged.__contains__, incumbents={objects.first}) == other
    flagged.add(objects.second)
    assert choose_holder([canonical, other], flagged=flagged.__contains__, incumbents=()) == canonical
