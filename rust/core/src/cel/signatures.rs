//! Which functions there are, and what they take and give.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::types::Type;

/// A type in a signature; `A` and `B` stand for any one type.
#[derive(Clone, Copy, Debug)]
enum T {
    A,
    B,
    Dyn,
    Bool,
    Int,
    Uint,
    Double,
    Str,
    Bytes,
    Dur,
    Time,
    Type,
    Quantity,
    Url,
    Ip,
    Cidr,
    Semver,
    Format,
    List(&'static T),
    Map(&'static T, &'static T),
    Opt(&'static T),
}

struct Overload {
    member: bool,
    args: &'static [T],
    result: T,
}

const LIST_A: T = T::List(&T::A);
const LIST_STR: T = T::List(&T::Str);
const MAP: T = T::Map(&T::A, &T::B);
const OPT_A: T = T::Opt(&T::A);

/// Names, whether they stand behind a value, arguments (the value first), result.
const TABLE: &[(&str, bool, &[T], T)] = &[
    ("size", false, &[T::Str], T::Int),
    ("size", false, &[T::Bytes], T::Int),
    ("size", false, &[LIST_A], T::Int),
    ("size", false, &[MAP], T::Int),
    ("size", true, &[T::Str], T::Int),
    ("size", true, &[T::Bytes], T::Int),
    ("size", true, &[LIST_A], T::Int),
    ("size", true, &[MAP], T::Int),
    ("type", false, &[T::A], T::Type),
    ("dyn", false, &[T::A], T::Dyn),
    ("int", false, &[T::Int], T::Int),
    ("int", false, &[T::Uint], T::Int),
    ("int", false, &[T::Double], T::Int),
    ("int", false, &[T::Str], T::Int),
    ("int", false, &[T::Time], T::Int),
    ("uint", false, &[T::Uint], T::Uint),
    ("uint", false, &[T::Int], T::Uint),
    ("uint", false, &[T::Double], T::Uint),
    ("uint", false, &[T::Str], T::Uint),
    ("double", false, &[T::Double], T::Double),
    ("double", false, &[T::Int], T::Double),
    ("double", false, &[T::Uint], T::Double),
    ("double", false, &[T::Str], T::Double),
    ("string", false, &[T::Str], T::Str),
    ("string", false, &[T::Bool], T::Str),
    ("string", false, &[T::Int], T::Str),
    ("string", false, &[T::Uint], T::Str),
    ("string", false, &[T::Double], T::Str),
    ("string", false, &[T::Bytes], T::Str),
    ("string", false, &[T::Dur], T::Str),
    ("string", false, &[T::Time], T::Str),
    ("string", false, &[T::Ip], T::Str),
    ("string", false, &[T::Cidr], T::Str),
    ("bytes", false, &[T::Bytes], T::Bytes),
    ("bytes", false, &[T::Str], T::Bytes),
    ("bool", false, &[T::Bool], T::Bool),
    ("bool", false, &[T::Str], T::Bool),
    ("duration", false, &[T::Dur], T::Dur),
    ("duration", false, &[T::Str], T::Dur),
    ("timestamp", false, &[T::Time], T::Time),
    ("timestamp", false, &[T::Str], T::Time),
    ("timestamp", false, &[T::Int], T::Time),
    ("matches", false, &[T::Str, T::Str], T::Bool),
    ("matches", true, &[T::Str, T::Str], T::Bool),
    ("startsWith", true, &[T::Str, T::Str], T::Bool),
    ("endsWith", true, &[T::Str, T::Str], T::Bool),
    ("contains", true, &[T::Str, T::Str], T::Bool),
    ("charAt", true, &[T::Str, T::Int], T::Str),
    ("indexOf", true, &[T::Str, T::Str], T::Int),
    ("indexOf", true, &[T::Str, T::Str, T::Int], T::Int),
    ("lastIndexOf", true, &[T::Str, T::Str], T::Int),
    ("lastIndexOf", true, &[T::Str, T::Str, T::Int], T::Int),
    ("lowerAscii", true, &[T::Str], T::Str),
    ("upperAscii", true, &[T::Str], T::Str),
    ("trim", true, &[T::Str], T::Str),
    ("replace", true, &[T::Str, T::Str, T::Str], T::Str),
    ("replace", true, &[T::Str, T::Str, T::Str, T::Int], T::Str),
    ("split", true, &[T::Str, T::Str], LIST_STR),
    ("split", true, &[T::Str, T::Str, T::Int], LIST_STR),
    ("substring", true, &[T::Str, T::Int], T::Str),
    ("substring", true, &[T::Str, T::Int, T::Int], T::Str),
    ("join", true, &[LIST_STR], T::Str),
    ("join", true, &[LIST_STR, T::Str], T::Str),
    ("format", true, &[T::Str, T::List(&T::Dyn)], T::Str),
    ("strings.quote", false, &[T::Str], T::Str),
    ("find", true, &[T::Str, T::Str], T::Str),
    ("findAll", true, &[T::Str, T::Str], LIST_STR),
    ("findAll", true, &[T::Str, T::Str, T::Int], LIST_STR),
    ("isSorted", true, &[LIST_A], T::Bool),
    ("sum", true, &[LIST_A], T::A),
    ("min", true, &[LIST_A], T::A),
    ("max", true, &[LIST_A], T::A),
    ("indexOf", true, &[LIST_A, T::A], T::Int),
    ("lastIndexOf", true, &[LIST_A, T::A], T::Int),
    ("slice", true, &[LIST_A, T::Int, T::Int], LIST_A),
    ("flatten", true, &[T::List(&LIST_A)], LIST_A),
    (
        "flatten",
        true,
        &[T::List(&T::Dyn), T::Int],
        T::List(&T::Dyn),
    ),
    ("distinct", true, &[LIST_A], LIST_A),
    ("sort", true, &[LIST_A], LIST_A),
    ("reverse", true, &[LIST_A], LIST_A),
    ("first", true, &[LIST_A], OPT_A),
    ("last", true, &[LIST_A], OPT_A),
    ("lists.range", false, &[T::Int], T::List(&T::Int)),
    ("sets.contains", false, &[LIST_A, LIST_A], T::Bool),
    ("sets.equivalent", false, &[LIST_A, LIST_A], T::Bool),
    ("sets.intersects", false, &[LIST_A, LIST_A], T::Bool),
    ("optional.of", false, &[T::A], OPT_A),
    ("optional.ofNonZeroValue", false, &[T::A], OPT_A),
    ("optional.none", false, &[], T::Opt(&T::Dyn)),
    ("hasValue", true, &[OPT_A], T::Bool),
    ("value", true, &[OPT_A], T::A),
    ("or", true, &[OPT_A, OPT_A], OPT_A),
    ("orValue", true, &[OPT_A, T::A], T::A),
    ("unwrap", true, &[T::List(&OPT_A)], LIST_A),
    ("unwrapOpt", true, &[T::List(&OPT_A)], LIST_A),
    ("getFullYear", true, &[T::Time], T::Int),
    ("getFullYear", true, &[T::Time, T::Str], T::Int),
    ("getMonth", true, &[T::Time], T::Int),
    ("getMonth", true, &[T::Time, T::Str], T::Int),
    ("getDate", true, &[T::Time], T::Int),
    ("getDate", true, &[T::Time, T::Str], T::Int),
    ("getDayOfMonth", true, &[T::Time], T::Int),
    ("getDayOfMonth", true, &[T::Time, T::Str], T::Int),
    ("getDayOfWeek", true, &[T::Time], T::Int),
    ("getDayOfWeek", true, &[T::Time, T::Str], T::Int),
    ("getDayOfYear", true, &[T::Time], T::Int),
    ("getDayOfYear", true, &[T::Time, T::Str], T::Int),
    ("getHours", true, &[T::Time], T::Int),
    ("getHours", true, &[T::Time, T::Str], T::Int),
    ("getMinutes", true, &[T::Time], T::Int),
    ("getMinutes", true, &[T::Time, T::Str], T::Int),
    ("getSeconds", true, &[T::Time], T::Int),
    ("getSeconds", true, &[T::Time, T::Str], T::Int),
    ("getMilliseconds", true, &[T::Time], T::Int),
    ("getMilliseconds", true, &[T::Time, T::Str], T::Int),
    ("getHours", true, &[T::Dur], T::Int),
    ("getMinutes", true, &[T::Dur], T::Int),
    ("getSeconds", true, &[T::Dur], T::Int),
    ("getMilliseconds", true, &[T::Dur], T::Int),
    ("url", false, &[T::Str], T::Url),
    ("isURL", false, &[T::Str], T::Bool),
    ("getScheme", true, &[T::Url], T::Str),
    ("getHost", true, &[T::Url], T::Str),
    ("getHostname", true, &[T::Url], T::Str),
    ("getPort", true, &[T::Url], T::Str),
    ("getEscapedPath", true, &[T::Url], T::Str),
    ("getQuery", true, &[T::Url], T::Map(&T::Str, &LIST_STR)),
    ("quantity", false, &[T::Str], T::Quantity),
    ("isQuantity", false, &[T::Str], T::Bool),
    ("sign", false, &[T::Quantity], T::Int),
    ("isInteger", true, &[T::Quantity], T::Bool),
    ("asInteger", true, &[T::Quantity], T::Int),
    ("asApproximateFloat", true, &[T::Quantity], T::Double),
    ("isLessThan", true, &[T::Quantity, T::Quantity], T::Bool),
    ("isGreaterThan", true, &[T::Quantity, T::Quantity], T::Bool),
    ("compareTo", true, &[T::Quantity, T::Quantity], T::Int),
    ("add", true, &[T::Quantity, T::Quantity], T::Quantity),
    ("add", true, &[T::Quantity, T::Int], T::Quantity),
    ("sub", true, &[T::Quantity, T::Quantity], T::Quantity),
    ("sub", true, &[T::Quantity, T::Int], T::Quantity),
    ("ip", false, &[T::Str], T::Ip),
    ("isIP", false, &[T::Str], T::Bool),
    ("ip.isCanonical", false, &[T::Str], T::Bool),
    ("family", true, &[T::Ip], T::Int),
    ("isUnspecified", true, &[T::Ip], T::Bool),
    ("isLoopback", true, &[T::Ip], T::Bool),
    ("isLinkLocalMulticast", true, &[T::Ip], T::Bool),
    ("isLinkLocalUnicast", true, &[T::Ip], T::Bool),
    ("isGlobalUnicast", true, &[T::Ip], T::Bool),
    ("cidr", false, &[T::Str], T::Cidr),
    ("isCIDR", false, &[T::Str], T::Bool),
    ("containsIP", true, &[T::Cidr, T::Str], T::Bool),
    ("containsIP", true, &[T::Cidr, T::Ip], T::Bool),
    ("containsCIDR", true, &[T::Cidr, T::Str], T::Bool),
    ("containsCIDR", true, &[T::Cidr, T::Cidr], T::Bool),
    ("ip", true, &[T::Cidr], T::Ip),
    ("masked", true, &[T::Cidr], T::Cidr),
    ("prefixLength", true, &[T::Cidr], T::Int),
    ("semver", false, &[T::Str], T::Semver),
    ("semver", false, &[T::Str, T::Bool], T::Semver),
    ("isSemver", false, &[T::Str], T::Bool),
    ("isSemver", false, &[T::Str, T::Bool], T::Bool),
    ("major", true, &[T::Semver], T::Int),
    ("minor", true, &[T::Semver], T::Int),
    ("patch", true, &[T::Semver], T::Int),
    ("isLessThan", true, &[T::Semver, T::Semver], T::Bool),
    ("isGreaterThan", true, &[T::Semver, T::Semver], T::Bool),
    ("compareTo", true, &[T::Semver, T::Semver], T::Int),
    ("format.named", false, &[T::Str], T::Opt(&T::Format)),
    ("format.dns1123Label", false, &[], T::Format),
    ("format.dns1123Subdomain", false, &[], T::Format),
    ("format.dns1035Label", false, &[], T::Format),
    ("format.dns1123LabelPrefix", false, &[], T::Format),
    ("format.dns1123SubdomainPrefix", false, &[], T::Format),
    ("format.dns1035LabelPrefix", false, &[], T::Format),
    ("format.qualifiedName", false, &[], T::Format),
    ("format.labelValue", false, &[], T::Format),
    ("format.uri", false, &[], T::Format),
    ("format.uuid", false, &[], T::Format),
    ("format.byte", false, &[], T::Format),
    ("format.date", false, &[], T::Format),
    ("format.datetime", false, &[], T::Format),
    ("validate", true, &[T::Format, T::Str], T::Opt(&LIST_STR)),
];

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
