//! URLs as Go parses them for a request: with a scheme, or only an absolute path.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Return whether Go reads a text as the URL of a request.
#[must_use]
pub fn is_url(text: &str) -> bool {
    Url::parse(text).is_some()
}

/// A URL in its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) scheme: String,
    pub(crate) hostname: String,
    pub(crate) port: String,
    /// As written, with its escapes.
    pub(crate) path: String,
    query: String,
    brackets: bool,
}

impl Url {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text.is_empty() || text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
            return None;
        }
        let (scheme, rest) = scheme(text)?;
        // A scheme alone is a URL; a relative path is not.
        if scheme.is_empty() && !rest.starts_with('/') && text != "*" {
            return None;
        }
        let rest = rest.split_once('#').map_or(rest, |(before, _)| before);
        let (before, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = match before.strip_prefix("//") {
            Some(after) if !scheme.is_empty() || !before.starts_with("///") => {
                after.find('/').map_or((after, ""), |at| after.split_at(at))
            }
            _ => ("", before),
        };
        let opaque = !path.starts_with('/') && !before.starts_with("//");
        if !opaque && !escaped(path) {
            return None;
        }
        let (hostname, port, brackets) = host(authority)?;
        Some(Self {
            scheme: scheme.to_ascii_lowercase(),
            hostname,
            port,
            path: if opaque { String::new() } else { escape(path) },
            query: query.to_owned(),
            brackets,
        })
    }

    pub(crate) fn host(&self) -> String {
        let name = if self.brackets {
            format!("[{}]", self.hostname)
        } else {
            self.hostname.clone()
        };
        if self.port.is_empty() {
            name
        } else {
            format!("{name}:{}", self.port)
        }
    }

    pub(crate) fn queries(&self) -> BTreeMap<String, Vec<String>> {
        let mut lists: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pair in self
            .query
            .split('&')
            .filter(|pair| !pair.is_empty() && !pair.contains(';'))
        {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if let (Some(name), Some(value)) = (unescape(name), unescape(value)) {
                lists.entry(name).or_default().push(value);
            }
        }
        lists
    }
}

fn scheme(text: &str) -> Option<(&str, &str)> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at > 0 => return Some((text.get(..at)?, text.get(at + 1..)?)),
            b':' => return None,
            _ => return Some(("", text)),
        }
    }
    Some(("", text))
}

/// Parse name and port; also return whether the name was in brackets.
fn host(authority: &str) -> Option<(String, String, bool)> {
    let (user, host) = authority
        .rsplit_once('@')
        .map_or(("", authority), |(user, host)| (user, host));
    let of_user = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
    if !user.bytes().all(of_user) || !escaped(user) {
        return None;
    }
    let (name, port, brackets) = if let Some(inner) = host.strip_prefix('[') {
        let (name, after) = inner.rsplit_once(']')?;
        let port = if after.is_empty() {
            ""
        } else {
            after.strip_prefix(':')?
        };
        (name, port, true)
    } else {
        let (name, port) = host.split_once(':').unwrap_or((host, ""));
        (name, port, false)
    };
    let of_name = |byte: u8| {
        byte >= 0x80 || byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:%<>\"".contains(&byte)
    };
    // Go takes no escapes of ASCII in a name.
    let is_text = |part: &str| part.starts_with(|first: char| first.is_digit(8));
    if !name.bytes().all(of_name)
        || !escaped(name)
        || (!brackets && name.split('%').skip(1).any(is_text))
        || !port.bytes().all(|byte| byte.is_ascii_digit())
    {
        return None;
    }
    Some((unescape_only(name)?, port.to_owned(), brackets))
}

/// Return whether each `%` begins an escape.
fn escaped(text: &str) -> bool {
    text.split('%').skip(1).all(|part| {
        let bytes = part.as_bytes();
        bytes.len() >= 2 && bytes.iter().take(2).all(u8::is_ascii_hexdigit)
    })
}

fn escape(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"%-._~!$&'()*+,;=:@/[]".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

fn unescape(text: &str) -> Option<String> {
    unescape_only(&text.replace('+', " "))
}

fn unescape_only(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut parts = text.split('%');
    out.extend_from_slice(parts.next()?.as_bytes());
    for part in parts {
        out.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
        out.extend_from_slice(part.get(2..)?.as_bytes());
    }
    Some(String::from_utf8_lossy(&out).into_owned())
}
