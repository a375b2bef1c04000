//! Pods of about 5 KB that differ like real ones.
#![allow(missing_docs, dead_code, reason = "each bench uses a part")]

use std::fmt::Write as _;

/// Return a pod as the API server writes it, with or without managed fields.
pub(crate) fn pod(number: usize, version: usize, managed_fields: bool) -> String {
    let mut text = String::with_capacity(8192);
    let managed = if managed_fields {
        let field = r#""f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"main\"}":{".":{},"f:image":{}}}}"#;
        let fields = [field; 8].join(",");
        format!(
            r#","managedFields":[{{"manager":"kubelet","operation":"Update","fieldsV1":{{{fields}}}}}]"#
        )
    } else {
        String::new()
    };
    let node = number % 97;
    let _ = write!(
        text,
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"web-{number:06}-x7k2p","generateName":"web-{number:06}-","namespace":"team-{}","uid":"5b8f0c1e-77aa-4d1e-9c3f-{number:012x}","resourceVersion":"{version}","generation":1,"creationTimestamp":"2026-01-01T00:00:00Z","labels":{{"app":"web","pod-template-hash":"{:x}","team":"{}"}},"annotations":{{"prometheus.io/scrape":"true","checksum/config":"{number:064x}"}},"ownerReferences":[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-{:06}","uid":"1c8f0c1e-77aa-4d1e-9c3f-{number:012x}","controller":true,"blockOwnerDeletion":true}}]{managed}}},"spec":{{"volumes":["#,
        number % 50,
        number / 3,
        number % 7,
        number / 3,
    );
    for volume in 0..3 {
        let comma = if volume > 0 { "," } else { "" };
        let _ = write!(
            text,
            r#"{comma}{{"name":"volume-{volume}","projected":{{"sources":[{{"serviceAccountToken":{{"expirationSeconds":3607,"path":"token"}}}},{{"configMap":{{"name":"kube-root-ca.crt","items":[{{"key":"ca.crt","path":"ca.crt"}}]}}}}],"defaultMode":420}}}}"#
        );
    }
    text.push_str(r#"],"containers":["#);
    for container in 0..2 {
        let comma = if container > 0 { "," } else { "" };
        let _ = write!(
            text,
            r#"{comma}{{"name":"c{container}","image":"registry.example/team/web:{number}","command":["/bin/server","--listen=:8080"],"ports":[{{"name":"http","containerPort":8080,"protocol":"TCP"}}],"env":["#
        );
        for variable in 0..12 {
            let comma = if variable > 0 { "," } else { "" };
            let _ = write!(
                text,
                r#"{comma}{{"name":"SETTING_{variable}","value":"value-{number}-{variable}"}}"#
            );
        }
        text.push_str(r#"],"resources":{"limits":{"cpu":"500m","memory":"256Mi"},"requests":{"cpu":"100m","memory":"128Mi"}},"volumeMounts":[{"name":"volume-0","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}],"livenessProbe":{"httpGet":{"path":"/healthz","port":8080,"scheme":"HTTP"},"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}"#);
    }
    let _ = write!(
        text,
        r#"],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"default","nodeName":"node-{node}","schedulerName":"default-scheduler","tolerations":[{{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}}],"priority":0,"enableServiceLinks":true,"preemptionPolicy":"PreemptLowerPriority"}},"status":{{"phase":"Running","conditions":[{{"type":"Ready","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-01-01T00:00:00Z"}},{{"type":"PodScheduled","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-01-01T00:00:00Z"}}],"hostIP":"10.0.0.{node}","podIP":"10.1.{node}.{}","startTime":"2026-01-01T00:00:00Z","containerStatuses":[{{"name":"c0","state":{{"running":{{"startedAt":"2026-01-01T00:00:00Z"}}}},"lastState":{{}},"ready":true,"restartCount":{},"image":"registry.example/team/web:{number}","imageID":"registry.example/team/web@sha256:{number:064x}","containerID":"containerd://{number:064x}"}}],"qosClass":"Burstable"}}}}"#,
        number % 250,
        number % 5,
    );
    text
}

/// Return a watch frame with that pod.
pub(crate) fn frame(number: usize, version: usize, managed_fields: bool) -> String {
    format!(
        "{{\"type\":\"MODIFIED\",\"object\":{}}}\n",
        pod(number, version, managed_fields)
    )
}

/// Return a list page with those pods.
pub(crate) fn page(numbers: std::ops::Range<usize>, managed_fields: bool) -> String {
    let items: Vec<String> = numbers
        .map(|number| pod(number, number + 1, managed_fields))
        .collect();
    format!(
        r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"1000000"}},"items":[{}]}}"#,
        items.join(",")
    )
}
