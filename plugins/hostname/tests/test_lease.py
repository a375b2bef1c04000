"""Leases: addresses, the namespace, and the labels in both directions."""

from __future__ import annotations

import hashlib

import pytest
from ctrlhost_hostname.lease import AddressError, LabelError, LeaseID, lease_from_labels, normalise_address

from plugins.hostname.tests.objects import encode_address, encode_words


@pytest.mark.parametrize(
    ("which", "text", "digest", "namespace"),
    [
        (
            "first",
            "akash1qypqxpq9qcrsszg2pvxq6rs0zqg3yyc5jepelx/7001/1/1/akash1v4nxw6rfdf4kcmtwdac8zunnw36hvamcjpn8js",
            "dfa15bd2d9ba1070078e282684d5887dfb3a0cd4f4906272772be7fb",
            "ruglnkmpn88701se50j89lc8fntjk36kui864sjn5fjvm",
        ),
        (
            "second",
            "akash1qypqxpq9qcrsszg2pvxq6rs0zqg3yyc5jepelx/7002/1/1/akash1v4nxw6rfdf4kcmtwdac8zunnw36hvamcjpn8js",
            "1ccb40c427407fd73a68d8fa98bc8c9b89aaf152fbdc02c6e69b29d1",
            "3j5k1h1781vteej8r3t9hf4cje4qlsaivfe05hn6jckt2",
        ),
        (
            "third",
            "akash19y4zktpd9chnqvfjxv6r2d3h8qun5weuymg2r6/9100/2/3/akash1v4nxw6rfdf4kcmtwdac8zunnw36hvamcjpn8js",
            "214b96b7ae3b275e2b3682e56b9c70c1e1dc1c27cbef6f500ff44ad4",
            "455pddte7cjlsapmgbimn73go7gto717pfnmuk0fuh5d8",
        ),
    ],
)
def test_the_namespace_is_the_hash_of_the_lease(objects, which, text, digest, namespace):
    lease = getattr(objects, which)
    assert str(lease) == text
    assert hashlib.sha224(text.encode()).hexdigest() == digest
    assert lease.namespace == namespace


def test_a_lease_is_recovered_from_its_labels(objects):
    assert lease_from_labels(objects.third.labels) == objects.third
    assert objects.third.labels["akash.network"] == "true"


@pytest.mark.behaviour("hostname/30")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dseq": None}, 'kube: missing label: "akash.network/lease.id.dseq"'),
        ({"dseq": None, "owner": None}, 'kube: missing label: "akash.network/lease.id.dseq"'),
        ({"owner": None, "provider": None}, 'kube: missing label: "akash.network/lease.id.owner"'),
        ({"dseq": "abc"}, 'kube: invalid label value: dseq "abc" not a uint'),
        ({"dseq": "18446744073709551616"}, 'kube: invalid label value: dseq "18446744073709551616" not a uint'),
        ({"gseq": "4294967296"}, 'kube: invalid label value: gseq "4294967296" not a uint'),
        ({"oseq": "+1"}, 'kube: invalid label value: oseq "+1" not a uint'),
        ({"oseq": " 1"}, 'kube: invalid label value: oseq " 1" not a uint'),
        ({"oseq": ""}, 'kube: invalid label value: oseq "" not a uint'),
        ({"oseq": "²"}, 'kube: invalid label value: oseq "²" not a uint'),
    ],
)
def test_the_error_of_invalid_labels_names_the_label(objects, change, message):
    labels = dict(objects.first.labels)
    for part, value in change.items():
        if value is None:
            del labels[f"akash.network/lease.id.{part}"]
        else:
            labels[f"akash.network/lease.id.{part}"] = value
    with pytest.raises(LabelError) as caught:
        lease_from_labels(labels)
    assert str(caught.value) == message


def test_empty_addresses_in_labels_are_accepted(objects):
    labels = {**objects.first.labels, "akash.network/lease.id.owner": "", "akash.network/lease.id.provider": ""}
    assert lease_from_labels(labels) == LeaseID("", 7001, 1, 1, "")


@pytest.mark.parametrize("length", [1, 5, 20, 32, 255])
def test_an_encoded_address_is_valid(length):
    address = encode_address("akash", bytes(range(length)))
    assert normalise_address(address, "akash") == address


@pytest.mark.behaviour("hostname/33")
def test_an_upper_case_address_becomes_lower_case(objects):
    assert normalise_address(objects.owner.upper(), "akash") == objects.owner


@pytest.mark.behaviour("hostname/32")
@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("", "empty address string is not allowed"),
        ("  \t", "empty address string is not allowed"),
        ("akash1qypqxpq9qcrsszg2pvxq6rs0zqg3yyc5jepelq", "invalid checksum"),
        ("akash1Qypqxpq9qcrsszg2pvxq6rs0zqg3yyc5jepelx", "not all lowercase or all uppercase"),
        (encode_address("cosmos", bytes(20)), "invalid Bech32 prefix; expected akash, got cosmos"),
        ("akash qypqxpq9qcrsszg2pvxq6rs0zqg3yyc5jepelx", "invalid character in string"),
        ("akashqypqxpq9qcrsszg2pvxq6rs0zqg3yycjepelx", "invalid separator index"),
        ("akash1qqqqq", "invalid separator index"),
        ("1qypqxpq9qcrsszg2pvxq6rs0zqg3yyc5jepelx", "invalid separator index 0"),
        ("akash1bypqxpq9qcrsszg2pvxq6rs0zqg3yyc5jepelx", "not part of charset"),
        (encode_address("akash", b""), "addresses cannot be empty"),
        (encode_address("akash", bytes(256)), "address max length is 255, got 256"),
        ("akash1" + "q" * 1018, "invalid bech32 string length 1024"),
    ],
)
def test_the_error_of_an_invalid_address_names_the_reason(address, message):
    with pytest.raises(AddressError) as caught:
        normalise_address(address, "akash")
    assert message in str(caught.value)


@pytest.mark.parametrize("words", [[1], [0, 1], [0, 0, 0]])
def test_words_that_are_not_whole_bytes_are_rejected(words):
    address = encode_words("akash", words)
    with pytest.raises(AddressError, match="invalid incomplete group"):
        normalise_address(address, "akash")
