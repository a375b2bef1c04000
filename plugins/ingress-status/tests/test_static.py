"""The list of addresses in the settings: parsing and validation."""

from __future__ import annotations

import pytest
from ctrlhost_ingress_status.addresses import duplicates, is_ip, mapped, parse, static_entries, summary

V4 = {"ip": "10.0.0.1"}
V6 = {"ip": "2001:4860:4860::8888"}
NAME = {"hostname": "anarbitrarystring"}


def row(name: str, text: str, *entries: dict[str, str]) -> object:
    return pytest.param(text, list(entries), id=name, marks=pytest.mark.behaviour(name))


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        row("ingress-status/P1", "10.0.0.1", V4),
        row("ingress-status/P2", "2001:4860:4860::8888", V6),
        row("ingress-status/P3", "anarbitrarystring", NAME),
        row("ingress-status/P4", "  anarbitrarystring      ", NAME),
        row("ingress-status/P5", ""),
        row("ingress-status/P6", ","),
        row("ingress-status/P7", "    "),
        row("ingress-status/P8", "10.0.0.1,", V4),
        row("ingress-status/P9", ",10.0.0.1", V4),
        row("ingress-status/P10", "10.0.0.1,2001:4860:4860::8888,anarbitrarystring", V4, V6, NAME),
        row("ingress-status/P11", "10.0.0.1, 2001:4860:4860::8888, anarbitrarystring", V4, V6, NAME),
    ],
)
def test_a_list_is_split_and_each_item_is_an_ip_or_a_name(text: str, entries: list[dict[str, str]]) -> None:
    assert parse(text) == entries


@pytest.mark.parametrize("text", ["10.0.0.1", "2001:4860:4860::8888", "::ffff:1.2.3.4", "2001:DB8:0:0::1"])
def test_what_go_accepts_as_an_ip_is_one_and_kept_as_written(text: str) -> None:
    assert is_ip(text)
    assert static_entries(text) == ({"ip": text},)


@pytest.mark.parametrize(
    "text",
    ["010.0.0.1", "1.2.3", "127.1", "0x7f.0.0.1", "1.2.3.4.", "10.0.0.0/8", "[::1]", "fe80::1%eth0"],
)
def test_what_go_refuses_as_an_ip_is_none(text: str) -> None:
    assert not is_ip(text)
    assert parse(text) == [{"hostname": text}]


@pytest.mark.parametrize(
    "text",
    [
        "010.0.0.1",
        "fe80::1%eth0",
        "10.0.0.0/8",
        "[::1]",
        "LB.Example.com",
        "a_b.example.com",
        "lb.example.com.",
        "*.example.com",
        "-a.example.com",
        "a..b",
        "a" * 64 + ".example.com",
        ".".join(["a" * 49] * 5) + ".abcd",
        ",",
        " ",
    ],
)
def test_what_the_server_would_refuse_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"is neither|leading zeros|longer than|names no address"):
        static_entries(text)


def test_all_invalid_items_are_reported_together() -> None:
    bad = ["10.0.0.0/8", "[::1]", "LB.Example.com", "a_b.example.com", "lb.example.com.", "*.example.com"]
    with pytest.raises(ValueError, match="is neither") as caught:
        static_entries(",".join([*bad, "fine.example.com"]))
    assert all(item in str(caught.value) for item in bad)
    assert "fine.example.com" not in str(caught.value)


def test_a_name_of_253_characters_is_the_longest() -> None:
    longest = ".".join(["a" * 49] * 5) + ".abc"
    assert len(longest) == 253
    assert static_entries(longest) == ({"hostname": longest},)


def test_a_repeated_address_is_published_once_and_named() -> None:
    text = "a.example.com, 2001:DB8::1,a.example.com,2001:db8:0::1"
    assert static_entries(text) == ({"hostname": "a.example.com"}, {"ip": "2001:DB8::1"})
    assert duplicates(text) == ["a.example.com", "2001:db8:0::1"]


def test_ipv4_mapped_addresses_are_named() -> None:
    assert mapped("10.0.0.1, ::ffff:1.2.3.4,2001:db8::1,a.example.com") == ["::ffff:1.2.3.4"]


@pytest.mark.parametrize(
    ("entries", "text"),
    [((), ""), (({"ip": "10.0.0.1"}, NAME), "10.0.0.1"), (({"hostname": "somedomain.com"},), "somedomain.com")],
)
def test_a_list_is_logged_by_its_first_address(entries: tuple[dict[str, str], ...], text: str) -> None:
    assert summary(entries) == text
