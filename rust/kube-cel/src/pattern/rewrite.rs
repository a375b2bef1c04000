//! Rewriting Go's syntax to that of the `regex` crate.

use std::iter::Peekable;
use std::str::Chars;

use super::escape::push_literal;

/// The highest count in a repetition, as in Go.
const MAX_REPEAT: u32 = 1_000;
pub(super) type Rewritten<T> = Result<T, &'static str>;

/// Return the equivalent pattern for the crate.
pub(super) fn rewrite(text: &str) -> Rewritten<String> {
    Rewriter {
        rest: text.chars().peekable(),
        out: String::with_capacity(text.len() + 16),
        repeatable: Repeatable::Nothing,
        repeats: vec![1],
        last_group: 1,
    }
    .run()
}

/// The operand of a repetition operator.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repeatable {
    Nothing,
    One,
    Group,
    Repetition,
}

pub(super) struct Rewriter<'t> {
    pub(super) rest: Peekable<Chars<'t>>,
    pub(super) out: String,
    repeatable: Repeatable,
    /// The largest product of counts in each open group so far; Go bounds that product.
    repeats: Vec<u32>,
    /// The product of the last closed group.
    last_group: u32,
}

impl Rewriter<'_> {
    fn run(mut self) -> Rewritten<String> {
        while let Some(char) = self.rest.next() {
            match char {
                '\\' => {
                    let empty = matches!(self.rest.peek(), Some('A' | 'b' | 'B' | 'z'));
                    self.escape(false)?;
                    self.repeatable = if empty {
                        Repeatable::Group
                    } else {
                        Repeatable::One
                    };
                    if empty {
                        self.last_group = 1;
                    }
                }
                '[' => {
                    self.class()?;
                    self.repeatable = Repeatable::One;
                }
                '(' => self.open()?,
                ')' => {
                    if self.repeats.len() < 2 {
                        return Err("unexpected )");
                    }
                    let inner = self.repeats.pop().unwrap_or(1);
                    self.last_group = inner;
                    self.widen(inner);
                    self.out.push(')');
                    self.repeatable = Repeatable::Group;
                }
                '|' => {
                    self.out.push('|');
                    self.repeatable = Repeatable::Nothing;
                }
                '*' | '+' | '?' => self.repetition(&char.to_string(), 1)?,
                '{' => match self.counts() {
                    Some((text, most)) => {
                        if most > MAX_REPEAT {
                            return Err("invalid repeat count");
                        }
                        self.repetition(&text, most.max(1))?;
                    }
                    None => self.literal('{'),
                },
                '^' | '$' => {
                    self.out.push(char);
                    self.repeatable = Repeatable::Group;
                    self.last_group = 1;
                }
                '.' => {
                    self.out.push('.');
                    self.repeatable = Repeatable::One;
                }
                other => self.literal(other),
            }
        }
        if self.repeats.len() > 1 {
            return Err("missing closing )");
        }
        Ok(self.out)
    }

    fn literal(&mut self, char: char) {
        push_literal(&mut self.out, char);
        self.repeatable = Repeatable::One;
    }

    /// Note a product of counts in the open group.
    fn widen(&mut self, product: u32) {
        if let Some(most) = self.repeats.last_mut() {
            *most = product.max(*most);
        }
    }

    fn repetition(&mut self, operator: &str, count: u32) -> Rewritten<()> {
        let inner = match self.repeatable {
            Repeatable::Nothing => return Err("missing argument to repetition operator"),
            Repeatable::Repetition => return Err("invalid nested repetition operator"),
            Repeatable::One => 1,
            Repeatable::Group => self.last_group,
        };
        let product = inner.saturating_mul(count);
        if product > MAX_REPEAT {
            return Err("invalid repeat count");
        }
        self.widen(product);
        self.out.push_str(operator);
        if self.rest.next_if_eq(&'?').is_some() {
            self.out.push('?');
        }
        self.repeatable = Repeatable::Repetition;
        Ok(())
    }

    /// Parse a count after `{`; anything else is a literal brace.
    fn counts(&mut self) -> Option<(String, u32)> {
        let mut ahead = self.rest.clone();
        let mut text = String::from("{");
        let least = digits(&mut ahead, &mut text)?;
        let mut most = least;
        if ahead.next_if_eq(&',').is_some() {
            text.push(',');
            if ahead.peek() != Some(&'}') {
                most = digits(&mut ahead, &mut text)?;
            }
        }
        ahead.next_if_eq(&'}')?;
        text.push('}');
        self.rest = ahead;
        Some((text, least.max(most)))
    }

    fn open(&mut self) -> Rewritten<()> {
        self.repeats.push(1);
        self.repeatable = Repeatable::Nothing;
        self.out.push('(');
        if self.rest.next_if_eq(&'?').is_none() {
            return Ok(());
        }
        self.out.push('?');
        if self.rest.next_if_eq(&'P').is_some() {
            if self.rest.peek() != Some(&'<') {
                return Err("invalid or unsupported Perl syntax");
            }
            self.name();
            return Ok(());
        }
        if self.rest.peek() == Some(&'<') {
            let mut ahead = self.rest.clone();
            ahead.next();
            if matches!(ahead.peek(), Some('=' | '!')) {
                return Err("invalid or unsupported Perl syntax");
            }
            self.name();
            return Ok(());
        }
        loop {
            match self.rest.next() {
                Some(':') => {
                    self.out.push(':');
                    return Ok(());
                }
                Some(')') => {
                    // Flags for the rest of the enclosing group.
                    self.repeats.pop();
                    self.out.push(')');
                    return Ok(());
                }
                Some(flag @ ('i' | 'm' | 's' | 'U' | '-')) => self.out.push(flag),
                _ => return Err("invalid or unsupported Perl syntax"),
            }
        }
    }

    /// Copy the name of a group.
    fn name(&mut self) {
        for char in self.rest.by_ref() {
            self.out.push(char);
            if char == '>' {
                break;
            }
        }
    }
}

fn digits(rest: &mut Peekable<Chars<'_>>, text: &mut String) -> Option<u32> {
    let mut value: Option<u32> = None;
    while let Some(digit) = rest.peek().and_then(|char| char.to_digit(10)) {
        value = Some(value.unwrap_or(0).saturating_mul(10).saturating_add(digit));
        text.extend(rest.next());
    }
    value
}
