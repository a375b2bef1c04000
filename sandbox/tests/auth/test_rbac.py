"""RBAC in the sandbox: only bound rights are granted, and changes take effect at once."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from ctrlhost_sandbox import Options, Sandbox
from ctrlhost_sandbox.errors import SandboxError

from tests.support.http_client import APPLY, Api
from tests.support.objects import config_map, core
from tests.support.rbac_rig import (
    AUTHENTICATION,
    RBAC,
    REVIEWS,
    account,
    add_role,
    api_of,
    bind,
    group,
    may,
    reference,
    rule,
    user,
)
from tests.support.waiting import eventually

_serial = itertools.count(1)
READ_PODS = rule("get list watch", "core", "pods")


@pytest.fixture(scope="module")
def strict() -> Iterator[Sandbox]:
    """A sandbox with RBAC."""
    with Sandbox(rbac=True, options=Options(admin=True)) as sandbox:
        yield sandbox


@pytest.fixture
def admin(strict: Sandbox) -> Iterator[Api]:
    with Api(strict.url, strict.ca, strict.token) as client:
        yield client


@pytest.fixture
def home(admin: Api) -> str:
    """The test's own namespace."""
    name = f"rbac-{next(_serial)}"
    admin.post("/api/v1/namespaces", {"metadata": {"name": name}}).expect(201)
    return name


@pytest.fixture
def ann(strict: Sandbox, home: str) -> Iterator[Api]:
    """A client of the user `ann-HOME` in the group `devs-HOME`."""
    with api_of(strict.kubeconfig_for(user=f"ann-{home}", groups=[f"devs-{home}"])) as client:
        yield client


def test_only_bound_rights_are_allowed(ann: Api, home: str) -> None:
    failure = ann.get(core(home, "pods")).fails(403, "Forbidden")
    assert failure["message"] == (
        f'pods is forbidden: User "ann-{home}" cannot list resource "pods" in API group "" in the namespace "{home}"'
    )
    assert failure["details"] == {"kind": "pods"}
    ann.get("/api/v1/nodes").fails(403, "Forbidden")
    ann.get("/metrics").fails(403, "Forbidden")
    assert ann.get("/").fails(403, "Forbidden")["message"] == f'forbidden: User "ann-{home}" cannot get path "/"'
    for path in ("/api", "/apis", "/api/v1", "/apis/apps/v1", "/openapi/v3", "/openapi/v2", "/version", "/readyz"):
        assert ann.get(path).status == 200


def test_bindings_take_effect_and_end_at_once(admin: Api, ann: Api, home: str) -> None:
    role = add_role(admin, "reader", READ_PODS, namespace=home)
    ann.get(core(home, "pods")).fails(403)
    bind(admin, "readers", role, user(f"ann-{home}"), namespace=home)
    ann.get(core(home, "pods")).expect(200)
    ann.get(core(home, "pods", "none")).fails(404)
    ann.get("/api/v1/pods").fails(403)
    ann.get(core("default", "pods")).fails(403)
    ann.get(core(home, "pods") + "/none/log").fails(403)
    admin.patch(f"{RBAC}/namespaces/{home}/roles/reader", {"rules": [rule("get", "core", "pods")]}).expect(200)
    ann.get(core(home, "pods")).fails(403)
    ann.get(core(home, "pods", "none")).fails(404)
    admin.delete(f"{RBAC}/namespaces/{home}/rolebindings/readers").expect(200)
    ann.get(core(home, "pods", "none")).fails(403)


def test_a_missing_role_is_reported_and_counts_once_created(admin: Api, ann: Api, home: str) -> None:
    bind(admin, home, reference(f"late-{home}"), user(f"ann-{home}"))
    message = ann.get(core(home, "pods")).fails(403)["message"]
    assert message.endswith(
        f'in the namespace "{home}": RBAC: clusterrole.rbac.authorization.k8s.io "late-{home}" not found'
    )
    add_role(admin, f"late-{home}", READ_PODS)
    ann.get("/api/v1/pods").expect(200)


def test_groups_and_cluster_roles_bound_in_a_namespace(admin: Api, ann: Api, home: str) -> None:
    role = add_role(admin, f"cm-{home}", rule("*", "core", "configmaps"))
    bind(admin, "devs", role, group(f"devs-{home}"), namespace=home)
    ann.post(core(home, "configmaps"), config_map()).expect(201)
    ann.delete(core(home, "configmaps")).expect(200)
    ann.get("/api/v1/configmaps").fails(403)
    ann.post(core("default", "configmaps"), config_map()).fails(403)


