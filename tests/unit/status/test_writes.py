"""What the path of a write names."""

from __future__ import annotations

import pytest

from ctrlhost.status.writes import LAST, WriteLog, target_of


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/api/v1/namespaces/a/configmaps/b", ("configmaps", "a", "b")),
        ("/api/v1/namespaces/a/configmaps?fieldManager=x", ("configmaps", "a", "")),
        ("/apis/apps/v1/namespaces/a/deployments/b/status", ("deployments.apps/status", "a", "b")),
        ("/api/v1/namespaces/a", ("namespaces", "", "a")),
        ("/api/v1/namespaces/a/finalize", ("namespaces/finalize", "", "a")),
        ("/api/v1/nodes/b", ("nodes", "", "b")),
        ("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", None),
        ("/apis/authentication.k8s.io/v1/tokenreviews", None),
        ("/version", None),
        ("/apis", None),
        ("", None),
    ],
)
def test_the_path_of_a_write_names_resource_namespace_and_name(path: str, target: tuple[str, str, str] | None) -> None:
    assert target_of(path) == target


def test_a_log_counts_all_writes_and_keeps_the_last_ones() -> None:
    log = WriteLog()
    for number in range(30):
        log.wrote("DELETE", f"/api/v1/namespaces/a/pods/{number}", "200")
    log.wrote("DELETE", "/api/v1/namespaces/a/pods", "<error>")
    assert log.counts() == {("delete", "pods", "200"): 30, ("deletecollection", "pods", "<error>"): 1}
    last = log.last()
    assert len(last) == LAST
    assert (last[0].verb, last[1].target.name) == ("deletecollection", "29")
