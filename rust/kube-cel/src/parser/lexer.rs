//! Tokens of CEL.

use crate::error::CompileError;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
    Ident(String),
    /// An identifier in back quotes, which may only be a field.
    Quoted(String),
    Int(String),
    Uint(String),
    Double(String),
    Text(String),
    Bytes(Vec<u8>),
    /// Operators and punctuation, as written.
    Sign(&'static str),
    End,
}

/// A token and where it begins and ends, in bytes.
#[derive(Clone, Debug)]
pub(crate) struct Spanned {
    pub(crate) token: Token,
    pub(crate) at: usize,
    pub(crate) end: usize,
}

/// Longer ones first.
const SIGNS: [&str; 27] = [
    "&&", "||", "==", "!=", "<=", ">=", "(", ")", "[", "]", "{", "}", ".", ",", "?", ":", "+", "-",
    "*", "/", "%", "!", "<", ">", "=", "&", "|",
];

pub(crate) fn tokens(text: &str) -> Result<Vec<Spanned>, CompileError> {
    let mut lexer = Lexer { text, at: 0 };
    let mut tokens = Vec::new();
    loop {
        lexer.skip_blank();
        let at = lexer.at;
        let token = lexer.next()?;
        let ended = token == Token::End;
        let end = lexer.at;
        tokens.push(Spanned { token, at, end });
        if ended {
            return Ok(tokens);
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.text
            .as_bytes()
            .get(self.at + ahead)
            .copied()
            .unwrap_or(0)
    }

    fn take_while(&mut self, fits: impl Fn(u8) -> bool) -> &'a str {
        let start = self.at;
        while self.at < self.text.len() && fits(self.peek(0)) {
            self.at += 1;
        }
        self.text.get(start..self.at).unwrap_or_default()
    }

    fn skip_blank(&mut self) {
        loop {
            self.take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0c));
            if !self.rest().starts_with("//") {
                return;
            }
            self.take_while(|byte| byte != b'\n');
        }
    }

    /// Return the error for a token that begins at `start` and cannot go on with what is here.
    fn unknown(&self, start: usize) -> CompileError {
        let next = self.rest().chars().next().map_or(0, char::len_utf8);
        let text = self.text.get(start..self.at + next).unwrap_or_default();
        let why = format!("Syntax error: token recognition error at: '{text}'");
        CompileError::at(start, why)
    }

    fn next(&mut self) -> Result<Token, CompileError> {
        let rest = self.rest();
        let Some(&first) = rest.as_bytes().first() else {
            return Ok(Token::End);
        };
        if first.is_ascii_digit() || (first == b'.' && self.peek(1).is_ascii_digit()) {
            return Ok(self.number());
        }
        if let Some(string) = self.string()? {
            return Ok(string);
        }
        if first.is_ascii_alphabetic() || first == b'_' {
            let name = self.take_while(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            return Ok(Token::Ident(name.to_owned()));
        }
        let start = self.at;
        if first == b'`' {
            self.at += 1;
            let name = self.take_while(|byte| {
                byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | b'/' | b' ')
            });
            if name.is_empty() || self.peek(0) != b'`' {
                return Err(self.unknown(start));
            }
            self.at += 1;
            return Ok(Token::Quoted(name.to_owned()));
        }
        match SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
            Some(sign) if !matches!(sign, "=" | "&" | "|") => {
                self.at += sign.len();
                Ok(Token::Sign(sign))
            }
            // The server reads on for the second character of an operator.
            Some(sign) => {
                self.at += sign.len();
                Err(self.unknown(start))
            }
            None => Err(self.unknown(start)),
        }
    }

    fn number(&mut self) -> Token {
        let start = self.at;
        if self.peek(0) == b'0'
            && matches!(self.peek(1), b'x' | b'X')
            && self.peek(2).is_ascii_hexdigit()
        {
            self.at += 2;
            self.take_while(|byte| byte.is_ascii_hexdigit());
        } else {
            self.take_while(|byte| byte.is_ascii_digit());
            let mut double = false;
            if self.peek(0) == b'.' && self.peek(1).is_ascii_digit() {
                double = true;
                self.at += 1;
                self.take_while(|byte| byte.is_ascii_digit());
            }
            let sign = usize::from(matches!(self.peek(1), b'+' | b'-'));
            if matches!(self.peek(0), b'e' | b'E') && self.peek(1 + sign).is_ascii_digit() {
                double = true;
                self.at += 1 + sign;
                self.take_while(|byte| byte.is_ascii_digit());
            }
            if double {
                return Token::Double(self.text.get(start..self.at).unwrap_or_default().to_owned());
            }
        }
        let digits = self.text.get(start..self.at).unwrap_or_default().to_owned();
        if matches!(self.peek(0), b'u' | b'U') {
            self.at += 1;
            return Token::Uint(digits);
        }
        Token::Int(digits)
    }

    /// Read a string or bytes literal with its prefix, if one begins here.
    fn string(&mut self) -> Result<Option<Token>, CompileError> {
        let rest = self.rest().as_bytes();
        let prefix = rest
            .iter()
            .take(2)
            .take_while(|byte| matches!(byte, b'r' | b'R' | b'b' | b'B'))
            .count();
        let Some(&quote) = rest.get(prefix).filter(|byte| matches!(byte, b'"' | b'\'')) else {
            return Ok(None);
        };
        let marks = rest.get(..prefix).unwrap_or_default();
        let raw = marks.iter().any(|byte| matches!(byte, b'r' | b'R'));
        let bytes = marks.iter().any(|byte| matches!(byte, b'b' | b'B'));
        if prefix == 2 && !(raw && bytes) {
            return Ok(None);
        }
        let triple = rest.get(prefix + 1) == Some(&quote) && rest.get(prefix + 2) == Some(&quote);
        let width = if triple { 3 } else { 1 };
        // Without its end, the letters before a string are a name.
        let start = self.at + prefix;
        self.at = start + width;
        let mut out = Vec::new();
        loop {
            let byte = self.peek(0);
            if self.at >= self.text.len() || (!triple && matches!(byte, b'\n' | b'\r')) {
                if !triple {
                    return Err(self.unknown(start));
                }
                // The first two quotes are an empty string.
                self.at = start + 2;
                out.clear();
                break;
            }
            if byte == quote && (!triple || (self.peek(1) == quote && self.peek(2) == quote)) {
                self.at += width;
                break;
            }
            if byte == b'\\' && !raw {
                self.escape(start, &mut out, bytes)?;
            } else {
                out.push(byte);
                self.at += 1;
            }
        }
        if bytes {
            return Ok(Some(Token::Bytes(out)));
        }
        let text = String::from_utf8(out).map_err(|_| unescapable(start))?;
        Ok(Some(Token::Text(text)))
    }

    /// Read an escape in the literal that begins at `start`.
    fn escape(&mut self, start: usize, out: &mut Vec<u8>, bytes: bool) -> Result<(), CompileError> {
        let kind = self.peek(1);
        let plain = match kind {
            b'a' => 7,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 11,
            b'\\' | b'?' | b'"' | b'\'' | b'`' => kind,
            _ => 0,
        };
        if plain != 0 {
            out.push(plain);
            self.at += 2;
            return Ok(());
        }
        let (skip, digits, radix) = match kind {
            b'x' | b'X' => (2, 2, 16),
            b'u' => (2, 4, 16),
            b'U' => (2, 8, 16),
            b'0'..=b'3' => (1, 3, 8),
            _ => {
                self.at += 1;
                return Err(self.unknown(start));
            }
        };
        let from = self.at + skip;
        let fits = |byte: u8| char::from(byte).is_digit(radix);
        let valid = (0..digits).take_while(|place| fits(self.peek(skip + place)));
        let valid = valid.count();
        self.at = from + valid;
        if valid < digits {
            return Err(self.unknown(start));
        }
        let code = self.text.get(from..from + digits).unwrap_or_default();
        let code = u32::from_str_radix(code, radix).unwrap_or(u32::MAX);
        if bytes {
            let byte = u8::try_from(code)
                .ok()
                .filter(|_| !matches!(kind, b'u' | b'U'));
            out.push(byte.ok_or_else(|| unescapable(start))?);
        } else {
            let character = char::from_u32(code).ok_or_else(|| unescapable(start))?;
            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
        Ok(())
    }
}

fn unescapable(at: usize) -> CompileError {
    CompileError::at(at, "unable to unescape string".to_owned())
}

/// Words that are not allowed as names.
const RESERVED: &str = "as break const continue else for function if import let loop package namespace return var void while";

pub(crate) fn is_reserved(name: &str) -> bool {
    RESERVED.split(' ').any(|word| word == name)
}
