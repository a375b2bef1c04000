//! Which functions there are, and what they take and give.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::overloads::{T, TABLE};
use super::types::Type;

struct Overload {
    member: bool,
    args: &'static [T],
    result: T,
}

static BY_NAME: LazyLock<HashMap<&'static str, Vec<Overload>>> = LazyLock::new(|| {
    let mut found: HashMap<_, Vec<_>> = HashMap::new();
    for &(name, member, args, result) in TABLE {
        found.entry(name).or_default().push(Overload {
            member,
            args,
            result,
        });
    }
    found
});

/// Whether a function of that name, which may have a dot in it, stands before its arguments.
pub(super) fn is_global(name: &str) -> bool {
    BY_NAME
        .get(name)
        .is_some_and(|overloads| overloads.iter().any(|overload| !overload.member))
}

/// Whether there is any function of that name.
pub(super) fn is_known(name: &str) -> bool {
    BY_NAME.contains_key(name)
}

/// What a call gives; None where no overload takes the arguments. The value before the dot is the first of them.
pub(super) fn result(name: &str, member: bool, args: &[Type]) -> Option<Type> {
    let mut found: Option<Type> = None;
    let overloads = BY_NAME.get(name).map_or(&[][..], Vec::as_slice);
    for overload in overloads
        .iter()
        .filter(|overload| overload.member == member)
    {
        if overload.args.len() != args.len() {
            continue;
        }
        let mut bound = [None, None];
        if overload
            .args
            .iter()
            .zip(args)
            .all(|(wanted, given)| wanted.binds(given, &mut bound))
        {
            let result = overload.result.with(&bound);
            found = Some(found.map_or_else(|| result.clone(), |before| before.join(&result)));
        }
    }
    found
}

impl T {
    fn binds(self, given: &Type, bound: &mut [Option<Type>; 2]) -> bool {
        let slot = match self {
            Self::A => 0,
            Self::B => 1,
            Self::List(of) => {
                return match given {
                    Type::List(item) => of.binds(item, bound),
                    other => other.is_dyn(),
                };
            }
            Self::Opt(of) => {
                return match given {
                    Type::Optional(value) => of.binds(value, bound),
                    other => other.is_dyn(),
                };
            }
            Self::Map(key, value) => {
                return match given {
                    Type::Map(given_key, given_value) => {
                        key.binds(given_key, bound) && value.binds(given_value, bound)
                    }
                    other => other.is_dyn(),
                };
            }
            plain => return given.fits(&plain.with(&[None, None])),
        };
        match bound.get_mut(slot) {
            Some(Some(before)) if !before.fits(given) => false,
            Some(Some(before)) => {
                *before = before.clone().join(given);
                true
            }
            Some(empty) => {
                *empty = Some(given.clone());
                true
            }
            None => false,
        }
    }

    fn with(self, bound: &[Option<Type>; 2]) -> Type {
        match self {
            Self::A => bound[0].clone().unwrap_or(Type::Dyn),
            Self::B => bound[1].clone().unwrap_or(Type::Dyn),
            Self::Dyn => Type::Dyn,
            Self::Bool => Type::Bool,
            Self::Int => Type::Int,
            Self::Uint => Type::Uint,
            Self::Double => Type::Double,
            Self::Str => Type::String,
            Self::Bytes => Type::Bytes,
            Self::Dur => Type::Duration,
            Self::Time => Type::Timestamp,
            Self::Type => Type::Type,
            Self::Quantity => Type::Quantity,
            Self::Url => Type::Url,
            Self::Ip => Type::Ip,
            Self::Cidr => Type::Cidr,
            Self::Semver => Type::Semver,
            Self::Format => Type::Format,
            Self::List(of) => Type::list(of.with(bound)),
            Self::Opt(of) => Type::optional(of.with(bound)),
            Self::Map(key, value) => Type::map(key.with(bound), value.with(bound)),
        }
    }
}
