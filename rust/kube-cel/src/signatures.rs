//! The signatures of the functions that rules may call.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::question::Authz;
use crate::types::Type;

/// One function a line, or several of the same kind: names, receivers (`-` for none), arguments, result.
///
/// `|` separates alternatives, `()` is an empty list of arguments. `[T]` is a list, `{K:V}` a map, `?T` an optional;
/// `A` and `B` are any one type.
const TABLE: &str = "\
size - string|bytes|[A]|{A:B} int
size string|bytes|[A]|{A:B} () int
type - A type
dyn - A dyn
int - int|uint|double|string|timestamp int
uint - uint|int|double|string uint
double - double|int|uint|string double
string - string|bool|int|uint|double|bytes|duration|timestamp|ip|cidr string
bytes - bytes|string bytes
bool - bool|string bool
duration - duration|string duration
timestamp - timestamp|string|int timestamp
matches - string,string bool
matches,startsWith,endsWith,contains string string bool
charAt string int string
indexOf,lastIndexOf string string|string,int int
indexOf,lastIndexOf [A] A int
lowerAscii,upperAscii,trim string () string
replace string string,string|string,string,int string
split,findAll string string|string,int [string]
substring string int|int,int string
join [string] ()|string string
format string [dyn] string
strings.quote - string string
find string string string
isSorted [A] () bool
sum,min,max [A] () A
slice [A] int,int [A]
flatten [[A]] () [A]
flatten [dyn] int [dyn]
distinct,sort,reverse [A] () [A]
first,last [A] () ?A
lists.range - int [int]
sets.contains,sets.equivalent,sets.intersects - [A],[A] bool
optional.of,optional.ofNonZeroValue - A ?A
optional.none - () ?dyn
hasValue ?A () bool
value ?A () A
or ?A ?A ?A
orValue ?A A A
unwrap,unwrapOpt [?A] () [A]
getFullYear,getMonth,getDate,getDayOfMonth,getDayOfWeek,getDayOfYear,getHours,getMinutes timestamp ()|string int
getSeconds,getMilliseconds timestamp ()|string int
getHours,getMinutes,getSeconds,getMilliseconds duration () int
url - string url
isURL,isQuantity,isIP,ip.isCanonical,isCIDR - string bool
getScheme,getHost,getHostname,getPort,getEscapedPath url () string
getQuery url () {string:[string]}
quantity - string quantity
sign - quantity int
isInteger quantity () bool
asInteger quantity () int
asApproximateFloat quantity () double
isLessThan,isGreaterThan quantity quantity bool
isLessThan,isGreaterThan semver semver bool
compareTo quantity quantity int
compareTo semver semver int
add,sub quantity quantity|int quantity
ip - string ip
ip cidr () ip
family ip () int
isUnspecified,isLoopback,isLinkLocalMulticast,isLinkLocalUnicast,isGlobalUnicast ip () bool
cidr - string cidr
containsIP cidr string|ip bool
containsCIDR cidr string|cidr bool
masked cidr () cidr
prefixLength cidr () int
semver - string|string,bool semver
isSemver - string|string,bool bool
major,minor,patch semver () int
format.named - string ?format
format.dns1123Label,format.dns1123Subdomain,format.dns1035Label,format.dns1123LabelPrefix - () format
format.dns1123SubdomainPrefix,format.dns1035LabelPrefix,format.qualifiedName,format.labelValue - () format
format.uri,format.uuid,format.byte,format.date,format.datetime - () format
validate format string ?[string]
path authorizer string pathcheck
group authorizer string groupcheck
serviceAccount authorizer string,string authorizer
resource groupcheck string resourcecheck
subresource,namespace,name,fieldSelector,labelSelector resourcecheck string resourcecheck
check pathcheck|resourcecheck string decision
errored,allowed decision () bool
error,reason decision () string
jsonpatch.escapeKey - string string";

struct Overload {
    member: bool,
    /// The receiver of a member, then the arguments.
    args: Vec<Pattern>,
    result: Pattern,
}

/// A type in a signature.
#[derive(Clone)]
enum Pattern {
    /// Any type, the same one at each place of the variable.
    Variable(usize),
    Plain(Type),
    List(Box<Pattern>),
    Optional(Box<Pattern>),
    Map(Box<Pattern>, Box<Pattern>),
}

static BY_NAME: LazyLock<HashMap<&'static str, Vec<Overload>>> = LazyLock::new(|| {
    let mut found: HashMap<_, Vec<_>> = HashMap::new();
    for line in TABLE.lines() {
        let mut columns = line.split(' ');
        let mut column = || columns.next().unwrap_or_default();
        let (names, receivers, arguments, result) = (column(), column(), column(), column());
        for name in names.split(',') {
            for receiver in receivers.split('|') {
                for alternative in arguments.split('|') {
                    let words = [receiver].into_iter().filter(|word| *word != "-");
                    let words = words.chain(alternative.split(',').filter(|word| *word != "()"));
                    found.entry(name).or_default().push(Overload {
                        member: receiver != "-",
                        args: words.map(Pattern::read).collect(),
                        result: Pattern::read(result),
                    });
                }
            }
        }
    }
    found
});

