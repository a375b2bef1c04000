//! One value that is there as a whole, such as JSON text within another encoding.

use super::{Scan, ScanError, Shape};
use crate::json::MAX_DEPTH;
use crate::json::text::valid_number;

/// Return the one value in `bytes`, which stands within `levels` objects and lists.
///
/// # Errors
/// The bytes are not one JSON value in UTF-8, or nest too deep.
pub fn whole(bytes: &[u8], levels: usize) -> Result<&str, ScanError> {
    let text = std::str::from_utf8(bytes).map_err(|error| ScanError {
        at: error.valid_up_to(),
        what: "not UTF-8",
    })?;
    let blank = |character| matches!(character, ' ' | '\n' | '\r' | '\t');
    let text = text.trim_matches(blank);
    // The scan waits for more of a number that nothing ends.
    if valid_number(text.as_bytes()) {
        return Ok(text);
    }
    let mut scan = Scan::new(Shape::Object);
    scan.limit = MAX_DEPTH.saturating_sub(levels);
    match scan.advance(text.as_bytes())? {
        Some(end) if end == text.len() => Ok(text),
        Some(at) => Err(ScanError {
            at,
            what: "more than one value",
        }),
        None => Err(ScanError {
            at: text.len(),
            what: "the value is cut",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_is_accepted_with_blanks_around_it() {
        for text in ["5", " -1.5e3\n", "null", "\"a\"", " {\"a\": [1]} ", "[]"] {
            assert_eq!(whole(text.as_bytes(), 0), Ok(text.trim()), "{text}");
        }
        for text in ["", " ", "5 6", "{", "{}x", "\"a", "nul", "-", "\u{a0}1"] {
            assert!(whole(text.as_bytes(), 0).is_err(), "{text}");
        }
        assert!(whole(b"\"\xff\"", 0).is_err());
    }

    #[test]
    fn the_levels_around_it_count() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(whole(nested(1_000).as_bytes(), 0).is_ok());
        assert!(whole(nested(1_001).as_bytes(), 0).is_err());
        assert!(whole(nested(990).as_bytes(), 10).is_ok());
        assert!(whole(nested(991).as_bytes(), 10).is_err());
    }
}
