//! The wire format: what is read, and what is an error.

use serde_json::{Value, json};

use crate::build::{at, entry, json, message, number, part, pod, refusal, varint, with_metadata};

/// Return a pod with that generation, as it is on the wire.
fn generation(bytes: &[u8]) -> Vec<u8> {
    part(1, [&[7 << 3], bytes].concat())
}

// behaviour: scale/SC140
#[test]
fn numbers_of_up_to_ten_bytes_and_64_bits_are_read() {
    let padded = [0x85, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00];
    let read = |bytes: &[u8]| at(pod(), &generation(bytes), "/metadata/generation");
    assert_eq!(read(&padded), 5);
    assert_eq!(read(&varint(u64::MAX)), -1);
    let eleven = [&[0x80; 10][..], &[0]].concat();
    assert!(refusal(pod(), &generation(&eleven)).contains("more than 64 bits"));
    let wide = [&[0xff; 9][..], &[2]].concat();
    assert!(refusal(pod(), &generation(&wide)).contains("more than 64 bits"));
    assert!(refusal(pod(), &generation(&[0x80])).contains("cut"));
    // A negative int32 has ten bytes, as Go writes it; shorter ones are cut to 32 bits.
    let deployment = message("apps/v1", "Deployment");
    let replicas = |value: i64| at(deployment, &part(2, number(1, value)), "/spec/replicas");
    assert_eq!(replicas(-3), -3);
    assert_eq!(replicas(0xffff_fffd), -3);
}

// behaviour: scale/SC141
#[test]
fn what_is_no_field_is_an_error() {
    for wire in [3, 4, 6, 7] {
        let body = part(1, [varint(1 << 3 | wire), vec![0]].concat());
        assert_eq!(
            refusal(pod(), &body),
            "byte 2: protobuf: an invalid wire type"
        );
        // An unknown field as well.
        let body = [varint(999 << 3 | wire), vec![0]].concat();
        assert_eq!(
            refusal(pod(), &body),
            "byte 0: protobuf: an invalid wire type"
        );
    }
    assert_eq!(
        refusal(pod(), &[0, 0]),
        "byte 0: protobuf: an invalid field number"
    );
    let wide = [varint(1 << 40), vec![0]].concat();
    assert_eq!(
        refusal(pod(), &wide),
        "byte 0: protobuf: an invalid field number"
    );
}

// behaviour: scale/SC141
#[test]
fn a_known_field_of_a_wrong_wire_type_is_an_error() {
    let wrong = |body: &[u8], name: &str| {
        let why = refusal(pod(), body);
        assert!(
            why.ends_with(&format!("a wrong wire type for `{name}`")),
            "{why}"
        );
    };
    wrong(&number(1, 5), "metadata");
    wrong(&with_metadata(&[number(1, 5)]), "name");
    wrong(&with_metadata(&[part(7, "x")]), "generation");
    wrong(
        &with_metadata(&[vec![7 << 3 | 5, 0, 0, 0, 0]]),
        "generation",
    );
    wrong(
        &with_metadata(&[vec![7 << 3 | 1, 0, 0, 0, 0, 0, 0, 0, 0]]),
        "generation",
    );
    wrong(&with_metadata(&[number(11, 5)]), "labels");
    wrong(&with_metadata(&[part(11, number(1, 5))]), "labels");
    wrong(
        &with_metadata(&[part(9, part(1, "x"))]),
        "deletionTimestamp",
    );
    // Even if a later one of the right type counts.
    wrong(&with_metadata(&[number(1, 5), part(1, "name")]), "name");
}

// behaviour: scale/SC141
#[test]
fn of_scalars_the_last_counts_messages_merge_and_lists_append() {
    let body = [
        with_metadata(&[
            part(1, "first"),
            part(3, "default"),
            entry(11, "a", "1"),
            part(14, "x"),
        ]),
        part(2, part(10, "node")),
        with_metadata(&[
            entry(11, "a", "2"),
            entry(11, "b", "3"),
            part(14, "y"),
            part(1, "last"),
        ]),
    ];
    let written = json(pod(), &body.concat()).expect("a pod");
    let labels = json!({"a": "2", "b": "3"});
    assert_eq!(
        written["metadata"],
        json!({"name": "last", "namespace": "default", "labels": labels, "finalizers": ["x", "y"]})
    );
    assert_eq!(written["spec"]["nodeName"], "node");
    // A time is replaced, as in Go, not merged.
    let times = [part(9, number(1, 5)), part(9, number(2, 7))];
    let written = at(pod(), &with_metadata(&times), "/metadata/deletionTimestamp");
    assert_eq!(written, "1970-01-01T00:00:00Z");
}

