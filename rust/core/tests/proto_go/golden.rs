//! The golden vectors: every kind with every field set, of this release and of those before.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use ctrlhost_core::proto::{Envelope, Message, Table, envelope};
use serde_json::Value;

use super::{decoded, difference, remove_claim_types, run};

fn testdata() -> Option<PathBuf> {
    let own = super::go_directory().join("bin/toolchain/bin/go");
    let go = if own.exists() { own } else { "go".into() };
    let list = ["list", "-m", "-f", "{{.Dir}}", "k8s.io/api"];
    let output = run(Command::new(go).args(list))?;
    let directory = String::from_utf8(output).expect("a path");
    Some(Path::new(directory.trim()).join("testdata"))
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Return the names of the vectors in a directory, without suffix.
fn names(directory: &Path) -> Vec<String> {
    let files = std::fs::read_dir(directory).expect("a release");
    let names = files.map(|file| file.expect("a file").file_name().into_string());
    let mut names: Vec<_> = names
        .filter_map(|name| Some(name.ok()?.strip_suffix(".pb")?.to_owned()))
        .filter(|name| !name.contains(".after_roundtrip"))
        .collect();
    names.sort();
    names
}

/// Kinds of older releases for which the release of the table has no Go type any more: informers read them as JSON.
const GONE: [&str; 11] = [
    "autoscaling.v2beta1.HorizontalPodAutoscaler",
    "autoscaling.v2beta2.HorizontalPodAutoscaler",
    "certificates.k8s.io.v1alpha1.PodCertificateRequest",
    "networking.k8s.io.v1alpha1.IPAddress",
    "networking.k8s.io.v1alpha1.ServiceCIDR",
    "resource.k8s.io.v1alpha3.DeviceClass",
    "resource.k8s.io.v1alpha3.ResourceClaim",
    "resource.k8s.io.v1alpha3.ResourceClaimTemplate",
    "resource.k8s.io.v1alpha3.ResourceSlice",
    "scheduling.k8s.io.v1alpha1.PriorityClass",
    "scheduling.k8s.io.v1alpha1.Workload",
];

/// Return the message of a vector; an envelope of a watch event says nothing of it.
fn message(name: &str, envelope: &Envelope<'_>) -> Option<Message> {
    match name {
        "core.v1.WatchEvent" => Table::kind("v1", "WatchEvent"),
        _ => Table::kind(&envelope.api_version, &envelope.kind),
    }
}

/// Decode all vectors of a release; return how many there are, and what is different.
fn differences(release: &Path) -> (usize, BTreeMap<String, String>) {
    let names = names(release);
    let mut different = BTreeMap::new();
    for name in &names {
        let file = |suffix: &str| release.join(format!("{name}{suffix}"));
        let body = read(&file(".pb"));
        let envelope = envelope(&body).expect("an envelope");
        let Some(message) = message(name, &envelope) else {
            different.insert(name.clone(), "not in the table".to_owned());
            continue;
        };
        let (mut found, unknown) = decoded(message, envelope.raw.bytes());
        remove_claim_types(&mut found);
        // What this release's Go writes of an older release's object, where it drops fields that it no longer has.
        let newer = file(".after_roundtrip.json");
        let dropped = newer.exists();
        let json = if dropped { newer } else { file(".json") };
        let wanted: Value = serde_json::from_slice(&read(&json)).expect("JSON");
        if let Some(difference) = difference("", &found, &wanted) {
            different.insert(name.clone(), difference);
        } else if unknown > 0 && !dropped {
            different.insert(name.clone(), format!("{unknown} unknown fields"));
        }
    }
    (names.len(), different)
}

// behaviour: scale/SC69
#[test]
#[ignore = "needs Go: make test-real runs it"]
fn each_golden_vector_is_its_json() {
    let Some(testdata) = testdata() else {
        return;
    };
    let mut releases: Vec<_> = std::fs::read_dir(&testdata)
        .expect("the golden vectors")
        .map(|entry| entry.expect("a release").path())
        .filter(|path| path.is_dir())
        .collect();
    releases.sort();
    assert_eq!(releases.len(), 4, "{releases:?}");
    for release in releases {
        let (count, mut different) = differences(&release);
        assert!(count >= 175, "{count} vectors in {}", release.display());
        if !release.ends_with("HEAD") {
            different.retain(|name, _| !GONE.contains(&name.as_str()));
        }
        assert_eq!(different, BTreeMap::new(), "{}", release.display());
    }
}
