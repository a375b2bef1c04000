//! The `repr` of objects: one line for logs, whatever their size.

use ctrlhost_core::object::Object;

use super::view::cut;

/// The longest `repr`, in characters.
const LONGEST: usize = 120;

/// The characters of a uid; versions are shorter.
const UID_LENGTH: usize = 36;

/// Return kind, name, version and uid; a name that is too long is cut.
pub(super) fn repr(object: &Object) -> String {
    let version = object.api_version();
    let space = if version.is_empty() { "" } else { " " };
    let named = format!("{version}{space}{}", object.describe());
    let fact = |name: &str, value: &str| match value {
        "" => String::new(),
        value => {
            let escaped = value.escape_debug().to_string();
            format!(", {name}='{}'", cut(&escaped, UID_LENGTH))
        }
    };
    let rv = fact("rv", &object.resource_version());
    let uid = fact("uid", &object.uid());
    let partial = if object.partial() { ", partial" } else { "" };
    let facts = format!("{rv}{uid}{partial}");
    let rest = LONGEST - "Object()".len() - facts.chars().count();
    format!("Object({}{facts})", cut(&named, rest))
}
