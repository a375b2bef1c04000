//! Values at paths.

use ctrlhost_core::json::path::Path;
use ctrlhost_core::proto::{Message, lookup};

use crate::build::{entry, message, part, pod, with_metadata};

/// Return the values at a path, as JSON.
fn found(message: Message, body: &[u8], path: &str) -> Vec<String> {
    let path = Path::parse(path).expect("a path");
    let mut texts = Vec::new();
    let mut visit =
        |value: ctrlhost_core::json::read::Value<'_>| texts.push(value.json().to_owned());
    lookup(message, body, &path.0, &mut visit).expect("a message");
    texts
}

#[test]
fn values_are_found_at_paths_of_every_form() {
    let container = |name: &str, image: &str| part(2, [part(1, name), part(2, image)].concat());
    let volume = [part(1, "data"), part(2, part(2, part(1, "Memory")))].concat();
    let body = [
        with_metadata(&[part(1, "a"), entry(11, "app", "x"), entry(11, "app", "web")]),
        part(
            2,
            [
                part(1, volume),
                container("one", "i1"),
                container("two", ""),
            ]
            .concat(),
        ),
        part(3, part(1, "Running")),
        with_metadata(&[part(3, "default"), part(14, "f1"), part(14, "f2")]),
    ];
    let body = body.concat();
    for (path, values) in [
        ("status.phase", &["\"Running\""][..]),
        ("apiVersion", &["\"v1\""]),
        ("kind", &["\"Pod\""]),
        ("kind.x", &[]),
        ("metadata.name", &["\"a\""]),
        ("metadata.namespace", &["\"default\""]),
        ("metadata.labels.app", &["\"web\""]),
        ("metadata.labels.none", &[]),
        ("metadata.labels", &["{\"app\":\"web\"}"]),
        ("metadata.labels[*]", &["\"web\""]),
        ("metadata.finalizers", &["[\"f1\",\"f2\"]"]),
        ("metadata.finalizers[1]", &["\"f2\""]),
        ("metadata.finalizers[*]", &["\"f1\"", "\"f2\""]),
        ("metadata.finalizers[2]", &[]),
        ("spec.containers[*].name", &["\"one\"", "\"two\""]),
        ("spec.containers[*].image", &["\"i1\""]),
        ("spec.containers[1].name", &["\"two\""]),
        ("spec.containers[2].name", &[]),
        ("spec.containers.name", &[]),
        ("spec.containers[0].resources", &["{}"]),
        ("spec.volumes[0].emptyDir.medium", &["\"Memory\""]),
        ("spec.volumes[0].emptyDir", &["{\"medium\":\"Memory\"}"]),
        ("spec.volumes[0].hostPath.path", &[]),
        ("spec.nodeName", &[]),
        ("spec.securityContext.runAsUser", &[]),
        ("spec[0]", &[]),
        ("nothing", &[]),
        ("status", &["{\"phase\":\"Running\"}"]),
        ("status[*]", &["\"Running\""]),
    ] {
        assert_eq!(found(pod(), &body, path), values, "{path}");
    }
}

#[test]
fn what_is_not_there_is_found_as_it_is_written() {
    assert_eq!(found(pod(), b"", "spec.containers"), ["null"]);
    assert_eq!(found(pod(), b"", "spec"), ["{\"containers\":null}"]);
    assert_eq!(found(pod(), b"", "spec.containers[*].name"), [""; 0]);
    assert_eq!(found(pod(), b"", "status"), ["{}"]);
    let service = message("v1", "Service");
    let body = part(2, part(1, ""));
    assert_eq!(found(service, &body, "spec.ports[0].targetPort"), ["0"]);
    assert_eq!(found(service, &body, "spec.ports[*].port"), ["0"]);
}

#[test]
fn a_path_leads_on_through_json() {
    let revision = message("apps/v1", "ControllerRevision");
    let body = part(2, part(1, r#"{"spec": {"a": [1, {"b": "c"}]}}"#));
    assert_eq!(found(revision, &body, "data.spec.a[1].b"), ["\"c\""]);
    assert_eq!(
        found(revision, &body, "data.spec.a[*]"),
        ["1", "{\"b\": \"c\"}"]
    );
    let set = message("apps/v1", "StatefulSet");
    let claim = part(2, part(4, part(1, part(1, "data"))));
    let path = "spec.volumeClaimTemplates[*].metadata.name";
    assert_eq!(found(set, &claim, path), ["\"data\""]);
    assert_eq!(
        found(set, &claim, "spec.volumeClaimTemplates[0].kind"),
        ["\"PersistentVolumeClaim\""]
    );
}

#[test]
fn a_path_through_a_malformed_part_is_an_error() {
    let path = Path::parse("status.phase").expect("a path");
    let body = part(3, [0x0a, 0x7f]);
    assert!(lookup(pod(), &body, &path.0, &mut |_| {}).is_err());
    // What it does not lead through is not read.
    let body = [part(2, [0x0a, 0x7f]), part(3, part(1, "Running"))].concat();
    assert!(lookup(pod(), &body, &path.0, &mut |_| {}).is_ok());
}
