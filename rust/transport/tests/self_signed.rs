//! Certificates that we make: what is refused. Which names they have, and who trusts them, is tested from Python.
#![allow(clippy::unwrap_used, missing_docs)]

use ctrlhost_transport::certificate::{authority, self_signed, signed};

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn each_call_makes_another_key() {
    let (first, second) = (
        self_signed(names(&["a.example", "192.0.2.1"]), 0, 1).unwrap(),
        self_signed(names(&["a.example", "192.0.2.1"]), 0, 1).unwrap(),
    );
    assert!(first.0.starts_with("-----BEGIN CERTIFICATE-----"));
    assert!(first.1.starts_with("-----BEGIN PRIVATE KEY-----"));
    assert_ne!(first.0, second.0);
    assert_ne!(first.1, second.1);
}

#[test]
fn names_and_times_that_do_not_fit_are_errors() {
    assert_eq!(self_signed(vec![], 0, 1).unwrap_err(), "no name");
    assert!(self_signed(names(&["grün.example"]), 0, 1).is_err());
    assert!(self_signed(names(&["a.example"]), 0, i64::MAX).is_err());
    assert!(self_signed(names(&["a.example"]), i64::MIN, 0).is_err());
}

#[test]
fn an_authority_that_does_not_fit_is_an_error() {
    let (_, key) = authority("ours", 0, 1).unwrap();
    assert!(authority("ours", 0, i64::MAX).is_err());
    assert!(signed(names(&["a.example"]), 0, 1, ("ours", &key)).is_ok());
    assert!(signed(names(&["a.example"]), 0, 1, ("ours", "no key")).is_err());
    assert!(signed(vec![], 0, 1, ("ours", &key)).is_err());
}
