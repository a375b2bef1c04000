//! What a listener of the host refuses.
//!
//! A web page that is open in the browser of somebody who reaches the host can send requests, too. Host names protect
//! from DNS rebinding, `Sec-Fetch-Site` from other sites.

use std::net::IpAddr;

use hyper::header::{CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode, Version};

/// The names by which a listener of the host may be asked, beside addresses and `localhost`; None for any.
#[derive(Clone, Debug)]
pub struct Guard(pub Option<Vec<String>>);

/// Status, error and hint.
pub(super) type Refusal = (StatusCode, String, &'static str);

impl Guard {
    fn knows(&self, host: &str) -> bool {
        let Some(names) = &self.0 else {
            return true;
        };
        let (name, port) = match host.strip_prefix('[').map(|rest| rest.split_once(']')) {
            Some(Some((name, port))) => (name, port.strip_prefix(':').unwrap_or(port)),
            Some(None) => return false,
            None => host.split_once(':').unwrap_or((host, "")),
        };
        let is_named = |known: &str| known.eq_ignore_ascii_case(name);
        port.bytes().all(|byte| byte.is_ascii_digit())
            && (is_named("localhost")
                || names.iter().any(|known| is_named(known))
                || name.parse::<IpAddr>().is_ok())
    }
}

/// Return why a request is refused.
pub(super) fn refusal(head: &Parts, guard: Option<&Guard>) -> Option<Refusal> {
    let headers = &head.headers;
    let hosts = headers.get_all(HOST).iter().count();
    let needed = usize::from(head.version >= Version::HTTP_11);
    if !(needed..=1).contains(&hosts) || head.method == Method::CONNECT {
        let error = "invalid HTTP request".to_owned();
        return Some((StatusCode::BAD_REQUEST, error, ""));
    }
    let host = headers
        .get(HOST)
        .map_or(Ok("localhost"), |host| host.to_str());
    if !host.is_ok_and(|host| guard.is_none_or(|guard| guard.knows(host))) {
        let hint = "use an address, `localhost`, or add it to host.allowed_hosts";
        let error = "unknown host name".to_owned();
        return Some((StatusCode::MISDIRECTED_REQUEST, error, hint));
    }
    guard?;
    let site = headers.get("sec-fetch-site");
    if site.is_some_and(|site| site == "cross-site") {
        let error = "requests of other sites are refused".to_owned();
        let hint = "enter the address in a new tab";
        return Some((StatusCode::FORBIDDEN, error, hint));
    }
    let length = headers.get(CONTENT_LENGTH);
    let has_body =
        headers.contains_key(TRANSFER_ENCODING) || length.is_some_and(|length| length != "0");
    if [Method::GET, Method::HEAD].contains(&head.method) && has_body {
        let error = format!("a {} request has no body", head.method);
        return Some((StatusCode::PAYLOAD_TOO_LARGE, error, ""));
    }
    None
}
