//! Values with their own JSON. The expected texts are those of Go's encoder.

use serde_json::{Value, json};

use crate::build::{at, entry, message, number, part, pod, refusal, with_metadata};

fn micro(seconds: i64, nanos: i64) -> Value {
    let time = [number(1, seconds), number(2, nanos)].concat();
    let lease = part(2, part(3, time));
    at(
        message("coordination.k8s.io/v1", "Lease"),
        &lease,
        "/spec/acquireTime",
    )
}

fn time(seconds: i64, nanos: i64) -> Value {
    let time = [number(1, seconds), number(2, nanos)].concat();
    at(
        pod(),
        &with_metadata(&[part(9, time)]),
        "/metadata/deletionTimestamp",
    )
}

// behaviour: scale/SC72
#[test]
fn times_are_written_as_go_writes_them() {
    assert_eq!(time(1_700_000_000, 0), "2023-11-14T22:13:20Z");
    // Go drops the fraction of a `Time`, and keeps microseconds of a `MicroTime`.
    assert_eq!(time(1_700_000_000, 999_999_999), "2023-11-14T22:13:20Z");
    assert_eq!(time(0, 0), "1970-01-01T00:00:00Z");
    assert_eq!(time(-1, 0), "1969-12-31T23:59:59Z");
    assert_eq!(time(951_782_400, 0), "2000-02-29T00:00:00Z");
    assert_eq!(time(-62_135_596_801, 0), "0000-12-31T23:59:59Z");
    assert_eq!(time(253_402_300_800, 0), "10000-01-01T00:00:00Z");
    assert_eq!(time(-62_135_596_800, 0), Value::Null);
    assert_eq!(micro(1_700_000_000, 0), "2023-11-14T22:13:20.000000Z");
    assert_eq!(
        micro(1_700_000_000, 123_456_789),
        "2023-11-14T22:13:20.123456Z"
    );
    assert_eq!(micro(-1, 500_000_000), "1969-12-31T23:59:59.500000Z");
    assert_eq!(micro(10, -1_000), "1970-01-01T00:00:09.999999Z");
    // A time of no bytes is the zero time; the creation time is then left out.
    let zero = with_metadata(&[part(8, ""), part(9, "")]);
    let metadata = at(pod(), &zero, "/metadata");
    assert_eq!(metadata, json!({"deletionTimestamp": null}));
}

fn port(kind: i64, value: i64, text: &str) -> Vec<u8> {
    let target = [number(1, kind), number(2, value), part(3, text)].concat();
    part(2, part(1, part(4, target)))
}

// behaviour: scale/SC72
#[test]
fn int_or_string_is_a_number_or_a_string() {
    let service = message("v1", "Service");
    let target = |body: &[u8]| at(service, body, "/spec/ports/0/targetPort");
    assert_eq!(target(&port(0, 8080, "")), 8080);
    assert_eq!(target(&port(0, -1, "unused")), -1);
    assert_eq!(target(&port(0, i64::from(i32::MIN), "")), i32::MIN);
    assert_eq!(target(&port(1, 7, "http")), "http");
    assert_eq!(target(&port(1, 0, "")), "");
    // Not there, it is the number 0: it is no pointer.
    assert_eq!(target(&part(2, part(1, ""))), 0);
    assert!(refusal(service, &port(2, 0, "")).contains("neither a number nor a string"));
}

fn quantity(text: &str) -> Vec<u8> {
    part(2, entry(1, "cpu", part(1, text)))
}

// behaviour: scale/SC72
#[test]
fn quantities_are_canonical() {
    let quota = message("v1", "ResourceQuota");
    let read = |text: &str| at(quota, &quantity(text), "/spec/hard/cpu");
    for (text, canonical) in [
        ("0", "0"),
        ("100m", "100m"),
        ("1.5", "1500m"),
        ("0.5Gi", "512Mi"),
        ("1024Ki", "1Mi"),
        ("1Ki", "1Ki"),
        ("12e6", "12e6"),
        ("1e3", "1e3"),
        ("0.1n", "1n"),
        ("-2048Ki", "-2Mi"),
        ("99999999999999999999Ki", "9223372036854775807"),
        ("00", "0"),
    ] {
        assert_eq!(read(text), canonical, "{text}");
    }
    assert_eq!(
        at(quota, &part(2, entry(1, "cpu", "")), "/spec/hard/cpu"),
        "0"
    );
    for text in ["", "x", "1x", "--1", "1 ", "1.2.3", "Ei", "\u{ff11}"] {
        let why = refusal(quota, &quantity(text));
        assert!(why.contains("not a quantity"), "{text}: {why}");
    }
    assert!(
        refusal(quota, &part(2, entry(1, "cpu", part(1, b"1\xff")))).contains("not a quantity")
    );
}

