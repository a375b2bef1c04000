//! The named formats, as values that validate a string.

use crate::base64;
use crate::times;
use crate::url::Url;
use crate::value::Value;

const FORMATS: &str = "dns1123Label dns1123Subdomain dns1035Label dns1123LabelPrefix \
                       dns1123SubdomainPrefix dns1035LabelPrefix qualifiedName labelValue uri uuid byte \
                       date datetime";

/// Return a format by its name.
pub(super) fn named(name: &str) -> Option<&'static str> {
    FORMATS.split(' ').find(|format| *format == name)
}

/// Return an empty optional for a valid string, otherwise the error.
pub(super) fn validate(format: &str, text: &str) -> Value {
    let kind = format.strip_suffix("Prefix").unwrap_or(format);
    let checked = if kind == format {
        text
    } else {
        text.strip_suffix('-').unwrap_or(text)
    };
    let why = match kind {
        "dns1123Label" if !label(checked, 63) => "must be a lowercase RFC 1123 label",
        "dns1123Subdomain" if !subdomain(checked) => "must be a lowercase RFC 1123 subdomain",
        "dns1035Label"
            if !(label(checked, 63)
                && checked.starts_with(|first: char| first.is_ascii_lowercase())) =>
        {
            "must be a DNS-1035 label"
        }
        "qualifiedName" if !qualified(text) => "must be a qualified name",
        "labelValue" if !(text.is_empty() || name(text)) => "must be a valid label value",
        "uri" if Url::parse(text).is_none() => "invalid URI for request",
        "uuid" if !uuid(text) => "does not match the UUID format",
        "byte" if base64::decode(text).is_none() => "invalid base64",
        "date" if times::parse_date(text).is_none() => "invalid date",
        "datetime" if times::parse(text).is_none() => "invalid datetime",
        _ => return Value::Optional(None),
    };
    Value::some(Value::list(vec![Value::text(why)]))
}

fn label(text: &str, most: usize) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    !text.is_empty()
        && text.len() <= most
        && text.bytes().all(|byte| fits(byte) || byte == b'-')
        && text.bytes().next().is_some_and(fits)
        && text.bytes().last().is_some_and(fits)
}

fn subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(|part| label(part, 253))
}

fn name(text: &str) -> bool {
    let edge = |byte: u8| byte.is_ascii_alphanumeric();
    text.len() <= 63
        && text
            .bytes()
            .all(|byte| edge(byte) || matches!(byte, b'-' | b'_' | b'.'))
        && text.bytes().next().is_some_and(edge)
        && text.bytes().last().is_some_and(edge)
}

fn qualified(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, rest)) => subdomain(prefix) && name(rest),
        None => name(text),
    }
}

fn uuid(text: &str) -> bool {
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'-').collect();
    digits.len() == 32 && text.len() <= 36 && digits.iter().all(u8::is_ascii_hexdigit)
}
