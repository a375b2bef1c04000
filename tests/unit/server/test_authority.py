"""The authority of webhooks: what it signs, how long, and that a new one stands beside it first."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509 import verification
from cryptography.x509.oid import ExtendedKeyUsageOID

from ctrlhost.server.authority import NAME, OVERLAP, Authority, AuthorityPairs, service_names
from ctrlhost.server.key_pairs import KeyPair
from ctrlhost.testing import ManualClock

_DAY = 24 * 3600
_SERVICE = "hooks.ns.svc"


def verifies(pair: KeyPair, bundle: bytes, now: float, name: str = _SERVICE) -> bool:
    """Return whether a client that trusts the bundle accepts the certificate at that time."""
    store = verification.Store(x509.load_pem_x509_certificates(bundle))
    builder = verification.PolicyBuilder().store(store).time(datetime.fromtimestamp(now, UTC))
    try:
        builder.build_server_verifier(x509.DNSName(name)).verify(x509.load_pem_x509_certificate(pair.certificate), [])
    except verification.VerificationError:
        return False
    return True


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def pairs_of(authority: list[Authority], clock: ManualClock) -> AuthorityPairs:
    return AuthorityPairs(lambda: authority[-1], service_names("hooks", "ns"), clock.time)


@pytest.mark.behaviour("webhooks/WH11")
def test_authority_and_leaves_are_ecdsa_with_the_names_of_the_service(clock: ManualClock) -> None:
    authority = Authority.new(clock.time())
    pair = pairs_of([authority], clock).next()
    assert pair is not None
    issuer = x509.load_pem_x509_certificate(authority.newest.certificate)
    leaf = x509.load_pem_x509_certificate(pair.certificate)
    for certificate in (issuer, leaf):
        key = certificate.public_key()
        assert isinstance(key, ec.EllipticCurvePublicKey)
        assert isinstance(key.curve, ec.SECP256R1)
    constraints = issuer.extensions.get_extension_for_class(x509.BasicConstraints)
    assert constraints.critical
    assert constraints.value == x509.BasicConstraints(ca=True, path_length=0)
    assert issuer.subject.rfc4514_string() == f"CN={NAME}"
    assert (issuer.not_valid_after_utc - issuer.not_valid_before_utc).days == 3650
    assert (leaf.not_valid_after_utc - leaf.not_valid_before_utc).days == 90
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    service = ["hooks", "hooks.ns", "hooks.ns.svc", "hooks.ns.svc.cluster.local"]
    assert names.get_values_for_type(x509.DNSName) == service
    assert list(leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [
        ExtendedKeyUsageOID.SERVER_AUTH
    ]
    assert verifies(pair, authority.bundle(clock.time()), clock.time())


@pytest.mark.behaviour("webhooks/WH11")
def test_leaf_is_renewed_at_two_thirds_of_its_life(clock: ManualClock) -> None:
    authority = Authority.new(clock.time())
    pairs = pairs_of([authority], clock)
    first = pairs.next()
    clock.advance(60 * _DAY - 1)
    assert pairs.next() is None
    clock.advance(1)
    second = pairs.next()
    assert first is not None
    assert second is not None
    assert second != first
    assert verifies(second, authority.bundle(clock.time()), clock.time() + 89 * _DAY)


@pytest.mark.behaviour("webhooks/WH11")
def test_every_leaf_verifies_while_a_new_authority_replaces_the_old_one(clock: ManualClock) -> None:
    authorities = [Authority.new(clock.time())]
    assert authorities[0].due == pytest.approx(clock.time() + 2 / 3 * 3650 * _DAY, abs=_DAY)
    clock.advance(authorities[0].due - clock.time())
    old, new = pairs_of(authorities, clock), pairs_of(authorities, clock)
    # The bundle of a leader that has not seen the new one yet.
    before = authorities[0].bundle(clock.time())
    shown = old.next()
    assert shown is not None
    authorities.append(authorities[0].renewed(clock.time()))
    issuers = [authorities[0].newest, authorities[1].newest]
    signing = []
    for _ in range(5):
        bundle, now = authorities[1].bundle(clock.time()), clock.time()
        shown = old.next() or shown
        assert verifies(shown, bundle, now)
        fresh = pairs_of(authorities, clock).next()
        assert fresh is not None
        assert verifies(fresh, bundle, now)
        signing.append(issuers.index(authorities[1].signing(now)))
        assert verifies(fresh, before, now) is (signing[-1] == 0)
        clock.advance(OVERLAP / 2)
    assert signing == [0, 0, 1, 1, 1]
    # Two days after its creation the new one is alone.
    assert authorities[1].bundle(clock.time()).count(b"BEGIN") == 1
    assert authorities[1].settled == authorities[1].created + 2 * OVERLAP
    assert authorities[1].next_change(authorities[1].created) == authorities[1].settled
    assert authorities[1].next_change(authorities[1].settled) == authorities[1].due
    assert new.next() is not None


def test_entries_of_the_secret_are_read_as_they_were_written(clock: ManualClock) -> None:
    authority = Authority.new(clock.time()).renewed(clock.time())
    assert Authority.read(authority.entries()) == authority
    assert repr(authority.newest) == "KeyPair()"


@pytest.mark.behaviour("webhooks/WH10")
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"tls.crt": b"", "tls.key": b""}, "`tls.crt` and `tls.key` are missing"),
        ({"tls.crt": b"garbage"}, "tls.crt and tls.key: they are no certificate"),
        ({"tls.key": b"garbage"}, "tls.crt and tls.key: they are no certificate"),
        ({"tls.key": Authority.new(0).newest.key}, "tls.crt and tls.key: they are no certificate"),
        ({"previous.key": b""}, "previous.crt and previous.key: they are no certificate"),
    ],
)
def test_other_entries_are_refused(change: dict[str, bytes], reason: str, clock: ManualClock) -> None:
    authority = Authority.new(clock.time()).renewed(clock.time())
    with pytest.raises(ValueError, match=re.escape(reason)):
        Authority.read(authority.entries() | change)
