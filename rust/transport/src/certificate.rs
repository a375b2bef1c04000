//! Self-signed certificates for servers.

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose};
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
    let subject = names.first().cloned().ok_or("no name")?;
    let mut params = CertificateParams::new(names).map_err(|error| error.to_string())?;
    params.distinguished_name.push(DnType::CommonName, subject);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.not_before = moment(not_before)?;
    params.not_after = moment(not_after)?;
    let key = KeyPair::generate().map_err(|error| error.to_string())?;
    let certificate = params
        .self_signed(&key)
        .map_err(|error| error.to_string())?;
    Ok((certificate.pem(), key.serialize_pem()))
}

fn moment(seconds: i64) -> Result<OffsetDateTime, String> {
    OffsetDateTime::from_unix_timestamp(seconds).map_err(|error| error.to_string())
}
