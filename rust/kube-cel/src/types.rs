//! The static types of expressions, those of operators and selections, and the checker's errors.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::ast::Binary;
use crate::error::CompileError;
use crate::question::Authz;
use crate::value::Value;

/// A type; `Dyn` is known only when the rule runs.
#[derive(Clone, Debug)]
pub(crate) enum Type {
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
    /// A type of the authorizer.
    Authz(Authz),
    /// A message of a mutation, by its name.
    Message(Arc<str>),
    List(Arc<Type>),
    Map(Arc<Type>, Arc<Type>),
    Object(Arc<ObjectType>),
    Optional(Arc<Type>),
}

/// An object of a schema, with its fields under their names in rules.
#[derive(Debug)]
pub(crate) struct ObjectType {
    pub(crate) fields: BTreeMap<String, Type>,
}

impl Type {
    pub(crate) fn list(of: Self) -> Self {
        Self::List(Arc::new(of))
    }

    pub(crate) fn map(key: Self, value: Self) -> Self {
        Self::Map(Arc::new(key), Arc::new(value))
    }

    pub(crate) fn optional(of: Self) -> Self {
        Self::Optional(Arc::new(of))
    }

    /// Wrap the type into an optional if `optional`, unless it is one.
    pub(crate) fn optional_if(self, optional: bool) -> Self {
        match self {
            Self::Optional(_) => self,
            _ if optional => Self::optional(self),
            _ => self,
        }
    }

    /// Return whether this type is assignable to the other one.
    pub(crate) fn fits(&self, wanted: &Self) -> bool {
        match (self, wanted) {
            (Self::List(a), Self::List(b)) | (Self::Optional(a), Self::Optional(b)) => a.fits(b),
            (Self::Map(a, c), Self::Map(b, d)) => a.fits(b) && c.fits(d),
            (Self::Object(a), Self::Object(b)) => Arc::ptr_eq(a, b),
            (Self::Message(a), Self::Message(b)) => a == b,
            (Self::Authz(a), Self::Authz(b)) => a == b,
            (Self::Dyn, _) | (_, Self::Dyn) => true,
            (Self::Null, other) | (other, Self::Null) if other.has_null() => true,
            _ => std::mem::discriminant(self) == std::mem::discriminant(wanted),
        }
    }

    /// Return whether both are the same type; `Dyn` is only itself.
    pub(crate) fn is_exactly(&self, wanted: &Self) -> bool {
        match (self, wanted) {
            (Self::Dyn, Self::Dyn) => true,
            (Self::Dyn, _) | (_, Self::Dyn) => false,
            (Self::List(a), Self::List(b)) => a.is_exactly(b),
            (Self::Null, _) | (_, Self::Null) => matches!((self, wanted), (Self::Null, Self::Null)),
            _ => self.fits(wanted),
        }
    }

    /// Return whether null is a value of the type, as of those that are messages on CEL's wire, and of opaque ones.
    fn has_null(&self) -> bool {
        matches!(
            self,
            Self::Object(_)
                | Self::Message(_)
                | Self::Duration
                | Self::Timestamp
                | Self::Quantity
                | Self::Url
                | Self::Ip
                | Self::Cidr
                | Self::Semver
                | Self::Format
                | Self::Optional(_)
        )
    }

    /// Return the common type; `Dyn` if they differ.
    pub(crate) fn join(self, other: &Self) -> Self {
        match (&self, other) {
            (Self::Null, _) if self.fits(other) => other.clone(),
            (Self::List(a), Self::List(_)) if matches!(**a, Self::Dyn) => other.clone(),
            (Self::Map(_, a), Self::Map(..)) if matches!(**a, Self::Dyn) => other.clone(),
            _ if self.fits(other) => self,
            _ => Self::Dyn,
        }
    }