// behaviour: scale/SC141
#[test]
fn packed_and_single_numbers_are_read() {
    // spec.securityContext.supplementalGroups
    let groups = |fields: &[Vec<u8>]| {
        let body = part(2, part(14, fields.concat()));
        let written = json(pod(), &body).expect("a pod");
        written["spec"]["securityContext"]
            .get("supplementalGroups")
            .cloned()
    };
    let packed = [varint(1), varint(300), varint(u64::MAX)].concat();
    let singles = [number(4, 1), number(4, 300), number(4, -1)];
    assert_eq!(groups(&singles), Some(json!([1, 300, -1])));
    assert_eq!(groups(&[part(4, &packed)]), groups(&singles));
    let mixed = [number(4, 7), part(4, &packed), part(4, "")];
    assert_eq!(groups(&mixed), Some(json!([7, 1, 300, -1])));
    assert_eq!(groups(&[part(4, "")]), None);
    let cut = part(2, part(14, part(4, [0x80])));
    assert!(refusal(pod(), &cut).contains("cut"));
}

#[test]
fn what_is_not_there_is_written_as_go_writes_it() {
    let written = json(pod(), &[]).expect("a pod");
    let wanted = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {},
        "spec": {"containers": null},
        "status": {},
    });
    assert_eq!(written, wanted);
    // Kubernetes writes empty strings where JSON has nothing.
    let empty = with_metadata(&[part(1, ""), part(3, ""), number(7, 0), part(8, "")]);
    assert_eq!(json(pod(), &empty).expect("a pod"), wanted);
    // Pointers to zeros are there.
    let zeros = with_metadata(&[number(10, 0)]);
    let written = at(pod(), &zeros, "/metadata");
    assert_eq!(written, json!({"deletionGracePeriodSeconds": 0}));
}

#[test]
fn members_of_inlined_messages_stand_in_the_object() {
    // spec.volumes[0]: name, and the volume source in field 2 with its emptyDir.
    let volume = [part(1, "data"), part(2, part(2, part(1, "Memory")))].concat();
    let written = at(pod(), &part(2, part(1, volume)), "/spec/volumes/0");
    assert_eq!(
        written,
        json!({"name": "data", "emptyDir": {"medium": "Memory"}})
    );
    let written = at(pod(), &part(2, part(1, part(1, "data"))), "/spec/volumes/0");
    assert_eq!(written, json!({"name": "data"}));
}

#[test]
fn unknown_fields_are_counted_unless_they_are_empty() {
    let unknown = |body: &[u8]| {
        let checked = ctrlhost_core::proto::check(pod(), body).expect("a pod");
        let first = checked.first.map(|field| (field.number, field.path()));
        (checked.count, first)
    };
    assert_eq!(json(pod(), &part(999, "")).ok(), json(pod(), &[]).ok());
    assert_eq!(
        unknown(&[part(999, ""), number(998, 0)].concat()),
        (0, None)
    );
    let body = [part(999, "x"), number(998, 1)].concat();
    assert_eq!(unknown(&body), (2, Some((999, String::new()))));
    let container = |content: &[u8]| part(2, part(2, content));
    let body = [container(b""), container(&number(700, 1))].concat();
    let first = (700, "spec.containers[1]".to_owned());
    assert_eq!(unknown(&body), (1, Some(first)));
    let volume = part(2, part(1, part(2, number(700, 1))));
    assert_eq!(
        unknown(&volume),
        (1, Some((700, "spec.volumes[0]".to_owned())))
    );
    let entry = with_metadata(&[part(11, [part(1, "a"), part(3, "b")].concat())]);
    assert_eq!(
        unknown(&entry),
        (1, Some((3, "metadata.labels".to_owned())))
    );
}

#[test]
fn each_cut_of_a_message_is_an_error_or_a_shorter_message() {
    let body = [
        with_metadata(&[part(1, "name"), entry(11, "a", "b")]),
        part(2, part(2, part(1, "c"))),
    ];
    let body = body.concat();
    let metadata = body.len() - part(2, part(2, part(1, "c"))).len();
    for end in 0..body.len() {
        let result = json(pod(), &body[..end]);
        assert_eq!(result.is_ok(), end == 0 || end == metadata, "{end}");
    }
    assert_ne!(json(pod(), &body), Ok(Value::Null));
}
