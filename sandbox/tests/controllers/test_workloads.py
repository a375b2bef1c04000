"""The optional controllers: pods start, Deployments roll, Services get endpoints and addresses."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from ctrlhost_sandbox import Options, Sandbox

from tests.support.http_client import STRATEGIC, Api, names
from tests.support.objects import apps, container, core, deployment, pod, service, stateful_set, template
from tests.support.waiting import eventually
from tests.support.workload_clusters import by_name, pods, ready


def running(**more: Any) -> dict[str, Any]:
    return pod(nodeSelector={}, **more)


@pytest.mark.behaviour("sandbox/WL-01")
@pytest.mark.behaviour("sandbox/WL-23")
@pytest.mark.behaviour("sandbox/WL-25")
def test_a_pod_starts_and_becomes_ready(api: Api, ns: str) -> None:
    watch = api.watch(core(ns, "pods"))
    probed = container(readinessProbe={"tcpSocket": {"port": 80}})
    stored = api.post(core(ns, "pods"), running(containers=[probed])).expect(201)
    seen: list[tuple[str, bool]] = []
    while not seen or seen[-1] != ("Running", True):
        state = watch.next()["object"]
        step = (state["status"]["phase"], ready(state))
        if not seen or seen[-1] != step:
            seen.append(step)
    assert seen == [("Pending", False), ("Running", False), ("Running", True)]
    status = state["status"]
    assert {"podIP", "podIPs", "hostIP", "startTime"} <= status.keys()
    assert {"name", "image", "imageID", "ready", "restartCount"} <= status["containerStatuses"][0].keys()

    def reasons() -> set[str]:
        items = api.get(core(ns, "events")).json()["items"]
        return {item["reason"] for item in items if item["involvedObject"]["uid"] == stored["metadata"]["uid"]}

    eventually(lambda: reasons() >= {"Scheduled", "Started"})
    for query, lines in (({}, 2), ({"tailLines": 1}, 1)):
        answer = api.get(core(ns, "pods", "p") + "/log", **query)
        assert (answer.status, answer.headers["Content-Type"].partition(";")[0]) == (200, "text/plain")
        assert answer.body.count(b"\n") == lines


@pytest.mark.behaviour("findings/FS29")
@pytest.mark.behaviour("sandbox/WL-01")
def test_a_pod_without_a_readiness_probe_is_ready_as_soon_as_it_runs(api: Api, ns: str) -> None:
    path = core(ns, "pods", "p")
    watch = api.watch(core(ns, "pods"))
    api.post(core(ns, "pods"), running()).expect(201)
    while (state := watch.next()["object"])["status"]["phase"] != "Running":
        pass
    conditions = {condition["type"]: condition["status"] for condition in state["status"]["conditions"]}
    assert (conditions["Ready"], conditions["ContainersReady"]) == ("True", "True")
    assert state["status"]["containerStatuses"][0]["ready"] is True
    # Its status can be replaced, and it is deleted with its collection.
    for condition in state["status"]["conditions"]:
        if condition["type"] in ("Ready", "ContainersReady"):
            condition["status"] = "False"
    current = {**api.get(path).expect(200), "status": state["status"]}
    replaced = api.put(f"{path}/status", current).expect(200)["status"]["conditions"]
    assert {condition["status"] for condition in replaced if condition["type"] in ("Ready", "ContainersReady")} == {
        "False"
    }
    api.delete(core(ns, "pods"), gracePeriodSeconds=1).expect(200)
    api.gone(path)


@pytest.mark.behaviour("sandbox/DE-18")
@pytest.mark.behaviour("sandbox/DE-19")
def test_a_running_pod_is_deleted_in_two_steps(api: Api, ns: str) -> None:
    for name in "ab":
        api.post(core(ns, "pods"), {**running(), "metadata": {"name": name}}).expect(201)
        eventually(lambda name=name: ready(api.get(core(ns, "pods", name)).json()))
    watch = api.watch(core(ns, "pods"), resourceVersion=api.revision(core(ns, "pods")))
    api.delete(core(ns, "pods", "a")).expect(200)
    events = watch.take(3)
    steps = [(event["type"], event["object"]["metadata"]["deletionGracePeriodSeconds"]) for event in events]
    assert steps == [("MODIFIED", 30), ("MODIFIED", 0), ("DELETED", 0)]
    assert events[0]["object"]["metadata"]["deletionTimestamp"]
    api.delete(core(ns, "pods", "b"), gracePeriodSeconds=0).expect(200)
    api.get(core(ns, "pods", "b")).fails(404)


@pytest.mark.behaviour("sandbox/WL-15")
def test_a_readiness_gate_keeps_a_pod_unready(api: Api, ns: str, server: Sandbox) -> None:
    api.post(core(ns, "pods"), running(readinessGates=[{"conditionType": "t.example.org/g"}])).expect(201)
    path = core(ns, "pods", "p")
    eventually(lambda: api.get(path).json()["status"]["phase"] == "Running")
    eventually(lambda: server.at_rest)
    conditions = {entry["type"]: entry["status"] for entry in api.get(path).json()["status"]["conditions"]}
    assert (conditions["Ready"], conditions["ContainersReady"]) == ("False", "True")
    condition = {"type": "t.example.org/g", "status": "True"}
    patch = {"status": {"conditions": [condition]}}
    api.patch(path + "/status", patch, STRATEGIC).expect(200)
    eventually(lambda: ready(api.get(path).json()))


def available(api: Api, path: str, replicas: int) -> bool:
    obj = api.get(path).json()
    status = obj["status"]
    conditions = {item["type"]: item["status"] for item in status.get("conditions", [])}
    return (
        status.get("availableReplicas", 0) == status.get("updatedReplicas", 0) == replicas
        and status.get("replicas", 0) == replicas
        and status.get("observedGeneration") == obj["metadata"]["generation"]
        and conditions.get("Available") == "True"
    )


@pytest.mark.behaviour("sandbox/WL-08")
@pytest.mark.behaviour("sandbox/WL-09")
@pytest.mark.behaviour("sandbox/WL-10")
@pytest.mark.behaviour("sandbox/WL-12")
def test_a_deployment_rolls_forward_and_back(api: Api, ns: str) -> None:
    path = apps(ns, "deployments", "d")
    api.post(apps(ns, "deployments"), deployment(replicas=2)).expect(201)
    eventually(lambda: available(api, path, 2))
    (first,) = api.get(apps(ns, "replicasets")).json()["items"]
    code = first["metadata"]["labels"]["pod-template-hash"]
    assert first["spec"]["selector"]["matchLabels"]["pod-template-hash"] == code
    assert [pod["metadata"]["labels"]["pod-template-hash"] for pod in pods(api, ns)] == [code] * 2

    def image(value: str) -> dict[str, Any]:
        return {"spec": {"template": {"spec": {"containers": [container("a", value)]}}}}

    for revision, value in (("2", "nginx:2"), ("3", "nginx:1")):
        api.patch(path, image(value), STRATEGIC).expect(200)
        eventually(lambda: available(api, path, 2) and len(pods(api, ns)) == 2)
        assert api.get(path).json()["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == revision
        assert {item["spec"]["containers"][0]["image"] for item in pods(api, ns)} == {value}
        full, empty = sorted(
            api.get(apps(ns, "replicasets")).json()["items"], key=lambda replica_set: -replica_set["spec"]["replicas"]
        )
        assert full["spec"]["template"]["spec"]["containers"][0]["image"] == value
        assert (full["metadata"]["uid"] == first["metadata"]["uid"]) == (value == "nginx:1")
        assert (full["spec"]["replicas"], full["status"]["readyReplicas"]) == (2, 2)
        eventually(
            lambda replica_set=empty: (
                api.get(apps(ns, "replicasets", replica_set["metadata"]["name"])).json()["status"]["replicas"] == 0
            )
        )
        assert empty["spec"]["replicas"] == 0
    api.patch(path + "/scale", {"spec": {"replicas": 0}}).expect(200)
    eventually(lambda: available(api, path, 0) and not pods(api, ns))


@pytest.mark.behaviour("sandbox/WL-11")
def test_a_paused_deployment_creates_no_replica_set(api: Api, ns: str, server: Sandbox) -> None:
    api.post(apps(ns, "deployments"), deployment(replicas=1, paused=True)).expect(201)
    eventually(lambda: server.at_rest)
    assert api.get(apps(ns, "replicasets")).json()["items"] == []
    path = apps(ns, "deployments", "d")
    api.patch(path, {"spec": {"paused": False}}).expect(200)
    eventually(lambda: available(api, path, 1))
    (old,) = api.get(apps(ns, "replicasets")).json()["items"]
    # Paused again, it does not roll out a new template either.
    changed = {"paused": True, "template": {"spec": {"containers": [container("a", "nginx:2")]}}}
    api.patch(path, {"spec": changed}, STRATEGIC).expect(200)
    eventually(lambda: api.get(path).json()["status"]["observedGeneration"] == 3 and server.at_rest)
    (same,) = api.get(apps(ns, "replicasets")).json()["items"]
    assert (same["metadata"]["uid"], same["spec"]) == (old["metadata"]["uid"], old["spec"])
    assert [pod["spec"]["containers"][0]["image"] for pod in pods(api, ns)] == ["nginx:1"]
    api.patch(path, {"spec": {"paused": False}}).expect(200)
    eventually(lambda: available(api, path, 1) and len(pods(api, ns)) == 1)
    assert len(api.get(apps(ns, "replicasets")).json()["items"]) == 2
    assert [pod["spec"]["containers"][0]["image"] for pod in pods(api, ns)] == ["nginx:2"]


@pytest.mark.behaviour("sandbox/WL-13")
def test_propagation_policies_of_a_deployment(api: Api, ns: str) -> None:
    for name, policy in (("f", "Foreground"), ("o", "Orphan")):
        api.post(apps(ns, "deployments"), deployment(name, replicas=1)).expect(201)
        eventually(lambda name=name: available(api, apps(ns, "deployments", name), 1))
        api.delete(apps(ns, "deployments", name), propagationPolicy=policy).expect(200)
        api.gone(apps(ns, "deployments", name))
        if policy == "Foreground":
            eventually(lambda: not pods(api, ns) and not api.get(apps(ns, "replicasets")).json()["items"])
    (left,) = api.get(apps(ns, "replicasets")).json()["items"]
    assert "ownerReferences" not in left["metadata"]
    (pod_,) = pods(api, ns)
    assert [owner["uid"] for owner in pod_["metadata"]["ownerReferences"]] == [left["metadata"]["uid"]]
    assert "deletionTimestamp" not in pod_["metadata"]


@pytest.mark.behaviour("sandbox/WL-16")
@pytest.mark.behaviour("sandbox/WL-17")
@pytest.mark.behaviour("sandbox/WL-18")
def test_addresses_and_ports_are_allocated_once(api: Api, ns: str) -> None:
    path = core(ns, "services")
    taken = api.post(path, service("a")).expect(201)["spec"]["clusterIP"]
    api.post(path, service("b", clusterIP=taken)).fails(422, "Invalid")
    assert api.post(path, service("c", clusterIP="None")).expect(201)["spec"]["clusterIP"] == "None"
    outside = service("d", type="ExternalName", externalName="a.example.org")
    assert "clusterIP" not in api.post(path, outside).expect(201)["spec"]
    port = api.post(path, service("e", type="NodePort")).expect(201)["spec"]["ports"][0]["nodePort"]
    assert 30000 <= port <= 32767
    api.post(path, service("f", {"port": 80, "nodePort": port}, type="NodePort")).fails(422, "Invalid")


@pytest.mark.behaviour("sandbox/WL-19")
@pytest.mark.behaviour("sandbox/WL-20")
def test_a_service_gets_the_endpoints_of_its_pods(api: Api, ns: str) -> None:
    ports = [{"name": "other", "containerPort": 1}, {"name": "web", "containerPort": 8080}]
    pods_of = template(container(ports=ports))
    api.post(apps(ns, "statefulsets"), stateful_set(replicas=3, template=pods_of)).expect(201)
    stranger = {**running(), "metadata": {"name": "stranger", "labels": {"app": "y"}}}
    api.post(core(ns, "pods"), stranger).expect(201)
    spec = {"selector": {"app": "x"}, "type": "LoadBalancer"}
    api.post(core(ns, "services"), service("s", {"port": 80, "targetPort": "web"}, **spec)).expect(201)
    slices = f"/apis/discovery.k8s.io/v1/namespaces/{ns}/endpointslices"

    def endpoints() -> dict[str, tuple[str, bool]]:
        items = api.get(slices, labelSelector="kubernetes.io/service-name=s").json()["items"]
        backends = [endpoint for item in items for endpoint in item.get("endpoints") or ()]
        return {
            backend["targetRef"]["name"]: (backend["addresses"][0], backend["conditions"]["ready"])
            for backend in backends
        }

    wanted = {f"x-{n}" for n in range(3)}
    eventually(lambda: endpoints().keys() == wanted and all(up for _, up in endpoints().values()))
    addresses = {name: by_name(api, ns)[name]["status"]["podIP"] for name in wanted}
    assert endpoints() == {name: (address, True) for name, address in addresses.items()}
    (endpoint_slice,) = api.get(slices, labelSelector="kubernetes.io/service-name=s").json()["items"]
    assert [(port.get("name"), port["port"], port["protocol"]) for port in endpoint_slice["ports"]] == [
        ("", 8080, "TCP")
    ]
    # docs/sandbox.md: Services have no Endpoints here, which are deprecated.
    assert names(api.get(core(ns, "endpoints"))) == []

    unready = {"metadata": {"annotations": {"sandbox.ctrlhost.dev/ready": "false"}}}
    api.patch(core(ns, "pods", "x-1"), unready).expect(200)
    eventually(lambda: not endpoints()["x-1"][1])
    assert endpoints() == {name: (address, name != "x-1") for name, address in addresses.items()}


@pytest.mark.behaviour("sandbox/WL-22")
def test_a_load_balancer_gets_an_address(api: Api, ns: str) -> None:
    path = core(ns, "services", "s")
    api.post(core(ns, "services"), service(type="LoadBalancer")).expect(201)
    (ingress,) = eventually(lambda: api.get(path).json()["status"]["loadBalancer"].get("ingress"))
    assert ip_address(ingress["ip"]) in ip_network(Options().load_balancer_cidr)


@pytest.mark.behaviour("sandbox/WL-24")
def test_nodes_are_selected_by_unschedulable(api: Api) -> None:
    api.post("/api/v1/nodes", {"metadata": {"name": "closed"}, "spec": {"unschedulable": True}}).expect(201)
    assert names(api.get("/api/v1/nodes", fieldSelector="spec.unschedulable=true")) == ["closed"]
    assert "closed" not in names(api.get("/api/v1/nodes", fieldSelector="spec.unschedulable=false"))
    api.delete("/api/v1/nodes/closed").expect(200)
