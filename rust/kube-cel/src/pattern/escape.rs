//! Escapes and character classes.

use super::rewrite::{Rewriter, Rewritten};

const POSIX: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
    "space", "upper", "word", "xdigit",
];

impl Rewriter<'_> {
    /// Rewrite a class, after its opening bracket.
    pub(super) fn class(&mut self) -> Rewritten<()> {
        self.out.push('[');
        if self.rest.next_if_eq(&'^').is_some() {
            self.out.push('^');
        }
        // A dash right after one that makes a range is the end of that range, not the crate's difference of classes.
        let (mut first, mut after_range) = (true, false);
        loop {
            let char = self.rest.next().ok_or("missing closing ]")?;
            let mut range = false;
            match char {
                ']' if !first => {
                    self.out.push(']');
                    return Ok(());
                }
                '\\' => self.escape(true)?,
                '[' if self.rest.peek() == Some(&':') => self.posix()?,
                '-' if first || after_range || self.rest.peek() == Some(&']') => {
                    self.out.push_str("\\-");
                }
                '-' => {
                    range = true;
                    self.out.push('-');
                }
                other => push_literal(&mut self.out, other),
            }
            first = false;
            after_range = range;
        }
    }

    /// Rewrite a class like `[:alpha:]`; a bracket that begins none is a literal.
    fn posix(&mut self) -> Rewritten<()> {
        let name: String = self.rest.clone().take_while(|char| *char != ']').collect();
        if name.len() < 2 || !name.ends_with(':') {
            self.out.push_str("\\[");
            return Ok(());
        }
        for _ in 0..=name.chars().count() {
            self.rest.next();
        }
        let known = name.trim_start_matches(":^").trim_matches(':');
        if !POSIX.contains(&known) {
            return Err("invalid character class range");
        }
        self.out.push('[');
        self.out.push_str(&name);
        self.out.push(']');
        Ok(())
    }

    /// Rewrite an escape after its backslash.
    pub(super) fn escape(&mut self, in_class: bool) -> Rewritten<()> {
        let char = self
            .rest
            .next()
            .ok_or("trailing backslash at end of expression")?;
        let replacement = match char {
            'd' => "[0-9]",
            'D' => "[^0-9]",
            'w' => "[0-9A-Za-z_]",
            'W' => "[^0-9A-Za-z_]",
            's' => "[\\t\\n\\f\\r ]",
            'S' => "[^\\t\\n\\f\\r ]",
            'a' => "\\x07",
            'f' => "\\x0C",
            't' => "\\t",
            'n' => "\\n",
            'r' => "\\r",
            'v' => "\\x0B",
            'A' if !in_class => "\\A",
            'z' if !in_class => "\\z",
            'b' if !in_class => "(?-u:\\b)",
            'B' if !in_class => "(?-u:\\B)",
            'Q' => {
                self.quoted();
                return Ok(());
            }
            'p' | 'P' | 'x' => return self.braced(char),
            '0'..='7' => return self.octal(char),
            other if !other.is_ascii_punctuation() && other != ' ' => {
                return Err("invalid escape sequence");
            }
            other => {
                push_literal(&mut self.out, other);
                return Ok(());
            }
        };
        self.out.push_str(replacement);
        Ok(())
    }

    /// Copy `\p`, `\P` or `\x`, and its braces, if any.
    fn braced(&mut self, escape: char) -> Rewritten<()> {
        self.out.push('\\');
        if self.rest.next_if_eq(&'{').is_none() {
            self.out.push(escape);
            return Ok(());
        }
        let negated = escape != 'x' && self.rest.next_if_eq(&'^').is_some();
        self.out.push(match (escape, negated) {
            ('p', true) => 'P',
            ('P', true) => 'p',
            _ => escape,
        });
        self.out.push('{');
        for char in self.rest.by_ref() {
            self.out.push(char);
            if char == '}' {
                return Ok(());
            }
        }
        Err("invalid escape sequence")
    }

    /// Copy everything up to `\E` literally.
    fn quoted(&mut self) {
        while let Some(char) = self.rest.next() {
            if char == '\\' && self.rest.next_if_eq(&'E').is_some() {
                break;
            }
            push_literal(&mut self.out, char);
        }
    }

    fn octal(&mut self, first: char) -> Rewritten<()> {
        let mut value = first.to_digit(8).ok_or("invalid escape sequence")?;
        let mut count = 1;
        while count < 3
            && let Some(digit) = self.rest.peek().and_then(|char| char.to_digit(8))
        {
            value = value * 8 + digit;
            count += 1;
            self.rest.next();
        }
        // A single digit other than 0 would be a reference to a group.
        if first != '0' && count == 1 {
            return Err("invalid escape sequence");
        }
        push_literal(
            &mut self.out,
            char::from_u32(value).ok_or("invalid escape sequence")?,
        );
        Ok(())
    }
}

/// Append a character literally, in a class or outside.
pub(super) fn push_literal(out: &mut String, char: char) {
    if char.is_ascii_punctuation()
        && !matches!(
            char,
            '<' | '>' | '_' | '"' | '\'' | '/' | '!' | ',' | ':' | ';' | '=' | '@' | '`' | '%'
        )
    {
        out.push('\\');
    }
    out.push(char);
}