    pub(crate) fn is_dyn(&self) -> bool {
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
            Self::Authz(of) => of.name(),
            Self::Message(name) => name,
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
pub(crate) fn is_type_name(name: &str) -> bool {
    TYPE_NAMES.split(' ').any(|known| known == name)
}

pub(crate) type Found = Result<Type, CompileError>;

/// Return an error unless `fits`.
pub(crate) fn require(
    fits: bool,
    at: usize,
    name: &str,
    operands: &[Type],
) -> Result<(), CompileError> {
    if fits {
        Ok(())
    } else {
        Err(no_overload(at, name, operands))
    }
}

/// Return the type of a field.
pub(crate) fn field(operand: Type, name: &str, optional: bool, at: usize) -> Found {
    let type_ = match operand {
        Type::Optional(inner) => {
            return Ok(field((*inner).clone(), name, false, at)?.optional_if(true));
        }
        Type::Dyn | Type::Message(_) => Type::Dyn,
        Type::Object(object) => match object.fields.get(name) {
            Some(type_) => type_.clone(),
            None => return Err(CompileError::at(at, format!("undefined field '{name}'"))),
        },
        Type::Map(key, value) if key.fits(&Type::String) => (*value).clone(),
        Type::Authz(Authz::Authorizer) if name == "requestResource" => {
            Type::Authz(Authz::ResourceCheck)
        }
        other => {
            let why = format!("type '{other}' does not support field selection");
            return Err(CompileError::at(at, why));
        }
    };
    Ok(if optional {
        Type::optional(type_)
    } else {
        type_
    })
}

pub(crate) fn literal(value: &Value) -> Type {
    match value {
        Value::Null => Type::Null,
        Value::Bool(_) => Type::Bool,
        Value::Int(_) => Type::Int,
        Value::Uint(_) => Type::Uint,
        Value::Double(_) => Type::Double,
        Value::String(_) => Type::String,
        Value::Bytes(_) => Type::Bytes,
        _ => Type::Dyn,
    }
}

pub(crate) fn undeclared(at: usize, name: &str) -> CompileError {
    CompileError::at(
        at,
        format!("undeclared reference to '{name}' (in container '')"),
    )
}

pub(crate) fn no_overload(at: usize, name: &str, operands: &[Type]) -> CompileError {
    let why = format!(
        "found no matching overload for '{name}' applied to '{}'",
        shown_call(false, operands)
    );
    CompileError::at(at, why)
}

pub(crate) fn shown_call(member: bool, operands: &[Type]) -> String {
    let texts: Vec<String> = operands.iter().map(ToString::to_string).collect();
    match texts.split_first() {
        Some((first, rest)) if member => format!("{first}.({})", rest.join(", ")),
        _ => format!("({})", texts.join(", ")),
    }
}

/// Return the result type of an operator; None if it does not accept these operands.
pub(crate) fn binary(operator: Binary, left: &Type, right: &Type) -> Option<Type> {
    use Type::{Bool, Bytes, Double, Duration, Dyn, Int, List, Map, String, Timestamp, Uint};
    let number = |of: &Type| matches!(of, Int | Uint | Double);
    match operator {
        Binary::Equal | Binary::NotEqual => left.fits(right).then_some(Bool),
        Binary::Less | Binary::LessEqual | Binary::Greater | Binary::GreaterEqual => {
            let ordered = |of: &Type| {
                number(of) || matches!(of, Bool | String | Bytes | Duration | Timestamp | Dyn)
            };
            let fits = ordered(left)
                && ordered(right)
                && (left.fits(right) || (number(left) && number(right)));
            fits.then_some(Bool)
        }
        Binary::In => match right {
            List(item) => left.fits(item).then_some(Bool),
            Map(key, _) => left.fits(key).then_some(Bool),
            Dyn => Some(Bool),
            _ => None,
        },
        _ => match (left, right) {
            (Dyn, Dyn) => Some(Dyn),
            (Timestamp, Timestamp) if operator == Binary::Subtract => Some(Duration),
            (Timestamp, Duration) if matches!(operator, Binary::Add | Binary::Subtract) => {
                Some(Timestamp)
            }
            (Duration, Timestamp) if operator == Binary::Add => Some(Timestamp),
            (Timestamp | Duration, Dyn) | (Dyn, Timestamp | Duration)
                if matches!(operator, Binary::Add | Binary::Subtract) =>
            {
                Some(Dyn)
            }
            (Dyn, known) | (known, Dyn) => binary(operator, known, known),
            (Duration, Duration) if matches!(operator, Binary::Add | Binary::Subtract) => {
                Some(Duration)
            }
            (Int, Int) | (Uint, Uint) => Some(left.clone()),
            (Double, Double) if operator != Binary::Modulo => Some(Double),
            (String, String) | (Bytes, Bytes) if operator == Binary::Add => Some(left.clone()),
            (List(_), List(_)) if operator == Binary::Add && left.fits(right) => {
                Some(left.clone().join(right))
            }
            _ => None,
        },
    }
}
