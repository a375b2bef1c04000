"""Pods of about 5 KB of JSON that differ like real ones: names, uids, times, environment, side cars, managed fields."""

from __future__ import annotations

import random

#: The resource version of the first list of the stub server, `peers stub`.
FIRST_REVISION = 5_000_000


def pod(number: int, revision: int) -> dict[str, object]:
    """Return pod `number` at `revision`."""
    rng = random.Random(number)
    app = f"app-{number % 97}"
    name = f"{app}-{rng.randrange(16**9):09x}-{rng.randrange(36**5):05d}"
    uid = f"{rng.getrandbits(128):032x}"
    created = (
        f"2026-{rng.randrange(1, 12):02d}-{rng.randrange(1, 28):02d}T{rng.randrange(24):02d}:{number % 60:02d}:00Z"
    )
    containers = [container(rng, which) for which in ["main", "proxy", "logs"][: 2 + number % 2]]
    statuses = [
        {
            "name": container["name"],
            "image": container["image"],
            "imageID": f"registry.example/{container['name']}@sha256:{rng.getrandbits(256):064x}",
            "containerID": f"containerd://{rng.getrandbits(256):064x}",
            "ready": True,
            "started": True,
            "restartCount": revision % 7,
            "state": {"running": {"startedAt": created}},
            "lastState": {},
        }
        for container in containers
    ]
    metadata = {
        "name": name,
        "generateName": f"{app}-",
        "namespace": f"team-{number % 40}",
        "uid": uid,
        "resourceVersion": str(revision),
        "generation": 1,
        "creationTimestamp": created,
        "labels": {
            "app.kubernetes.io/name": app,
            "app.kubernetes.io/version": f"1.{number % 30}.{number % 7}",
            "pod-template-hash": f"{rng.randrange(16**9):09x}",
            "team": f"team-{number % 40}",
        },
        "annotations": {
            "checksum/config": f"{rng.getrandbits(256):064x}",
            "prometheus.io/scrape": "true",
            "prometheus.io/port": str(8000 + number % 1000),
        },
        "ownerReferences": [
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": f"{app}-{number % 11}",
                "uid": f"{rng.getrandbits(128):032x}",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
        "managedFields": [
            {
                "manager": manager,
                "operation": "Update",
                "apiVersion": "v1",
                "time": created,
                "fieldsType": "FieldsV1",
                "fieldsV1": {"f:metadata": {"f:labels": {f"f:{key}": {} for key in ("app", "team", "hash")}}},
            }
            for manager in ("kube-controller-manager", "kubelet")
        ],
    }
    spec = {
        "containers": containers,
        "nodeName": f"node-{rng.randrange(200)}",
        "serviceAccountName": app,
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "tolerations": [
            {"key": f"node.kubernetes.io/{why}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            for why in ("not-ready", "unreachable")
        ],
        "volumes": [{"name": "config", "configMap": {"name": app, "defaultMode": 420}}],
    }
    status = {
        "phase": "Running",
        "podIP": f"10.{number % 250}.{number // 250 % 250}.7",
        "hostIP": f"192.0.2.{number % 250}",
        "startTime": created,
        "qosClass": "Burstable",
        "conditions": [
            {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": created}
            for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
        ],
        "containerStatuses": statuses,
    }
    return {"metadata": metadata, "spec": spec, "status": status}


def container(rng: random.Random, name: str) -> dict[str, object]:
    """Return one container with its own environment."""
    return {
        "name": name,
        "image": f"registry.example/{name}:{rng.randrange(40)}.{rng.randrange(10)}",
        "args": [f"--shard={rng.randrange(64)}", f"--region=zone-{rng.randrange(9)}"],
        "ports": [{"name": "http", "containerPort": 8000 + rng.randrange(999), "protocol": "TCP"}],
        "env": [
            {"name": f"SETTING_{rng.randrange(999):03d}", "value": f"{rng.getrandbits(64):016x}"}
            for _ in range(5 + rng.randrange(4))
        ],
        "resources": {
            "limits": {"memory": f"{rng.randrange(1, 9) * 128}Mi"},
            "requests": {"cpu": f"{rng.randrange(1, 20) * 50}m"},
        },
        "volumeMounts": [{"name": "config", "mountPath": "/etc/config", "readOnly": True}],
        "terminationMessagePath": "/dev/termination-log",
        "imagePullPolicy": "IfNotPresent",
    }
