"""The least that a real server accepts of each built-in kind outside the first groups."""

from __future__ import annotations

from typing import Any

from tests.support.objects import container

Object = dict[str, Any]
ADMISSION, FLOW = "admissionregistration.k8s.io", "flowcontrol.apiserver.k8s.io"
#: A request for the common name "a", made with openssl.
CERTIFICATE_REQUEST = (
    "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlHTE1EOENBUUF3RERFS01BZ0dBMVVFQXd3QllUQXFNQVVHQXl0bGNBTWhBSXU0"
    "VVZYZWFkWkw3K2h0U1V6dgowRUVVY2o2anlqY29saGNjQi8xWW1naFVvQUF3QlFZREsyVndBMEVBVW5vbTlVUnpWQ1JSZlFRTlNQUEw2ckszCngz"
    "S1lQVXc5TnQwcnB6UC9LK0J6Qm5RQUpVQllQOGFLY2c1Sk16OUJHQnJqakRLVkw3WVkzZzJxYWNiQkRBPT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUg"
    "UkVRVUVTVC0tLS0tCg=="
)


def job_template(restart: str = "Never", **pod: Any) -> Object:
    return {
        "metadata": {"labels": {"app": "x"}},
        "spec": {"containers": [container()], "restartPolicy": restart, **pod},
    }


def webhook(**changes: Any) -> Object:
    return {
        "name": "a.b.example.com",
        "clientConfig": {"service": {"name": "s", "namespace": "default"}},
        "rules": [rule()],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        # No object matches, so that no request waits for a service that does not exist.
        "objectSelector": {"matchLabels": {"no": "such-object"}},
        **changes,
    }


def rule(**changes: Any) -> Object:
    return {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], **changes}


def matched() -> Object:
    return {"resourceRules": [rule()], "objectSelector": {"matchLabels": {"no": "such-object"}}}


def minimal_objects() -> dict[tuple[str, str], Object]:
    """Return everything but apiVersion, kind and metadata, by group and kind."""
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [container()]}}
    storage = {"requests": {"storage": "1Gi"}}
    patch = '[JSONPatch{op: "add", path: "/metadata/labels", value: {"a": "b"}}]'
    mutation = {"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}
    devices = {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}
    return {
        ("", "LimitRange"): {
            "spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Mi"}}]}
        },
        ("", "PersistentVolume"): {
            "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
        },
        ("", "PersistentVolumeClaim"): {
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": storage, "storageClassName": "none"}
        },
        ("", "PodTemplate"): {"template": template},
        ("", "ReplicationController"): {"spec": {"replicas": 0, "template": template}},
        ("", "ResourceQuota"): {"spec": {"hard": {"pods": "100", "requests.cpu": "100", "limits.memory": "1Ti"}}},
        ("apiregistration.k8s.io", "APIService"): {
            "spec": {
                "group": "example.com",
                "version": "v1",
                "groupPriorityMinimum": 10,
                "versionPriority": 5,
                "insecureSkipTLSVerify": True,
                "service": {"name": "s", "namespace": "default"},
            }
        },
        ("autoscaling", "HorizontalPodAutoscaler"): {
            "spec": {
                "maxReplicas": 3,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
            }
        },
        ("batch", "CronJob"): {
            "spec": {"schedule": "0 0 29 2 *", "jobTemplate": {"spec": {"template": job_template()}}}
        },
        ("batch", "Job"): {"spec": {"template": job_template(schedulerName="nobody"), "suspend": True}},
        ("certificates.k8s.io", "CertificateSigningRequest"): {
            "spec": {"request": CERTIFICATE_REQUEST, "signerName": "example.com/none", "usages": ["client auth"]}
        },
        ("networking.k8s.io", "IPAddress"): {"spec": {"parentRef": {"resource": "services", "name": "s"}}},
        ("networking.k8s.io", "NetworkPolicy"): {
            "spec": {"podSelector": {}, "egress": [{"ports": [{"port": 80}], "to": [{"podSelector": {}}]}]}
        },
        ("networking.k8s.io", "ServiceCIDR"): {"spec": {"cidrs": ["192.168.77.0/24"]}},
        ("policy", "PodDisruptionBudget"): {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}},
        ("storage.k8s.io", "CSIDriver"): {"spec": {}},
        ("storage.k8s.io", "CSINode"): {"spec": {"drivers": [{"name": "d.example.com", "nodeID": "n"}]}},
        ("storage.k8s.io", "CSIStorageCapacity"): {"storageClassName": "c"},
        ("storage.k8s.io", "StorageClass"): {"provisioner": "example.com/none"},
        ("storage.k8s.io", "VolumeAttachment"): {
            "spec": {"attacher": "d.example.com", "nodeName": "n", "source": {"persistentVolumeName": "v"}}
        },
        ("storage.k8s.io", "VolumeAttributesClass"): {"driverName": "d.example.com", "parameters": {"a": "b"}},
        (ADMISSION, "MutatingAdmissionPolicy"): {
            "spec": {"matchConstraints": matched(), "mutations": [mutation], "reinvocationPolicy": "Never"}
        },
        (ADMISSION, "MutatingAdmissionPolicyBinding"): {"spec": {"policyName": "none"}},
        (ADMISSION, "MutatingWebhookConfiguration"): {"webhooks": [webhook()]},
        (ADMISSION, "ValidatingAdmissionPolicy"): {
            "spec": {"matchConstraints": matched(), "validations": [{"expression": "true"}]}
        },
        (ADMISSION, "ValidatingAdmissionPolicyBinding"): {
            "spec": {"policyName": "none", "validationActions": ["Deny"], "matchResources": {"resourceRules": [rule()]}}
        },
        (ADMISSION, "ValidatingWebhookConfiguration"): {"webhooks": [webhook()]},
        ("scheduling.k8s.io", "PriorityClass"): {"value": 5},
        ("node.k8s.io", "RuntimeClass"): {"handler": "h"},
        ("resource.k8s.io", "DeviceClass"): {"spec": {"selectors": [{"cel": {"expression": "true"}}]}},
        ("resource.k8s.io", "ResourceClaim"): {"spec": {"devices": devices}},
        ("resource.k8s.io", "ResourceClaimTemplate"): {"spec": {"spec": {"devices": devices}}},
        ("resource.k8s.io", "ResourceSlice"): {
            "spec": {
                "driver": "d.example.com",
                "nodeName": "n",
                "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "a"}],
            }
        },
        (FLOW, "FlowSchema"): {"spec": {"priorityLevelConfiguration": {"name": "none"}}},
        (FLOW, "PriorityLevelConfiguration"): {
            "spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": {}}}}
        },
    }


def name_for(kind: str, name: str, number: int) -> str:
    """Return the name of an object: those of some kinds follow from what they are."""
    special = {"IPAddress": f"192.0.2.{number % 250 + 1}", "APIService": "v1.example.com"}
    return special.get(kind, name)