def test_resource_names_limit_a_rule(admin: Api, ann: Api, home: str) -> None:
    role = add_role(
        admin, "one", rule("get list watch update create delete", "core", "configmaps", "a"), namespace=home
    )
    bind(admin, "one", role, user(f"ann-{home}"), namespace=home)
    path = core(home, "configmaps")
    ann.post(path, config_map("a")).fails(403)
    admin.post(path, config_map("a")).expect(201)
    ann.get(f"{path}/a").expect(200)
    ann.get(f"{path}/b").fails(403)
    ann.get(path).fails(403)
    ann.get(path, fieldSelector="metadata.name=a").expect(200)
    ann.get(path, fieldSelector="metadata.name=b").fails(403)
    assert ann.watch(path, fieldSelector="metadata.name=a").status == 200
    assert ann.watch(path).status == 403
    ann.put(f"{path}/a", config_map("a", {"k": "w"})).expect(200)
    ann.delete(f"{path}/a").expect(200)


def test_subresources_need_their_own_rights(admin: Api, ann: Api, home: str) -> None:
    rules = rule("get", "apps", "deployments/scale"), rule("get", "*", "*/status")
    bind(admin, "sub", add_role(admin, "sub", *rules, namespace=home), user(f"ann-{home}"), namespace=home)
    base = f"/apis/apps/v1/namespaces/{home}/deployments"
    ann.get(f"{base}/none/scale").fails(404)
    ann.get(f"{base}/none/status").fails(404)
    ann.get(f"{core(home, 'services')}/none/status").fails(404)
    ann.get(f"{base}/none").fails(403)
    ann.get(f"/apis/apps/v1/namespaces/{home}/replicasets/none/scale").fails(403)
    message = ann.put(f"{base}/none/scale", {}).fails(403)["message"]
    assert f'"ann-{home}" cannot update resource "deployments/scale" in API group "apps"' in message


def test_non_resource_paths(admin: Api, ann: Api, home: str) -> None:
    role = add_role(
        admin, f"paths-{home}", rule("get", urls="/sandbox/v1/* /"), rule("post", urls="/sandbox/v1/compact")
    )
    bind(admin, f"paths-{home}", role, user(f"ann-{home}"))
    ann.get("/sandbox/v1/stats").expect(200)
    ann.get("/").expect(200)
    ann.get("/sandbox").fails(403)
    ann.post("/sandbox/v1/compact", {}).expect(200)
    assert ann.request("PUT", "/sandbox/v1/compact", {}).fails(403)["message"] == (
        f'forbidden: User "ann-{home}" cannot put path "/sandbox/v1/compact"'
    )


def test_update_and_patch_do_not_include_create(admin: Api, ann: Api, home: str) -> None:
    role = add_role(admin, "changer", rule("get update patch", "*", "*"), namespace=home)
    bind(admin, "changer", role, user(f"ann-{home}"), namespace=home)
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{home}/leases/l"
    message = ann.put(lease, {"metadata": {"name": "l"}}).fails(403)["message"]
    assert message.startswith(f'leases.coordination.k8s.io "l" is forbidden: User "ann-{home}" cannot create resource')
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    path = core(home, "configmaps", "a")
    ann.request("PATCH", path, applied, content_type=APPLY, fieldManager="m").fails(403)
    admin.get(path).fails(404)
    admin.post(core(home, "configmaps"), config_map("a")).expect(201)
    ann.request("PATCH", path, applied, content_type=APPLY, fieldManager="m").expect(200)


def test_an_apply_uses_the_right_to_create_only_where_it_creates(
    strict: Sandbox, admin: Api, ann: Api, home: str
) -> None:
    role = add_role(admin, "applier", rule("create patch", "core", "configmaps"), namespace=home)
    bind(admin, "applier", role, user(f"ann-{home}"), namespace=home)
    admin.post(core(home, "configmaps"), config_map("a")).expect(201)
    for name, code, verbs in (("a", 200, {"patch"}), ("b", 201, {"create", "patch"})):
        applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        ann.request("PATCH", core(home, "configmaps", name), applied, content_type=APPLY, fieldManager="m").expect(code)
        assert {verb for _, _, verb in strict.rights_used(f"ann-{home}")} == verbs


