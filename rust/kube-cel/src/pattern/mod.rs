//! Regular expressions of CRD schemas, in the syntax of Go's `regexp` (RE2), matched in linear time.
//!
//! A pattern is rewritten into the nearly identical syntax of the `regex` crate: classes like `\d` mean ASCII in Go,
//! some escapes differ, and Go rejects a few features of the crate.

use regex::bytes::{Regex, RegexBuilder};

mod escape;
mod rewrite;

/// Size limits of a compiled pattern in bytes, tried in turn: the size gives the cost of each step over a text.
const SIZES: [usize; 6] = [2 << 10, 8 << 10, 64 << 10, 512 << 10, 4 << 20, 16 << 20];
/// The maximum product of a pattern's size and a text's length; a match is linear in both and could take many
/// seconds.
const MAX_WORK: usize = 4 << 30;
/// The maximum length of a pattern as text, in bytes.
const MAX_TEXT: usize = 64 << 10;
/// The maximum nesting of groups, as in Go.
const MAX_NESTING: u32 = 1_000;

/// Why a pattern is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadPattern(String);

/// A text is too long for a pattern of that size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the text is too long for this pattern: at most {most} bytes")]
pub struct TooLong {
    /// The maximum length in bytes.
    pub most: usize,
}

/// A compiled pattern.
#[derive(Debug)]
pub struct Pattern {
    regex: Regex,
    size: usize,
}

impl Pattern {
    /// Compile a pattern in Go's syntax.
    ///
    /// # Errors
    /// The pattern is invalid in Go, or so large that any match would be slow.
    pub fn new(text: &str) -> Result<Self, BadPattern> {
        Self::within(text, usize::MAX)
    }

    /// Compile a pattern of at most `most` bytes.
    ///
    /// # Errors
    /// The pattern is invalid in Go, or larger.
    pub fn within(text: &str, most: usize) -> Result<Self, BadPattern> {
        if text.len() > MAX_TEXT {
            return Err(BadPattern("expression is too large".to_owned()));
        }
        let rewritten = rewrite::rewrite(text).map_err(|why| BadPattern(why.to_owned()))?;
        for size in SIZES.into_iter().filter(|size| *size <= most) {
            match RegexBuilder::new(&rewritten)
                .size_limit(size)
                .nest_limit(MAX_NESTING)
                .build()
            {
                Ok(regex) => return Ok(Self { regex, size }),
                Err(regex::Error::CompiledTooBig(_)) => {}
                Err(error) => return Err(BadPattern(explain(&error))),
            }
        }
        Err(BadPattern("expression is too large".to_owned()))
    }

    /// Return an upper bound of the bytes that the compiled pattern takes.
    pub fn size(&self) -> usize {
        self.size
    }

    fn check(&self, text: &[u8]) -> Result<(), TooLong> {
        let most = MAX_WORK / self.size;
        (text.len() <= most).then_some(()).ok_or(TooLong { most })
    }

    /// Return whether the pattern occurs anywhere in the UTF-8 text.
    ///
    /// # Errors
    /// The search could take many seconds.
    pub fn is_match(&self, text: &[u8]) -> Result<bool, TooLong> {
        self.check(text)?;
        Ok(self.regex.is_match(text))
    }

    /// Return the first `most` non-overlapping matches in the text.
    ///
    /// # Errors
    /// The search could take many seconds.
    pub fn find_all<'t>(&self, text: &'t str, most: usize) -> Result<Vec<&'t str>, TooLong> {
        self.check(text.as_bytes())?;
        let matches = self.regex.find_iter(text.as_bytes()).take(most);
        Ok(matches
            .filter_map(|place| text.get(place.range()))
            .collect())
    }
}

/// Return the last line of the crate's message: the lines before it show the rewritten pattern.
fn explain(error: &regex::Error) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default();
    last.trim_start_matches("error: ").to_owned()
}
