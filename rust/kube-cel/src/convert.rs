//! Conversions between types.

use crate::error::EvalError;
use crate::operators::{checked, overflow};
use crate::times;
use crate::value::{Evaluated, Value};

/// Parse a duration to nanoseconds.
pub(crate) fn duration(text: &str) -> Option<i64> {
    times::duration(text, false)
}

/// Parse a time to nanoseconds since the epoch.
pub(crate) fn timestamp(text: &str) -> Option<i128> {
    times::parse(text)
}

fn failed(value: &Value, wanted: &str) -> EvalError {
    let actual = value.type_name();
    EvalError::because(format!(
        "type conversion error from '{actual}' to '{wanted}'"
    ))
}

fn parsed<T: Default>(result: Option<T>, make: fn(T) -> Value, value: &Value) -> Evaluated {
    let wanted = make(T::default());
    result
        .map(make)
        .ok_or_else(|| failed(value, wanted.type_name()))
}

/// Evaluate `int(value)`.
#[allow(clippy::cast_possible_truncation, reason = "the range is checked")]
pub(crate) fn int(value: &Value) -> Evaluated {
    match value {
        Value::Int(number) => Ok(Value::Int(*number)),
        Value::Uint(number) => checked(i64::try_from(*number).ok(), Value::Int),
        Value::Double(number) if number.is_finite() && number.abs() < 9.223_372_036_854_775e18 => {
            Ok(Value::Int(*number as i64))
        }
        Value::Double(_) => Err(overflow()),
        Value::String(text) => parsed(text.parse().ok(), Value::Int, value),
        Value::Timestamp(nanos) => Ok(Value::Int(nanos.div_euclid(1_000_000_000) as i64)),
        Value::Duration(nanos) => Ok(Value::Int(*nanos)),
        _ => Err(EvalError::no_overload()),
    }
}

/// Evaluate `uint(value)`.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the range is checked"
)]
pub(crate) fn uint(value: &Value) -> Evaluated {
    let overflow = || EvalError::because("unsigned integer overflow");
    match value {
        Value::Uint(number) => Ok(Value::Uint(*number)),
        Value::Int(number) => u64::try_from(*number)
            .map(Value::Uint)
            .map_err(|_| overflow()),
        Value::Double(number) if (0.0..1.844_674_407_370_955e19).contains(number) => {
            Ok(Value::Uint(*number as u64))
        }
        Value::Double(_) => Err(overflow()),
        Value::String(text) => parsed(text.parse().ok(), Value::Uint, value),
        _ => Err(EvalError::no_overload()),
    }
}

/// Evaluate `double(value)`.
#[allow(clippy::cast_precision_loss, reason = "as in every implementation")]
pub(crate) fn double(value: &Value) -> Evaluated {
    match value {
        Value::Double(number) => Ok(Value::Double(*number)),
        Value::Int(number) => Ok(Value::Double(*number as f64)),
        Value::Uint(number) => Ok(Value::Double(*number as f64)),
        Value::String(text) => parsed(text.parse().ok(), Value::Double, value),
        _ => Err(EvalError::no_overload()),
    }
}

/// Evaluate `bool(value)`.
pub(crate) fn bool(value: &Value) -> Evaluated {
    match value {
        Value::Bool(truth) => Ok(Value::Bool(*truth)),
        Value::String(text) => match text.as_ref() {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            _ => Err(failed(value, "bool")),
        },
        _ => Err(EvalError::no_overload()),
    }
}

/// Evaluate `bytes(value)`.
pub(crate) fn bytes(value: &Value) -> Evaluated {
    match value {
        Value::Bytes(_) => Ok(value.clone()),
        Value::String(text) => Ok(Value::Bytes(text.as_bytes().into())),
        _ => Err(EvalError::no_overload()),
    }
}

/// Evaluate `string(value)`.
pub(crate) fn string(value: &Value) -> Evaluated {
    Ok(Value::text(match value {
        Value::String(_) => return Ok(value.clone()),
        Value::Bytes(bytes) => std::str::from_utf8(bytes)
            .map_err(|_| EvalError::because("invalid UTF-8 in bytes, cannot convert to string"))?
            .to_owned(),
        Value::Bool(truth) => truth.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => number.to_string(),
        Value::Double(number) => shown_double(*number),
        Value::Duration(nanos) => shown_duration(*nanos),
        Value::Timestamp(nanos) => times::shown(*nanos),
        Value::Ip(address) => address.to_string(),
        Value::Cidr(address, length) => format!("{address}/{length}"),
        _ => return Err(EvalError::no_overload()),
    }))
}

/// Evaluate `timestamp(value)`.
pub(crate) fn to_timestamp(value: &Value) -> Evaluated {
    match value {
        Value::Timestamp(_) => Ok(value.clone()),
        Value::Int(seconds) => times::in_range(i128::from(*seconds) * 1_000_000_000)
            .ok_or_else(|| EvalError::because("timestamp overflow")),
        Value::String(text) => timestamp(text)
            .and_then(times::in_range)
            .ok_or_else(|| failed(value, "google.protobuf.Timestamp")),
        _ => Err(EvalError::no_overload()),
    }
}

/// Evaluate `duration(value)`.
pub(crate) fn to_duration(value: &Value) -> Evaluated {
    match value {
        Value::Duration(_) => Ok(value.clone()),
        Value::Int(nanos) => Ok(Value::Duration(*nanos)),
        Value::String(text) => duration(text)
            .map(Value::Duration)
            .ok_or_else(|| failed(value, "google.protobuf.Duration")),
        _ => Err(EvalError::no_overload()),
    }
}

/// Format a duration in seconds, as `1.5s`.
pub(crate) fn shown_duration(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let size = nanos.unsigned_abs();
    let fraction = format!(".{:09}", size % 1_000_000_000);
    let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
    format!("{sign}{}{fraction}s", size / 1_000_000_000)
}

/// Return a number with the fewest digits that identify it, with an exponent if it is large or small.
pub(crate) fn shown_double(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        return format!("{number}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}
