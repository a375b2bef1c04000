"""The ignore list: counting, flagging, pruning, forgiving, and its JSON."""

from __future__ import annotations

import json

import pytest
from ctrlhost_hostname.errors import ResourceNotFoundError, for_retry, is_counted
from ctrlhost_hostname.ignore_list import IgnoreList
from ctrlhost_hostname.pages import PreparedPages

import ctrlhost

HOUR = 3600.0


def make(clock, *, failure_limit=3, entry_limit=131072, age_limit=726 * HOUR, changed=lambda: None):
    return IgnoreList(clock, failure_limit=failure_limit, entry_limit=entry_limit, age_limit=age_limit, changed=changed)


def missing(lease):
    return ResourceNotFoundError(f"manifest for {lease}")


@pytest.mark.behaviour("hostname/3")
def test_a_list_over_its_limit_shrinks_when_pruned(clock, objects):
    ignored = make(clock, entry_limit=19)
    assert ignored.prune() is False
    for dseq in range(20):
        ignored.record(objects.lease(dseq), "h.example", missing(objects.lease(dseq)))
    assert len(ignored) == 20
    assert ignored.prune() is True
    assert len(ignored) < 20
    assert ignored.prune() is False


def test_pruning_drops_expired_entries_and_then_the_oldest(clock, objects):
    ignored = make(clock, failure_limit=1, entry_limit=2, age_limit=10)
    for dseq in range(5):
        clock.advance(5)
        ignored.record(objects.lease(dseq), "h.example", missing(objects.lease(dseq)))
    clock.advance(5)
    assert ignored.prune()
    # One that is exactly as old as the limit has not expired.
    assert [dseq for dseq in range(5) if ignored.is_flagged(objects.lease(dseq))] == [3, 4]
    clock.advance(1000)
    assert not ignored.prune()
    assert len(ignored) == 2


@pytest.mark.behaviour("hostname/12")
def test_a_failure_limit_of_one_flags_at_once_and_pruning_shrinks_to_the_entry_limit(clock, objects):
    pages = PreparedPages(clock)
    page = pages.add("/ignore-list", lambda: ignored.to_json())
    ignored = make(clock, failure_limit=1, entry_limit=100, changed=page.flag)
    leases = [objects.lease(dseq) for dseq in range(500)]
    for lease in leases:
        assert not ignored.is_flagged(lease)
        assert ignored.record(lease, "h.example", missing(lease))
        assert ignored.is_flagged(lease)
    before = page.content[1]
    clock.advance(5)
    assert ignored.prune()
    assert len(ignored) == 100
    pages.refresh()
    assert len(json.loads(page.content[0])) == 100
    assert page.content[1] > before


@pytest.mark.behaviour("hostname/13")
@pytest.mark.parametrize("limit", [0, 1, *range(3, 10)])
def test_a_lease_is_flagged_by_the_failure_that_reaches_the_limit(clock, objects, limit):
    ignored = make(clock, failure_limit=limit)
    for _ in range(max(limit, 1)):
        assert not ignored.is_flagged(objects.first)
        ignored.record(objects.first, "h.example", missing(objects.first))
    assert ignored.is_flagged(objects.first)
    assert not ignored.is_flagged(objects.second)


@pytest.mark.behaviour("hostname/48")
def test_only_a_changed_manifest_forgives(clock, objects):
    changes = []
    ignored = make(clock, failure_limit=1, changed=lambda: changes.append(1))
    ignored.record(objects.first, "h.example", missing(objects.first), None)
    assert not ignored.forgive(objects.first, None)
    assert ignored.forgive(objects.first, "v1")
    assert not ignored.is_flagged(objects.first)
    ignored.record(objects.first, "h.example", missing(objects.first), "v1")
    assert not ignored.forgive(objects.first, "v1")
    assert ignored.forgive(objects.first, "v2")
    assert not ignored.forgive(objects.first, "v3")
    assert len(changes) == 4


def test_the_list_is_shown_as_upstream_shows_it(clock, objects):
    ignored = make(clock)
    for hostname in ("shop.example.com", "b.example.com", "shop.example.com"):
        ignored.record(objects.first, hostname, missing(objects.first))
    clock.advance(0.5)
    ignored.record(objects.second, "x.example", ctrlhost.NotFound('namespaces "a" not found'))
    text = f"observation stopped: resource not found: manifest for {objects.first}"
    assert ignored.to_json().decode() == (
        "{"
        f'"{objects.first}":{{"hostnames":["b.example.com","shop.example.com"],"last-error":"{text}",'
        '"last-error-type":"*fmt.wrapError","failed-at":"2026-01-01 00:00:00 +0000 UTC","failure-count":3,'
        f'"namespace":"{objects.first.namespace}"}},'
        f'"{objects.second}":{{"hostnames":["x.example"],"last-error":"namespaces \\"a\\" not found",'
        '"last-error-type":"*errors.StatusError","failed-at":"2026-01-01 00:00:00.5 +0000 UTC","failure-count":1,'
        f'"namespace":"{objects.second.namespace}"}}'
        "}\n"
    )
    assert ignored.flagged_count() == 1


@pytest.mark.behaviour("hostname/75")
def test_html_characters_are_escaped(clock, objects):
    ignored = make(clock)
    ignored.record(objects.first, "h.example", Exception('<b>"not found" & more\u2028ü</b>'))
    text = ignored.to_json().decode()
    assert r"\u003cb\u003e\"not found\" \u0026 more\u2028ü\u003c/b\u003e" in text
    assert json.loads(text)[str(objects.first)]["last-error-type"] == "*errors.errorString"


@pytest.mark.parametrize(
    ("error", "counted", "retry"),
    [
        (ResourceNotFoundError("manifest for x"), True, ctrlhost.RetryAfter),
        (ctrlhost.NotFound('namespaces "x" not found'), True, ctrlhost.RetryAfter),
        (ctrlhost.Forbidden("role was not found"), True, ctrlhost.RetryAfter),
        (ctrlhost.TransportError("EOF"), False, None),
        (ctrlhost.Conflict("changed"), False, None),
        (ctrlhost.Forbidden("because it is being terminated"), False, None),
        (ctrlhost.Unauthorized(), False, None),
        (ctrlhost.ServerError("boom"), False, None),
        (ctrlhost.TooManyRequests("slow", retry_after=7.0), False, None),
        (ctrlhost.TooManyRequests("slow"), False, None),
        (ctrlhost.InvalidObject("Manifest m", "port"), False, ctrlhost.TerminalError),
        (ctrlhost.Invalid("label too long"), False, ctrlhost.TerminalError),
        (ctrlhost.BadRequest("no"), False, ctrlhost.TerminalError),
        (ctrlhost.BadRequest('host "h" and path "/" is already defined in ingress a/h'), False, ctrlhost.RetryAfter),
    ],
)
def test_a_failure_counts_and_is_retried_by_its_kind(error, counted, retry):
    assert is_counted(error) is counted
    raised = for_retry(error, 3.0)
    assert type(raised) is (retry or type(error))
    assert str(raised) == str(error)
    assert (raised is error) is (retry is None)
    if retry is ctrlhost.RetryAfter:
        assert raised.seconds == 3.0
