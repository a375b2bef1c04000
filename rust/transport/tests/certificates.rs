//! Certificates and keys of all kinds, of clients and of servers.
#![expect(clippy::unwrap_used, reason = "it is a test")]

mod support;

use ctrlhost_transport::client::{Part, Stage, Tls, TlsError};
use rcgen::{CertificateParams, date_time_ymd};
use rustls::version::{TLS12, TLS13};
use support::certs::{Authority, client, config, config_with, serve, tls};
use support::{SOON, call, get};

macro_rules! data {
    ($name:literal) => {
        include_str!(concat!("data/", $name))
    };
}

const CA: &str = data!("ca.pem");
const SERVER: (&str, &str) = (data!("server.ip.pem"), data!("ec.pkcs8.key"));

// behaviour: scale/SC28
#[test]
fn client_keys_of_all_kinds_authenticate() {
    let rsa = data!("rsa.client.pem");
    let ec = data!("ec.client.pem");
    let surrounded = format!("text before\n{}text after\n", data!("rsa.pkcs8.key"));
    for (kind, cert, key) in [
        ("PKCS#1", rsa, data!("rsa.pkcs1.key")),
        ("PKCS#8 RSA", rsa, data!("rsa.pkcs8.key")),
        ("PKCS#8 EC", ec, data!("ec.pkcs8.key")),
        (
            "PKCS#8 Ed25519",
            data!("ed25519.client.pem"),
            data!("ed25519.pkcs8.key"),
        ),
        ("SEC1", ec, data!("ec.sec1.key")),
        ("SEC1 after EC PARAMETERS", ec, data!("ec.parameters.key")),
        ("text around", rsa, &surrounded),
    ] {
        for version in [&TLS12, &TLS13] {
            let config = config_with(SERVER.0, SERVER.1, &[version], Some(CA));
            let (server, _requests) = serve(config);
            let response = client(&server, tls(CA, Some((cert, key)))).call(get());
            assert_eq!(response.unwrap().status, 200, "{kind} {version:?}");
        }
    }
    // Without one the server refuses, in 1.3 only after the handshake.
    for (version, stage) in [(&TLS12, Stage::Tls), (&TLS13, Stage::Head)] {
        let (server, requests) = serve(config_with(SERVER.0, SERVER.1, &[version], Some(CA)));
        let client = client(&server, tls(CA, None));
        let error = client.call(call("POST", "", SOON)).unwrap_err();
        assert_eq!(error.stage, stage);
        assert!(error.text.starts_with("TLS failed: the server "), "{error}");
        assert!(requests.try_recv().is_err());
    }
}

fn invalid(cert: &str, key: &str) -> TlsError {
    let pair = (Some(cert.as_bytes()), Some(key.as_bytes()));
    Tls::from_pem(None, pair.0, pair.1, true, true, None).unwrap_err()
}

// behaviour: scale/SC29
#[test]
fn invalid_keys_and_certificates_are_named() {
    let rsa = data!("rsa.client.pem");
    let phrase = "encrypted: pass phrases are not supported; decrypt it with `openssl pkey`";
    let kinds =
        "not supported: use RSA of 2,048 to 8,192 bits, ECDSA with P-256 or P-384, or Ed25519";
    for (cert, key, part, text) in [
        (rsa, data!("rsa.encrypted.key"), Part::Key, phrase),
        (rsa, data!("rsa.pkcs8.encrypted.key"), Part::Key, phrase),
        (
            rsa,
            data!("ec.pkcs8.key"),
            Part::Key,
            "the key does not belong to the certificate",
        ),
        (data!("p521.pem"), data!("p521.key"), Part::Key, kinds),
        (rsa, "", Part::Key, "no PEM private key in it"),
        (rsa, rsa, Part::Key, "no PEM private key in it"),
        (
            "",
            data!("rsa.pkcs8.key"),
            Part::Cert,
            "no PEM certificate in it",
        ),
    ] {
        let error = invalid(cert, key);
        assert_eq!((error.part, &*error.text), (part, text));
    }
    let cert = Some(rsa.as_bytes());
    let error = Tls::from_pem(None, cert, None, true, true, None).unwrap_err();
    assert_eq!(
        (error.part, &*error.text),
        (Part::Key, "missing, although there is a certificate")
    );
    let error = Tls::from_pem(None, None, cert, true, true, None).unwrap_err();
    assert_eq!(
        (error.part, &*error.text),
        (Part::Cert, "missing, although there is a key")
    );
}

