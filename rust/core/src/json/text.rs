//! The tokens of JSON: the end of a string, the content of an escaped string, the syntax of a number.

use std::borrow::Cow;

/// The result of [`skip_string`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StringEnd {
    /// The string ended; the offset is one past the closing quote.
    At(usize),
    /// The bytes ran out; continue at this offset when there are more.
    Unfinished(usize),
    /// A byte or an escape that no string may contain.
    Invalid(usize, &'static str),
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Return the first byte of `word` that ends a run of plain characters (quote, backslash, control), as a mask of high
/// bits. The lowest bit is exact; higher ones may be wrong (borrows).
const fn special(word: u64) -> u64 {
    let quote = word ^ (ONES * 0x22);
    let backslash = word ^ (ONES * 0x5c);
    let quotes = (quote.wrapping_sub(ONES) & !quote)
        | (backslash.wrapping_sub(ONES) & !backslash)
        | (word.wrapping_sub(ONES * 0x20) & !word);
    quotes & HIGH
}

/// Return the offset after the closing quote of the string around `from`.
pub fn skip_string(bytes: &[u8], from: usize) -> StringEnd {
    let mut at = from;
    loop {
        // Most strings are short: eight bytes at a time beats a call of a vectorised search.
        while let Some(chunk) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
            let bits = special(u64::from_le_bytes(*chunk));
            if bits == 0 {
                at += 8;
            } else {
                at += (bits.trailing_zeros() / 8) as usize;
                break;
            }
        }
        match bytes.get(at) {
            None => return StringEnd::Unfinished(at),
            Some(b'"') => return StringEnd::At(at + 1),
            Some(b'\\') => match bytes.get(at + 1) {
                None => return StringEnd::Unfinished(at),
                Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => at += 2,
                Some(b'u') => {
                    let Some(digits) = bytes.get(at + 2..at + 6) else {
                        return StringEnd::Unfinished(at);
                    };
                    if !digits.iter().all(u8::is_ascii_hexdigit) {
                        return StringEnd::Invalid(at, "not a \\u escape");
                    }
                    at += 6;
                }
                Some(_) => return StringEnd::Invalid(at, "unknown escape in a string"),
            },
            Some(0..=0x1f) => return StringEnd::Invalid(at, "control character in a string"),
            Some(_) => at += 1,
        }
    }
}

/// Return whether the bytes are a JSON number.
pub fn valid_number(token: &[u8]) -> bool {
    fn digits(rest: &[u8]) -> (usize, &[u8]) {
        let count = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        (count, rest.get(count..).unwrap_or_default())
    }
    let rest = token.strip_prefix(b"-").unwrap_or(token);
    let (count, mut rest) = match rest.split_first() {
        Some((b'0', after)) => (1, after),
        _ => digits(rest),
    };
    if count == 0 {
        return false;
    }
    if let Some(fraction) = rest.strip_prefix(b".") {
        let (count, after) = digits(fraction);
        if count == 0 {
            return false;
        }
        rest = after;
    }
    if let Some((b'e' | b'E', exponent)) = rest.split_first() {
        let unsigned = exponent
            .strip_prefix(b"+")
            .or(exponent.strip_prefix(b"-"))
            .unwrap_or(exponent);
        let (count, after) = digits(unsigned);
        if count == 0 {
            return false;
        }
        rest = after;
    }
    rest.is_empty()
}

/// Return the content of a string literal without its quotes; a lone surrogate becomes U+FFFD.
pub fn unescape(raw: &str) -> Cow<'_, str> {
    // Keys, names and versions are short: a look at each byte is cheaper than a call of a vectorised search.
    let first = if raw.len() <= 32 {
        raw.bytes().position(|byte| byte == b'\\')
    } else {
        memchr::memchr(b'\\', raw.as_bytes())
    };
    let Some(first) = first else {
        return Cow::Borrowed(raw);
    };
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    let mut next = Some(first);
    while let Some(at) = next {
        out.push_str(rest.get(..at).unwrap_or_default());
        rest = rest.get(at..).unwrap_or_default();
        let (character, used) = escape(rest.as_bytes());
        out.push(character);
        rest = rest.get(used..).unwrap_or_default();
        next = memchr::memchr(b'\\', rest.as_bytes());
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Return the character of the escape at the start of `bytes`, and its length.
fn escape(bytes: &[u8]) -> (char, usize) {
    let simple = match bytes.get(1) {
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => {
            let high = code_unit(bytes, 2);
            if (0xd800..0xdc00).contains(&high) && bytes.get(6..8) == Some(br"\u") {
                let low = code_unit(bytes, 8);
                if (0xdc00..0xe000).contains(&low) {
                    let scalar = 0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                    return (
                        char::from_u32(scalar).unwrap_or(char::REPLACEMENT_CHARACTER),
                        12,
                    );
                }
            }
            return (
                char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER),
                6,
            );
        }
        Some(&other) => other as char,
        None => char::REPLACEMENT_CHARACTER,
    };
    (simple, 2)
}

fn code_unit(bytes: &[u8], at: usize) -> u32 {
    let digits = bytes.get(at..at + 4).unwrap_or_default();
    digits.iter().fold(0, |value, &b| {
        value << 4 | (b as char).to_digit(16).unwrap_or(0)
    })
}

/// Return whether a key (with its quotes) is `name`.
pub fn key_is(quoted: &[u8], name: &str) -> bool {
    let inner = quoted
        .get(1..quoted.len().saturating_sub(1))
        .unwrap_or_default();
    if inner.len() == name.len() {
        return inner == name.as_bytes();
    }
    inner.len() > name.len()
        && memchr::memchr(b'\\', inner).is_some()
        && std::str::from_utf8(inner).is_ok_and(|raw| unescape(raw) == name)
}

/// Return the offset of the first byte that a string literal must escape.
fn plain_run(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some(chunk) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let bits = special(u64::from_le_bytes(*chunk));
        if bits != 0 {
            return Some(at + (bits.trailing_zeros() / 8) as usize);
        }
        at += 8;
    }
    let rest = bytes.get(at..).unwrap_or_default();
    let offset = rest
        .iter()
        .position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f));
    offset.map(|offset| at + offset)
}

/// Append `text` as a string literal, quotes included.
pub fn quote_into(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(at) = plain_run(rest) {
        out.extend_from_slice(rest.get(..at).unwrap_or_default());
        let byte = rest.get(at).copied().unwrap_or_default();
        rest = rest.get(at + 1..).unwrap_or_default();
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => {
                let hex = b"0123456789abcdef";
                out.extend_from_slice(b"\\u00");
                out.push(hex[usize::from(byte >> 4)]);
                out.push(hex[usize::from(byte & 15)]);
            }
        }
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}