def test_service_accounts_by_name_and_by_group(strict: Sandbox, admin: Api, home: str) -> None:
    admin.post(core(home, "serviceaccounts"), {"metadata": {"name": "robot"}}).expect(201)
    named = add_role(admin, "named", rule("list", "core", "pods"), namespace=home)
    bind(admin, "named", named, account(home, "robot"), namespace=home)
    grouped = add_role(admin, "grouped", rule("list", "core", "services"), namespace=home)
    bind(admin, "grouped", grouped, group(f"system:serviceaccounts:{home}"), namespace=home)
    with api_of(strict.kubeconfig_for(service_account=f"{home}/robot")) as robot:
        robot.get(core(home, "pods")).expect(200)
        robot.get(core(home, "services")).expect(200)
        robot.get(core(home, "secrets")).fails(403)


def test_aggregated_cluster_roles_follow_their_selectors(admin: Api, ann: Api, home: str) -> None:
    wanted = {"clusterRoleSelectors": [{"matchLabels": {"for": home}}]}
    role = add_role(admin, f"all-{home}", aggregationRule=wanted)
    bind(admin, f"all-{home}", role, user(f"ann-{home}"))
    part = add_role(admin, f"part-{home}", READ_PODS, metadata={"labels": {"for": home}})["name"]
    eventually(lambda: ann.get("/api/v1/pods").status == 200)
    assert admin.get(f"{RBAC}/clusterroles/all-{home}").json()["rules"] == [READ_PODS]
    admin.delete(f"{RBAC}/clusterroles/{part}").expect(200)
    eventually(lambda: ann.get("/api/v1/pods").status == 403)


def test_a_labelled_role_extends_the_role_view(admin: Api, home: str) -> None:
    labels = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
    add_role(admin, f"widgets-{home}", rule("get", "widgets.test", "widgets"), metadata={"labels": labels})
    bind(admin, "viewer", reference("view"), user("vera"), namespace=home)
    bind(admin, "editor", reference("edit"), user("edda"), namespace=home)
    for who in ("vera", "edda"):
        question = {"namespace": home, "who": who, "group": "widgets.test"}
        eventually(lambda question=question: may(admin, "get", "widgets", **question))
        assert not may(admin, "update", "widgets", **question)


def test_privileges_cannot_be_escalated(admin: Api, ann: Api, home: str) -> None:
    maker = add_role(admin, "maker", rule("create update patch get", "rbac.authorization.k8s.io", "*"), namespace=home)
    own = add_role(admin, "own", rule("get", "core", "pods", "a"), namespace=home)
    for role in (maker, own):
        bind(admin, role["name"], role, user(f"ann-{home}"), namespace=home)
    roles = f"{RBAC}/namespaces/{home}/roles"
    ann.post(roles, {"metadata": {"name": "same"}, "rules": [rule("get", "core", "pods", "a")]}).expect(201)
    status = ann.post(roles, {"metadata": {"name": "more"}, "rules": [rule("get list", "core apps", "pods")]}).fails(
        403
    )
    assert status["message"] == (
        f'roles.rbac.authorization.k8s.io "more" is forbidden: user "ann-{home}" (groups=["devs-{home}" '
        '"system:authenticated"]) is attempting to grant RBAC permissions not currently held:\n'
        '{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}\n'
        '{APIGroups:["apps"], Resources:["pods"], Verbs:["get" "list"]}'
    )
    ann.patch(f"{roles}/same", {"rules": [rule("*", "*", "*")]}).fails(403)
    ann.patch(f"{roles}/same", {"metadata": {"labels": {"a": "b"}}}).expect(200)
    bindings = f"{RBAC}/namespaces/{home}/rolebindings"
    held = {"metadata": {"name": "b"}, "roleRef": reference("own", "Role"), "subjects": [user("bob")]}
    ann.post(bindings, held).expect(201)
    much = {"metadata": {"name": "c"}, "roleRef": reference("cluster-admin"), "subjects": [user("bob")]}
    assert "not currently held" in ann.post(bindings, much).fails(403)["message"]
    ann.post(bindings, {**much, "roleRef": reference("none", "Role")}).fails(404)


