//! Parts of all objects by a hash, as the API server cuts them with `shardSelector`.

use std::ops::RangeInclusive;

/// The number of ranges in a selector that every proxy passes on: each takes 107 bytes of the 8 KiB of a URL.
pub const MAX_RANGES: usize = 60;

/// The field whose hash decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// `metadata.namespace`; "" for objects of the cluster.
    Namespace,
    /// `metadata.uid`.
    Uid,
}

impl Field {
    /// Return the field as selectors name it.
    pub fn path(self) -> &'static str {
        match self {
            Self::Namespace => "object.metadata.namespace",
            Self::Uid => "object.metadata.uid",
        }
    }

    /// Return a part of a selector: the hashes from `start` to before `end`.
    pub fn range(self, start: u64, end: u128) -> String {
        format!(
            "shardRange({}, '0x{start:016x}', '0x{end:016x}')",
            self.path()
        )
    }
}

/// What of an object is hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Its namespace; "" for objects of the cluster.
    Namespace,
    /// Its name, on the line of the namespaces: a Namespace is where its content is.
    Name,
    /// Its uid.
    Uid,
    /// The uid of its controlling owner; an object without one is in no range.
    Owner,
}

impl By {
    /// Return what a name says: `namespace`, `name`, `uid` or `owner`.
    pub fn of(name: &str) -> Option<Self> {
        Some(match name {
            "namespace" => Self::Namespace,
            "name" => Self::Name,
            "uid" => Self::Uid,
            "owner" => Self::Owner,
            _ => return None,
        })
    }

    /// Return the field by which the server can filter; None if only the reader can.
    pub fn field(self) -> Option<Field> {
        match self {
            Self::Namespace => Some(Field::Namespace),
            Self::Uid => Some(Field::Uid),
            Self::Name | Self::Owner => None,
        }
    }
}

/// Return the API server's hash of a namespace or uid: FNV-1a of 64 bits.
pub fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Hashes, as ranges that are sorted and do not touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges(Vec<RangeInclusive<u64>>);

impl FromIterator<RangeInclusive<u64>> for Ranges {
    /// Join the ranges that overlap or touch.
    fn from_iter<T: IntoIterator<Item = RangeInclusive<u64>>>(ranges: T) -> Self {
        let mut sorted: Vec<_> = ranges
            .into_iter()
            .filter(|range| !range.is_empty())
            .collect();
        sorted.sort_unstable_by_key(|range| *range.start());
        let mut joined: Vec<RangeInclusive<u64>> = Vec::with_capacity(sorted.len());
        for range in sorted {
            match joined.last_mut() {
                Some(last) if *range.start() <= last.end().saturating_add(1) => {
                    *last = *last.start()..=*last.end().max(range.end());
                }
                _ => joined.push(range),
            }
        }
        Self(joined)
    }
}

impl Ranges {
    /// Return the ranges, in order.
    pub fn as_slice(&self) -> &[RangeInclusive<u64>] {
        &self.0
    }

    /// Return whether a hash is in one of the ranges.
    pub fn contains(&self, hash: u64) -> bool {
        let after = self.0.partition_point(|range| *range.start() <= hash);
        after
            .checked_sub(1)
            .and_then(|last| self.0.get(last))
            .is_some_and(|range| range.contains(&hash))
    }

    /// Return these ranges with the smallest gaps filled, so that there are at most `most`, at least one.
    #[must_use]
    pub fn widened(&self, most: usize) -> Self {
        let excess = self.0.len().saturating_sub(most.max(1));
        let mut gaps: Vec<_> = self
            .0
            .windows(2)
            .filter_map(|pair| match pair {
                [left, right] => Some(*left.end()..=*right.start()),
                _ => None,
            })
            .collect();
        gaps.sort_by_key(|gap| gap.end() - gap.start());
        gaps.truncate(excess);
        self.0.iter().cloned().chain(gaps).collect()
    }

    /// Return the selector for objects of these ranges, and maybe others: at most [`MAX_RANGES`] ranges, "" for none.
    pub fn selector(&self, field: Field) -> String {
        let wide = self.widened(MAX_RANGES);
        let parts = wide.0.iter();
        let texts = parts.map(|range| field.range(*range.start(), u128::from(*range.end()) + 1));
        texts.collect::<Vec<_>>().join(" || ")
    }
}
