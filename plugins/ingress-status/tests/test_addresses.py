"""Lists of addresses: normalised and compared."""

from __future__ import annotations

from typing import Any

import pytest
from ctrlhost_ingress_status.addresses import normalise, same
from ctrlhost_ingress_status.ingress import IngressTarget
from hypothesis import given
from hypothesis import strategies as st

from ctrlhost.cache import Object

HTTPS = {"port": 443, "protocol": "TCP"}
PORTS = st.lists(
    st.fixed_dictionaries(
        {"port": st.integers(1, 65535), "protocol": st.sampled_from(["TCP", "UDP"])},
        optional={"error": st.just("example.com/Fail")},
    ),
    max_size=2,
)
ENTRIES = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "ip": st.sampled_from(["", "10.0.0.1", "10.0.0.2", "2001:db8::1", "2001:DB8:0::1"]),
            "hostname": st.sampled_from(["", "a.example.com", "b.example.com"]),
            "ipMode": st.sampled_from(["VIP", "Proxy"]),
            "ports": st.none() | PORTS,
        },
    ),
    max_size=4,
)


@pytest.mark.parametrize(
    ("raw", "plain"),
    [
        (None, ()),
        ([], ()),
        ("10.0.0.1", ()),
        ([{"ip": "", "hostname": ""}], ()),
        ([{"ports": [HTTPS]}, 7], ()),
        ([{"ip": "1.1.1.1", "ipMode": "VIP"}], ({"ip": "1.1.1.1"},)),
        ([{"ip": "1.1.1.1", "hostname": "a", "ports": []}], ({"ip": "1.1.1.1", "hostname": "a"},)),
        ([{"ip": "1.1.1.1", "ports": None}, {"ip": "1.1.1.1"}], ({"ip": "1.1.1.1"},)),
        ([{"ip": "b", "ports": [{**HTTPS, "error": ""}]}], ({"ip": "b", "ports": [HTTPS]},)),
        ([{"hostname": "b"}, {"hostname": "a"}, {"hostname": "b"}], ({"hostname": "b"}, {"hostname": "a"})),
    ],
)
def test_empty_and_repeated_entries_are_dropped(raw: Any, plain: tuple[Any, ...]) -> None:
    assert normalise(raw) == plain


def test_order_and_spelling_make_no_difference() -> None:
    addresses = normalise([{"ip": "2001:DB8::1"}, {"ip": "10.0.0.1"}])
    assert same(addresses, normalise([{"ip": "10.0.0.1"}, {"ip": "2001:db8::1"}]))
    assert not same(addresses, addresses[:1])
    assert not same(addresses, normalise([{"ip": "2001:db8::1", "ports": [HTTPS]}, {"ip": "10.0.0.1"}]))


@given(ENTRIES)
def test_normalising_is_idempotent(raw: list[Any]) -> None:
    plain = normalise(raw)
    assert normalise(plain) == plain
    assert all(entry.get("ip") or entry.get("hostname") for entry in plain)
    assert same(plain, reversed(plain))


@given(ENTRIES)
def test_what_is_read_from_a_cached_object_is_what_was_written(raw: list[Any]) -> None:
    status = {"loadBalancer": {"ingress": raw}}
    ingress = {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "i"}, "status": status}
    target = IngressTarget("example.com/class")
    assert target.addresses(Object(ingress)) == normalise(raw)
    written = target.replacement(ingress, normalise(raw))
    assert target.addresses(written) == normalise(raw)
    assert target.addresses(target.replacement(ingress, None)) == ()


def test_long_lists_that_begin_alike_have_marks_of_their_own() -> None:
    target = IngressTarget("")
    common = [{"hostname": f"host-{number}.a-long-domain.example.com"} for number in range(20)]

    def mark(last: str) -> str:
        balancer = {"ingress": [*common, {"hostname": last}]}
        return target.mark(Object({"metadata": {"name": "a"}, "status": {"loadBalancer": balancer}}))

    assert mark("x.example.com") == mark("x.example.com") != mark("y.example.com")
