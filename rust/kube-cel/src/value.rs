//! The values of rules.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use crate::error::EvalError;
use crate::quantity::Quantity;
use crate::question::Check;
use crate::url::Url;

/// A value, or why there is none.
pub(crate) type Evaluated = Result<Value, EvalError>;

/// A value. A clone is cheap: large content is shared.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
    /// Nanoseconds.
    Duration(i64),
    /// Nanoseconds since the epoch.
    Timestamp(i128),
    /// A list, with the meaning of its order from the schema.
    List(Arc<List>),
    /// A map, or an object with the names of its fields in rules.
    Map(Arc<BTreeMap<Key, Value>>),
    Type(Arc<str>),
    /// A value or nothing.
    Optional(Option<Arc<Value>>),
    /// A number with a unit.
    Quantity(Arc<Quantity>),
    Url(Arc<Url>),
    Ip(IpAddr),
    /// An address with the length of its prefix.
    Cidr(IpAddr, u8),
    Semver(Arc<crate::semver::Semver>),
    /// A named format.
    Format(&'static str),
    /// A message of a mutation.
    Message(Arc<Message>),
    /// A value of the authorizer.
    Authz(Arc<Check>),
}

/// A message with its fields.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub name: Arc<str>,
    pub fields: BTreeMap<String, Value>,
}

/// The elements of a list.
#[derive(Clone, Debug, Default)]
pub(crate) struct List {
    pub items: Vec<Value>,
    /// How elements are identified.
    pub kind: ListKind,
}

/// The value of `x-kubernetes-list-type`.
#[derive(Clone, Debug, Default)]
pub(crate) enum ListKind {
    /// Compared as a whole, in order.
    #[default]
    Atomic,
    /// Unique elements, in any order.
    Set,
    /// Elements identified by the values of these fields, in any order.
    Map(Arc<[String]>),
}

/// The key of a map.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Bool(bool),
    /// An integer, signed or not.
    Int(i128),
    String(Arc<str>),
}

impl Key {
    /// Convert a value to a key, if possible.
    pub(crate) fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Bool(truth) => Some(Self::Bool(*truth)),
            Value::Int(number) => Some(Self::Int(i128::from(*number))),
            Value::Uint(number) => Some(Self::Int(i128::from(*number))),
            #[allow(clippy::cast_possible_truncation, reason = "it is whole and in range")]
            Value::Double(number) if number.fract() == 0.0 && number.abs() < 1e18 => {
                Some(Self::Int(*number as i128))
            }
            Value::String(text) => Some(Self::String(Arc::clone(text))),
            _ => None,
        }
    }

    /// Return the key as a value, for the variable of a macro.
    pub(crate) fn value(&self) -> Value {
        match self {
            Self::Bool(truth) => Value::Bool(*truth),
            Self::Int(number) => i64::try_from(*number).map_or_else(
                |_| Value::Uint(u64::try_from(*number).unwrap_or(u64::MAX)),
                Value::Int,
            ),
            Self::String(text) => Value::String(Arc::clone(text)),
        }
    }
}

impl Value {
    pub(crate) fn text(text: impl Into<Arc<str>>) -> Self {
        Self::String(text.into())
    }

    pub(crate) fn list(items: Vec<Self>) -> Self {
        Self::List(Arc::new(List {
            items,
            kind: ListKind::Atomic,
        }))
    }

    pub(crate) fn some(value: Self) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    /// Return the name that `type()` gives.
    pub(crate) fn type_name(&self) -> &str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Type(_) => "type",
            Self::Optional(_) => "optional_type",
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Url(_) => "kubernetes.URL",
            Self::Ip(_) => "net.IP",
            Self::Cidr(..) => "net.CIDR",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Format(_) => "kubernetes.NamedFormat",
            Self::Message(message) => &message.name,
            Self::Authz(check) => check.type_of().name(),
        }
    }

    /// Return the cost of a comparison or a copy in steps: roughly the number of elements, without deeper levels.
    pub(crate) fn weight(&self) -> u64 {
        let size = match self {
            Self::String(text) => text.len() / 10,
            Self::Bytes(bytes) => bytes.len() / 10,
            Self::List(list) => list.items.len(),
            Self::Map(map) => map.len(),
            Self::Message(message) => message.fields.len(),
            _ => 0,
        };
        size as u64 + 1
    }

    /// Return the order of numbers, strings, bytes, booleans and times; None for other values.
    pub(crate) fn order(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => Some(a.cmp(b)),
            (Self::String(a), Self::String(b)) => Some(a.cmp(b)),
            (Self::Bytes(a), Self::Bytes(b)) => Some(a.cmp(b)),
            (Self::Duration(a), Self::Duration(b)) => Some(a.cmp(b)),
            (Self::Timestamp(a), Self::Timestamp(b)) => Some(a.cmp(b)),
            (Self::Double(a), Self::Double(b)) => a.partial_cmp(b),
            (Self::Double(a), b) => b.whole().and_then(|b| compare_double(*a, b)),
            (a, Self::Double(b)) => a
                .whole()
                .and_then(|a| compare_double(*b, a))
                .map(Ordering::reverse),
            (a, b) => Some(a.whole()?.cmp(&b.whole()?)),
        }
    }

    fn whole(&self) -> Option<i128> {
        match self {
            Self::Int(number) => Some(i128::from(*number)),
            Self::Uint(number) => Some(i128::from(*number)),
            _ => None,
        }
    }
}

#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "decided by the whole part first"
)]
fn compare_double(double: f64, whole: i128) -> Option<Ordering> {
    if double.is_nan() {
        return None;
    }
    if double.abs() >= 1e20 {
        return Some(if double > 0.0 {
            Ordering::Greater
        } else {
            Ordering::Less
        });
    }
    let floor = double.floor() as i128;
    Some(match floor.cmp(&whole) {
        Ordering::Equal if double.fract() != 0.0 => Ordering::Greater,
        found => found,
    })
}