fn owned((cert, key): (&str, &str)) -> (String, String) {
    (cert.to_owned(), key.to_owned())
}

// behaviour: scale/SC31
#[test]
fn what_is_wrong_with_a_server_certificate_is_said() {
    let authority = Authority::new();
    let named = || CertificateParams::new(vec!["127.0.0.1".into()]).unwrap();
    let mut expired = named();
    expired.not_after = date_time_ymd(2024, 1, 1);
    let mut early = named();
    early.not_before = date_time_ymd(2123, 1, 1);
    let key = data!("ec.pkcs8.key");
    for (name, ca, pair, text, unknown) in [
        (
            "name alone",
            CA,
            owned((data!("server.name.pem"), key)),
            "has no subject alternative name",
            false,
        ),
        (
            "version 1",
            CA,
            owned((data!("server.v1.pem"), key)),
            "X.509 version 1",
            false,
        ),
        (
            "CA",
            CA,
            owned((data!("server.ca.pem"), key)),
            "itself that of a CA",
            false,
        ),
        (
            "SHA-1",
            CA,
            owned((data!("server.sha1.pem"), key)),
            "such as SHA-1",
            false,
        ),
        (
            "client",
            CA,
            owned((data!("server.client.pem"), key)),
            "`serverAuth`",
            false,
        ),
        (
            "expired",
            &authority.pem,
            authority.issue(&expired),
            "expired",
            false,
        ),
        (
            "early",
            &authority.pem,
            authority.issue(&early),
            "is not valid yet",
            false,
        ),
        (
            "wrong name",
            &authority.pem,
            authority.named(&["a.example"]),
            "not valid for 127.0.0.1, only for a.example: ",
            false,
        ),
        (
            "unknown",
            CA,
            authority.named(&["127.0.0.1"]),
            "signed by an unknown authority",
            true,
        ),
    ] {
        let (server, requests) = serve(config(&pair));
        let error = client(&server, tls(ca, None)).call(get()).unwrap_err();
        assert_eq!((error.stage, error.sent), (Stage::Tls, false), "{name}");
        assert!(
            error.text.starts_with("TLS failed: ") && error.text.contains(text),
            "{name}: {error}"
        );
        assert_eq!(error.unknown_ca, unknown, "{name}");
        assert!(!error.text.contains('\n'));
        assert!(requests.try_recv().is_err(), "{name}");
        // Everything works where nothing is verified.
        let nothing = Tls::from_pem(Some(ca.as_bytes()), None, None, false, true, None).unwrap();
        assert_eq!(
            client(&server, nothing).call(get()).unwrap().status,
            200,
            "{name}"
        );
    }
}

// behaviour: scale/SC31
#[test]
fn certificates_for_addresses_and_wildcards_are_accepted() {
    let key = SERVER.1;
    let (server, _requests) = serve(config(&owned(SERVER)));
    assert_eq!(
        client(&server, tls(CA, None)).call(get()).unwrap().status,
        200
    );
    let (server, _requests) = serve(config(&owned((data!("server.wildcard.pem"), key))));
    let ca = Some(CA.as_bytes());
    let wildcard = Tls::from_pem(ca, None, None, true, true, Some("any.test.example")).unwrap();
    assert_eq!(client(&server, wildcard).call(get()).unwrap().status, 200);
}

#[test]
fn another_authority_of_the_same_name_is_unknown() {
    let (server, _requests) = serve(Authority::new().config());
    let error = client(&server, Authority::new().tls())
        .call(get())
        .unwrap_err();
    assert!(error.unknown_ca, "{error}");
    assert!(
        error.text.contains("another authority of the same name"),
        "{error}"
    );
}
