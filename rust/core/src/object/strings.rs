//! Maps of strings, as labels and annotations are.

use std::borrow::Cow;

/// Strings by name.
pub(super) type StringMap<'a> = Vec<(Cow<'a, str>, Cow<'a, str>)>;

/// Return whether both have the same members, in any order.
pub(super) fn same_strings(mut one: StringMap<'_>, mut other: StringMap<'_>) -> bool {
    one == other || {
        one.sort_unstable();
        other.sort_unstable();
        one == other
    }
}
