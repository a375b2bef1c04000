"""Changes that make the minimal objects invalid: a path and its value, None to leave the field out."""

from __future__ import annotations

import copy
from typing import Any

from tests.support.minimal_objects import ADMISSION, FLOW, job_template, minimal_objects, rule, webhook

Change = dict[str, Any]
_SELECTOR = {"matchExpressions": [{"key": "a", "operator": "Equals"}]}
_METRIC = "spec.metrics"
_LIMITED = "spec.limited.limitResponse"


def _metric(kind: str = "Resource", **target: Any) -> list[Any]:
    return [{"type": kind, "resource": {"name": "cpu", "target": {"type": "Utilization", **target}}}]


def _peer(**fields: Any) -> Change:
    return {"spec.egress": [{"to": [fields]}]}


def _port(**fields: Any) -> Change:
    return {"spec.egress": [{"ports": [fields]}]}


def _hook(**changes: Any) -> Change:
    return {"webhooks": [webhook(**changes)]}


def _flow(**fields: Any) -> Change:
    subject = {"kind": "Group", "group": {"name": "g"}}
    resource = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}
    return {"spec.rules": [{"subjects": [subject], "resourceRules": [resource], **fields}]}


def _request(**fields: Any) -> Change:
    exactly = {"deviceClassName": "c", **fields}
    return {"spec.devices.requests": [{"name": "r", "exactly": exactly}]}


