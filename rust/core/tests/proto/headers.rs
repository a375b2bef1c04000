//! Headers, and bodies without their managed fields.

use ctrlhost_core::proto::{Entries, Table, header, strip_managed_fields};

use crate::build::{entry, json, message, number, part, pod, with_metadata};

fn stripped(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    strip_managed_fields(pod(), body, &mut out).expect("a pod");
    out
}

fn managed(size: usize) -> Vec<u8> {
    part(17, part(1, "m".repeat(size)))
}

// behaviour: scale/SC85
#[test]
fn managed_fields_are_gone_wherever_they_were_and_the_rest_stays() {
    let name = part(1, "name");
    let labels = [entry(11, "a", "b"), entry(11, "c", "d")].concat();
    let unknown = [part(900, "future"), number(901, 7)].concat();
    let spec = part(2, part(10, "node"));
    let kept = [&name[..], &labels, &unknown].concat();
    let wanted = [part(999, "root"), part(1, &kept), spec.clone()].concat();
    let (small, large) = (managed(10), managed(5_000));
    for metadata in [
        [&small[..], &name, &labels, &unknown].concat(),
        [&name[..], &large, &small, &labels, &unknown].concat(),
        [&name[..], &labels, &unknown, &large].concat(),
        [&small[..], &name, &small, &labels, &large, &unknown, &small].concat(),
        kept.clone(),
    ] {
        let body = [part(999, "root"), part(1, metadata), spec.clone()].concat();
        assert_eq!(stripped(&body), wanted);
    }
    // Managed fields elsewhere are content.
    let template = part(2, part(3, part(1, [&name[..], &small].concat())));
    let deployment = [part(1, [&name[..], &small].concat()), template.clone()].concat();
    let mut out = Vec::new();
    let apps = message("apps/v1", "Deployment");
    strip_managed_fields(apps, &deployment, &mut out).expect("a deployment");
    assert_eq!(out, [part(1, &name), template].concat());
}

#[test]
fn metadata_in_two_parts_becomes_one() {
    let body = [
        part(1, [part(1, "name"), managed(5)].concat()),
        part(2, ""),
        part(1, [managed(5), part(3, "default")].concat()),
    ];
    let body = body.concat();
    assert!(header(pod(), &body).is_err());
    let out = stripped(&body);
    let metadata = part(1, [part(1, "name"), part(3, "default")].concat());
    assert_eq!(out, [metadata, part(2, "")].concat());
    let read = json(pod(), &out).expect("a pod");
    assert_eq!(read["metadata"]["namespace"], "default");
    // No metadata stays none.
    assert_eq!(stripped(&part(2, "")), part(2, ""));
    assert_eq!(stripped(b""), b"");
}

#[test]
fn a_header_has_what_is_read_of_every_object() {
    let owner = [
        part(1, "ReplicaSet"),
        part(3, "web"),
        part(4, "uid-1"),
        part(5, "apps/v1"),
        number(6, 1),
    ];
    let body = with_metadata(&[
        part(1, "name"),
        part(3, "default"),
        part(5, "uid"),
        part(6, "42"),
        number(7, 3),
        part(9, number(1, 1_700_000_000)),
        entry(11, "app", "web"),
        entry(11, "tier", ""),
        entry(12, "note", "x"),
        part(13, owner.concat()),
        part(13, part(1, "NoName")),
        part(14, "one"),
        part(14, "two"),
        managed(3),
    ]);
    let read = header(pod(), &body).expect("a header");
    assert_eq!((&*read.name, &*read.namespace), ("name", "default"));
    assert_eq!((&*read.uid, &*read.resource_version), ("uid", "42"));
    assert_eq!(read.generation, 3);
    assert_eq!(
        read.deletion_timestamp.as_deref(),
        Some("2023-11-14T22:13:20Z")
    );
    let labels: Vec<_> = read.labels.pairs().collect();
    assert_eq!(
        labels,
        [("app".into(), "web".into()), ("tier".into(), "".into())]
    );
    assert_eq!(read.annotations.get("note").as_deref(), Some("x"));
    assert_eq!(read.annotations.get("none"), None);
    let owners: Vec<_> = read.owner_references.owners().collect();
    assert_eq!(owners.len(), 1);
    assert_eq!(
        (&*owners[0].api_version, &*owners[0].kind),
        ("apps/v1", "ReplicaSet")
    );
    assert_eq!((&*owners[0].name, &*owners[0].uid), ("web", "uid-1"));
    assert!(owners[0].controller && !owners[0].block_owner_deletion);
    let finalizers: Vec<_> = read.finalizers.texts().collect();
    assert_eq!(finalizers, ["one", "two"]);
    assert!(!read.managed_fields.is_empty());
    let entries = read.labels;
    let again = Entries::again(&body, entries.range(), entries.number());
    assert_eq!(again.pairs().collect::<Vec<_>>(), labels);
}

#[test]
fn a_header_of_little_is_empty() {
    for body in [
        &b""[..],
        &part(1, ""),
        &with_metadata(&[part(1, ""), part(9, "")]),
    ] {
        let read = header(pod(), body).expect("a header");
        assert_eq!(read.name, "");
        assert_eq!(read.deletion_timestamp, None);
        assert!(read.labels.is_empty() && read.finalizers.is_empty());
    }
    assert!(header(message("v1", "PodList"), b"").is_err());
    assert!(header(pod(), &with_metadata(&[number(1, 5)])).is_err());
    // Entries apart from each other are found as well.
    let apart = with_metadata(&[part(14, "one"), part(1, "name"), part(14, "two")]);
    let read = header(pod(), &apart).expect("a header");
    assert_eq!(read.finalizers.texts().collect::<Vec<_>>(), ["one", "two"]);
}

#[test]
fn the_table_knows_its_release_and_its_kinds() {
    assert!(Table::release().starts_with("v0."));
    let kinds: Vec<_> = Table::kinds()
        .map(|kind| (kind.api_version(), kind.kind()))
        .collect();
    assert!(kinds.is_sorted());
    assert!(kinds.len() > 300);
    for (api_version, kind) in kinds {
        let message = Table::kind(api_version, kind).expect("the kind");
        assert_eq!((message.api_version(), message.kind()), (api_version, kind));
    }
    assert_eq!(message("v1", "Pod").name(), "core/v1.Pod");
    for (api_version, kind) in [
        ("", ""),
        ("v1", ""),
        ("v1", "Podd"),
        ("v2", "Pod"),
        ("apps/v1", "Pod"),
    ] {
        assert_eq!(Table::kind(api_version, kind), None);
    }
}
