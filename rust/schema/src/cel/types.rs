//! The static types of expressions.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A type; `Dyn` is known only when the rule runs.
#[derive(Clone, Debug)]
pub(super) enum Type {
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Duration,
    Timestamp,
    /// A type as a value.
    #[allow(clippy::enum_variant_names, reason = "that is what it is called")]
    Type,
    Quantity,
    Url,
    Ip,
    Cidr,
    Semver,
    Format,
    List(Arc<Type>),
    Map(Arc<Type>, Arc<Type>),
    Object(Arc<ObjectType>),
    Optional(Arc<Type>),
}

/// An object of a schema, with its fields under their names in rules.
#[derive(Debug)]
pub(super) struct ObjectType {
    pub(super) fields: BTreeMap<String, Type>,
}

impl Type {
    pub(super) fn list(of: Self) -> Self {
        Self::List(Arc::new(of))
    }

    pub(super) fn map(key: Self, value: Self) -> Self {
        Self::Map(Arc::new(key), Arc::new(value))
    }

    pub(super) fn optional(of: Self) -> Self {
        Self::Optional(Arc::new(of))
    }

    /// Wrap the type into an optional if `optional`, unless it is one.
    pub(super) fn optional_if(self, optional: bool) -> Self {
        match self {
            Self::Optional(_) => self,
            _ if optional => Self::optional(self),
            _ => self,
        }
    }

    /// Return whether this type is assignable to the other one.
    pub(super) fn fits(&self, wanted: &Self) -> bool {
        match (self, wanted) {
            (Self::List(a), Self::List(b)) | (Self::Optional(a), Self::Optional(b)) => a.fits(b),
            (Self::Map(a, c), Self::Map(b, d)) => a.fits(b) && c.fits(d),
            (Self::Object(a), Self::Object(b)) => Arc::ptr_eq(a, b),
            // Null is a value of the types that are messages in the wire format of CEL.
            (
                Self::Null,
                Self::Object(_)
                | Self::Duration
                | Self::Timestamp
                | Self::Quantity
                | Self::Url
                | Self::Optional(_),
            )
            | (Self::Object(_) | Self::Duration | Self::Timestamp, Self::Null)
            | (Self::Dyn, _)
            | (_, Self::Dyn) => true,
            _ => std::mem::discriminant(self) == std::mem::discriminant(wanted),
        }
    }

    /// Return the common type; `Dyn` if they differ.
    pub(super) fn join(self, other: &Self) -> Self {
        match (&self, other) {
            (Self::Null, _) if self.fits(other) => other.clone(),
            (Self::List(a), Self::List(_)) if matches!(**a, Self::Dyn) => other.clone(),
            (Self::Map(_, a), Self::Map(..)) if matches!(**a, Self::Dyn) => other.clone(),
            _ if self.fits(other) => self,
            _ => Self::Dyn,
        }
    }

    pub(super) fn is_dyn(&self) -> bool {
        matches!(self, Self::Dyn)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dyn => "dyn",
            Self::Null => "null",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Duration => "google.protobuf.Duration",
            Self::Timestamp => "google.protobuf.Timestamp",
            Self::Type => "type",
            Self::Quantity => "kubernetes.Quantity",
            Self::Url => "kubernetes.URL",
            Self::Ip => "net.IP",
            Self::Cidr => "net.CIDR",
            Self::Semver => "kubernetes.Semver",
            Self::Format => "kubernetes.NamedFormat",
            Self::Object(_) => "object",
            Self::List(of) => return write!(f, "list({of})"),
            Self::Map(key, value) => return write!(f, "map({key}, {value})"),
            Self::Optional(of) => return write!(f, "optional_type({of})"),
        })
    }
}

/// The names of types that are expressions.
const TYPE_NAMES: &str = "bool int uint double string bytes list map null_type type optional_type \
                          google.protobuf.Timestamp google.protobuf.Duration net.IP net.CIDR \
                          kubernetes.Quantity kubernetes.URL kubernetes.Semver";

/// Return whether a name is that of a type.
pub(super) fn is_type_name(name: &str) -> bool {
    TYPE_NAMES.split(' ').any(|known| known == name)
}
