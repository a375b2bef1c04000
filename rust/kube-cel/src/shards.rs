//! Shard selectors, `shardRange(object.metadata.uid, '0x…', '0x…') || …`: expressions that are read, never evaluated.

use crate::ast::{Ast, Expr, Id};
use crate::parser::{Dialect, parse_as};
use crate::value::Value;

/// The largest end, 2^64, which alone has 17 digits.
const LARGEST_END: &str = "0x10000000000000000";

/// Objects by the hash of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardSelector {
    /// The field: `object.metadata.uid` or `object.metadata.namespace`.
    pub field: &'static str,
    /// The ranges as written: from a hash to before another one, which is at most 2^64.
    pub ranges: Vec<(u64, u128)>,
}

impl ShardSelector {
    /// Parse a selector.
    ///
    /// # Errors
    /// The message of the API server for an invalid one, without what it has before each: `invalid shard selector: `.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.is_empty() {
            return Err(
                "empty shard selector is not allowed; omit the parameter for unfiltered lists"
                    .to_owned(),
            );
        }
        let ast = parse_as(Dialect::Plain, text)
            .map_err(|error| format!("CEL parse error: {}", error.why))?;
        let mut ranges = Vec::new();
        walk(&ast, ast.root, &mut ranges)?;
        let field = ranges.first().map_or("", |(field, _)| *field);
        if let Some((other, _)) = ranges.iter().find(|(other, _)| *other != field) {
            return Err(format!(
                "all shard ranges must use the same field, got \"{field}\" and \"{other}\""
            ));
        }
        let ranges = ranges.into_iter().map(|(_, range)| range).collect();
        Ok(Self { field, ranges })
    }
}

type Ranges = Vec<(&'static str, (u64, u128))>;

fn walk(ast: &Ast, id: Id, ranges: &mut Ranges) -> Result<(), String> {
    match expr_of(ast, id) {
        Some(Expr::Or(parts)) => parts.iter().try_for_each(|part| walk(ast, *part, ranges)),
        // The server does not look at the receiver.
        Some(Expr::Call(function, _, args)) if function == "shardRange" => {
            ranges.push(range_of(ast, args)?);
            Ok(())
        }
        Some(expr) => Err(match function_of(expr) {
            Some(function) => format!(
                "unsupported function {}; only shardRange() and || are allowed",
                quoted(function)
            ),
            None => format!(
                "unexpected expression kind {}; expected shardRange() call or || operator",
                kind_of(expr)
            ),
        }),
        None => Ok(()),
    }
}

fn range_of(ast: &Ast, args: &[Id]) -> Result<(&'static str, (u64, u128)), String> {
    let &[field, start, end] = args else {
        return Err(format!(
            "shardRange() requires exactly 3 arguments, got {}",
            args.len()
        ));
    };
    let path = path_of(ast, field).map_err(|why| format!("shardRange() first argument: {why}"))?;
    let field = match path.as_str() {
        "object.metadata.uid" => "object.metadata.uid",
        "object.metadata.namespace" => "object.metadata.namespace",
        _ => {
            return Err(format!(
                "unsupported field path {}; supported: object.metadata.uid, object.metadata.namespace",
                quoted(&path)
            ));
        }
    };
    let (first, start) = hash_of(ast, start, "hexStart")?;
    let (last, end) = hash_of(ast, end, "hexEnd")?;
    match u64::try_from(start) {
        Ok(start) if u128::from(start) < end => Ok((field, (start, end))),
        _ => Err(format!(
            "shard range start {first} must be less than end {last}"
        )),
    }
}

fn path_of(ast: &Ast, id: Id) -> Result<String, String> {
    match expr_of(ast, id) {
        Some(Expr::Ident(name)) => Ok(name.clone()),
        Some(Expr::Select { of, field, .. }) => Ok(format!("{}.{field}", path_of(ast, *of)?)),
        other => Err(format!(
            "expected field path (e.g. object.metadata.uid), got expression kind {}",
            other.map_or(0, kind_of)
        )),
    }
}

/// Read a bound; return it as written, and its value.
fn hash_of<'a>(ast: &'a Ast, id: Id, name: &str) -> Result<(&'a str, u128), String> {
    let value = match expr_of(ast, id) {
        Some(Expr::Literal(value)) => value,
        other => {
            return Err(format!(
                "{name} must be a string literal (e.g. '0xff'), got expression kind {}",
                other.map_or(0, kind_of)
            ));
        }
    };
    let Value::String(text) = value else {
        let go = go_type(value);
        return Err(format!("{name} must be a string literal, got {go}"));
    };
    let shown = quoted(text);
    let Some(digits) = text.strip_prefix("0x") else {
        return Err(format!("{name} must have '0x' prefix, got {shown}"));
    };
    if digits.is_empty() {
        return Err(format!("{name}: hex value is required after '0x'"));
    }
    if digits.len() > 17 {
        return Err(format!(
            "{name}: hex value too long ({} chars, max 17): {}",
            digits.len(),
            quoted(digits)
        ));
    }
    let wrong = |digit: &char| !matches!(digit, '0'..='9' | 'a'..='f');
    if let Some(digit) = digits.chars().find(wrong) {
        let digit = quoted(digit.encode_utf8(&mut [0; 4]));
        return Err(format!("{name}: invalid hex character {digit} in {shown}"));
    }
    if digits.len() == 17 && **text != *LARGEST_END {
        return Err(format!(
            "{name}: 17-digit hex value must be '{LARGEST_END}' (2^64), got {shown}"
        ));
    }
    if digits.len() < 16 {
        return Err(format!(
            "{name} must be a 0x-prefixed 16-digit hex value, got {shown} (did you mean \"0x{digits:0>16}\"?)"
        ));
    }
    Ok((text, u128::from_str_radix(digits, 16).unwrap_or_default()))
}

