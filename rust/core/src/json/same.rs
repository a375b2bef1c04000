//! Equality of values, whatever the order of members and the way in which strings and numbers are written.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::read::{Kind, Value};

/// Return whether both values are equal: `1` and `1.0` are, and of members with the same name the last one counts.
///
/// Without recursion, so that the stack does not limit the nesting.
pub fn same(one: Value<'_>, other: Value<'_>) -> bool {
    let mut left = vec![(one, other)];
    while let Some((one, other)) = left.pop() {
        if one == other {
            continue;
        }
        let equal = match (one.kind(), other.kind()) {
            (Kind::Object, Kind::Object) => {
                let (ours, theirs) = (members(one), members(other));
                let equal = ours.keys().eq(theirs.keys());
                left.extend(ours.into_values().zip(theirs.into_values()));
                equal
            }
            (Kind::Array, Kind::Array) => {
                let theirs: Vec<_> = other.elements().collect();
                let ours: Vec<_> = one.elements().collect();
                let equal = ours.len() == theirs.len();
                left.extend(ours.into_iter().zip(theirs));
                equal
            }
            (Kind::String, Kind::String) => one.as_str() == other.as_str(),
            (Kind::Number, Kind::Number) => same_number(one.json(), other.json()),
            _ => false,
        };
        if !equal {
            return false;
        }
    }
    true
}

/// Return the members of an object by name; of those with the same name the last one.
pub(crate) fn members(value: Value<'_>) -> BTreeMap<Cow<'_, str>, Value<'_>> {
    let members = value.members();
    let named = members.filter_map(|(key, inner)| Some((key.as_str()?, inner)));
    named.collect()
}

/// Compare integers exactly, and others as floating point numbers, as Python does.
fn same_number(one: &str, other: &str) -> bool {
    let is_integer = |text: &str| !text.contains(['.', 'e', 'E']);
    match (one.parse::<i128>(), other.parse::<i128>()) {
        (Ok(one), Ok(other)) => one == other,
        // Of any size: an integer is written in one way only.
        _ if is_integer(one) && is_integer(other) => one == other,
        _ => one.parse::<f64>().ok() == other.parse::<f64>().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn equal(one: &str, other: &str) -> bool {
        let (one, other) = (Value::of_json(one), Value::of_json(other));
        assert_eq!(same(one, other), same(other, one));
        same(one, other)
    }

    #[test]
    fn values_are_compared_and_not_their_text() {
        assert!(equal(
            r#"{"a":1,"b":[1.0,"x"]}"#,
            r#"{ "b": [1, "\u0078"], "a": 1 }"#
        ));
        assert!(equal(r#"{"a":1,"a":2}"#, r#"{"a":2}"#));
        for (one, other) in [
            (r#"{"a":1}"#, r#"{"a":2}"#),
            (r#"{"a":1}"#, r#"{"b":1}"#),
            (r#"{"a":1}"#, r#"{"a":1,"b":null}"#),
            ("[1,2]", "[2,1]"),
            ("[1]", "[1,1]"),
            ("1", "\"1\""),
            ("9007199254740993", "9007199254740992"),
            (
                &format!("1{}", "0".repeat(60)),
                &format!("1{}1", "0".repeat(59)),
            ),
            ("true", "1"),
            ("null", "false"),
        ] {
            assert!(!equal(one, other), "{one} {other}");
        }
    }

    #[test]
    fn nesting_takes_no_stack() {
        let deep = |value| format!("{}{value}{}", "[".repeat(1_000), "]".repeat(1_000));
        let compare = move || {
            assert!(equal(&deep("1"), &deep("1.0")));
            assert!(!equal(&deep("1"), &deep("2")));
        };
        let thread = std::thread::Builder::new().stack_size(256 << 10);
        thread
            .spawn(compare)
            .expect("a thread")
            .join()
            .expect("compared");
    }
}
