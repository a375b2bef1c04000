//! The hash of keys: nobody outside of the process can choose keys that collide.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::collections::HashSet;
use std::hash::{BuildHasher, Hasher};
use std::process::Command;

use ctrlhost_core::key::{hash_bytes, hash_number};
use foldhash::fast::FixedState;

/// A seed that was the same in every process, and `benches/test_queue.py` has the same keys.
const KNOWN: FixedState = FixedState::with_seed(0x0063_7472_6c68_6f73);

fn keys() -> impl Iterator<Item = String> {
    (0..100_000)
        .map(|number| format!("adxl-keybgru-key`sKZsf2dCVybemxC{number:08}aaaaaaaabbbbbbbb"))
}

// behaviour: findings/FQ20
#[test]
fn keys_that_collide_under_a_known_seed_do_not_collide() {
    let known = keys().map(|key| {
        let mut hasher = KNOWN.build_hasher();
        hasher.write(key.as_bytes());
        hasher.finish()
    });
    assert_eq!(known.collect::<HashSet<u64>>().len(), 1);
    let hashes: HashSet<u64> = keys().map(|key| hash_bytes(key.as_bytes())).collect();
    assert_eq!(hashes.len(), 100_000);
    // A table uses the low bits for the place of a key.
    let places: HashSet<u64> = hashes.iter().map(|hash| hash % (1 << 17)).collect();
    assert!(places.len() > 60_000, "{} places", places.len());
}

// behaviour: findings/FQ20
#[test]
fn each_process_has_its_own_seed() {
    let hashes = format!("{:x} {:x}", hash_bytes(b"key"), hash_number(1));
    if std::env::var_os("CTRLHOST_PRINT_HASHES").is_some() {
        println!("hashes {hashes}");
        return;
    }
    let run = || {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["each_process_has_its_own_seed", "--nocapture"])
            .env("CTRLHOST_PRINT_HASHES", "1")
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let (_, rest) = text.split_once("hashes ").unwrap();
        let line = rest.lines().next().unwrap();
        line.split(' ').map(str::to_owned).collect::<Vec<_>>()
    };
    let (one, other) = (run(), run());
    for (one, other) in one.iter().zip(&other) {
        assert_ne!(one, other);
    }
    assert_ne!(one.join(" "), hashes);
}