fn expr_of(ast: &Ast, id: Id) -> Option<&Expr> {
    ast.nodes.get(id).map(|node| &node.expr)
}

/// Return the function of a call, which operators are, too.
fn function_of(expr: &Expr) -> Option<&str> {
    Some(match expr {
        Expr::Call(function, _, _) => function,
        Expr::Not(_) => "!_",
        Expr::Negate(_) => "-_",
        Expr::Index(..) => "_[_]",
        Expr::Binary(operator, _, _) => operator.name(),
        Expr::And(_) => "_&&_",
        Expr::Or(_) => "_||_",
        Expr::Ternary(..) => "_?_:_",
        _ => return None,
    })
}

/// Return the number of the kind, as the API server numbers them.
fn kind_of(expr: &Expr) -> u8 {
    match expr {
        Expr::Ident(_) => 3,
        Expr::List(_) => 4,
        Expr::Literal(_) => 5,
        Expr::Map(_) => 6,
        Expr::Select { .. } => 7,
        Expr::Message(..) => 8,
        Expr::Fold(_) | Expr::OptMap { .. } => 2,
        _ => 1,
    }
}

/// Return the type of a literal in Go.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::Uint(_) => "uint64",
        Value::Double(_) => "float64",
        Value::Bytes(_) => "[]uint8",
        _ => "structpb.NullValue",
    }
}

/// Quote a text as Go's `%q`.
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for character in text.chars() {
        let code = u32::from(character);
        let escaped = match character {
            '\u{7}' => "\\a".to_owned(),
            '\u{8}' => "\\b".to_owned(),
            '\u{b}' => "\\v".to_owned(),
            '\u{c}' => "\\f".to_owned(),
            '\'' => "'".to_owned(),
            _ => match character.escape_debug().nth(1) {
                Some('u' | '0') if code < 0x80 => format!("\\x{code:02x}"),
                Some('u') if code < 0x1_0000 => format!("\\u{code:04x}"),
                Some('u') => format!("\\U{code:08x}"),
                _ => character.escape_debug().collect(),
            },
        };
        out += &escaped;
    }
    out.push('"');
    out
}
