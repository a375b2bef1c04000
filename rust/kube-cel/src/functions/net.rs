//! Addresses and networks.

use std::net::IpAddr;

use crate::error::EvalError;
use crate::value::{Evaluated, Value};

fn address(text: &str) -> Result<IpAddr, EvalError> {
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(v6)) if v6.to_ipv4_mapped().is_some() => Err(EvalError::because(format!(
            "IPv4-mapped IPv6 address {text:?} is not allowed"
        ))),
        Ok(address) => Ok(address),
        Err(_) => {
            let why = format!(
                "IP Address {text:?} parse error during conversion from string: unable to parse IP"
            );
            Err(EvalError::because(why))
        }
    }
}

fn network(text: &str) -> Result<(IpAddr, u8), EvalError> {
    let bad = || {
        EvalError::because(format!(
            "network address parse error during conversion from string: {text:?}"
        ))
    };
    let (start, length) = text.rsplit_once('/').ok_or_else(bad)?;
    let plain = length == "0" || !length.starts_with(['0', '+']);
    let length: u8 = length.parse().map_err(|_| bad())?;
    let start = address(start)?;
    if !plain || length > width(start) {
        return Err(bad());
    }
    Ok((start, length))
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// Return the bits of an address, left-aligned.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

fn mask(length: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0)
}

/// Call a function of a string; None for unknown functions.
pub(super) fn of_text(name: &str, text: &str) -> Option<Evaluated> {
    Some(match name {
        "ip" => address(text).map(Value::Ip),
        "isIP" => Ok(Value::Bool(address(text).is_ok())),
        "ip.isCanonical" => address(text).map(|address| Value::Bool(address.to_string() == text)),
        "cidr" => network(text).map(|(start, length)| Value::Cidr(start, length)),
        "isCIDR" => Ok(Value::Bool(network(text).is_ok())),
        _ => return None,
    })
}

pub(super) fn of_address(name: &str, address: IpAddr) -> Evaluated {
    let link_local = match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.segments()[0] & 0xffc0 == 0xfe80,
    };
    let link_local_multicast = match address {
        IpAddr::V4(v4) => v4.octets()[..3] == [224, 0, 0],
        IpAddr::V6(v6) => v6.segments()[0] & 0xff0f == 0xff02,
    };
    let broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    let special =
        address.is_unspecified() || address.is_loopback() || address.is_multicast() || broadcast;
    Ok(Value::Bool(match name {
        "family" => return Ok(Value::Int(if address.is_ipv4() { 4 } else { 6 })),
        "isUnspecified" => address.is_unspecified(),
        "isLoopback" => address.is_loopback(),
        "isLinkLocalMulticast" => link_local_multicast,
        "isLinkLocalUnicast" => link_local,
        "isGlobalUnicast" => !special && !link_local,
        _ => return Err(EvalError::no_overload()),
    }))
}

pub(super) fn of_network(name: &str, start: IpAddr, length: u8) -> Evaluated {
    match name {
        "ip" => Ok(Value::Ip(start)),
        "prefixLength" => Ok(Value::Int(i64::from(length))),
        "masked" => {
            let masked = bits(start) & mask(length);
            let start = match start {
                IpAddr::V4(_) => IpAddr::V4(u32::try_from(masked >> 96).unwrap_or(0).into()),
                IpAddr::V6(_) => IpAddr::V6(masked.into()),
            };
            Ok(Value::Cidr(start, length))
        }
        _ => Err(EvalError::no_overload()),
    }
}

pub(super) fn contains(name: &str, start: IpAddr, length: u8, other: &Value) -> Evaluated {
    let (inner, inner_length) = match (name, other) {
        ("containsIP", Value::Ip(inner)) => (*inner, width(*inner)),
        ("containsIP", Value::String(text)) => {
            let inner = address(text)?;
            (inner, width(inner))
        }
        ("containsCIDR", Value::Cidr(inner, length)) => (*inner, *length),
        ("containsCIDR", Value::String(text)) => network(text)?,
        _ => return Err(EvalError::no_overload()),
    };
    let same = start.is_ipv4() == inner.is_ipv4()
        && bits(start) & mask(length) == bits(inner) & mask(length);
    Ok(Value::Bool(same && length <= inner_length))
}
