//! Errors of TLS in plain words, with what to do.

use std::io;
use std::time::Duration;

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};

const SPEAKS: &str = "ctrlhost speaks TLS 1.2 and 1.3";

/// Return the text of an error of a handshake, and whether the authority is unknown.
pub(in super::super) fn of_handshake(error: &io::Error) -> (String, bool) {
    if let Some(explained) = explain(error) {
        return explained;
    }
    let text = match error.kind() {
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::ConnectionReset => "the server closed the connection during the handshake",
        _ => return (super::super::failure::io_text(error), false),
    };
    (text.to_owned(), false)
}

/// Return the same for an error after the handshake; None if TLS is not to blame.
pub(in super::super) fn explain(error: &io::Error) -> Option<(String, bool)> {
    error.get_ref()?.downcast_ref::<Error>().map(of_tls)
}

pub(super) fn of_tls(error: &Error) -> (String, bool) {
    let text = match error {
        Error::InvalidCertificate(error) => return of_certificate(error),
        Error::AlertReceived(alert) => of_alert(*alert),
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "the server does not speak TLS on this port: use an http URL, or the port of https"
                .into()
        }
        Error::PeerIncompatible(why) => {
            format!(
                "the server and ctrlhost have no version or cipher in common ({why:?}): {SPEAKS}"
            )
        }
        error => error.to_string(),
    };
    (text, false)
}

fn of_alert(alert: AlertDescription) -> String {
    use AlertDescription as A;
    let name = format!("{alert:?}");
    match alert {
        A::ProtocolVersion | A::HandshakeFailure | A::InsufficientSecurity => format!(
            "the server refused the handshake ({name}): it has no version, cipher or kind of key in common with \
             ctrlhost; {SPEAKS}, with keys of RSA, P-256, P-384 or Ed25519, not P-521"
        ),
        A::CertificateRequired => "the server requires a client certificate".into(),
        A::BadCertificate
        | A::UnsupportedCertificate
        | A::CertificateRevoked
        | A::CertificateExpired
        | A::CertificateUnknown
        | A::UnknownCA
        | A::AccessDenied => format!("the server refused the client certificate ({name})"),
        A::UnrecognisedName => "the server does not know the server name (UnrecognisedName)".into(),
        _ => format!("the server sent the alert {name}"),
    }
}

fn of_certificate(error: &CertificateError) -> (String, bool) {
    use CertificateError as C;
    let text = match error {
        C::UnknownIssuer => {
            let text = "the certificate of the server is signed by an unknown authority";
            return (text.into(), true);
        }
        C::ExpiredContext { time, not_after } => {
            let ago = time.as_secs().saturating_sub(not_after.as_secs());
            format!("the certificate of the server expired {} ago", span(ago))
        }
        C::NotValidYetContext { time, not_before } => {
            let left = not_before.as_secs().saturating_sub(time.as_secs());
            let text = "the certificate of the server is not valid yet, only in";
            format!("{text} {}: check the clocks", span(left))
        }
        C::NotValidForNameContext {
            expected,
            presented,
        } => of_name(&expected.to_str(), presented),
        // Of two authorities with one name the other one signed: each cluster has one called "kubernetes".
        C::BadSignature => {
            let text = "a signature of the server does not fit: another authority of the same name signed its \
                        certificate, or its RSA key is shorter than 2,048 bits";
            return (text.into(), true);
        }
        C::UnsupportedSignatureAlgorithmContext { .. }
        | C::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "the certificate of the server is signed with an algorithm that is not supported, such as SHA-1 or P-521: \
             issue it again with SHA-256".into()
        }
        C::InvalidPurposeContext { .. } | C::InvalidPurpose => {
            "the certificate is not one of a server: it needs the extended key usage `serverAuth`".into()
        }
        C::BadEncoding => "malformed certificate".into(),
        C::Other(other) => of_other(&format!("{other:?}"), error),
        error => error.to_string(),
    };
    (text, false)
}

fn of_name(expected: &str, presented: &[String]) -> String {
    if presented.is_empty() {
        return "the certificate of the server has no subject alternative name: a common name alone does not count; \
                issue it again with the server's name in `subjectAltName`"
            .into();
    }
    // They look like `DnsName("a.example")`.
    let inner = |name: &String| {
        let inner = name.split_once('(').map_or(&**name, |(_, inner)| inner);
        inner.trim_end_matches(')').trim_matches('"').to_owned()
    };
    let presented = presented.iter().map(inner).collect::<Vec<_>>().join(", ");
    format!(
        "the certificate of the server is not valid for {expected}, only for {presented}: `tls-server-name` sets \
         another name"
    )
}

/// Explain an error for which rustls has no name of its own.
fn of_other(debug: &str, error: &CertificateError) -> String {
    if debug.contains("CaUsedAsEndEntity") {
        return "the certificate of the server is itself that of a CA: issue a certificate without `CA:TRUE` for it".into();
    }
    if debug.contains("UnsupportedCertVersion") {
        return "the certificate is of X.509 version 1: issue it again as version 3".into();
    }
    error.to_string()
}

fn span(seconds: u64) -> String {
    let span = Duration::from_secs(seconds).as_secs();
    match span {
        ..120 => format!("{span} s"),
        120..7200 => format!("{} minutes", span / 60),
        7200..172_800 => format!("{} hours", span / 3600),
        _ => format!("{} days", span / 86400),
    }
}
