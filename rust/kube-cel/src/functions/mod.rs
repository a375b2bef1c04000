//! The functions that rules may call.

mod format;
mod lists;
mod names;
mod net;
mod patterns;
mod strings;

use crate::pattern::Pattern;

use crate::convert;
use crate::equality::Budget;
use crate::error::EvalError;
use crate::quantity::{self, Quantity};
use crate::semver::Semver;
use crate::times;
use crate::url::Url;
use crate::value::{Evaluated, Key, Value};

/// Call a function; the receiver is the first argument. `pattern` is the compiled literal argument, if there is one.
pub(crate) fn call(
    name: &str,
    args: &[Value],
    pattern: Option<&Pattern>,
    budget: &mut Budget,
) -> Evaluated {
    budget.charge(args.iter().map(Value::weight).sum::<u64>() / 4)?;
    match args {
        [] => none(name),
        [Value::Int(count)] if name == "lists.range" => lists::range(*count, budget),
        [only] if !matches!(only, Value::String(_) | Value::List(_)) || is_conversion(name) => {
            one(name, only)
        }
        _ => match (name, args) {
            ("matches" | "find" | "findAll", [Value::String(text), rest @ ..]) => {
                patterns::call(name, text, rest, pattern, budget)
            }
            ("format", [Value::String(text), Value::List(list)]) => {
                format::format(text, &list.items, budget)
            }
            ("validate", [Value::Format(format), Value::String(text)]) => {
                Ok(names::validate(format, text))
            }
            ("url", [Value::String(text)]) => Url::parse(text)
                .map(|url| Value::Url(url.into()))
                .ok_or_else(|| {
                    EvalError::because(format!(
                        "URL parse error during conversion from string: {text:?}"
                    ))
                }),
            ("jsonpatch.escapeKey", [Value::String(key)]) => {
                Ok(Value::text(key.replace('~', "~0").replace('/', "~1")))
            }
            ("isURL", [Value::String(text)]) => Ok(Value::Bool(Url::parse(text).is_some())),
            ("quantity", [Value::String(text)]) => Quantity::parse(text)
                .map(|quantity| Value::Quantity(quantity.into()))
                .ok_or_else(|| EvalError::because(quantity::BAD)),
            ("isQuantity", [Value::String(text)]) => {
                Ok(Value::Bool(Quantity::parse(text).is_some()))
            }
            ("semver" | "isSemver", [Value::String(text), rest @ ..]) => {
                let tolerant = matches!(rest, [Value::Bool(true)]);
                let version = Semver::parse(text, tolerant);
                if name == "isSemver" {
                    return Ok(Value::Bool(version.is_some()));
                }
                version
                    .map(|version| Value::Semver(version.into()))
                    .ok_or_else(|| EvalError::because("No Major.Minor.Patch elements found"))
            }
            ("format.named", [Value::String(text)]) => Ok(Value::Optional(
                names::named(text).map(|format| Value::Format(format).into()),
            )),
            (_, [Value::String(text), rest @ ..]) => {
                if let Some(result) = net::of_text(name, text) {
                    return result;
                }
                strings::call(name, text, rest, budget)
            }
            (_, [Value::List(list), rest @ ..]) => lists::call(name, list, rest, budget),
            (_, [Value::Optional(inner), other]) => match (name, inner) {
                ("or" | "orValue", None) => Ok(other.clone()),
                ("orValue", Some(inner)) => Ok((**inner).clone()),
                ("or", Some(_)) => Ok(Value::Optional(inner.clone())),
                _ => Err(EvalError::no_overload()),
            },
            (_, [Value::Quantity(a), other]) => quantity_with(name, a, other),
            (_, [Value::Semver(a), Value::Semver(b)]) => ordered(name, a.compare(b)),
            (_, [Value::Cidr(address, length), other]) => {
                net::contains(name, *address, *length, other)
            }
            (_, [Value::Timestamp(nanos), Value::String(zone)]) => match zone_seconds(zone) {
                Some(ahead) => time_part(name, *nanos, ahead),
                None => Err(EvalError::because(format!("unknown time zone {zone}"))),
            },
            _ => Err(EvalError::no_overload()),
        },
    }
}

fn is_conversion(name: &str) -> bool {
    const TYPES: &str = "size type dyn int uint double string bytes bool duration timestamp";
    name.starts_with("optional.of") || TYPES.split(' ').any(|known| known == name)
}

fn none(name: &str) -> Evaluated {
    match name {
        "optional.none" => Ok(Value::Optional(None)),
        _ => name
            .strip_prefix("format.")
            .and_then(names::named)
            .map(Value::Format)
            .ok_or_else(EvalError::no_overload),
    }
}

