//! The members of an object that is built, as the scan found them.

use std::borrow::Cow;

use hashbrown::HashMap;

use crate::json::read::Value;
use crate::json::scan::Member;
use crate::json::text::key_is;

pub(super) fn key_of<'a>(text: &'a str, member: &Member) -> Cow<'a, str> {
    Value(
        text.get(member.key.start..member.key.end)
            .unwrap_or_default(),
    )
    .as_str()
    .unwrap_or_default()
}

pub(super) fn value_of<'a>(text: &'a str, member: &Member) -> Value<'a> {
    Value(
        text.get(member.value.start..member.value.end)
            .unwrap_or_default(),
    )
}

/// Of several members of one name the last counts; the others are dropped.
pub(super) enum LastOfName<'a> {
    /// Objects have few members as a rule: looking at those that follow is cheaper than a table.
    Few(&'a str, &'a [Member]),
    Many(HashMap<Cow<'a, str>, usize>),
}

impl<'a> LastOfName<'a> {
    pub(super) fn new(text: &'a str, members: &'a [Member]) -> Self {
        if members.len() <= 32 {
            return Self::Few(text, members);
        }
        let named = |(index, member)| (key_of(text, member), index);
        Self::Many(members.iter().enumerate().map(named).collect())
    }

    pub(super) fn holds(&self, index: usize, key: &str) -> bool {
        match self {
            Self::Few(text, members) => !members
                .iter()
                .skip(index + 1)
                .any(|later| key_is(later.key.of(text.as_bytes()), key)),
            Self::Many(table) => table.get(key) == Some(&index),
        }
    }
}