def test_escalate_and_bind_allow_granting_more(admin: Api, ann: Api, home: str) -> None:
    rules = [
        rule("create escalate", "rbac.authorization.k8s.io", "roles"),
        rule("create", "rbac.authorization.k8s.io", "rolebindings"),
        rule("bind", "rbac.authorization.k8s.io", "clusterroles", "view"),
    ]
    bind(admin, "giver", add_role(admin, "giver", *rules, namespace=home), user(f"ann-{home}"), namespace=home)
    base = f"{RBAC}/namespaces/{home}"
    ann.post(f"{base}/roles", {"metadata": {"name": "all"}, "rules": [rule("*", "*", "*")]}).expect(201)
    body = {"metadata": {"name": "viewers"}, "roleRef": reference("view"), "subjects": [user("bob")]}
    ann.post(f"{base}/rolebindings", body).expect(201)
    body = {"metadata": {"name": "editors"}, "roleRef": reference("edit"), "subjects": [user("bob")]}
    ann.post(f"{base}/rolebindings", body).fails(403)


def test_the_role_of_a_binding_is_immutable(admin: Api, home: str) -> None:
    bind(admin, "fixed", reference("view"), user("bob"), namespace=home)
    path = f"{RBAC}/namespaces/{home}/rolebindings/fixed"
    status = admin.patch(path, {"roleRef": reference("edit")}).fails(422, "Invalid", "roleRef", "FieldValueInvalid")
    assert [cause["message"].rpartition(": ")[2] for cause in status["details"]["causes"]] == ["cannot change roleRef"]


def test_impersonation_needs_rights(admin: Api, ann: Api, home: str) -> None:
    as_bob = {"Impersonate-User": "bob"}
    message = ann.request("GET", "/api", headers=as_bob).fails(403)["message"]
    assert message == (
        f'users "bob" is forbidden: User "ann-{home}" cannot impersonate resource "users" in API group "" '
        "at the cluster scope"
    )
    rules = [
        rule("impersonate", "core", "users groups serviceaccounts"),
        rule("impersonate", "authentication.k8s.io", "uids", "7"),
        rule("impersonate", "authentication.k8s.io", "userextras/scopes", "x y"),
    ]
    bind(admin, f"imp-{home}", add_role(admin, f"imp-{home}", *rules), user(f"ann-{home}"))
    more = {**as_bob, "Impersonate-Group": "g", "Impersonate-Uid": "7", "Impersonate-Extra-Scopes": "x,y"}
    who = ann.post(f"{AUTHENTICATION}/selfsubjectreviews", {}, headers=more).expect(201)["status"]["userInfo"]
    assert who == {
        "username": "bob",
        "uid": "7",
        "groups": ["g", "system:authenticated"],
        "extra": {"scopes": ["x", "y"]},
    }
    ann.post(f"{AUTHENTICATION}/selfsubjectreviews", {}, headers={**more, "Impersonate-Uid": "8"}).fails(403)
    ann.request("GET", "/api", headers={**more, "Impersonate-Extra-Scopes": "z"}).fails(403)
    ann.request("GET", "/api", headers={"Impersonate-Group": "g"}).fails(400, "BadRequest")
    robot = {"Impersonate-User": f"system:serviceaccount:{home}:robot"}
    who = ann.post(f"{AUTHENTICATION}/selfsubjectreviews", {}, headers=robot).expect(201)["status"]["userInfo"]
    assert who["groups"] == ["system:serviceaccounts", f"system:serviceaccounts:{home}", "system:authenticated"]


def test_anonymous_users_may_read_health_and_version(strict: Sandbox) -> None:
    with Api(strict.url, strict.ca) as anonymous:
        for path in ("/version", "/healthz", "/livez", "/readyz"):
            assert anonymous.get(path).status == 200
        assert '"system:anonymous" cannot list' in anonymous.get("/api/v1/pods").fails(403)["message"]
        anonymous.get("/api").fails(403)
        anonymous.request("GET", "/api", headers={"Authorization": "Bearer wrong"}).fails(401, "Unauthorized")