fn one(name: &str, value: &Value) -> Evaluated {
    match (name, value) {
        ("size", _) => size(value),
        ("type", _) => Ok(Value::Type(value.type_name().into())),
        ("dyn", _) => Ok(value.clone()),
        ("int", _) => convert::int(value),
        ("uint", _) => convert::uint(value),
        ("double", _) => convert::double(value),
        ("string", _) => convert::string(value),
        ("bytes", _) => convert::bytes(value),
        ("bool", _) => convert::bool(value),
        ("duration", _) => convert::to_duration(value),
        ("timestamp", _) => convert::to_timestamp(value),
        ("optional.of", _) => Ok(Value::some(value.clone())),
        ("optional.ofNonZeroValue", _) => Ok(if is_zero(value) {
            Value::Optional(None)
        } else {
            Value::some(value.clone())
        }),
        ("hasValue", Value::Optional(inner)) => Ok(Value::Bool(inner.is_some())),
        ("value", Value::Optional(inner)) => inner
            .as_ref()
            .map(|inner| (**inner).clone())
            .ok_or_else(|| EvalError::because("optional.none() dereference")),
        (_, Value::Timestamp(nanos)) => time_part(name, *nanos, 0),
        (_, Value::Duration(nanos)) => duration_part(name, *nanos),
        (_, Value::Url(url)) => url_part(name, url),
        (_, Value::Quantity(quantity)) => match name {
            "sign" => Ok(Value::Int(quantity.sign())),
            "isInteger" => Ok(Value::Bool(quantity.integer().is_some())),
            "asInteger" => quantity
                .integer()
                .map(Value::Int)
                .ok_or_else(|| EvalError::because("cannot convert value to integer")),
            "asApproximateFloat" => Ok(Value::Double(quantity.approximate())),
            _ => Err(EvalError::no_overload()),
        },
        (_, Value::Semver(version)) => version
            .part(name)
            .and_then(|part| i64::try_from(part).ok())
            .map(Value::Int)
            .ok_or_else(EvalError::no_overload),
        (_, Value::Ip(address)) => net::of_address(name, *address),
        (_, Value::Cidr(address, length)) => net::of_network(name, *address, *length),
        _ => Err(EvalError::no_overload()),
    }
}

fn size(value: &Value) -> Evaluated {
    let size = match value {
        Value::String(text) => text.chars().count(),
        Value::Bytes(bytes) => bytes.len(),
        Value::List(list) => list.items.len(),
        Value::Map(map) => map.len(),
        _ => return Err(EvalError::no_overload()),
    };
    Ok(Value::Int(i64::try_from(size).unwrap_or(i64::MAX)))
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null
        | Value::Bool(false)
        | Value::Int(0)
        | Value::Uint(0)
        | Value::Duration(0)
        | Value::Optional(None) => true,
        Value::Double(number) => *number == 0.0,
        Value::String(text) => text.is_empty(),
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::List(list) => list.items.is_empty(),
        Value::Map(map) => map.is_empty(),
        _ => false,
    }
}

fn ordered(name: &str, order: std::cmp::Ordering) -> Evaluated {
    match name {
        "isLessThan" => Ok(Value::Bool(order.is_lt())),
        "isGreaterThan" => Ok(Value::Bool(order.is_gt())),
        "compareTo" => Ok(Value::Int(order as i64)),
        _ => Err(EvalError::no_overload()),
    }
}

fn quantity_with(name: &str, a: &Quantity, other: &Value) -> Evaluated {
    let b = match other {
        Value::Quantity(b) => **b,
        Value::Int(number) => Quantity::of_integer(*number),
        _ => return Err(EvalError::no_overload()),
    };
    let result = match name {
        "add" => a.add(&b),
        "sub" => a.add(&b.negated()),
        _ => return ordered(name, a.compare(&b)),
    };
    result
        .map(|quantity| Value::Quantity(quantity.into()))
        .ok_or_else(|| EvalError::because("integer overflow"))
}

fn zone_seconds(zone: &str) -> Option<i64> {
    match zone {
        "UTC" | "" | "Etc/UTC" | "GMT" => Some(0),
        _ => times::zone_seconds(zone),
    }
}

fn time_part(name: &str, nanos: i128, ahead: i64) -> Evaluated {
    let parts = times::parts(nanos, ahead);
    Ok(Value::Int(match name {
        "getFullYear" => parts.year,
        "getMonth" => i64::from(parts.month) - 1,
        "getDate" => i64::from(parts.day),
        "getDayOfMonth" => i64::from(parts.day) - 1,
        "getDayOfWeek" => parts.weekday,
        "getDayOfYear" => parts.day_of_year,
        "getHours" => parts.hour,
        "getMinutes" => parts.minute,
        "getSeconds" => parts.second,
        "getMilliseconds" => parts.nanos / 1_000_000,
        _ => return Err(EvalError::no_overload()),
    }))
}

fn duration_part(name: &str, nanos: i64) -> Evaluated {
    Ok(Value::Int(match name {
        "getHours" => nanos / 3_600_000_000_000,
        "getMinutes" => nanos / 60_000_000_000,
        "getSeconds" => nanos / 1_000_000_000,
        "getMilliseconds" => nanos / 1_000_000,
        _ => return Err(EvalError::no_overload()),
    }))
}

fn url_part(name: &str, url: &Url) -> Evaluated {
    Ok(match name {
        "getScheme" => Value::text(url.scheme.as_str()),
        "getHost" => Value::text(url.host()),
        "getHostname" => Value::text(url.hostname.as_str()),
        "getPort" => Value::text(url.port.as_str()),
        "getEscapedPath" => Value::text(url.path.as_str()),
        "getQuery" => {
            let queries = url.queries();
            let lists = queries.into_iter().map(|(name, values)| {
                let values = values.into_iter().map(Value::text).collect();
                (Key::String(name.into()), Value::list(values))
            });
            Value::Map(std::sync::Arc::new(lists.collect()))
        }
        _ => return Err(EvalError::no_overload()),
    })
}
