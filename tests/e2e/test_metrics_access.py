"""Who may read the metrics of a host on a real kube-apiserver."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ctrlhost.client import Client
from ctrlhost.config.settings import HostSettings
from ctrlhost.host.host import Host
from ctrlhost.server.reviews import DENY_KEPT, KEPT, RATE, TOKEN_KEPT
from ctrlhost.testing import ManualClock
from tests.support.control_plane import KubeApiserver, require_kube_apiserver
from tests.support.https_client import HttpsConnection, get
from tests.support.waiting import eventually

pytestmark = pytest.mark.real

RBAC = "rbac.authorization.k8s.io/v1"
#: Longer than a kube-apiserver takes to notice a new binding.
NOTICED = 60.0


class Accounts:
    """Service accounts of one namespace, and their tokens."""

    def __init__(self, client: Client) -> None:
        self.client = client
        client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "monitoring"}})
        rules = [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
        role = {"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": "ctrlhost-metrics-reader"}}
        client.create({**role, "rules": rules})

    def create(self, name: str, role: str | None = None) -> str:
        """Create an account, bound to a ClusterRole, and return a token of it."""
        meta = {"name": name, "namespace": "monitoring"}
        self.client.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta})
        if role is not None:
            self.client.create(
                {
                    "apiVersion": RBAC,
                    "kind": "ClusterRoleBinding",
                    "metadata": {"name": f"{name}-{role}".replace(":", "-")},
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                    "subjects": [{"kind": "ServiceAccount", **meta}],
                }
            )
        return self.token(name)

    def token(self, name: str, audience: str | None = None) -> str:
        spec: dict[str, Any] = {"audiences": [audience]} if audience else {}
        answer = self.client.transport.request(
            "POST",
            f"/api/v1/namespaces/monitoring/serviceaccounts/{name}/token",
            body=json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}).encode(),
            headers={"Content-Type": "application/json"},
        )
        assert answer.status == 201, answer.body
        token: str = json.loads(answer.body)["status"]["token"]
        return token


class Protected:
    """A host whose account may only ask about tokens, and its metrics."""

    def __init__(self, server: KubeApiserver, token: str, folder: Path) -> None:
        import yaml

        config = yaml.safe_load(server.kubeconfig.read_text())
        config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
        kubeconfig = folder / "host"
        kubeconfig.write_text(yaml.safe_dump(config))
        self.server, self.clock = server, ManualClock()
        settings = HostSettings(
            listen="", listen_metrics="127.0.0.1:0", metrics_auth="kubernetes", kubeconfig=str(kubeconfig)
        )
        self.host = Host(settings, clock=self.clock)
        self.host.start()
        assert self.host.metrics_address is not None
        self.address = self.host.metrics_address

    def reviews(self, resource: str) -> int:
        """Return how many reviews the server has answered so far."""
        return sum(event["objectRef"]["resource"] == resource for event in self.server.audited())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeApiserver]:
    require_kube_apiserver()
    resources = [
        {"group": "authentication.k8s.io", "resources": ["tokenreviews"]},
        {"group": "authorization.k8s.io", "resources": ["subjectaccessreviews"]},
    ]
    rule = {"level": "Metadata", "omitStages": ["RequestReceived"], "verbs": ["create"], "resources": resources}
    with KubeApiserver(tmp_path_factory.mktemp("metrics-access"), audit=[rule]) as server:
        yield server


@pytest.fixture(scope="module")
def accounts(server: KubeApiserver) -> Accounts:
    return Accounts(server.client)


@pytest.fixture(scope="module")
def delegator(accounts: Accounts) -> str:
    return accounts.create("host", "system:auth-delegator")


@pytest.fixture(scope="module")
def reader(accounts: Accounts) -> str:
    return accounts.create("prometheus", "ctrlhost-metrics-reader")


@pytest.fixture
def protected(server: KubeApiserver, delegator: str, reader: str, tmp_path: Path) -> Iterator[Protected]:
    protected = Protected(server, delegator, tmp_path)

    def readable() -> bool:
        # The server may not have noticed the bindings of the accounts.
        protected.clock.advance(DENY_KEPT)
        return get(protected.address, token=reader).status == 200

    eventually(readable, NOTICED)
    # What was asked about `reader` is forgotten.
    protected.clock.advance(1000.0)
    yield protected
    protected.host.stop(5)


@pytest.mark.behaviour("operations/OP27")
def test_only_accounts_with_the_right_read_the_metrics(protected: Protected, accounts: Accounts, reader: str) -> None:
    without = get(protected.address)
    assert (without.status, without.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert set(json.loads(without.body)) == {"error", "hint"}
    bad = get(protected.address, token="bad")
    assert (bad.status, bad.headers["WWW-Authenticate"]) == (401, "Bearer")
    unbound = get(protected.address, token=accounts.create("unbound"))
    assert unbound.status == 403
    assert "system:serviceaccount:monitoring:unbound cannot get /metrics" in unbound.body
    allowed = get(protected.address, token=reader)
    assert allowed.status == 200
    assert "ctrlhost_build_info" in allowed.body
    # The right is for this verb and path only.
    assert get(protected.address, "/else", reader).status == 403
    assert get(protected.address, token=reader, method="HEAD").status == 403


@pytest.mark.behaviour("operations/OP31")
def test_a_token_for_another_audience_is_no_token(protected: Protected, accounts: Accounts, reader: str) -> None:
    assert get(protected.address, token=accounts.token("prometheus", "https://vault.example")).status == 401
    assert get(protected.address, token=reader).status == 200


@pytest.mark.behaviour("operations/OP29")
def test_scrapes_with_one_token_ask_the_server_once(protected: Protected, reader: str) -> None:
    resources = ("tokenreviews", "subjectaccessreviews")
    before = [protected.reviews(resource) for resource in resources]
    with HttpsConnection(protected.address) as connection:
        for _ in range(1000):
            assert connection.get(token=reader).status == 200
            protected.clock.advance(0.03)
    # The audit log has the request before its answer, but another one may still be on its way there.
    assert get(protected.address, token="another").status == 401
    eventually(lambda: protected.reviews("tokenreviews") >= before[0] + 2)
    assert [protected.reviews(resource) for resource in resources] == [before[0] + 2, before[1] + 1]


@pytest.mark.behaviour("operations/OP30")
def test_a_flood_of_bad_tokens_neither_fills_the_memory_nor_reaches_the_server(protected: Protected) -> None:
    before = protected.reviews("tokenreviews")
    access = protected.host._metrics_access
    assert access is not None
    assert access._reviews is not None
    kept = access._reviews._users
    with HttpsConnection(protected.address) as connection:
        at_once = [connection.get(token=f"bad-{number}") for number in range(3800)]
        # One review is left for known tokens.
        reviewed = RATE - 1
        assert [answer.status for answer in at_once[:reviewed]] == [401] * reviewed
        assert {answer.status for answer in at_once[reviewed:]} == {429}
        assert at_once[-1].headers["Retry-After"] == "1"
        eventually(lambda: protected.reviews("tokenreviews") >= before + reviewed)
        assert protected.reviews("tokenreviews") == before + reviewed
        sizes = set()
        for number in range(3800, 5000):
            # One tenth of a second and a bit, for rounding.
            protected.clock.advance(1.01 / RATE)
            assert connection.get(token=f"bad-{number}").status == 401
            sizes.add(len(kept))
    assert max(sizes) == len(kept) == KEPT


@pytest.mark.behaviour("operations/OP28")
def test_without_the_server_only_known_tokens_work_for_their_minute(
    protected: Protected, server: KubeApiserver, reader: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert get(protected.address, token=reader).status == 200
    server.kill()
    try:
        protected.clock.advance(TOKEN_KEPT - 1)
        assert get(protected.address, token=reader).status == 200
        assert get(protected.address, token="another").status == 503
        protected.clock.advance(1)
        late = get(protected.address, token=reader)
        assert (late.status, late.headers["Retry-After"]) == (503, "5")
        assert "ctrlhost_build_info" not in late.body
        said = [record.getMessage() for record in caplog.records if "cannot be asked" in record.getMessage()]
        assert len(said) == 1
        assert reader not in caplog.text
    finally:
        server.start()
