//! Names, literals, and their suffixes: the parts of expressions that bind tightest.

use super::lexer::{Spanned, Token, is_reserved};
use super::macros::{self, Called};
use super::{Parsed, Parser};
use crate::ast::{Expr, Field, Id};
use crate::error::CompileError;
use crate::signatures;
use crate::types::is_type_name;
use crate::value::Value;

/// The possible beginnings of an expression, as messages list them.
const BEGINNINGS: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, \
                          BYTES, IDENTIFIER}";

fn is_literal(name: &str) -> bool {
    matches!(name, "true" | "false" | "null" | "in")
}

impl Parser {
    pub(crate) fn member(&mut self) -> Parsed {
        let operand = self.primary()?;
        self.member_of(operand)
    }

    pub(crate) fn member_of(&mut self, mut of: Id) -> Parsed {
        loop {
            let at = self.at();
            if self.accept(".") {
                let optional = self.accept("?");
                let field = match self.peek() {
                    // Reserved words are names behind a dot.
                    Token::Ident(name) if !is_literal(name) => name.clone(),
                    Token::Quoted(name) => name.clone(),
                    _ => return Err(self.unexpected("IDENTIFIER")),
                };
                self.next += 1;
                let call = self.at();
                of = if !optional && self.accept("(") {
                    let args = self.arguments(")")?;
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
                let optional = self.accept("?");
                let index = self.expression()?;
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
            return Err(self.unexpected("the end"));
        };
        self.expect("{")?;
        let mut fields = Vec::new();
        while !self.is("}") {
            let optional = self.accept("?");
            let name = match self.peek() {
                Token::Ident(name) if !is_literal(name) => name.clone(),
                Token::Quoted(_) => {
                    let why = "unsupported syntax: '`'".to_owned();
                    return Err(CompileError::at(self.at(), why));
                }
                _ => return Err(self.unexpected("IDENTIFIER")),
            };
            self.next += 1;
            let at = self.at();
            self.expect(":")?;
            fields.push(Field {
                name,
                value: self.expression()?,
                optional,
                at,
            });
            if !self.accept(",") {
                break;
            }
        }
        self.expect("}")?;
        self.add(at, Expr::Message(name, fields))
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

    fn arguments(&mut self, end: &str) -> Result<Vec<Id>, CompileError> {
        let mut arguments = Vec::new();
        if self.accept(end) {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.expression()?);
            if !self.accept(",") {
                break;
            }
        }
        self.expect(end)?;
        Ok(arguments)
    }

    fn primary(&mut self) -> Parsed {
        let at = self.at();
        match self.peek().clone() {
            Token::Sign("(") => {
                self.next += 1;
                let inner = self.expression()?;
                self.expect(")")?;
                Ok(inner)
            }
            Token::Sign("[") => self.list(at),
            Token::Sign("{") => self.map(at),
            // A leading dot skips all variables.
            Token::Sign(".")
                if matches!(
                    self.tokens.get(self.next + 1),
                    Some(Spanned {
                        token: Token::Ident(_),
                        ..
                    })
                ) =>
            {
                self.next += 1;
                self.primary()
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
                if name == "in" || is_reserved(&name) {
                    return Err(CompileError::at(
                        at,
                        format!("Syntax error: reserved identifier: {name}"),
                    ));
                }
                self.next += 1;
                let call = self.at();
                if self.accept("(") {
                    let args = self.arguments(")")?;
                    return self.call(call, name, None, args);
                }
                self.add(at, Expr::Ident(name))
            }
            Token::Int(_)
            | Token::Uint(_)
            | Token::Double(_)
            | Token::Text(_)
            | Token::Bytes(_) => self.literal(false),
            Token::Quoted(_) | Token::Sign(_) | Token::End => Err(self.unexpected(BEGINNINGS)),
        }
    }

    pub(crate) fn literal(&mut self, negative: bool) -> Parsed {
        let at = self.at();
        let sign = if negative { "-" } else { "" };
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
        let value = value.ok_or_else(|| {
            CompileError::at(at, "Syntax error: invalid number literal".to_owned())
        })?;
        self.next += 1;
        self.add(at, Expr::Literal(value))
    }

    fn list(&mut self, at: usize) -> Parsed {
        self.next += 1;
        let mut items = Vec::new();
        while !self.is("]") {
            let optional = self.accept("?");
            items.push((self.expression()?, optional));
            if !self.accept(",") {
                break;
            }
        }
        self.expect("]")?;
        self.add(at, Expr::List(items))
    }

    fn map(&mut self, at: usize) -> Parsed {
        self.next += 1;
        let mut entries = Vec::new();
        while !self.is("}") {
            let optional = self.accept("?");
            let key = self.expression()?;
            self.expect(":")?;
            entries.push((key, self.expression()?, optional));
            if !self.accept(",") {
                break;
            }
        }
        self.expect("}")?;
        self.add(at, Expr::Map(entries))
    }
}

fn radix_of(digits: &str) -> (&str, u32) {
    digits
        .strip_prefix("0x")
        .map_or((digits, 10), |hex| (hex, 16))
}
