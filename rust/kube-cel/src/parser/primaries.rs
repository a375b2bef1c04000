//! Names, literals, and their suffixes: the parts of expressions that bind tightest.

use super::lexer::{Token, is_reserved};
use super::macros::{self, Called};
use super::wanted::Wanted;
use super::{Dialect, Parsed, Parser};
use crate::ast::{Expr, Field, Id};
use crate::error::CompileError;
use crate::signatures;
use crate::types::is_type_name;
use crate::value::Value;

fn is_literal(name: &str) -> bool {
    matches!(name, "true" | "false" | "null" | "in")
}

impl Parser<'_> {
    pub(crate) fn member(&mut self) -> Parsed {
        let operand = self.primary()?;
        self.member_of(operand)
    }

    pub(crate) fn member_of(&mut self, mut of: Id) -> Parsed {
        loop {
            let at = self.at();
            if self.accept(".") {
                let optional = self.optional(".?")?;
                let field = match self.peek() {
                    // Reserved words are names behind a dot.
                    Token::Ident(name) if !is_literal(name) => name.clone(),
                    Token::Quoted(_) if self.dialect == Dialect::Plain => {
                        return Err(self.quoted());
                    }
                    Token::Quoted(name) => name.clone(),
                    _ => return Err(self.no_field()),
                };
                self.next += 1;
                let call = self.at();
                of = if !optional && self.accept("(") {
                    let args = self.arguments()?;
                    self.call(call, field, Some(of), args)?
                } else if let Some(name) = self.type_name(of, &field) {
                    self.add(at, Expr::Ident(name))?
                } else {
                    let test = false;
                    self.add(
                        at,
                        Expr::Select {
                            of,
                            field,
                            test,
                            optional,
                        },
                    )?
                };
            } else if self.accept("[") {
                let optional = self.optional("[?")?;
                let index = self.inside("]", &["?"], Self::expression)?;
                self.expect("]")?;
                of = self.add(at, Expr::Index(of, index, optional))?;
            } else if self.is("{") {
                of = self.message(at, of)?;
            } else {
                return Ok(of);
            }
        }
    }

    fn call(&mut self, at: usize, function: String, target: Option<Id>, args: Vec<Id>) -> Parsed {
        if self.dialect == Dialect::Plain {
            return self.add(at, Expr::Call(function, target, args));
        }
        // `sets.contains(…)`: the part before the dot belongs to the name of the function.
        if let Some(Expr::Ident(space)) = target.and_then(|target| self.expr(target)) {
            let function = format!("{space}.{function}");
            if signatures::is_global(&function) {
                return self.add(at, Expr::Call(function, None, args));
            }
        }
        match macros::expand(self, &function, Called { at, target, args })? {
            Ok(id) => Ok(id),
            Err(Called { target, args, .. }) => self.add(at, Expr::Call(function, target, args)),
        }
    }

    /// Return the name of a type that contains dots, if a selection spells one.
    fn type_name(&self, of: Id, field: &str) -> Option<String> {
        if self.dialect == Dialect::Plain {
            return None;
        }
        let before = match self.expr(of)? {
            Expr::Ident(name) => name.clone(),
            Expr::Select { of, field, .. } => match self.expr(*of)? {
                Expr::Ident(name) => format!("{name}.{field}"),
                _ => return None,
            },
            _ => return None,
        };
        Some(format!("{before}.{field}")).filter(|name| is_type_name(name))
    }

    /// Parse the fields behind the name of a message.
    fn message(&mut self, at: usize, of: Id) -> Parsed {
        let Some(name) = self.dotted(of) else {
            return Err(self.unexpected(Wanted::Tokens(&["<EOF>"])));
        };
        self.next += 1;
        let fields = self.items("}", &[], |parser| {
            let optional = parser.optional("?")?;
            let name = match parser.peek() {
                Token::Ident(name) if !is_literal(name) => name.clone(),
                Token::Quoted(_) => return Err(parser.quoted()),
                _ => return Err(parser.unexpected(Wanted::Field)),
            };
            parser.next += 1;
            let at = parser.at();
            parser.expect(":")?;
            Ok(Field {
                name,
                value: parser.expression()?,
                optional,
                at,
            })
        })?;
        self.add(at, Expr::Message(name, fields))
    }

    fn quoted(&self) -> CompileError {
        CompileError::at(self.at(), "unsupported syntax: '`'".to_owned())
    }

    /// Return a name with dots, if the selections spell one.
    fn dotted(&self, mut of: Id) -> Option<String> {
        let mut parts = Vec::new();
        loop {
            match self.expr(of)? {
                Expr::Ident(name) => {
                    parts.push(name.as_str());
                    parts.reverse();
                    return Some(parts.join("."));
                }
                Expr::Select {
                    of: inner,
                    field,
                    test: false,
                    optional: false,
                } => {
                    parts.push(field);
                    of = *inner;
                }
                _ => return None,
            }
        }
    }

    fn arguments(&mut self) -> Result<Vec<Id>, CompileError> {
        let mut arguments = Vec::new();
        if self.accept(")") {
            return Ok(arguments);
        }
        self.inside(")", &[")"], |parser| {
            arguments.push(parser.expression()?);
            while parser.accept(",") {
                arguments.push(parser.expression()?);
            }
            Ok(())
        })?;
        self.expect(")")?;
        Ok(arguments)
    }

    /// Parse what is between brackets, whose last comma is optional.
    fn items<T>(
        &mut self,
        end: &'static str,
        first: &'static [&'static str],
        mut item: impl FnMut(&mut Self) -> Result<T, CompileError>,
    ) -> Result<Vec<T>, CompileError> {
        let mut items = Vec::new();
        let mut comma = true;
        self.inside(end, first, |parser| {
            // Behind a comma, only the end and another comma are known to be no item.
            while comma && !parser.is(end) && (items.is_empty() || !parser.ends_items()) {
                items.push(item(parser)?);
                comma = parser.accept(",");
            }
            Ok(())
        })?;
        if comma || self.is(end) {
            self.expect(end)?;
        } else {
            let wanted = if end == "]" { &["]", ","] } else { &["}", ","] };
            return Err(self.unexpected(Wanted::Tokens(wanted)));
        }
        Ok(items)
    }

    fn ends_items(&self) -> bool {
        self.is(",") || *self.peek() == Token::End
    }

    /// Return the error for a token behind a dot that is not a name.
    fn no_field(&self) -> CompileError {
        if matches!(self.peek(), Token::Ident(name) if name != "in") {
            return self.unexpected(Wanted::Identifier);
        }
        let token = match self.peek() {
            Token::End => "",
            _ => self.shown(),
        };
        let why = format!("Syntax error: no viable alternative at input '.{token}'");
        CompileError::at(self.at(), why)
    }

    fn primary(&mut self) -> Parsed {
        let at = self.at();
        match self.peek().clone() {
            Token::Sign("(") => {
                self.next += 1;
                let inner = self.inside(")", &[], Self::expression)?;
                self.expect(")")?;
                Ok(inner)
            }
            Token::Sign("[") => self.list(at),
            Token::Sign("{") => self.map(at),
            // A leading dot skips all variables.
            Token::Sign(".") => {
                self.next += 1;
                let dot = if self.dialect == Dialect::Plain {
                    "."
                } else {
                    ""
                };
                self.named(at, Some(dot))
            }
            Token::Ident(name) => {
                let literal = match name.as_str() {
                    "true" => Some(Value::Bool(true)),
                    "false" => Some(Value::Bool(false)),
                    "null" => Some(Value::Null),
                    _ => None,
                };
                if let Some(value) = literal {
                    self.next += 1;
                    return self.add(at, Expr::Literal(value));
                }
                self.named(at, None)
            }
            Token::Int(_)
            | Token::Uint(_)
            | Token::Double(_)
            | Token::Text(_)
            | Token::Bytes(_) => self.literal(false),
            Token::Quoted(_) | Token::Sign(_) | Token::End => Err(self.no_expression()),
        }
    }

    /// Parse a name, or a call of it.
    fn named(&mut self, at: usize, dot: Option<&str>) -> Parsed {
        let name = match self.peek() {
            Token::Ident(name) if !is_literal(name) => name.clone(),
            _ if dot.is_none() => return Err(self.no_expression()),
            _ => return Err(self.no_field()),
        };
        if is_reserved(&name) {
            return Err(CompileError::at(at, format!("reserved identifier: {name}")));
        }
        let name = format!("{}{name}", dot.unwrap_or_default());
        self.next += 1;
        let call = self.at();
        if self.accept("(") {
            let args = self.arguments()?;
            return self.call(call, name, None, args);
        }
        self.add(at, Expr::Ident(name))
    }

    pub(crate) fn literal(&mut self, negative: bool) -> Parsed {
        let at = self.at();
        let sign = if negative { "-" } else { "" };
        let kind = match self.peek() {
            Token::Uint(_) => "uint",
            Token::Double(_) => "double",
            _ => "int",
        };
        let value = match self.peek() {
            Token::Int(digits) => {
                let (digits, radix) = radix_of(digits);
                i64::from_str_radix(&format!("{sign}{digits}"), radix)
                    .ok()
                    .map(Value::Int)
            }
            Token::Uint(digits) => {
                let (digits, radix) = radix_of(digits);
                u64::from_str_radix(digits, radix).ok().map(Value::Uint)
            }
            Token::Double(digits) => format!("{sign}{digits}")
                .parse::<f64>()
                .ok()
                .filter(|number| number.is_finite())
                .map(Value::Double),
            Token::Text(text) => Some(Value::text(text.as_str())),
            Token::Bytes(bytes) => Some(Value::Bytes(bytes.as_slice().into())),
            Token::Ident(_) | Token::Quoted(_) | Token::Sign(_) | Token::End => None,
        };
        let value = value.ok_or_else(|| CompileError::at(at, format!("invalid {kind} literal")))?;
        self.next += 1;
        self.add(at, Expr::Literal(value))
    }

    fn list(&mut self, at: usize) -> Parsed {
        self.next += 1;
        let items = self.items("]", &["]", ",", "?"], |parser| {
            let optional = parser.optional("?")?;
            Ok((parser.expression()?, optional))
        })?;
        self.add(at, Expr::List(items))
    }

    fn map(&mut self, at: usize) -> Parsed {
        self.next += 1;
        let entries = self.items("}", &["}", ",", "?"], |parser| {
            let optional = parser.optional("?")?;
            let key = parser.expression()?;
            parser.expect(":")?;
            Ok((key, parser.expression()?, optional))
        })?;
        self.add(at, Expr::Map(entries))
    }
}

fn radix_of(digits: &str) -> (&str, u32) {
    digits
        .strip_prefix("0x")
        .map_or((digits, 10), |hex| (hex, 16))
}