def test_self_subject_reviews_match_the_rules(admin: Api, ann: Api, home: str) -> None:
    role = add_role(admin, "reader", READ_PODS, namespace=home)
    bind(admin, "readers", role, user(f"ann-{home}"), namespace=home)
    assert may(ann, "list", "pods", home)
    assert not may(ann, "list", "pods")
    assert not may(ann, "delete", "pods", home)
    spec = {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": home}}
    decision = ann.post(f"{REVIEWS}/selfsubjectaccessreviews", {"spec": spec}).expect(201)["status"]
    assert decision == {
        "allowed": True,
        "reason": f'RBAC: allowed by RoleBinding "readers/{home}" of Role "reader" to User "ann-{home}"',
    }
    status = ann.post(f"{REVIEWS}/selfsubjectrulesreviews", {"spec": {"namespace": home}}).expect(201)["status"]
    assert READ_PODS in status["resourceRules"]
    assert status["incomplete"] is False
    assert all(entry["verbs"] == ["get"] for entry in status["nonResourceRules"])
    ann.post(f"{REVIEWS}/selfsubjectrulesreviews", {"spec": {}}).fails(400, "BadRequest")


def test_subject_access_reviews_need_rights(admin: Api, ann: Api, home: str) -> None:
    attributes = {"verb": "get", "resource": "secrets", "namespace": home}
    body = {"spec": {"user": "someone", "groups": ["system:masters"], "resourceAttributes": attributes}}
    ann.post(f"{REVIEWS}/subjectaccessreviews", body).fails(403)
    assert admin.post(f"{REVIEWS}/subjectaccessreviews", body).expect(201)["status"] == {"allowed": True}
    local = f"{REVIEWS}/namespaces/{home}/localsubjectaccessreviews"
    body["spec"]["groups"] = []
    assert admin.post(local, body).expect(201)["status"] == {"allowed": False}
    attributes["namespace"] = "default"
    admin.post(local, body).fails(422, "Invalid", "spec.resourceAttributes.namespace")


@pytest.mark.parametrize("spec", [{}, {"resourceAttributes": {}, "nonResourceAttributes": {}}])
def test_a_review_needs_exactly_one_kind_of_attributes(admin: Api, spec: dict[str, object]) -> None:
    admin.post(f"{REVIEWS}/selfsubjectaccessreviews", {"spec": spec}).fails(422, "Invalid", cause="FieldValueInvalid")
    admin.post(f"{REVIEWS}/subjectaccessreviews", {"spec": spec}).fails(422, "Invalid")


def test_decisions_are_in_the_audit_log(strict: Sandbox, ann: Api, home: str) -> None:
    ann.delete(core(home, "pods", "a")).fails(403)
    last = [record for record in strict.audit if record.namespace == home][-1]
    assert (last.user, last.verb, last.resource, last.name, last.code) == (f"ann-{home}", "delete", "pods", "a", 403)


def test_without_rbac_every_authenticated_user_may_do_everything(server: Sandbox, ns: str) -> None:
    with api_of(server.kubeconfig_for(user="bob")) as bob:
        bob.get(core(ns, "secrets")).expect(200)
        assert may(bob, "delete", "nodes")
        bob.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin").fails(404)
    with Api(server.url, server.ca) as anonymous:
        anonymous.get("/api").fails(401, "Unauthorized")


def test_roles_and_bindings_survive_a_restart(tmp_path) -> None:
    sandbox = Sandbox(rbac=True, data_dir=tmp_path)
    with sandbox, Api(sandbox.url, sandbox.ca, sandbox.token) as api:
        api.delete(f"{RBAC}/clusterroles/system:auth-delegator").expect(200)
        bind(api, "viewer", reference("view"), user("vera"))
    with sandbox, Api(sandbox.url, sandbox.ca, sandbox.token) as api:
        assert may(api, "list", "pods", who="vera")
        api.get(f"{RBAC}/clusterroles/system:auth-delegator").expect(200)


def test_rbac_needs_tls() -> None:
    with pytest.raises(SandboxError, match="RBAC needs authentication"):
        Sandbox(rbac=True, insecure_http=True)
    with Sandbox(insecure_http=True) as sandbox, pytest.raises(RuntimeError, match="no user but"):
        sandbox.kubeconfig_for(user="ann")


def test_a_kubeconfig_needs_one_existing_user(strict: Sandbox) -> None:
    for wrong in ({}, {"user": "a", "service_account": "b/c"}, {"service_account": "b"}, {"service_account": "b/"}):
        with pytest.raises(ValueError, match="is required"):
            strict.kubeconfig_for(**wrong)
    with pytest.raises(LookupError, match="service account `default/none` not found"):
        strict.kubeconfig_for(service_account="default/none")
    with pytest.raises(RuntimeError, match="not running"):
        Sandbox().kubeconfig_for(user="ann")
