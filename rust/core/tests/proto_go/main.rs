//! Protobuf against Go: the golden vectors of `k8s.io/api`, and objects filled at random by `tests/go/protobuf`.
//!
//! `make test-real` runs them. Without the Go toolchain or the program they say so and pass; in CI they fail.
#![expect(clippy::expect_used, clippy::panic, reason = "a test")]

mod flips;
mod golden;
mod projections;
mod random;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use ctrlhost_core::proto::{Message, check, write_json};
use serde_json::Value;

fn go_directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/go")
}

/// Run a command of the Go directory; None if it cannot be had.
fn run(command: &mut Command) -> Option<Vec<u8>> {
    run_with(command, Vec::new())
}

/// Run a command of the Go directory with that input; None if it cannot be had.
fn run_with(command: &mut Command, input: Vec<u8>) -> Option<Vec<u8>> {
    let pipes = [Stdio::piped(), Stdio::piped(), Stdio::piped()];
    let [stdin, stdout, stderr] = pipes;
    let command = command.current_dir(go_directory());
    let started = command.stdin(stdin).stdout(stdout).stderr(stderr).spawn();
    let answer = started.and_then(|mut child| {
        let stdin = child.stdin.take();
        // It answers while it reads.
        let writer = std::thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(&input)));
        let answer = child.wait_with_output();
        // What was not read is part of a failure, which the program tells.
        let _ = writer.join();
        answer
    });
    let what = match answer {
        Ok(answer) if answer.status.success() => return Some(answer.stdout),
        Ok(answer) => String::from_utf8_lossy(&answer.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    assert!(std::env::var_os("CI").is_none(), "{command:?}: {what}");
    eprintln!("skipped: {command:?}: {what}");
    None
}

/// Return the object that a body of a kind stands for, and how many of its fields the table lacks.
fn decoded(message: Message, body: &[u8]) -> (Value, usize) {
    let mut out = Vec::new();
    let unknown = write_json(message, body, &mut out, false);
    let unknown = unknown.unwrap_or_else(|error| panic!("{}: {error}", message.name()));
    assert_eq!(check(message, body).as_ref(), Ok(&unknown));
    let mut object: Value = serde_json::from_slice(&out).expect("JSON");
    // Frames have neither; no other kind is without.
    if let ("WatchEvent", Some(members)) = (message.kind(), object.as_object_mut()) {
        members.retain(|key, _| !["apiVersion", "kind"].contains(&key.as_str()));
    }
    (object, unknown.count)
}

/// Remove the types of claims: a server writes them into JSON, Go's types alone do not.
fn remove_claim_types(value: &mut Value) {
    match value {
        Value::Object(members) => {
            if let Some(Value::Array(claims)) = members.get_mut("volumeClaimTemplates") {
                for claim in claims.iter_mut().filter_map(Value::as_object_mut) {
                    claim.remove("apiVersion");
                    claim.remove("kind");
                }
            }
            members.values_mut().for_each(remove_claim_types);
        }
        Value::Array(elements) => elements.iter_mut().for_each(remove_claim_types),
        _ => {}
    }
}

/// Return where two objects differ, for messages of tests.
fn difference(path: &str, left: &Value, right: &Value) -> Option<String> {
    if left == right {
        return None;
    }
    match (left, right) {
        (Value::Object(one), Value::Object(other)) => {
            let missing = &Value::String("(missing)".to_owned());
            one.keys().chain(other.keys()).find_map(|key| {
                let (one, other) = (one.get(key), other.get(key));
                let path = format!("{path}.{key}");
                difference(&path, one.unwrap_or(missing), other.unwrap_or(missing))
            })
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            let pairs = one.iter().zip(other).enumerate();
            pairs
                .map(|(at, (one, other))| difference(&format!("{path}[{at}]"), one, other))
                .find_map(|first| first)
        }
        _ => Some(format!("{path}: {left} instead of {right}")),
    }
}