/// Return whether there is a function of that name, which may have a dot in it, without a receiver.
pub(crate) fn is_global(name: &str) -> bool {
    BY_NAME
        .get(name)
        .is_some_and(|overloads| overloads.iter().any(|overload| !overload.member))
}

/// Return whether there is any function of that name.
pub(crate) fn is_known(name: &str) -> bool {
    BY_NAME.contains_key(name)
}

/// Return the type of a call; None if no overload takes the arguments, of which the receiver is the first.
pub(crate) fn result(name: &str, member: bool, args: &[Type]) -> Option<Type> {
    let mut result_type: Option<Type> = None;
    for overload in BY_NAME.get(name).into_iter().flatten() {
        if overload.member != member || overload.args.len() != args.len() {
            continue;
        }
        let mut bound = [None, None];
        let mut pairs = overload.args.iter().zip(args);
        if pairs.all(|(wanted, argument)| wanted.binds(argument, &mut bound)) {
            let result = overload.result.with(&bound);
            result_type =
                Some(result_type.map_or_else(|| result.clone(), |before| before.join(&result)));
        }
    }
    result_type
}

impl Pattern {
    fn read(text: &str) -> Self {
        let inside = |open, close| text.strip_prefix(open)?.strip_suffix(close);
        if let Some(item) = inside('[', ']') {
            return Self::List(Box::new(Self::read(item)));
        }
        if let Some((key, value)) = inside('{', '}').and_then(|entry| entry.split_once(':')) {
            return Self::Map(Box::new(Self::read(key)), Box::new(Self::read(value)));
        }
        if let Some(value) = text.strip_prefix('?') {
            return Self::Optional(Box::new(Self::read(value)));
        }
        Self::Plain(match text {
            "A" => return Self::Variable(0),
            "B" => return Self::Variable(1),
            "bool" => Type::Bool,
            "int" => Type::Int,
            "uint" => Type::Uint,
            "double" => Type::Double,
            "string" => Type::String,
            "bytes" => Type::Bytes,
            "duration" => Type::Duration,
            "timestamp" => Type::Timestamp,
            "type" => Type::Type,
            "quantity" => Type::Quantity,
            "url" => Type::Url,
            "ip" => Type::Ip,
            "cidr" => Type::Cidr,
            "semver" => Type::Semver,
            "format" => Type::Format,
            "authorizer" => Type::Authz(Authz::Authorizer),
            "pathcheck" => Type::Authz(Authz::PathCheck),
            "groupcheck" => Type::Authz(Authz::GroupCheck),
            "resourcecheck" => Type::Authz(Authz::ResourceCheck),
            "decision" => Type::Authz(Authz::Decision),
            _ => Type::Dyn,
        })
    }

    fn binds(&self, actual: &Type, bound: &mut [Option<Type>; 2]) -> bool {
        match (self, actual) {
            (Self::Variable(slot), _) => match &mut bound[*slot] {
                Some(before) if !before.fits(actual) => false,
                Some(before) => {
                    *before = before.clone().join(actual);
                    true
                }
                empty => {
                    *empty = Some(actual.clone());
                    true
                }
            },
            (Self::Plain(wanted), _) => actual.fits(wanted),
            (Self::List(item), Type::List(actual)) => item.binds(actual, bound),
            (Self::Optional(value), Type::Optional(actual)) => value.binds(actual, bound),
            (Self::Map(key, value), Type::Map(given_key, given_value)) => {
                key.binds(given_key, bound) && value.binds(given_value, bound)
            }
            _ => actual.is_dyn(),
        }
    }

    fn with(&self, bound: &[Option<Type>; 2]) -> Type {
        match self {
            Self::Variable(slot) => bound[*slot].clone().unwrap_or(Type::Dyn),
            Self::Plain(plain) => plain.clone(),
            Self::List(item) => Type::list(item.with(bound)),
            Self::Optional(value) => Type::optional(value.with(bound)),
            Self::Map(key, value) => Type::map(key.with(bound), value.with(bound)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_the_table_is_a_type() {
        let words = TABLE.lines().flat_map(|line| line.split(' ').skip(1));
        for word in words.flat_map(|column| column.split(['|', ',', '[', ']', '?', '{', '}', ':']))
        {
            let skipped = matches!(word, "" | "-" | "()" | "dyn" | "A" | "B");
            assert!(
                skipped || !Pattern::read(word).with(&[None, None]).is_dyn(),
                "{word}"
            );
        }
    }
}