INVALID: dict[tuple[str, str], list[Change]] = {
    ("", "LimitRange"): [
        {"spec.limits": [{"type": "Container", "max": {"cpu": "1"}, "min": {"cpu": "2"}}]},
        {"spec.limits": [{"type": "Pod", "default": {"cpu": "1"}}]},
        {"spec.limits": [{"type": "PersistentVolumeClaim", "default": {"cpu": "1"}}]},
        {"spec.limits": [{"type": "Container"}, {"type": "Container"}]},
        {"spec.limits": [{"type": "Nothing"}]},
        {"spec.limits": [{"type": "Pod", "maxLimitRequestRatio": {"cpu": "0.5"}}]},
        {"spec.limits": [{"type": "Container", "max": {"nonesuch": "1"}}]},
    ],
    ("", "PersistentVolume"): [
        {"spec.capacity": None},
        {"spec.capacity": {"storage": "0"}},
        {"spec.accessModes": None},
        {"spec.accessModes": ["Sometimes"]},
        {"spec.accessModes": ["ReadWriteOncePod", "ReadWriteOnce"]},
        {"spec.hostPath": None},
        {"spec.hostPath": {"path": "/a/../b"}},
        {"spec.nfs": {"server": "s", "path": "/"}},
        {"spec.persistentVolumeReclaimPolicy": "Forget"},
        {"spec.volumeMode": "Tape"},
        {"spec.storageClassName": "A_"},
        {"spec.hostPath": None, "spec.local": {"path": "/x"}},
        {"spec.hostPath": None, "spec.csi": {"driver": "", "volumeHandle": ""}},
    ],
    ("", "PersistentVolumeClaim"): [
        {"spec.accessModes": None},
        {"spec.accessModes": ["Sometimes"]},
        {"spec.resources": None},
        {"spec.resources": {"requests": {"storage": "-1"}}},
        {"spec.storageClassName": "A_"},
        {"spec.volumeMode": "Tape"},
        {"spec.selector": _SELECTOR},
        {"spec.dataSourceRef": {"kind": "", "name": ""}},
    ],
    ("", "PodTemplate"): [{"template.spec.containers": None}, {"template.spec.restartPolicy": "Sometimes"}],
    ("", "ReplicationController"): [
        {"spec.replicas": -1},
        {"spec.template": None},
        {"spec.selector": {"app": "other"}},
        {"spec.template.spec.restartPolicy": "Never"},
        {"spec.minReadySeconds": -1},
    ],
    ("", "ResourceQuota"): [
        {"spec.hard": {"pods": "-1"}},
        {"spec.hard": {"pods": "1.5"}},
        {"spec.hard": {"nonesuch": "1"}},
        {"spec.scopes": ["Nothing"]},
        {"spec.hard": {"services": "1"}, "spec.scopes": ["BestEffort"]},
        {"spec.hard": None, "spec.scopes": ["Terminating", "NotTerminating"]},
        {"spec.scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"}]}},
    ],
    ("apiregistration.k8s.io", "APIService"): [
        {"spec.version": "v2"},
        {"spec.group": "A_", "spec.version": "1"},
        {"spec.groupPriorityMinimum": 0},
        {"spec.versionPriority": 2000},
        {"spec.service": {"name": ""}},
        {"spec.service": None},
    ],
    ("autoscaling", "HorizontalPodAutoscaler"): [
        {"spec.maxReplicas": 0},
        {"spec.maxReplicas": -1},
        {"spec.minReplicas": 0},
        {"spec.minReplicas": 5},
        {"spec.scaleTargetRef": {}},
        {"spec.scaleTargetRef.name": "a/b"},
        {"spec.scaleTargetRef.apiVersion": "a/b/c"},
        {_METRIC: _metric()},
        {_METRIC: _metric(averageUtilization=0)},
        {_METRIC: _metric(averageUtilization=1, averageValue="1")},
        {_METRIC: _metric("Pods", averageUtilization=1)},
        {_METRIC: _metric("Nothing", averageUtilization=1)},
        {_METRIC: [{"type": "Pods", "pods": {"metric": {"name": ""}, "target": {"type": "Value", "value": "0"}}}]},
        {_METRIC: [{"type": "External", "external": {"metric": {"name": "m"}, "target": {"type": "Value"}}}]},
        {"spec.behavior": {"scaleUp": {"stabilizationWindowSeconds": 4000, "selectPolicy": "Some"}}},
        {"spec.behavior": {"scaleDown": {"policies": [{"type": "All", "value": 0, "periodSeconds": 2000}]}}},
    ],
    ("batch", "CronJob"): [
        {"spec.schedule": None},
        {"spec.schedule": "* * * *"},
        {"spec.schedule": "61 * * * *"},
        {"spec.schedule": "@never"},
        {"spec.schedule": "5-1 * * * *"},
        {"spec.schedule": "*/0 * * * *"},
        {"spec.schedule": "TZ=UTC * * * * *"},
        {"spec.timeZone": ""},
        {"spec.timeZone": "Mars/Olympus"},
        {"spec.timeZone": "local"},
        {"spec.concurrencyPolicy": "Sometimes"},
        {"spec.startingDeadlineSeconds": -1},
        {"spec.successfulJobsHistoryLimit": -1, "spec.failedJobsHistoryLimit": -1},
        {"spec.jobTemplate.spec.template": job_template("Always")},
        {"spec.jobTemplate.spec.selector": {"matchLabels": {"a": "b"}}},
        {"spec.jobTemplate.spec.manualSelector": True},
        {"metadata.name": "n" * 53},
    ],
    ("batch", "Job"): [
        {"spec.parallelism": -1},
        {"spec.completions": -1},
        {"spec.backoffLimit": -1},
        {"spec.activeDeadlineSeconds": -1, "spec.ttlSecondsAfterFinished": -1},
        {"spec.completionMode": "Sometimes"},
        {"spec.completionMode": "Indexed", "spec.parallelism": 1},
        {"spec.backoffLimitPerIndex": 1},
        {"spec.maxFailedIndexes": 1},
        {"spec.template": job_template("Always")},
        {"spec.template": job_template("Sometimes")},
        {"spec.template": {"spec": {"restartPolicy": "Never"}}},
        {"spec.selector": {"matchLabels": {"a": "b"}}},
        {"spec.manualSelector": True},
        {"spec.managedBy": "me"},
        {"spec.podReplacementPolicy": "Sometimes"},
        {"spec.successPolicy": {"rules": [{"succeededCount": 1}]}},
        {"spec.podFailurePolicy": {"rules": [{"action": "Nothing"}]}},
        {"spec.podFailurePolicy": {"rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [0]}}]}},
        {"spec.podFailurePolicy": {"rules": [{"action": "Count", "onPodConditions": [{"type": "a b"}]}]}},
    ],
    ("certificates.k8s.io", "CertificateSigningRequest"): [
        {"spec.request": "YQ=="},
        {"spec.usages": None},
        {"spec.usages": ["nothing", "client auth", "client auth"]},
        {"spec.signerName": None},
        {"spec.signerName": "nothing"},
        {"spec.signerName": "kubernetes.io/legacy-unknown"},
        {"spec.expirationSeconds": 1},
    ],
    ("networking.k8s.io", "IPAddress"): [
        {"metadata.name": "x"},
        {"metadata.name": "192.0.2.01"},
        {"spec.parentRef": None},
        {"spec.parentRef": {}},
        {"spec.parentRef.name": "a/b"},
    ],
    ("networking.k8s.io", "NetworkPolicy"): [
        {"spec.policyTypes": ["Nothing"]},
        {"spec.policyTypes": ["Ingress", "Egress", "Ingress"]},
        {"spec.podSelector": _SELECTOR},
        _peer(),
        _peer(ipBlock={"cidr": "x"}),
        _peer(ipBlock={}),
        _peer(ipBlock={"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16", "x"]}),
        _peer(ipBlock={"cidr": "10.0.0.0/8"}, podSelector={}),
        _peer(namespaceSelector=_SELECTOR),
        _port(port=0),
        _port(port=70000),
        _port(port="a_b"),
        _port(port=80, protocol="ICMP"),
        _port(port=80, endPort=70),
        _port(port="http", endPort=70),
        _port(endPort=70),
    ],
    ("networking.k8s.io", "ServiceCIDR"): [
        {"spec.cidrs": None},
        {"spec.cidrs": ["x"]},
        {"spec.cidrs": ["10.0.0.0/8", "11.0.0.0/8"]},
        {"spec.cidrs": ["10.0.0.0/8", "fd00::/64", "fd01::/64"]},
        {"spec.cidrs": ["10.0.0.1/8"]},
    ],
    ("policy", "PodDisruptionBudget"): [
        {"spec.maxUnavailable": 1},
        {"spec.minAvailable": -1},
        {"spec.minAvailable": "101%"},
        {"spec.minAvailable": "x"},
        {"spec.selector": _SELECTOR},
        {"spec.unhealthyPodEvictionPolicy": "Sometimes"},
    ],
    ("storage.k8s.io", "CSIDriver"): [
        {"spec.fsGroupPolicy": "Nothing"},
        {"spec.volumeLifecycleModes": ["Nothing"]},
        {"spec.tokenRequests": [{"audience": "a"}, {"audience": "a"}]},
        {"spec.tokenRequests": [{"audience": "a", "expirationSeconds": 1}]},
        {"spec.nodeAllocatableUpdatePeriodSeconds": 1},
        {"spec.serviceAccountTokenInSecrets": True},
    ],
    ("storage.k8s.io", "CSINode"): [
        {"spec.drivers": [{"name": "", "nodeID": ""}]},
        {"spec.drivers": [{"name": "d", "nodeID": "n" * 257}]},
        {"spec.drivers": [{"name": "d", "nodeID": "n"}, {"name": "d", "nodeID": "n"}]},
        {"spec.drivers": [{"name": "d", "nodeID": "n", "allocatable": {"count": -1}}]},
        {"spec.drivers": [{"name": "d", "nodeID": "n", "topologyKeys": ["a", "a", "b b"]}]},
    ],
    ("storage.k8s.io", "CSIStorageCapacity"): [
        {"storageClassName": "A_"},
        {"nodeTopology": _SELECTOR},
        {"capacity": "-1"},
    ],
    ("storage.k8s.io", "StorageClass"): [
        {"provisioner": None},
        {"provisioner": "a b"},
        {"reclaimPolicy": "Forget"},
        {"volumeBindingMode": "Sometimes"},
        {"parameters": {"": "a"}},
    ],
    ("storage.k8s.io", "VolumeAttachment"): [
        {"spec.attacher": ""},
        {"spec.nodeName": "A_"},
        {"spec.source": {}},
        {"spec.source": {"persistentVolumeName": ""}},
        {"spec.source": {"persistentVolumeName": "v", "inlineVolumeSpec": {}}},
    ],
    ("storage.k8s.io", "VolumeAttributesClass"): [{"driverName": ""}, {"driverName": "a b"}, {"parameters": None}],
    (ADMISSION, "ValidatingWebhookConfiguration"): [
        _hook(name=""),
        _hook(name="a.b"),
        _hook(sideEffects=None),
        _hook(sideEffects="Some"),
        _hook(admissionReviewVersions=None),
        _hook(admissionReviewVersions=["v2", "v2"]),
        _hook(clientConfig={}),
        _hook(clientConfig={"url": "http://example.com?a=b#c"}),
        _hook(clientConfig={"service": {"name": "s", "namespace": "n", "port": 0, "path": "x"}}),
        _hook(timeoutSeconds=31),
        _hook(failurePolicy="Sometimes", matchPolicy="Sometimes"),
        _hook(objectSelector=_SELECTOR),
        _hook(rules=[rule(operations=["*", "CREATE"])]),
        _hook(rules=[rule(operations=["READ"], apiGroups=["*", "a"])]),
        _hook(rules=[rule(operations=[], apiGroups=[], apiVersions=[], resources=[])]),
        _hook(rules=[rule(resources=["a", "*"], scope="Nothing")]),
        _hook(rules=[rule(resources=["a/*", "a/b", "*/*"])]),
        {"webhooks": [webhook(), webhook()]},
    ],
    (ADMISSION, "MutatingWebhookConfiguration"): [_hook(reinvocationPolicy="Sometimes"), _hook(sideEffects="Some")],
    ("scheduling.k8s.io", "PriorityClass"): [
        {"value": 2_000_000_000},
        {"preemptionPolicy": "Sometimes"},
        {"metadata.name": "system-x"},
        {"metadata.name": "system-node-critical"},
    ],
    ("node.k8s.io", "RuntimeClass"): [{"handler": ""}, {"handler": "A_"}],
    ("resource.k8s.io", "DeviceClass"): [{"spec.selectors": [{}]}],
    ("resource.k8s.io", "ResourceClaim"): [
        {"spec.devices.requests": [{"name": "A_", "exactly": {"deviceClassName": "c"}}]},
        {"spec.devices.requests": [{"name": "r"}]},
        _request(deviceClassName=""),
        _request(deviceClassName="A_"),
        _request(allocationMode="Some"),
        _request(allocationMode="All", count=1),
        _request(count=-1),
        _request(selectors=[{}]),
    ],
    ("resource.k8s.io", "ResourceSlice"): [
        {"spec.driver": ""},
        {"spec.pool.name": ""},
        {"spec.pool.resourceSliceCount": 0},
        {"spec.nodeName": None},
        {"spec.devices": [{"name": "A_"}]},
        {"spec.devices": [{"name": "a"}, {"name": "a"}]},
    ],
    (FLOW, "FlowSchema"): [
        {"spec.priorityLevelConfiguration": {"name": ""}},
        {"spec.matchingPrecedence": -1},
        {"spec.matchingPrecedence": 1},
        {"spec.matchingPrecedence": 10001},
        {"spec.distinguisherMethod": {"type": "ByNothing"}},
        _flow(subjects=[]),
        _flow(subjects=[{"kind": "Nobody"}]),
        _flow(subjects=[{"kind": "User"}]),
        _flow(subjects=[{"kind": "User", "user": {"name": ""}, "group": {"name": "g"}}]),
        _flow(resourceRules=[]),
        _flow(resourceRules=[{"verbs": ["eat"], "apiGroups": [], "resources": []}]),
        _flow(nonResourceRules=[{"verbs": ["*", "get"], "nonResourceURLs": []}]),
    ],
    (FLOW, "PriorityLevelConfiguration"): [
        {"spec.type": None},
        {"spec.type": "Nothing"},
        {"spec.type": "Exempt"},
        {"spec.limited": None},
        {f"{_LIMITED}.type": "Nothing"},
        {f"{_LIMITED}.type": "Reject"},
        {f"{_LIMITED}.queuing": None},
        {f"{_LIMITED}.queuing": {"queues": -1, "handSize": 100}},
        {"spec.limited.nominalConcurrencyShares": -1},
        {"spec.limited.lendablePercent": 200},
    ],
}

