//! Semantic versions.

use std::cmp::Ordering;

/// A version: three numbers and the pre-release.
#[derive(Clone, Debug)]
pub(crate) struct Semver {
    numbers: [u64; 3],
    before: Vec<String>,
}

impl Semver {
    /// Parse a version; `tolerant` accepts a `v` before it, leading zeros and missing numbers.
    pub(crate) fn parse(text: &str, tolerant: bool) -> Option<Self> {
        let text = if tolerant {
            text.trim().trim_start_matches('v')
        } else {
            text
        };
        let (text, build) = text
            .split_once('+')
            .map_or((text, None), |(text, build)| (text, Some(build)));
        let (numbers, before) = text
            .split_once('-')
            .map_or((text, None), |(text, before)| (text, Some(before)));
        let word = |part: &str| {
            !part.is_empty()
                && part
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        if build.is_some_and(|build| !build.split('.').all(word)) {
            return None;
        }
        let before: Vec<String> = before.map_or_else(Vec::new, |before| {
            before.split('.').map(str::to_owned).collect()
        });
        if !before
            .iter()
            .all(|part| word(part) && (number(part).is_none() || plain(part)))
        {
            return None;
        }
        let parts: Vec<&str> = numbers.split('.').collect();
        if parts.len() > 3 || (parts.len() < 3 && !tolerant) {
            return None;
        }
        let mut parsed = [0; 3];
        for (slot, part) in parsed.iter_mut().zip(&parts) {
            *slot = number(part).filter(|_| tolerant || plain(part))?;
        }
        Some(Self {
            numbers: parsed,
            before,
        })
    }

    pub(crate) fn part(&self, name: &str) -> Option<u64> {
        let [major, minor, patch] = self.numbers;
        match name {
            "major" => Some(major),
            "minor" => Some(minor),
            "patch" => Some(patch),
            _ => None,
        }
    }

    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        let released = self.before.is_empty().cmp(&other.before.is_empty());
        self.numbers
            .cmp(&other.numbers)
            .then(released)
            .then_with(|| {
                let parts = self.before.iter().zip(&other.before);
                let differs = parts
                    .map(|(a, b)| match (number(a), number(b)) {
                        (Some(a), Some(b)) => a.cmp(&b),
                        (Some(_), None) => Ordering::Less,
                        (None, Some(_)) => Ordering::Greater,
                        (None, None) => a.cmp(b),
                    })
                    .find(|order| order.is_ne());
                differs.unwrap_or_else(|| self.before.len().cmp(&other.before.len()))
            })
    }
}

fn number(part: &str) -> Option<u64> {
    if part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    part.parse().ok()
}

/// Return whether the number has no leading zero.
fn plain(part: &str) -> bool {
    part == "0" || !part.starts_with('0')
}
