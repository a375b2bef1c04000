//! What may stand at a place, as messages list it.

use std::fmt;

use super::lexer::Token;

/// The tokens that begin an expression, and those that may stand beside them, in the order of messages.
const ORDER: [&str; 19] = [
    "'['",
    "']'",
    "'{'",
    "'}'",
    "'('",
    "')'",
    "'.'",
    "','",
    "'-'",
    "'!'",
    "'?'",
    "'true'",
    "'false'",
    "'null'",
    "NUM_FLOAT",
    "NUM_INT",
    "NUM_UINT",
    "STRING",
    "BYTES",
];
/// Those of [`ORDER`] that do not begin an expression.
const OTHERS: [&str; 5] = ["]", "}", ")", ",", "?"];

#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted {
    /// Signs, or `<EOF>`.
    Tokens(&'static [&'static str]),
    Identifier,
    /// The name of a field of a message, or the end of the message.
    Field,
    /// The beginning of an expression, or one of these signs.
    Expression(&'static [&'static str]),
}

impl Wanted {
    pub(crate) fn admits(self, token: &Token) -> bool {
        match (self, token) {
            (Self::Tokens(signs), Token::Sign(sign)) => signs.contains(sign),
            (Self::Identifier | Self::Field, Token::Ident(_)) => true,
            (Self::Expression(signs), Token::Sign(sign)) => {
                matches!(*sign, "[" | "{" | "(" | "." | "-" | "!") || signs.contains(sign)
            }
            (Self::Expression(_), Token::Ident(name)) => name != "in",
            (Self::Expression(_), Token::Quoted(_)) => false,
            (Self::Expression(_), _) => *token != Token::End,
            _ => false,
        }
    }

    pub(crate) fn admits_end_or(self, token: Option<&Token>) -> bool {
        match token {
            Some(token) => self.admits(token),
            None => matches!(self, Self::Tokens(["<EOF>"])),
        }
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Identifier => out.write_str("IDENTIFIER"),
            Self::Field => out.write_str("{'}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}"),
            Self::Tokens(["<EOF>"]) => out.write_str("<EOF>"),
            Self::Tokens([sign]) => write!(out, "'{sign}'"),
            Self::Tokens(signs) => write!(out, "{{'{}'}}", signs.join("', '")),
            Self::Expression(signs) => {
                out.write_str("{")?;
                for token in ORDER {
                    let sign = token.trim_matches('\'');
                    if !OTHERS.contains(&sign) || signs.contains(&sign) {
                        write!(out, "{token}, ")?;
                    }
                }
                out.write_str("IDENTIFIER}")
            }
        }
    }
}