fn crd_schema(schema: &[u8]) -> Vec<u8> {
    // spec.versions[0].schema.openAPIV3Schema
    part(2, part(7, part(4, part(1, schema))))
}

fn schema(fields: &[Vec<u8>]) -> Value {
    let crd = message("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    let pointer = "/spec/versions/0/schema/openAPIV3Schema";
    at(crd, &crd_schema(&fields.concat()), pointer)
}

// behaviour: scale/SC73
#[test]
fn schemas_are_written_as_the_server_writes_them() {
    let string = part(5, "string");
    let or_array = |inner: &[u8]| schema(&[part(24, inner)]);
    assert_eq!(
        or_array(&part(1, &string)),
        json!({"items": {"type": "string"}})
    );
    assert_eq!(
        or_array(&[part(2, &string), part(2, "")].concat()),
        json!({"items": [{"type": "string"}, {}]})
    );
    assert_eq!(or_array(b""), json!({"items": null}));
    let or_bool = |inner: &[u8]| schema(&[part(30, inner)]);
    assert_eq!(
        or_bool(&number(1, 1)),
        json!({"additionalProperties": true})
    );
    assert_eq!(
        or_bool(&number(1, 0)),
        json!({"additionalProperties": false})
    );
    assert_eq!(
        or_bool(&[number(1, 0), part(2, &string)].concat()),
        json!({"additionalProperties": {"type": "string"}})
    );
    let or_strings = |inner: &[u8]| schema(&[entry(32, "a", inner)]);
    assert_eq!(
        or_strings(&[part(2, "b"), part(2, "c")].concat()),
        json!({"dependencies": {"a": ["b", "c"]}})
    );
    assert_eq!(
        or_strings(&part(1, &string)),
        json!({"dependencies": {"a": {"type": "string"}}})
    );
    // `default: null`, and defaults and values of each type.
    assert_eq!(
        schema(&[part(8, part(1, "null"))]),
        json!({"default": null})
    );
    assert_eq!(schema(&[part(8, "")]), json!({"default": null}));
    let values = [
        part(20, part(1, "1")),
        part(20, part(1, " {\"a\": [null]} ")),
        part(20, ""),
    ];
    assert_eq!(schema(&values), json!({"enum": [1, {"a": [null]}, null]}));
}

// behaviour: scale/SC73
#[test]
fn raw_json_is_written_as_it_is_and_must_be_json() {
    let revision = message("apps/v1", "ControllerRevision");
    let data = |raw: &[u8]| at(revision, &part(2, part(1, raw)), "/data");
    assert_eq!(data(br#"{"spec": {"a": 1}}"#), json!({"spec": {"a": 1}}));
    assert_eq!(data(b" 5 "), 5);
    assert_eq!(at(revision, &[], "/data"), Value::Null);
    for raw in ["{", "{} {}", "x", "\u{a0}{}", " "] {
        refusal(revision, &part(2, part(1, raw)));
    }
    refusal(revision, &part(2, part(1, b"\"\xff\"")));
    let fields = part(7, part(1, r#"{"f:spec": {}}"#));
    let managed = with_metadata(&[part(17, [part(1, "kubectl"), fields].concat())]);
    let written = at(pod(), &managed, "/metadata/managedFields");
    assert_eq!(
        written,
        json!([{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}])
    );
}

// behaviour: scale/SC73
#[test]
fn an_envelope_in_raw_json_is_written_as_its_object() {
    let revision = message("apps/v1", "ControllerRevision");
    let inner = |kind: &str| {
        let types = [part(1, "v1"), part(2, kind)].concat();
        let pod = with_metadata(&[part(1, "inner")]);
        [b"k8s\0".to_vec(), part(1, types), part(2, pod)].concat()
    };
    let body = part(2, part(1, inner("Pod")));
    let written = at(revision, &body, "/data");
    assert_eq!(written["kind"], "Pod");
    assert_eq!(written["apiVersion"], "v1");
    assert_eq!(written["metadata"], json!({"name": "inner"}));
    // The table cannot tell what another kind is: the field counts as unknown.
    let body = part(2, part(1, inner("Other")));
    let unknown = ctrlhost_core::proto::check(revision, &body).expect("a message");
    assert_eq!(unknown.count, 1);
    assert_eq!(
        unknown.first.map(|field| field.path()).as_deref(),
        Some("data")
    );
}

#[test]
fn claims_of_stateful_sets_have_their_type() {
    let claim = part(4, part(1, part(1, "data")));
    let written = at(
        message("apps/v1", "StatefulSet"),
        &part(2, claim),
        "/spec/volumeClaimTemplates/0",
    );
    assert_eq!(written["kind"], "PersistentVolumeClaim");
    assert_eq!(written["apiVersion"], "v1");
    assert_eq!(written["metadata"], json!({"name": "data"}));
}
