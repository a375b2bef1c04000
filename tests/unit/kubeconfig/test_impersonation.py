"""Users that a kubeconfig impersonates."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from ctrlhost.client import Client
from ctrlhost.errors import ConfigError
from tests.support.kubeconfigs import kubeconfig, written
from tests.support.stub_api_server import Frames, Json, pod, pod_list
from tests.support.waiting import eventually

POD = "/api/v1/namespaces/default/pods/a"
REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "metadata": {"name": "me"}}


@pytest.fixture
def write(tmp_path: Path) -> Any:
    return partial(written, tmp_path)


@pytest.mark.behaviour("scale/SC44")
@pytest.mark.behaviour("supervision/CR7")
@pytest.mark.parametrize(
    ("user", "message"),
    [
        ({"as-groups": ["admins"]}, r"config: users\[u\]\.user\.as-groups needs `as`"),
        ({"as-uid": "1"}, r"as-uid needs `as`"),
        ({"as-user-extra": {"a": ["b"]}}, r"as-user-extra needs `as`"),
        ({"as": ""}, r"config: users\[u\]\.user\.as must not be empty"),
        ({"as": None}, "as must not be empty"),
        ({"as": "", "as-groups": ["admins"]}, "as-groups needs `as`"),
        ({"as": "ann", "as-groups": "admins"}, "as-groups must be a list of texts"),
        ({"as": "ann", "as-groups": [1]}, "as-groups must be a list of texts"),
        ({"as": "ann", "as-user-extra": ["a"]}, "as-user-extra must map names to lists of texts"),
        ({"as": "ann", "as-user-extra": {"a": "b"}}, r"as-user-extra\.a must be a list of texts"),
        ({"as": "ann\r\nImpersonate-Group: admins"}, "as contains characters that are invalid in a header"),
        ({"as": ["ann"]}, "as must be a"),
    ],
)
def test_an_incomplete_impersonation_is_refused_with_its_place(
    write: Any, server: Any, user: Any, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        Client.load(write(kubeconfig({"server": server.url}, {"token": "t", **user})))
    assert server.requests == []


@pytest.mark.behaviour("scale/SC44")
@pytest.mark.behaviour("supervision/CR7")
def test_every_request_and_stream_has_the_headers(write: Any, server: Any) -> None:
    server.on("GET", POD, Json(pod("a", 1)))
    server.on("GET", "/api/v1/pods", Frames().end())
    user = {
        "token": "t",
        "as": "ann",
        "as-groups": ["one"],
        "as-uid": "7",
        "as-user-extra": {"Example.com/Päth": ["x"]},
    }
    client = Client.load(write(kubeconfig({"server": server.url}, user)))
    server.on("GET", "/api/v1/namespaces/default/pods", Json(pod_list(1)))
    client.get("v1", "Pod", "a")
    assert list(client.list("v1", "Pod", "default")) == []
    client.transport.stream("/api/v1/pods").close()
    for request in server.requests:
        sent = {name: value for name, value in request.headers.items() if name.startswith("impersonate-")}
        assert sent == {
            "impersonate-user": "ann",
            "impersonate-group": "one",
            "impersonate-uid": "7",
            "impersonate-extra-example.com%2fp%c3%a4th": "x",
        }
        assert request.headers["authorization"] == "Bearer t"
    assert len(server.requests) == 3


@pytest.mark.behaviour("scale/SC44")
@pytest.mark.behaviour("supervision/CR7")
def test_the_server_treats_the_client_as_that_user(control_plane: Any, write: Any) -> None:
    config = yaml.safe_load(Path(control_plane.kubeconfig).read_text(encoding="utf-8"))
    config["users"][0]["user"].update(
        {
            "as": "ann@example.com",
            "as-uid": "u-1",
            "as-groups": ["readers", "Prüfer"],
            "as-user-extra": {"example.com/scopes": ["view", "list"], "Example.com/Größe-Ä": ["x"]},
        }
    )
    user_info = Client.load(write(config)).create(REVIEW)["status"]["userInfo"]
    assert user_info["username"] == "ann@example.com"
    assert user_info["uid"] == "u-1"
    assert set(user_info["groups"]) == {"readers", "Prüfer", "system:authenticated"}
    assert user_info["extra"]["example.com/scopes"] == ["view", "list"]
    # As from kubectl: only the letters that a header's name may have lose their case.
    assert user_info["extra"]["example.com/größe-Ä"] == ["x"]


@pytest.mark.behaviour("scale/SC44")
def test_the_audit_log_of_the_server_shows_the_user_of_calls_lists_and_watches(kube_apiserver: Any, write: Any) -> None:
    config = yaml.safe_load(Path(kube_apiserver.kubeconfig).read_text(encoding="utf-8"))
    user = {"as": "ann@example.com", "as-uid": "u-1", "as-groups": ["system:masters", "readers"]}
    config["users"][0]["user"].update(user, **{"as-user-extra": {"Example.com/A%b": ["x"]}})
    client = Client.load(write(config))
    assert client.find("v1", "ConfigMap", "a", "impersonated") is None
    assert list(client.list("v1", "ConfigMap", "impersonated")) == []
    client.transport.stream("/api/v1/namespaces/impersonated/configmaps", query={"watch": True}).close()

    def audited() -> list[dict[str, Any]]:
        return [record for record in kube_apiserver.audited() if record["objectRef"].get("namespace") == "impersonated"]

    eventually(lambda: {record["verb"] for record in audited()} == {"get", "list", "watch"})
    for record in audited():
        assert record["user"]["username"] == "admin"
        impersonated_user = record["impersonatedUser"]
        assert impersonated_user["username"] == "ann@example.com"
        assert impersonated_user["uid"] == "u-1"
        assert {"system:masters", "readers"} <= set(impersonated_user["groups"])
        assert impersonated_user["extra"] == {"example.com/a%b": ["x"]}
