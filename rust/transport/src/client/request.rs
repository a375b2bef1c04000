//! A request, checked before anything is sent, and made as often as it is sent.

use std::fmt::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::ext::on_informational;
use hyper::header::{
    ACCEPT_ENCODING, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHORIZATION,
};
use hyper::http::request::Parts;
use hyper::{Method, Request, Uri};

use super::progress::Progress;
use super::{Failure, Proxy, ProxyScheme, Settings, Stage};

fn invalid(text: String) -> Failure {
    Failure::new(Stage::Request, text)
}

/// Append headers. The text of a failure has no value, which may be a secret.
fn append(map: &mut HeaderMap, headers: &[(String, String)]) -> Result<(), Failure> {
    for (name, value) in headers {
        let key = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| invalid(format!("invalid header name: {name:?}")))?;
        // Latin-1, as HTTP has it; a character beyond is no byte.
        let bytes: Option<Vec<u8>> = value.chars().map(|c| u8::try_from(c).ok()).collect();
        let value = bytes.and_then(|bytes| HeaderValue::from_bytes(&bytes).ok());
        let value = value.ok_or_else(|| {
            invalid(format!(
                "the value of the header {name} contains a line break or another control character"
            ))
        })?;
        map.append(key, value);
    }
    Ok(())
}

/// Escape what must not stand in a request line. Without that, a number sign would cut the target off.
fn escape(target: &str) -> String {
    let mut escaped = String::with_capacity(target.len());
    for byte in target.bytes() {
        if (b'!'..=b'~').contains(&byte)
            && !matches!(
                byte,
                b'#' | b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}'
            )
        {
            escaped.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

/// Return the value of `Proxy-Authorization`.
fn basic(user: &str, password: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = "Basic ".to_owned();
    for triple in format!("{user}:{password}").as_bytes().chunks(3) {
        let byte = |index: usize| u32::from(triple.get(index).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let index = (bits >> (18 - 6 * digit)) & 63;
            let known = digit <= triple.len();
            text.push(if known {
                char::from(DIGITS[index as usize])
            } else {
                '='
            });
        }
    }
    text
}

/// Return what an HTTP proxy gets.
pub(super) fn proxy_headers(proxy: &Proxy) -> Result<HeaderMap, Failure> {
    let mut map = HeaderMap::new();
    append(&mut map, &proxy.headers)?;
    if let Some((user, password)) = &proxy.user {
        let value = HeaderValue::from_str(&basic(user, password));
        let mut value = value.map_err(|_| invalid("invalid proxy user".to_owned()))?;
        value.set_sensitive(true);
        map.insert(PROXY_AUTHORIZATION, value);
    }
    Ok(map)
}

/// What all requests of a client have in common.
pub(super) struct Common {
    headers: HeaderMap,
    /// The beginning of absolute URIs, for plain HTTP through a proxy.
    prefix: String,
}

impl Common {
    pub(super) fn new(settings: &Settings) -> Result<Self, Failure> {
        let mut headers = HeaderMap::new();
        let host = HeaderValue::from_str(&settings.authority);
        let host = host.map_err(|_| invalid(format!("invalid host: {:?}", settings.authority)))?;
        headers.insert(HOST, host);
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        append(&mut headers, &settings.headers)?;
        let mut prefix = String::new();
        if let Some(proxy) = &settings.proxy
            && !settings.https
            && matches!(proxy.scheme, ProxyScheme::Http | ProxyScheme::Https)
        {
            prefix = format!("http://{}", settings.authority);
            for (name, value) in &proxy_headers(proxy)? {
                headers.append(name, value.clone());
            }
        }
        Ok(Self { headers, prefix })
    }
}

/// See the module.
pub(super) struct Prepared {
    parts: Parts,
    body: Bytes,
    /// It may be sent once more if its connection breaks before the response.
    pub(super) repeat: bool,
    /// It goes over a connection of its own.
    pub(super) fresh: bool,
}

impl Prepared {
    pub(super) fn new(
        common: &Common,
        method: &str,
        target: &str,
        headers: &[(String, String)],
        body: Bytes,
    ) -> Result<Self, Failure> {
        let uri = format!("{}{}", common.prefix, escape(target));
        let uri = Uri::try_from(uri).map_err(|_| invalid(format!("invalid path: {target:?}")))?;
        let method = Method::from_bytes(method.as_bytes())
            .map_err(|_| invalid(format!("invalid method: {method:?}")))?;
        let (mut parts, ()) = Request::new(()).into_parts();
        parts.headers = common.headers.clone();
        append(&mut parts.headers, headers)?;
        if body.is_empty() && method != Method::GET && method != Method::DELETE {
            parts
                .headers
                .insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        parts.method = method;
        parts.uri = uri;
        Ok(Self {
            parts,
            body,
            repeat: false,
            fresh: false,
        })
    }

    /// Return the request, to be sent once.
    pub(super) fn request(&self, progress: &Arc<Progress>) -> Request<Full<Bytes>> {
        let mut request = Request::from_parts(self.parts.clone(), Full::new(self.body.clone()));
        let progress = progress.clone();
        on_informational(&mut request, move |_| progress.note_interim());
        request
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "it is a test")]

    use super::*;

    #[test]
    fn proxy_users_are_base64() {
        for (user, password, value) in [
            ("u", "p", "Basic dTpw"),
            ("us", "p@", "Basic dXM6cEA="),
            ("a", "bc:d", "Basic YTpiYzpk"),
            ("", "xy", "Basic Onh5"),
            ("user", "", "Basic dXNlcjo="),
            ("use", "", "Basic dXNlOg=="),
        ] {
            assert_eq!(basic(user, password), value);
        }
    }

    #[test]
    fn targets_are_escaped() {
        assert_eq!(escape("/a b#c?d=%20&e=\u{e9}"), "/a%20b%23c?d=%20&e=%C3%A9");
    }

    // behaviour: scale/SC16
    #[test]
    fn headers_with_line_ends_are_refused() {
        for value in ["a\rb", "a\nb", "a\0b", "\u{1F600}"] {
            let mut map = HeaderMap::new();
            let error = append(&mut map, &[("X-Secret".into(), value.into())]).unwrap_err();
            assert_eq!(error.stage, Stage::Request);
            assert!(
                error
                    .text
                    .starts_with("the value of the header X-Secret contains")
            );
        }
        let mut map = HeaderMap::new();
        assert!(append(&mut map, &[("a b".into(), "c".into())]).is_err());
    }
}