#: Changes of a stored object.
UPDATES: dict[tuple[str, str], list[Change]] = {
    ("", "PersistentVolume"): [{"spec.hostPath.path": "/y"}, {"spec.volumeMode": "Block"}],
    ("", "PersistentVolumeClaim"): [
        {"spec.storageClassName": "other"},
        {"spec.resources": {"requests": {"storage": "2Gi"}}},
        {"spec.volumeName": "v"},
    ],
    ("", "ResourceQuota"): [{"spec.scopes": ["NotTerminating"]}, {"spec.hard": {"pods": "5"}}],
    ("batch", "Job"): [
        {"spec.completions": 3},
        {"spec.parallelism": 3},
        {"spec.completionMode": "Indexed"},
        {"spec.template.spec.restartPolicy": "OnFailure"},
        {"spec.template.spec.nodeSelector": {"a": "b"}},
    ],
    ("batch", "CronJob"): [{"spec.schedule": "1 1 1 1 1"}, {"spec.schedule": "x"}],
    ("networking.k8s.io", "IPAddress"): [{"spec.parentRef.name": "other"}],
    ("networking.k8s.io", "ServiceCIDR"): [
        {"spec.cidrs": ["192.168.78.0/24"]},
        {"spec.cidrs": None},
        {"spec.cidrs": ["192.168.77.0/24", "fd00:77::/112"]},
    ],
    ("scheduling.k8s.io", "PriorityClass"): [{"value": 6}, {"preemptionPolicy": "Never"}, {"description": "d"}],
    ("storage.k8s.io", "StorageClass"): [
        {"provisioner": "other"},
        {"parameters": {"a": "b"}},
        {"reclaimPolicy": "Retain"},
        {"allowVolumeExpansion": True},
    ],
    ("storage.k8s.io", "VolumeAttachment"): [{"spec.nodeName": "other"}],
    ("storage.k8s.io", "VolumeAttributesClass"): [{"parameters": {"a": "c"}}, {"driverName": "other"}],
    ("node.k8s.io", "RuntimeClass"): [{"handler": "other"}],
    ("resource.k8s.io", "ResourceClaim"): [{"spec.devices.requests": None}],
    ("autoscaling", "HorizontalPodAutoscaler"): [{"spec.maxReplicas": 0}, {"spec.maxReplicas": 5}],
    ("certificates.k8s.io", "CertificateSigningRequest"): [{"spec.signerName": "example.com/other"}],
    ("policy", "PodDisruptionBudget"): [{"spec.minAvailable": 2}, {"spec.minAvailable": "200%"}],
}


def changed(group: str, kind: str, name: str, change: Change) -> dict[str, Any]:
    """Return the minimal object with a change."""
    obj = copy.deepcopy({"metadata": {"name": name}, **minimal_objects()[group, kind]})
    for path, value in change.items():
        *parents, last = path.split(".")
        node = obj
        for part in parents:
            node = node.setdefault(part, {})
        if value is None:
            node.pop(last, None)
        else:
            node[last] = value
    return obj
