//! Certificates for servers: self-signed ones, and those of an authority of our own.

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use time::OffsetDateTime;

/// Return a new certificate and its key, an ECDSA key on P-256, as PEM.
///
/// Each of `names` is a host name or an address; the first one is the subject. The times are seconds since the epoch.
///
/// # Errors
/// There is no name, a name is no ASCII text, or a time is out of range.
pub fn self_signed(
    names: Vec<String>,
    not_before: i64,
    not_after: i64,
) -> Result<(String, String), String> {
    let params = of_server(names, not_before, not_after)?;
    let key = new_key()?;
    pem(params.self_signed(&key), &key)
}

/// Return the certificate of a new authority of this name and its key, as `self_signed` does.
///
/// # Errors
/// A time is out of range.
pub fn authority(name: &str, not_before: i64, not_after: i64) -> Result<(String, String), String> {
    let mut params = of_authority(name);
    params.not_before = moment(not_before)?;
    params.not_after = moment(not_after)?;
    let key = new_key()?;
    pem(params.self_signed(&key), &key)
}

/// Return a new certificate for `names` that an authority signs, and its key, as `self_signed` does.
///
/// `issuer` is the name and the key of a result of `authority`.
///
/// # Errors
/// As those of `self_signed`, or the key of the authority is invalid.
pub fn signed(
    names: Vec<String>,
    not_before: i64,
    not_after: i64,
    issuer: (&str, &str),
) -> Result<(String, String), String> {
    let mut params = of_server(names, not_before, not_after)?;
    // During an overlap two authorities have the same name: the identifier of the key tells them apart.
    params.use_authority_key_identifier_extension = true;
    let issuer_key = KeyPair::from_pem(issuer.1).map_err(|error| error.to_string())?;
    let issuer = Issuer::new(of_authority(issuer.0), issuer_key);
    let key = new_key()?;
    pem(params.signed_by(&key, &issuer), &key)
}

fn of_server(
    names: Vec<String>,
    not_before: i64,
    not_after: i64,
) -> Result<CertificateParams, String> {
    let subject = names.first().cloned().ok_or("no name")?;
    let mut params = CertificateParams::new(names).map_err(|error| error.to_string())?;
    params.distinguished_name.push(DnType::CommonName, subject);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.not_before = moment(not_before)?;
    params.not_after = moment(not_after)?;
    Ok(params)
}

fn of_authority(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn new_key() -> Result<KeyPair, String> {
    KeyPair::generate().map_err(|error| error.to_string())
}

fn pem(
    certificate: Result<Certificate, rcgen::Error>,
    key: &KeyPair,
) -> Result<(String, String), String> {
    let certificate = certificate.map_err(|error| error.to_string())?;
    Ok((certificate.pem(), key.serialize_pem()))
}

fn moment(seconds: i64) -> Result<OffsetDateTime, String> {
    OffsetDateTime::from_unix_timestamp(seconds).map_err(|error| error.to_string())
}
